"""Endpoints about the gateway itself: models, what runs, health, metrics."""

from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ditto.client.answering import ModelCard
from ditto.files import Json
from ditto.gateway.context import Gateway
from ditto.gateway.metrics import CONTENT_TYPE


async def list_models(gateway: Gateway, _: Request) -> JSONResponse:
    """GET /v1/models."""
    cards = await gateway.cards()
    return JSONResponse({"object": "list", "data": [_described(c) for c in cards]})


async def show_model(gateway: Gateway, request: Request) -> JSONResponse:
    """GET /v1/models/{id}."""
    return JSONResponse(_described(await gateway.card(request.path_params["id"])))


async def verification(gateway: Gateway, _: Request) -> JSONResponse:
    """GET /ditto/verification: who computes what, and what they prove of it."""
    answering, audits = gateway.answering, gateway.answering.audits()
    return JSONResponse(
        {
            "ditto": version("ditto-mpc"),
            "models": [
                {
                    "id": c.name,
                    "owner": c.owner,
                    "task": c.head.value,
                    "digest": c.digest,
                }
                for c in await gateway.cards()
            ],
            "parties": [
                {"name": p.name, "organisation": p.organisation, "address": p.address}
                for p in answering.parties()
            ],
            "audit": {"level": audits.audit, "chance": audits.chance},
        }
    )


async def health(_: Gateway, __: Request) -> Response:
    """GET /health: the process lives."""
    return JSONResponse({})


async def metrics(gateway: Gateway, _: Request) -> Response:
    """GET /metrics, for Prometheus."""
    return Response(gateway.metrics.text(), headers={"content-type": CONTENT_TYPE})


def _described(card: ModelCard) -> Json:
    return {
        "id": card.name,
        "object": "model",
        "created": card.created,
        "owned_by": card.owner,
        "max_model_len": card.max_tokens,
        "task": card.head.value,
        "ditto": {"digest": card.digest},
    }
