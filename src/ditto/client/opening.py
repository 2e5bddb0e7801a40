"""The parties' summands become the answer. Only the client does this.

No party imports this module or has another way to combine shares. Every summand is
known to two parties; the client takes it from one, its hash from the other, and refuses
an answer on which they differ.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ditto.client.signature import Signature
from ditto.errors import MessageError
from ditto.fixedpoint import Array, decode
from ditto.plan import RANGE_WORD, Tree, arrange
from ditto.sharing import Revealed, add_summands

Arrays = Mapping[str, Array]


def open_outputs(signature: Signature, replies: Sequence[Arrays]) -> Tree:
    """The result, from what the three parties sent to the client.

    What they retain is None.
    """
    results: list[Array | None] = []
    for k, output in enumerate(signature.outputs):
        if output.retained and str(k) not in replies[0]:
            results.append(None)
            continue
        if output.type is None:
            results.append(_public(k, replies).astype(output.dtype))
            continue
        revealed = [Revealed.from_arrays(reply, str(k)) for reply in replies]
        numbers = decode(add_summands(revealed, output.type), output.type)
        whole = output.dtype != "float32"
        results.append((np.rint(numbers) if whole else numbers).astype(output.dtype))
    return arrange(signature.result, results)


def _public(k: int, replies: Sequence[Arrays]) -> Array:
    """An output that all parties know: they must say the same."""
    if any(str(k) not in reply for reply in replies):
        raise MessageError(f"A party sent nothing of output {k}.")
    first, *others = (reply[str(k)] for reply in replies)
    for i, other in enumerate(others, start=1):
        same = (first.shape, first.dtype) == (other.shape, other.dtype)
        if not same or first.tobytes() != other.tobytes():
            raise MessageError(
                f"P0 and P{i} disagree on output {k}, which both of them know, so the "
                f"answer is not to be trusted. One of them failed, or they ran "
                f"different plans; ask again."
            )
    return first


def answer_in_range(signature: Signature, replies: Sequence[Arrays]) -> bool | None:
    """Whether no value left its range, or None if the plan does not tell.

    If one did, the answer may be wrong; which it was nobody learns.
    """
    if not signature.range_check:
        return None
    words = [reply.get(RANGE_WORD) for reply in replies]
    if not all(w is not None and w.shape == (1,) for w in words):
        raise MessageError("A party sent no word of the range check.")
    first, *rest = (int(word[0]) for word in words if word is not None)
    return first ^ rest[0] ^ rest[1] == 0
