"""What a party can be asked and what it answers, and how that crosses to it.

In topological order: versions, agreement, agreement_toml, messages, deployment,
manifest; chunks, status, methods, catalogue.
"""

from ditto.files import Json
from ditto.wire.deployment import Deployment, OnProgress
from ditto.wire.messages import (
    Accepted,
    Arrays,
    DropState,
    PartyStatus,
    PlanAccepted,
    PutPlan,
    PutWeights,
    RegisterModel,
    Request,
    RunPlan,
    RunReply,
    Status,
    Turn,
    decode_reply,
    decode_request,
    encode,
)

__all__ = [
    "Accepted",
    "Arrays",
    "Deployment",
    "DropState",
    "Json",
    "OnProgress",
    "PartyStatus",
    "PlanAccepted",
    "PutPlan",
    "PutWeights",
    "RegisterModel",
    "Request",
    "RunPlan",
    "RunReply",
    "Status",
    "Turn",
    "decode_reply",
    "decode_request",
    "encode",
]
