"""One exception family.

Every error has two texts. The message (``str(error)``) is for the person who runs
this process: it names the value got, the limit and the way out, and may name tensors
and local paths. The ``public`` text is a constant of the class: the only text that may
cross the wire to a peer or a client, so it can carry no secret and no share.
"""

from typing import ClassVar


class DittoError(Exception):
    """Base of every error that Ditto raises on purpose."""

    code: ClassVar[str] = "internal"
    public: ClassVar[str] = "The computation failed; the operator's log says why."

    def public_message(self) -> str:
        """The text that may leave this process."""
        return f"{self.code}: {self.public}"


class FixedPointRangeError(DittoError):
    """A value does not fit its fixed-point type."""

    code = "range"
    public = "An input lies outside the range the model was prepared for."


class FixedPointTypeError(DittoError):
    """Operands or parameters whose types do not go together."""

    code = "type"
    public = "The computation was asked for with types that do not fit together."


class MaskReuseError(DittoError):
    """A mask position was asked for twice; using it would leak."""

    code = "mask-reuse"
    public = "The computation stopped before a mask could be used twice."


class ShareConsistencyError(DittoError):
    """Replicated shares that contradict each other."""

    code = "shares"
    public = "The shares received do not belong together."


class MessageError(DittoError):
    """A peer's message has the wrong size, step or form."""

    code = "message"
    public = "A message did not have the form the protocol expects."


class PeerError(DittoError):
    """A peer is gone or does not answer. ``peer`` is its configured name."""

    code = "peer"
    public = "A compute party is not reachable."

    def __init__(self, message: str, *, peer: str) -> None:
        super().__init__(message)
        self.peer = peer


class PeerLostError(PeerError):
    """A peer's process or host is gone."""

    code = "peer-lost"


class PeerStalledError(PeerError):
    """A peer is alive but did not send what was due within the timeout."""

    code = "peer-stalled"


class PeerIdentityError(PeerError):
    """The process behind a link could not prove that it is the configured peer."""

    code = "peer-identity"
    public = "A compute party could not prove its identity."


class UnsupportedOperationError(DittoError):
    """SPU cannot compile or run an operation. Names the operation and its scope."""

    code = "unsupported"
    public = "The model uses an operation that the engine does not support."

    def __init__(self, message: str, *, operation: str, scope: str) -> None:
        super().__init__(message)
        self.operation = operation
        self.scope = scope


class EngineError(DittoError):
    """SPU failed while running a region. Names the operation and its scope."""

    code = "engine"
    public = "The engine failed while computing."

    def __init__(self, message: str, *, operation: str, scope: str) -> None:
        super().__init__(message)
        self.operation = operation
        self.scope = scope


class SetupError(DittoError):
    """A configuration or installation problem, with the way out in the message."""

    code = "setup"
    public = "A compute party is not set up correctly."


class PlanError(DittoError):
    """A plan that is damaged, of another version, or breaks a rule."""

    code = "plan"
    public = "The plan of the computation is not valid here."


class CapacityError(DittoError):
    """A value went beyond its calibrated range in a simulation."""

    code = "capacity"
    public = "A value lies outside the range the model was prepared for."


class AnswerWarning(UserWarning):
    """An answer that is not to be trusted: it is not what the float model says."""


class CheckpointError(DittoError):
    """A model folder that cannot be read, or that holds an unsupported model."""

    code = "checkpoint"
    public = "The model cannot be loaded."
