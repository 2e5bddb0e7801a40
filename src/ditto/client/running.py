"""One run of a plan by the three parties: inputs are shared, outputs are opened."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ditto.client.bundle import ClientBundle, Offer
from ditto.client.opening import answer_in_range, open_outputs
from ditto.client.shares import share_question
from ditto.plan import Tree
from ditto.wire import Deployment, OnProgress, RunPlan, Turn

if TYPE_CHECKING:
    from ditto.client.tokens import Encoded


@dataclass(frozen=True, eq=False)
class Opened:
    """What the parties answered, by which offer, and where a conversation stands."""

    result: Tree
    offer: Offer
    in_range: bool | None
    turn: Turn | None


@dataclass(frozen=True, eq=False)
class RowAnswer:
    """What the parties answered to one text."""

    row: npt.NDArray[np.float32]
    in_range: bool | None
    """Whether no value left its range, in the run that answered it."""


def run_plan(
    bundle: ClientBundle,
    deployment: Deployment,
    offer: Offer,
    inputs: Sequence[npt.ArrayLike],
    turn: Turn | None = None,
    on_progress: OnProgress | None = None,
) -> Opened:
    """Run the plan of an offer."""
    signature = bundle.offers[offer]
    public = () if bundle.hide_length else (1,)  # mask, lengths or positions
    dealt = share_question(signature, inputs, public)
    replies = deployment.call(
        [RunPlan(bundle.model, signature.digest, turn, arrays) for arrays in dealt],
        on_progress=on_progress,
    )
    sent = [reply.arrays for reply in replies]
    in_range = answer_in_range(signature, sent)
    return Opened(open_outputs(signature, sent), offer, in_range, turn)


def run_rows(
    bundle: ClientBundle,
    deployment: Deployment,
    offer: Offer,
    texts: "Sequence[Encoded]",
    on_progress: OnProgress | None = None,
) -> list[RowAnswer]:
    """Run texts as one batch of an offer; the last is repeated until it is full."""
    from ditto.client.tokens import pad_batch

    full = [*texts, *[texts[-1]] * (offer.batch_size - len(texts))]
    padded = pad_batch(full, offer.length, bundle.tokenizer.pad_id)
    mask = padded.mask.astype(np.float32 if bundle.hide_length else np.int32)
    types = [padded.types] if offer.with_types else []
    inputs = [padded.ids, mask, *types]
    opened = run_plan(bundle, deployment, offer, inputs, None, on_progress)
    rows = np.asarray(opened.result)[: len(texts)]
    return [RowAnswer(row, opened.in_range) for row in rows]
