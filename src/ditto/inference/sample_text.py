"""Everyday sentences to calibrate with when the owner of a model gives none.

Written for this purpose: statements, questions, opinions, dialogue, numbers, names,
long sentences and short ones. A model for another kind of text deserves other samples.
"""

SAMPLE_TEXT = (
    "The committee will publish its report on the new railway line next Thursday.",
    "I have never enjoyed a film so much in my life, and I would see it again tonight.",
    "Why did the pump stop working after only three weeks?",
    "No.",
    "The room was small, the food arrived cold, and nobody at the desk could say when "
    "the heating would be repaired; we left a day early and will not come back.",
    "She asked him whether the letters that the boys had written were still there.",
    "In 1887 the town had 4,310 inhabitants, two mills and a school with 92 pupils.",
    "Please send 250 units of part B-17 to the address below before 6 p.m. on Friday.",
    "They the book read quickly has been by.",
    "Patients who received the second dose reported fewer symptoms, although the "
    "difference was not significant in the group above seventy years of age.",
    '"Wait," said Maria, "is that your brother?" He laughed and shook his head.',
    "The harder the storm blew against the old wooden shutters, the quieter it became "
    "in the kitchen, where the whole family had gathered around the stove.",
    "Shares of the company fell by 7.4 percent in early trading, its worst day since "
    "March, after it warned that rising costs would weigh on profits this year.",
    "What a waste of time!",
    "The equation has two real solutions if and only if its discriminant is positive.",
    "My phone number is 555-0172, and you can reach me at work until half past four.",
    "Although the river had flooded the lower fields twice that spring, the harvest "
    "was better than anyone had expected, and by October the barns were full.",
    "It was neither the best nor the worst meal that we had on the island.",
    "Under the agreement, either party may end the contract with a notice of thirty "
    "days, provided that all outstanding invoices have been paid in full.",
    "The cat sat down.",
    "Researchers in Osaka and Lyon have found that the enzyme folds in milliseconds.",
    "To reset the device, hold the power button for ten seconds and then release it.",
    "He was, by all accounts, a generous, stubborn, occasionally brilliant teacher.",
    "The second half was dull, but the goalkeeper saved two penalties and the crowd "
    "went home singing.",
)
