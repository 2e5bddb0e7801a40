"""What people type, to calibrate with when the owner of a model gives nothing better.

Written for this purpose: sentences of many kinds, and beside them the short, loud and
strange things that reach values no sentence reaches: single words, chat, emoji,
numbers, code, addresses, other scripts, repetitions. A model for another kind of text
deserves samples of its own, which are taken beside these.
"""

SENTENCES = (
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

REQUESTS = (
    "How many legs does a spider have?",
    "Write a short poem about the first day of autumn.",
    "Explain to a child of eight why the sky is blue.",
    "Translate into Spanish: I would like a table for two, please.",
    "Who wrote Don Quixote, and when?",
    "My printer says it is offline although it is on. What can I do?",
    "Give me three names for a small bakery by the sea.",
    "Write a Python function that returns the n-th Fibonacci number.",
    "What is 17 times 23?",
    "Summarize in one sentence: The meeting was moved from Monday to Wednesday because "
    "two of the engineers are travelling, and the agenda stays as it was.",
    "Can you recommend a book like The Hobbit?",
    "List the planets of the solar system in order.",
    "Thanks, that helps. And in winter?",
    "Rewrite this politely: you are late again, send the report now.",
    "What should I cook with eggs, spinach and a little cheese?",
    "Is it true that bats are blind?",
)
"""What people ask a chat model."""

ANSWERS = (
    "A spider has eight legs.",
    "Here are three ideas: The Salty Crust, Harbour Loaf, and Tide & Flour.",
    "Sure! First check that the cable is connected, and then restart the printer. If "
    "that does not help, remove it in the settings and add it again.",
    "17 times 23 is 391.",
    "```python\ndef fibonacci(n):\n    a, b = 0, 1\n    for _ in range(n):\n"
    "        a, b = b, a + b\n    return a\n```",
    "No, bats are not blind. They see quite well, and many of them also use "
    "echolocation to find their way and their food in the dark.",
    "1. Mercury\n2. Venus\n3. Earth\n4. Mars\n5. Jupiter\n6. Saturn\n7. Uranus\n"
    "8. Neptune",
    "I'm sorry, but I can't help with that.",
)
"""What it answers."""

SHORT = (
    "hello",
    "cheers mate",
    "nah",
    "J",
    "afk",
    "xD",
    "meh",
    "cool cool",
    "sure thing!!",
    "phew",
    "who dis",
    "wow",
    "ty so much",
    "idk man, u tell me",
    "are u there??",
    "gonna be late, soz",
    "IT DOES NOT WORK",
    "yep 🙂",
    "😭😭😭",
    "so proud of you 🎉🥳",
    "🐶❤️",
    "lmk 🙏🏽",
    "8",
    "3.14159",
    "-12,5 °C",
    "2024-02-29 23:59:59",
    "1 2 3 4 5 6 7 8 9 10",
    "0x7fffffff",
    "$1,299.99 (-15%)",
    "(2x + 1)^2 = 4x^2 + 4x + 1",
    "!",
    ":",
    ";",
    "it",
    "of and to in",
    "Donaudampfschiff",
    "internationalization",
    "qwertyuiop",
    "asdf jkl;",
    "zzz",
)

STRANGE = (
    "for k, v in table.items():\n    print(f'{k}: {v ** 2}')",
    "SELECT name, count(*) FROM orders GROUP BY name HAVING count(*) > 3;",
    "if (ptr == NULL) { return -1; } /* not found */",
    '{"id": 17, "tags": ["a", "b"], "ok": false, "score": null}',
    "<div class=\"row\"><a href='#top'>Up</a></div>",
    "$ tar -xzf archive.tar.gz && cd archive && make -j4",
    "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
    r"\frac{\partial f}{\partial x} = \lim_{h \to 0} \frac{f(x+h)-f(x)}{h}",
    "https://www.example.org/a/b-c_d?id=42&sort=asc#part-2",
    "someone.else+list@example.com",
    "C:\\Users\\Public\\notes.txt",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "你好，请问去火车站怎么走？",
    "早上好",
    "今日はとても暑いですね。",
    "내일 몇 시에 만날까요?",
    "مرحبا، كيف حالك اليوم؟",
    "שלום עולם",
    "Где находится ближайшая аптека?",
    "Добрый день",
    "Καλημέρα σας",
    "नमस्ते, आप कैसे हैं?",
    "สวัสดีครับ",
    "Ich hätte gern zwei Brötchen und einen großen Kaffee, bitte.",
    "¿Dónde está la biblioteca?",
    "J'ai oublié mon parapluie à l'école hier après-midi.",
    "Yarın sabah erkenden yola çıkıyoruz.",
    "Tôi không hiểu câu hỏi này.",
    "♠ ♣ ♥ ♦ ☼ ►",
    "ａｂｃ 𝓱𝓮𝓵𝓵𝓸 ①②③",
    "very very very very very very very very very very very very good",
    "la la la la la la la la la la la la la la la la la la la la la la la la la la",
    "ooooooooooooooooooooooooooooooo",
    "? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ?",
    "1111111111111111111111111111111111111111",
    "and and and and and and and and and and and and and and and and and and",
    "=====================================================",
    "buy now buy now buy now buy now buy now buy now buy now",
)

ODD = tuple(text for pair in zip(SHORT, STRANGE, strict=False) for text in pair)
"""Short ones and strange ones in turn."""
