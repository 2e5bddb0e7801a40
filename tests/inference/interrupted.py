"""A script that a person stops: ``python -m tests.inference.interrupted``.

It says what it is doing, one line at a time. The test sends the signal when it reads
the line that it waits for; the script then goes on, as a notebook does.
"""

import sys
import time
from pathlib import Path

import numpy as np

from ditto.engine import Session
from ditto.engine.frames import Arrays, Json
from ditto.inference import from_pretrained
from ditto.inference.backends import PartiesBackend
from ditto.inference.pretrained import Pretrained
from ditto.party.holdings import holdings
from tests.folders import TEXTS

PATIENCE = 30.0


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201


def count_states(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    return {"states": len(holdings(session).states)}, {}


def predict(model: Pretrained) -> None:
    got = model.predict(TEXTS[:1], length=16)[0].values
    exact = model.also("float").predict(TEXTS[:1], length=16)[0].values
    say("error", float(np.abs(got - exact).max()))


def generate(model: Pretrained) -> None:
    tokens = []
    for token in model.generate(TEXTS[0], 3):
        say("token")
        tokens.append(token.ids)
    exact = [token.ids for token in model.also("float").generate(TEXTS[0], 3)]
    say("error", float(tokens != exact))


def main(folder: Path, use: str) -> None:
    """Work once for each line that the test sends, interrupted or not."""
    work = generate if use == "generate" else predict
    model = from_pretrained(
        folder, calibration=TEXTS, on_stage=say, on_part=lambda part, *_: say(part)
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
        states = [reply["states"] for reply, _ in backend.trio.call(count_states)]
        say("states", sum(states))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
