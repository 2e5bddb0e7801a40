"""How large values can get, proved from weights instead of seen on samples.

``rows`` is the set in which all rows of a tensor lie, ``curve`` a function of one
tensor element by element, ``bound`` all that is known of a tensor; ``products`` and
``prover`` follow a graph; ``choice`` says where types take a proven bound, ``report``
what holds every range of a plan. The owner computes them and keeps them: they depend on
weights more closely than a plan may.
"""

from ditto.compiler.bounds.choice import take_proven
from ditto.compiler.bounds.prover import prove
from ditto.compiler.bounds.report import CheckedRange, RangeReport, report_ranges

__all__ = ["CheckedRange", "RangeReport", "prove", "report_ranges", "take_proven"]
