"""A checkpoint folder in, private answers out: a model run by three local parties.

In topological order: local, warm, backends, doubt, answers, out_of_range, prompts,
pretrained, loading, export, warm_service, answering.
"""

from ditto.api.answers import Answer, Generation, Token
from ditto.api.backends import Backend, Mode
from ditto.api.loading import from_pretrained
from ditto.api.pretrained import Pretrained
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans

__all__ = [
    "Answer",
    "Backend",
    "Computation",
    "Generation",
    "Mode",
    "Phase",
    "Plans",
    "Pretrained",
    "Token",
    "from_pretrained",
]
