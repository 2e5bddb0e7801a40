"""A client asks three parties: text is shared, answers are opened and sampled here."""

import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ditto.client.batching import run_in_batches
from ditto.client.bundle import ClientBundle, Offer, Phase
from ditto.client.out_of_range import OnOutOfRange, check_policy, refusal
from ditto.client.prefix import after_prefix
from ditto.client.questions import Asked, TooLong, make_questions
from ditto.client.reading import Prediction, Reader
from ditto.client.running import Opened, RowAnswer, run_plan, run_rows
from ditto.client.sampling import Sampler, Sampling
from ditto.errors import SetupError, StateLostError, TextCutWarning
from ditto.models import Head
from ditto.wire import Deployment, DropState, OnProgress, Turn

if TYPE_CHECKING:
    from ditto.client.tokens import Encoded


@dataclass(frozen=True)
class Generated:
    """One generated token of a text, and the characters it adds."""

    token: int
    text: str
    in_range: bool | None = None
    """Whether no value left its range, as the parties saw it; None if none looked."""


AnswerRows = Callable[[Offer, "Sequence[Encoded]"], list[RowAnswer]]
"""Answers to texts by the plans of an offer, of whatever batch sizes there are."""


class Client:
    """Asks about texts that nobody else sees."""

    def __init__(
        self,
        bundle: ClientBundle,
        deployment: Deployment,
        on_progress: OnProgress | None = None,
        on_out_of_range: OnOutOfRange = "retry",
        answer_rows: AnswerRows | None = None,
    ) -> None:
        """With ``answer_rows``, somebody else runs the texts that are predicted."""
        self._bundle = bundle
        self._answer_rows = answer_rows or self._run_in_batches
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
            answers = self._ask(offer, [questions[k].encoded for k in members])
            for k, answer in zip(members, answers, strict=True):
                read = reader.read(questions[k], answer.row)
                predictions[k] = replace(read, in_range=answer.in_range)
        return [predictions[k] for k in range(len(texts))]

    def stream(
        self,
        prompt: str,
        tokens: int,
        sampling: Sampling | None = None,
        *,
        add_special_tokens: bool = True,
    ) -> Iterator[Generated]:
        """Tokens that follow a prompt, chosen from the opened logits as they come.

        See ``Answering.stream``.
        """
        tokenizer, sampler = self._bundle.tokenizer, Sampler(sampling or Sampling())
        before = len(self._bundle.public_prefix)
        room = min(
            max(offer.length for offer in self._offers("prefill")),
            max(offer.length for offer in self._offers("decode")) - before - tokens + 1,
        )
        if tokens < 1 or room < 1:
            raise SetupError(
                f"This bundle has no room for a prompt and {tokens} tokens. Ask for "
                f"fewer, or export the model with more."
            )
        whole = tokenizer.encode(prompt, add_special_tokens=add_special_tokens).ids
        whole = after_prefix(whole, self._bundle.public_prefix)
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

    def _begin(self, ids: list[int], *, wide: bool = False) -> Opened:
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

    def _continue(self, before: Opened, ids: list[int]) -> Opened:
        """What follows one more token; if a value leaves its range, of the whole."""
        wide = before.offer.wide
        prefix = len(self._bundle.public_prefix)
        place = prefix + len(ids) - 1
        held = before.offer.length + prefix * (before.offer.phase == "prefill")
        offer = self._fitting("decode", max(place + 1, held), wide=wide)
        count, turn = offer.batch_size, before.turn
        inputs = [
            np.full(count, ids[-1], np.int32),
            np.full(count, place, np.int32),
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

    def _drop(self, opened: Opened) -> None:
        if opened.turn is not None:
            self._deployment.call_all(DropState(opened.turn.conversation))

    def _ask(self, offer: Offer, texts: "Sequence[Encoded]") -> list[RowAnswer]:
        """Answers by an offer, or by the wide one to texts that leave their range."""
        answers = self._answer_rows(offer, texts)
        left = [k for k, answer in enumerate(answers) if answer.in_range is False]
        if left and self._policy != "return":
            wide = replace(offer, wide=self._allow_retry(wide=offer.wide))
            wide = replace(wide, batch_size=self._bundle.batch_sizes(wide)[0])
            again = self._ask(wide, [texts[k] for k in left])
            for k, answer in zip(left, again, strict=True):
                answers[k] = answer
        return answers

    def _run_in_batches(
        self, offer: Offer, texts: "Sequence[Encoded]"
    ) -> list[RowAnswer]:
        def run(batch: "Sequence[Encoded]", size: int) -> list[RowAnswer]:
            sized = replace(offer, batch_size=size)
            return run_rows(
                self._bundle, self._deployment, sized, batch, self._on_progress
            )

        return run_in_batches(texts, self._bundle.batch_sizes(offer), run)

    def _allow_retry(self, *, wide: bool) -> bool:
        """True if it is to be asked again, with wide margins; else it is refused."""
        if self._policy == "raise" or wide:
            raise refusal(self._bundle.model, wide=wide)
        if not any(offer.wide for offer in self._bundle.offers):
            raise refusal(self._bundle.model, wide=True)
        return True

    def _run(
        self, offer: Offer, inputs: Sequence[npt.ArrayLike], turn: Turn | None = None
    ) -> Opened:
        return run_plan(
            self._bundle, self._deployment, offer, inputs, turn, self._on_progress
        )

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
