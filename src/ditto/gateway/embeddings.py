"""Endpoints that answer about whole texts: embeddings and classes."""

import base64
import time
import uuid
from collections.abc import Generator, Iterable, Sequence

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse

from ditto.client.answering import ModelCard
from ditto.client.questions import TooLong
from ditto.client.reading import Prediction, Reals
from ditto.files import Json
from ditto.gateway.context import Gateway
from ditto.gateway.errors import invalid
from ditto.gateway.json_body import read_json
from ditto.gateway.requests import (
    ClassifyRequest,
    EmbeddingRequest,
    parse_request,
)
from ditto.gateway.work import unless_gone
from ditto.models import Head

AT_ONCE = 32
"""Texts that are asked together: between them a caller that is gone is noticed."""


async def embeddings(gateway: Gateway, request: Request) -> JSONResponse:
    """POST /v1/embeddings."""
    asked = parse_request(EmbeddingRequest, await read_json(request))
    card = await gateway.card(asked.model)
    if not card.head.is_embedding:
        raise _wrong_head(card, "gives no embeddings")
    cut = asked.truncate_prompt_tokens is not None
    predictions = await _predict(gateway, request, card, asked.input, cut=cut)
    encode = _base64 if asked.encoding_format == "base64" else _floats
    data = [
        {"object": "embedding", "index": k, "embedding": encode(answer.embedding)}
        for k, answer in enumerate(predictions)
    ]
    return JSONResponse({"object": "list", "data": data} | _ends(card, predictions))


async def classify(gateway: Gateway, request: Request) -> JSONResponse:
    """POST /classify, as vLLM has it."""
    asked = parse_request(ClassifyRequest, await read_json(request))
    card = await gateway.card(asked.model)
    if card.head is not Head.TEXT_CLASSIFICATION:
        raise _wrong_head(card, "does not classify texts")
    cut = asked.truncate_prompt_tokens is not None
    predictions = await _predict(gateway, request, card, asked.input, cut=cut)
    data = []
    for k, answer in enumerate(predictions):
        probs = _by_class(answer)
        data.append(
            {
                "index": k,
                "label": answer.label,
                "probs": probs,
                "num_classes": len(probs),
            }
        )
    envelope = {
        "id": f"classify-{uuid.uuid4().hex}",
        "object": "list",
        "created": int(time.time()),
        "data": data,
    }
    return JSONResponse(envelope | _ends(card, predictions))


async def _predict(
    gateway: Gateway, request: Request, card: ModelCard, texts: list[str], *, cut: bool
) -> list[Prediction]:
    too_long: TooLong = "cut" if cut else "raise"
    if not cut:
        await gateway.count_tokens(card, texts, "input")
    deadline = time.monotonic() + gateway.settings.timeout

    def produce() -> Generator[list[Prediction], None, None]:
        for start in range(0, len(texts), AT_ONCE):
            yield gateway.answering.predict(
                card.name,
                texts[start : start + AT_ONCE],
                too_long=too_long,
                timeout=max(0.0, deadline - time.monotonic()),
            )

    async def collected() -> list[Prediction]:
        return [p async for some in gateway.workers.run(produce) for p in some]

    predictions = await unless_gone(request, collected())
    gateway.metrics.prompt_tokens.inc(sum(p.used_tokens for p in predictions))
    return predictions


def all_in_range(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether no value left its range; None if nobody looked."""
    seen = set(verdicts)
    return False if False in seen else None if None in seen else True


def _ends(card: ModelCard, predictions: Sequence[Prediction]) -> Json:
    tokens = sum(prediction.used_tokens for prediction in predictions)
    return {
        "model": card.name,
        "system_fingerprint": card.digest,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "ditto": {"in_range": all_in_range(p.in_range for p in predictions)},
    }


def _floats(embedding: Reals) -> list[float]:
    return [float(x) for x in embedding]


def _base64(embedding: Reals) -> str:
    return base64.b64encode(np.asarray(embedding, "<f4").tobytes()).decode()


def _by_class(answer: Prediction) -> list[float]:
    """Probabilities by the number of the class; a regression's own values."""
    if answer.probabilities is None:
        return _floats(answer.logits)
    order = np.argsort(-answer.logits.astype(np.float64), kind="stable")
    probs = np.zeros(len(order))
    probs[order] = sorted(answer.probabilities.values(), reverse=True)
    return [float(p) for p in probs]


def _wrong_head(card: ModelCard, what: str) -> Exception:
    return invalid(
        f"The model {card.name!r} is for {card.head.value} and {what}.",
        "model",
        "wrong_model",
    )
