"""The client's part of a bundle: tokenizer, labels, what the parties can compute."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ditto.client.signature import Signature
from ditto.errors import PlanError
from ditto.files import read_limited
from ditto.models import Head
from ditto.models.sentence import SentenceEncoding
from ditto.wire.manifest import read_folder

if TYPE_CHECKING:
    from ditto.client.tokens import Tokenizer

Phase = Literal["forward", "prefill", "decode"]
_MAX_OFFERS = 64 << 20


@dataclass(frozen=True)
class Offer:
    """A computation that the parties have a plan for.

    forward   whole texts at once, with the model's head
    prefill   prompts: what follows them; the parties keep their state
    decode    one more token of each text, with room for ``length`` positions
    """

    phase: Phase
    batch_size: int
    length: int
    with_types: bool = False
    wide: bool = False
    """With wide margins: asked when a value left the range of the usual plan."""


@dataclass(frozen=True)
class ClientBundle:
    """What a client has of a model."""

    model: str
    head: Head
    max_tokens: int
    labels: dict[int, str]
    hide_length: bool
    offers: dict[Offer, Signature]
    tokenizer: "Tokenizer"
    problem_type: str | None
    """Whether labels exclude each other, as ``config.json`` says it."""
    encoding: SentenceEncoding
    """What the client does with texts and embeddings."""
    public_prefix: tuple[int, ...] = ()
    """Tokens that every prompt begins with, and that are left out of it."""

    def batch_sizes(self, offer: Offer) -> list[int]:
        """Of all offers that differ from this one in nothing else, ascending."""
        return sorted(
            other.batch_size
            for other in self.offers
            if replace(other, batch_size=offer.batch_size) == offer
        )


def read_client_bundle(folder: Path) -> ClientBundle:
    """The client's folder of a bundle; refuses one of another format or changed."""
    from ditto.client.tokens import Tokenizer

    read = read_folder(folder)
    text = read_limited(read.file("offers.json"), _MAX_OFFERS, PlanError, "64 MiB")
    try:
        offers = {
            _offer(each["offer"]): Signature.from_json(each["signature"])
            for each in json.loads(text)
        }
        return ClientBundle(
            model=str(read.contents["model"]),
            head=Head(read.contents["head"]),
            max_tokens=int(read.contents["max_tokens"]),
            labels={int(k): str(v) for k, v in read.contents["labels"].items()},
            hide_length=bool(read.contents["hide_length"]),
            offers=offers,
            tokenizer=Tokenizer.load(folder),
            problem_type=read.contents["problem_type"],
            encoding=_encoding(read.contents["encoding"]),
            public_prefix=tuple(map(int, read.contents.get("public_prefix", ()))),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlanError(f"{folder} is not a client's folder: {error!r}.") from None


def _encoding(data: dict[str, object]) -> SentenceEncoding:
    match data:
        case {
            "normalize": bool() as normalize,
            "max_seq_length": int() | None as max_seq_length,
            "prompts": dict() as prompts,
            "default_prompt_name": str() | None as default,
            "include_prompt": bool() as include,
        } if all(isinstance(text, str) for text in prompts.values()):
            return SentenceEncoding(
                normalize, max_seq_length, prompts, default, include
            )
    raise ValueError("an encoding has prompts and a length")


def _offer(data: dict[str, object]) -> Offer:
    match data:
        case {
            "phase": "forward" | "prefill" | "decode" as phase,
            "batch_size": int() as batch_size,
            "length": int() as length,
            "with_types": bool() as with_types,
            "wide": bool() as wide,
        }:
            return Offer(phase, batch_size, length, with_types, wide)
    raise ValueError("an offer has a phase, a batch size and a length")
