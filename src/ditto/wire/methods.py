"""The calls of a party's service: their names, who may make them, how large they are.

All of them are streams of frames in both directions; see ``chunks``.
"""

from dataclasses import dataclass

from ditto.trust import Role

SERVICE = "ditto.v1.Party"
_EVERYBODY = frozenset(Role)
_SMALL = 1 << 20


@dataclass(frozen=True)
class Method:
    """One call."""

    name: str
    roles: frozenset[Role]
    """Who may make it."""
    most_bytes: int | None = _SMALL
    """Of the arrays of one frame that a party reads; None: what is agreed on."""
    is_upload: bool = False
    """Whether frames follow each other for as long as the call lasts."""

    @property
    def path(self) -> str:
        """As gRPC names it."""
        return f"/{SERVICE}/{self.name}"


STATUS = Method("Status", _EVERYBODY)
"""How a party is, what it serves, and whether its peers agree."""
CALL = Method("Call", frozenset({Role.CLIENT}), None)
"""A request of ``wire.messages``: run a plan, or drop a state."""
CLIENT_FOLDER = Method("ClientFolder", frozenset({Role.CLIENT, Role.OWNER}))
"""The client's part of a model: tokenizer, labels, signatures."""
BEGIN_MODEL = Method("BeginModel", frozenset({Role.OWNER}), 16 << 20)
"""Announce a model; answers which files are missing, and from which byte on."""
PUT_CHUNK = Method("PutChunk", frozenset({Role.OWNER}), is_upload=True)
"""Pieces of one file, in order."""
COMMIT_MODEL = Method("CommitModel", frozenset({Role.OWNER}))
"""Approve the plans, and serve the model from now on."""
RETIRE_MODEL = Method("RetireModel", frozenset({Role.OWNER}))
"""Serve a model no longer, and remove it."""

METHODS: tuple[Method, ...] = (
    STATUS, CALL, CLIENT_FOLDER, BEGIN_MODEL, PUT_CHUNK, COMMIT_MODEL, RETIRE_MODEL,
)  # fmt: skip
