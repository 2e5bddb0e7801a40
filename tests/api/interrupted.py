"""A script that a person stops: ``python -m tests.api.interrupted``.

It says what it is doing, one line at a time. The test sends the signal when it reads
the line that it waits for; the script then goes on, as a notebook does.
"""

import sys
import time
from pathlib import Path

import numpy as np

from ditto.api import from_pretrained
from ditto.api.backends import PartiesBackend
from ditto.api.pretrained import Pretrained
from tests.folders import TEXTS

PATIENCE = 30.0


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201


def predict(model: Pretrained) -> None:
    got = model.predict(TEXTS[:1], pad_to=16)[0].logits
    exact = model.with_mode("float").predict(TEXTS[:1], pad_to=16)[0].logits
    say("error", float(np.abs(got - exact).max()))


def generate(model: Pretrained) -> None:
    tokens = []
    for token in model.stream(TEXTS[0], 3):
        say("token")
        tokens.append(token.ids)
    exact = [token.ids for token in model.with_mode("float").stream(TEXTS[0], 3)]
    say("error", float(tokens != exact))


def main(folder: Path, use: str) -> None:
    """Work once for each line that the test sends, interrupted or not."""
    work = generate if use == "generate" else predict
    model = from_pretrained(
        folder,
        calibration=TEXTS,
        on_stage=say,
        on_part=lambda part, *_: say(part),
        cache=False,
    )
    with model:
        for line in sys.stdin:
            if line.strip() == "end":
                break
            try:
                work(model)
                if line.strip() == "interrupted":
                    time.sleep(PATIENCE)
                    raise TimeoutError("Nobody interrupted it.")
                say("done")
            except KeyboardInterrupt:
                say("interrupted")
        backend = model.backend
        assert isinstance(backend, PartiesBackend)
        say("states", sum(status.states for status in backend.status()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
