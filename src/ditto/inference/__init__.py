"""A checkpoint folder in, private answers out: a model run by three local parties.

In topological order: sample_text, samples, jobs, plans, backends, doubt, pretrained.
"""

from ditto.inference.backends import Backend, Mode
from ditto.inference.jobs import Job
from ditto.inference.plans import Plans
from ditto.inference.pretrained import Answer, Pretrained, Token, from_pretrained

__all__ = [
    "Answer",
    "Backend",
    "Job",
    "Mode",
    "Plans",
    "Pretrained",
    "Token",
    "from_pretrained",
]
