"""A client asks three parties: text is shared, answers are opened and sampled here."""

import uuid
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ditto.client.bundle import ClientBundle, Offer, Phase
from ditto.client.opening import answer_in_range, open_outputs
from ditto.client.out_of_range import OnOutOfRange, check_policy, refusal
from ditto.client.questions import Asked, TooLong, make_questions
from ditto.client.reading import Prediction, Reader
from ditto.client.sampling import Sampler, Sampling
from ditto.client.shares import share_question
from ditto.errors import SetupError, StateLostError, TextCutWarning
from ditto.models import Head
from ditto.plan import Tree
from ditto.wire import Deployment, DropState, OnProgress, RunPlan, Turn


@dataclass(frozen=True)
class Generated:
    """One generated token of a text, and the characters it adds."""

    token: int
    text: str
    in_range: bool | None = None
    """Whether no value left its range, as the parties saw it; None if none looked."""


@dataclass(frozen=True, eq=False)
class _Opened:
    """What the parties answered, by which offer, and where a conversation stands."""

    result: Tree
    offer: Offer
    in_range: bool | None
    turn: Turn | None


class Client:
    """Asks about texts that nobody else sees."""

    def __init__(
        self,
        bundle: ClientBundle,
        deployment: Deployment,
        on_progress: OnProgress | None = None,
        on_out_of_range: OnOutOfRange = "retry",
    ) -> None:
        self._bundle = bundle
        self._policy = check_policy(on_out_of_range)
        self._deployment = deployment
        self._on_progress = on_progress

    @property
    def head(self) -> Head:
        """What the model is used for."""
        return self._bundle.head

    def predict(
        self,
        texts: Sequence[str],
        text_pairs: Sequence[str] | None = None,
        *,
        too_long: TooLong = "cut",
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> list[Prediction]:
        """Logits or embeddings of texts, or of pairs of texts, and what they say.

        See ``Pretrained.predict``.
        """
        from ditto.client.tokens import pad_batch

        bundle, tokenizer = self._bundle, self._bundle.tokenizer
        offers = self._offers("forward")
        longest = min(max(offer.length for offer in offers), bundle.max_tokens)
        typed = text_pairs is not None and any(offer.with_types for offer in offers)
        questions = make_questions(
            texts,
            text_pairs,
            tokenizer,
            bundle.head,
            Asked(longest, too_long, prompt, prompt_name),
            bundle.encoding,
        )
        groups: dict[Offer, list[int]] = {}
        for k, one in enumerate(questions):
            offer = self._fitting("forward", len(one.encoded.ids), with_types=typed)
            groups.setdefault(offer, []).append(k)
        reader = Reader(
            bundle.head,
            tokenizer,
            bundle.labels,
            bundle.problem_type,
            bundle.encoding,
        )
        predictions: dict[int, Prediction] = {}
        for offer, members in groups.items():
            for start in range(0, len(members), offer.batch_size):
                group = members[start : start + offer.batch_size]
                full = group + group[-1:] * (offer.batch_size - len(group))
                padded = pad_batch(
                    [questions[k].encoded for k in full], offer.length, tokenizer.pad_id
                )
                mask = padded.mask.astype(
                    np.float32 if bundle.hide_length else np.int32
                )
                types = [padded.types] if typed else []
                opened = self._ask(offer, [padded.ids, mask, *types])
                for k, row in zip(group, np.asarray(opened.result), strict=False):
                    read = reader.read(questions[k], row)
                    predictions[k] = replace(read, in_range=opened.in_range)
        return [predictions[k] for k in range(len(texts))]

    def stream(
        self, prompt: str, tokens: int, sampling: Sampling | None = None
    ) -> Iterator[Generated]:
        """Tokens that follow a prompt, chosen from the opened logits as they come."""
        tokenizer, sampler = self._bundle.tokenizer, Sampler(sampling or Sampling())
        room = min(
            max(offer.length for offer in self._offers("prefill")),
            max(offer.length for offer in self._offers("decode")) - tokens + 1,
        )
        if tokens < 1 or room < 1:
            raise SetupError(
                f"This bundle has no room for a prompt and {tokens} tokens. Ask for "
                f"fewer, or export the model with more."
            )
        whole = tokenizer.encode(prompt).ids
        if len(whole) > room:
            warnings.warn(
                f"The prompt is too long: the last {room} of its {len(whole)} tokens "
                f"are used, so that there is room for {tokens} more.",
                TextCutWarning,
                stacklevel=2,
            )
        ids = whole[-room:] or [tokenizer.pad_id]
        made: list[int] = []
        shown = ""
        opened = self._begin(ids)
        try:
            for k in range(tokens):
                token = sampler.choose(opened.result[0][0])
                made.append(token)
                text = tokenizer.decode(made)
                ready = shown if text.endswith("\ufffd") else text
                yield Generated(token, ready[len(shown) :], opened.in_range)
                shown = ready
                if k + 1 == tokens or token == tokenizer.eos_id:
                    return
                opened = self._continue(opened, [*ids, *made])
        finally:
            self._drop(opened)

    def _begin(self, ids: list[int], *, wide: bool = False) -> "_Opened":
        """What follows a text; the parties keep its state under a new name."""
        from ditto.client.tokens import Encoded, pad_batch

        offer = self._fitting("prefill", len(ids), wide=wide)
        row = Encoded(ids, [0] * len(ids))
        pad_id = self._bundle.tokenizer.pad_id
        padded = pad_batch([row] * offer.batch_size, offer.length, pad_id)
        inputs = [padded.ids, padded.lengths]
        opened = self._run(offer, inputs, Turn(uuid.uuid4().hex))
        if opened.in_range is not False or self._policy == "return":
            return opened
        self._drop(opened)
        return self._begin(ids, wide=self._allow_retry(wide=wide))

    def _continue(self, before: "_Opened", ids: list[int]) -> "_Opened":
        """What follows one more token; if a value leaves its range, of the whole."""
        wide = before.offer.wide
        offer = self._fitting("decode", len(ids), wide=wide)
        count, turn = offer.batch_size, before.turn
        inputs = [
            np.full(count, ids[-1], np.int32),
            np.full(count, len(ids) - 1, np.int32),
        ]
        try:
            opened = self._run(offer, inputs, turn.next if turn else None)
        except StateLostError:  # a party was restarted: the whole text once more
            if not self._takes("prefill", len(ids), wide=wide):
                raise
            self._drop(before)
            return self._begin(ids, wide=wide)
        if opened.in_range is not False or self._policy == "return":
            return opened
        again = self._allow_retry(wide=wide)
        self._drop(opened)
        return self._begin(ids, wide=again)

    def _drop(self, opened: "_Opened") -> None:
        if opened.turn is not None:
            self._deployment.call_all(DropState(opened.turn.conversation))

    def _ask(self, offer: Offer, inputs: Sequence[npt.ArrayLike]) -> "_Opened":
        """The answer by an offer, or by the wide one if a value leaves its range."""
        opened = self._run(offer, inputs)
        if opened.in_range is not False or self._policy == "return":
            return opened
        wide = replace(offer, wide=self._allow_retry(wide=offer.wide))
        return self._ask(wide, inputs)

    def _allow_retry(self, *, wide: bool) -> bool:
        """True if it is to be asked again, with wide margins; else it is refused."""
        if self._policy == "raise" or wide:
            raise refusal(self._bundle.model, wide=wide)
        if not any(offer.wide for offer in self._bundle.offers):
            raise refusal(self._bundle.model, wide=True)
        return True

    def _run(
        self, offer: Offer, inputs: Sequence[npt.ArrayLike], turn: Turn | None = None
    ) -> "_Opened":
        signature = self._bundle.offers[offer]
        public = () if self._bundle.hide_length else (1,)  # mask, lengths or positions
        dealt = share_question(signature, inputs, public)
        replies = self._deployment.call(
            [
                RunPlan(self._bundle.model, signature.digest, turn, arrays)
                for arrays in dealt
            ],
            on_progress=self._on_progress,
        )
        sent = [reply.arrays for reply in replies]
        in_range = answer_in_range(signature, sent)
        return _Opened(open_outputs(signature, sent), offer, in_range, turn)

    def _takes(self, phase: Phase, length: int, *, wide: bool) -> bool:
        """Whether some offer has room for so many tokens."""
        return any(
            offer.length >= length and offer.wide == wide
            for offer in self._offers(phase)
        )

    def _offers(self, phase: Phase) -> list[Offer]:
        offers = [offer for offer in self._bundle.offers if offer.phase == phase]
        if not offers:
            raise SetupError(
                f"This bundle has no plan for {phase!r}: it was exported from a model "
                f"for {self._bundle.head.value!r}."
            )
        return offers

    def _fitting(
        self,
        phase: Phase,
        length: int,
        *,
        with_types: bool = False,
        wide: bool = False,
    ) -> Offer:
        """The smallest offer that has room for so many tokens."""
        offers = [
            offer
            for offer in self._offers(phase)
            if offer.length >= length
            and (offer.with_types, offer.wide) == (with_types, wide)
        ]
        if not offers:
            raise SetupError(
                f"No plan of this bundle takes {length} tokens"
                f"{' of a pair' if with_types else ''}; export one that does."
            )
        return min(offers, key=lambda offer: (offer.length, offer.batch_size))
