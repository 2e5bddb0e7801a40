"""A linear layer nobody may see, on an input nobody may see.

The owner deals shares of the weights, the client deals shares of its input, three
parties in three processes multiply and truncate, and only the client puts the answer
together. Run it: python examples/01_private_linear_layer.py
"""

import numpy as np

from ditto.fixedpoint import FxpType, decode, encode
from ditto.frames import Arrays, Json
from ditto.protocols import matmul, reveal_to_client
from ditto.runtime import ProcessTrio, Session, as_arrays, from_arrays
from ditto.sharing import Revealed, add_summands, deal

INPUT = FxpType(bits=32, frac=12)
WEIGHT = FxpType(bits=32, frac=14)
OUTPUT = FxpType(bits=32, frac=12)


def layer(session: Session, _: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    """What each party does: it never holds more than two of three shares."""
    x, w = from_arrays(arrays, [INPUT, WEIGHT])
    before = session.party.channel.traffic().bytes
    y = matmul(session.party, x, w, OUTPUT)
    sent = session.party.channel.traffic().bytes - before
    return {"sent": sent}, reveal_to_client(session.party, y).to_arrays("y")


def main() -> None:
    """Owner, client and three parties, all on this machine."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(128, 768))  # the client's
    w = rng.normal(size=(768, 768)) * 0.05  # the owner's
    x_shares, w_shares = deal(encode(x, INPUT), INPUT), deal(encode(w, WEIGHT), WEIGHT)
    arrays = [as_arrays(held) for held in zip(x_shares, w_shares, strict=True)]
    with ProcessTrio() as trio:
        replies = trio.call(layer, arrays=arrays)
    revealed = [Revealed.from_arrays(out, "y") for _, out in replies]
    answer = decode(add_summands(revealed, OUTPUT), OUTPUT)
    error = np.abs(answer - x @ w).max()
    sent = sum(reply["sent"] for reply, _ in replies)
    print(f"largest error {error:.5f}, {sent / 1e6:.2f} MB between the parties")


if __name__ == "__main__":
    main()
