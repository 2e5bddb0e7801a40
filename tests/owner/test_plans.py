"""What plans are calibrated on."""

import numpy as np

from ditto.compiler import PROFILES
from ditto.models import random_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples


def test_a_further_token_is_calibrated_on_first_and_last_ones() -> None:
    model = random_model("llama-tiny", seed=3)
    plans = Plans(model, PROFILES["ditto"], RandomSamples(model.config.vocab_size), 3)
    samples = plans.samples(Computation(Phase.DECODE, 1, 8))
    prompts = plans.samples(Computation(Phase.PREFILL, 1, 8))
    places = np.array([int(positions[0]) for _, _, positions, _ in samples])
    lengths = [int(lengths[0]) for _, _, lengths in prompts]
    each = places.reshape(len(prompts), -1)
    assert each[:, 0].tolist() == [length - 1 for length in lengths]
    assert not each[:, 1].any()
    assert len(np.unique(each[:, 2:])) > 1
    assert (each < np.array(lengths)[:, None]).all()
