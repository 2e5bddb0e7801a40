"""A model goes to three parties: plans approved and put, weights shared, each once."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ditto.client import Signature, share_inputs
from ditto.client.signature import Encoding, InputSignature
from ditto.fixedpoint import FxpType
from ditto.owner.signatures import continuations, signature_of
from ditto.plan import Plan
from ditto.wire import Arrays, Deployment, PutPlan, PutWeights, RegisterModel

CHUNK = 1 << 22
"""Elements of weights that are shared in one message."""

_Chunk = list[tuple[int, InputSignature]]
"""Weights by number, each in the encodings that are to be shared."""
_Encoding = tuple[str, Encoding]
"""With the name of the weight."""


class Publisher:
    """The owner's dealings with a deployment, for one model.

    ``weights`` are the model's arrays in the order of a plan's first inputs.
    """

    def __init__(
        self,
        deployment: Deployment,
        model: str,
        owner: str,
        weights: Sequence[npt.ArrayLike],
    ) -> None:
        self._deployment = deployment
        self._model, self._owner = model, owner
        self._weights = weights
        self._generation = -1
        self._published: dict[str, Signature] = {}
        self._shared: set[tuple[str, FxpType | None]] = set()

    def publish(
        self, plan: Plan, on_stage: Callable[[str], None] = lambda _: None
    ) -> Signature:
        """Have all parties keep a plan and its weights; returns its signature."""
        if self._deployment.generation != self._generation:  # what they held is gone
            self._generation = self._deployment.generation
            self._published.clear()
            self._shared.clear()
        digest = plan.digest
        if digest not in self._published:
            on_stage("handing out the plan")
            signature = signature_of(plan)
            self._put_plan(plan, signature)
            on_stage("sharing the weights")
            self._share_weights(signature)
            self._published[digest] = signature
        return self._published[digest]

    def _put_plan(self, plan: Plan, signature: Signature) -> None:
        digest = signature.digest
        pairs = continuations([*self._published.values(), signature])
        self._deployment.call_all(
            RegisterModel(self._model, self._owner, (digest,), tuple(pairs))
        )
        replies = self._deployment.call_all(PutPlan(self._model, plan.to_bytes()))
        if any(reply.digest != digest for reply in replies):
            raise RuntimeError("A party made another plan of the same bytes.")

    def _share_weights(self, signature: Signature) -> None:
        """Share what no plan before has used in this type.

        The parties store one chunk while the next is being shared.
        """
        with ThreadPoolExecutor(1) as sharing:
            dealt = None
            for chunk in self._chunks(signature):
                following = sharing.submit(self._deal, chunk)
                if dealt is not None:
                    self._put_weights(signature.digest, *dealt.result())
                dealt = following
            if dealt is not None:
                self._put_weights(signature.digest, *dealt.result())

    def _chunks(self, signature: Signature) -> Iterator[_Chunk]:
        """The weights that are missing, as many as go into one message."""
        chunk: _Chunk = []
        size = 0
        for k, weight in enumerate(self._weights):
            missing = self._missing(signature.inputs[k])
            if not missing.encodings:
                continue
            chunk.append((k, missing))
            size += np.size(weight) * len(missing.encodings)
            if size > CHUNK:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _missing(self, spec: InputSignature) -> InputSignature:
        """A weight in the encodings that the parties do not have yet."""
        missing = [e for e in spec.encodings if (spec.name, e.type) not in self._shared]
        return replace(spec, encodings=tuple(missing))

    def _deal(self, chunk: _Chunk) -> tuple[list[_Encoding], list[Arrays]]:
        specs = [spec for _, spec in chunk]
        encodings = [(spec.name, e) for spec in specs for e in spec.encodings]
        return encodings, share_inputs(specs, [self._weights[k] for k, _ in chunk])

    def _put_weights(
        self, digest: str, encodings: list[_Encoding], dealt: list[Arrays]
    ) -> None:
        values = tuple(e.value for _, e in encodings)
        self._deployment.call(
            [PutWeights(self._model, digest, values, arrays) for arrays in dealt]
        )
        self._shared.update((name, e.type) for name, e in encodings)
