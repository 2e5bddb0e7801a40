"""Tiny models, published to a deployment, and questions whose answers are known."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import ditto
from benchmarks.parties import Parties
from ditto.errors import SetupError
from ditto.trust import load_credentials


@dataclass(frozen=True)
class Question:
    """What is asked, and what the simulator says to it."""

    model: str
    text: str
    tokens: int = 0
    """To be generated; 0: an answer is predicted."""
    expected: npt.NDArray[np.float32] | npt.NDArray[np.int64] | None = None

    def ask(self, client: "ditto.Client", timeout: float) -> bool:
        """Whether the parties' answer is the simulator's."""
        if self.expected is None:
            raise SetupError("Nobody knows the right answer to this question.")
        if self.tokens:
            stream = client.stream(self.model, self.text, self.tokens, timeout=timeout)
            made = [generated.token for generated in stream]
            return bool(made == self.expected.tolist())
        (answer,) = client.predict(self.model, [self.text], timeout=timeout)
        tolerance = 0.02 * max(1.0, float(np.abs(self.expected).max()))
        return float(np.abs(answer.output - self.expected).max()) < tolerance


def publish_models(
    parties: Parties, *, lengths: Sequence[int], tokens: int
) -> list[Question]:
    """Publish a classifier and a language model, both tiny; questions about them."""
    from benchmarks.tiny_models import TEXTS, bert_folder, gpt2_folder

    bert = bert_folder(parties.folder / "bert")
    questions = _publish(parties, bert, "acme/bert:1", TEXTS, lengths, 0)
    if tokens:
        gpt2 = gpt2_folder(parties.folder / "gpt2")
        prompts = [" ".join(text.split()[:3]) for text in TEXTS]
        prefill = [max(lengths)]
        questions += _publish(parties, gpt2, "acme/gpt2:1", prompts, prefill, tokens)
    return questions


def _next_tokens(model: Any, text: str, count: int) -> npt.NDArray[np.int64]:
    return np.array([token.ids[0] for token in model.stream(text, count)])


def _publish(
    parties: Parties,
    folder: Path,
    name: str,
    texts: Sequence[str],
    lengths: Sequence[int],
    tokens: int,
) -> list[Question]:
    from ditto.api import from_pretrained
    from ditto.api.export import export_model
    from ditto.owner.remote import RemotePublisher
    from ditto.wire.agreement import read_agreement

    agreement = read_agreement(parties.deployment)
    mine = load_credentials(parties.member("owner", "acme"), agreement.trusted_domains)
    publisher = RemotePublisher(agreement, mine)
    bundle = parties.folder / f"{folder.name}-bundle"
    try:
        with from_pretrained(folder, calibration=texts, mode="simulate") as model:
            export_model(
                model,
                folder,
                bundle,
                lengths=lengths,
                tokens=max(tokens, 1),
                owner=publisher.owner,
                name=name,
            )
            publisher.publish(bundle)
            if not tokens:
                fitting = [
                    text
                    for text in texts
                    if len(model.tokenizer.encode(text).ids) <= max(lengths)
                ]
                answers = model.predict(fitting, pad_to=max(lengths))
                return [
                    Question(name, text, 0, answer.output)
                    for text, answer in zip(fitting, answers, strict=True)
                ]
            return [
                Question(name, text, tokens, _next_tokens(model, text, tokens))
                for text in texts
            ]
    finally:
        publisher.close()
