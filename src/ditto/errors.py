"""One exception family.

Every error has two texts. The message (``str(error)``) is for the person who runs
this process: it names the value got, the limit and the way out, and may name tensors
and local paths. ``public_message`` is the only text that may cross the wire to a peer
or a client. It is ``public``, a constant of the class, so it can carry no secret and no
share; classes whose texts are made of what is public give them out whole, and say so.
"""

from typing import ClassVar


class DittoError(Exception):
    """Base of every error that Ditto raises on purpose."""

    code: ClassVar[str] = "internal"
    public: ClassVar[str] = "The computation failed; the operator's log says why."

    def public_message(self) -> str:
        """The text that may leave this process."""
        return f"{self.code}: {self.public}"

    def public_details(self) -> dict[str, str]:
        """Attributes of the error that may leave this process with the text."""
        return {}


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


class RequestError(MessageError):
    """A party refuses a request.

    It is raised before the party has computed anything, with a text of names, digests
    and numbers that the request or the plan shows to whoever asks. So the text may
    leave the party as it is.
    """

    code = "request"
    public = "A compute party refused the request."

    def public_message(self) -> str:
        """See DittoError."""
        return str(self)


class UnknownModelError(RequestError):
    """A model that is not served. The text names it, and those that are."""

    code = "unknown-model"


class StateLostError(RequestError):
    """The state of a conversation is not here: it expired, or the party restarted."""

    code = "state-lost"
    public = "This party does not hold the state that the plan continues."

    def __init__(self, message: str = public) -> None:
        super().__init__(message)


class NotPermittedError(RequestError):
    """Who asks may not ask for this. The text names the identity and the call."""

    code = "not-permitted"


class BusyError(RequestError):
    """A party has no room for a request now; ``retry_after`` says when to ask again."""

    code = "busy"

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    def public_details(self) -> dict[str, str]:
        """See DittoError."""
        return {"retry_after": f"{self.retry_after:g}"}


class DeadlineError(RequestError):
    """There was no answer within the time that was given for it."""

    code = "deadline"
    public = "There was no answer within the time that was given for it."

    def public_message(self) -> str:
        """See DittoError; the text may name what was under way."""
        return self.public


class DisagreementError(DittoError):
    """The parties were not given the same for a run."""

    code = "disagreement"
    public = (
        "The compute parties do not hold the same plan, model, turn, inputs, weights "
        "or state; the run has ended without an answer."
    )


class AuditError(DittoError):
    """A party did not send what the protocol says. ``suspects`` names two parties.

    One of them deviated: the one whose proof failed, or one that helped to check it.
    The text has names of parties and which check failed, no value.
    """

    code = "audit"
    public = "A compute party did not follow the protocol; there is no answer."

    def __init__(self, message: str, *, suspects: str) -> None:
        super().__init__(message)
        self.suspects = suspects

    def public_message(self) -> str:
        """See DittoError."""
        return str(self)

    def public_details(self) -> dict[str, str]:
        """See DittoError."""
        return {"suspects": self.suspects}


class PeerError(DittoError):
    """A peer is gone or does not answer. ``peer`` is its configured name."""

    code = "peer"
    public = "A compute party is not reachable."

    def __init__(self, message: str, *, peer: str) -> None:
        super().__init__(message)
        self.peer = peer

    def public_message(self) -> str:
        """Names of parties and seconds of waiting are known to all: the whole text."""
        return str(self)

    def public_details(self) -> dict[str, str]:
        """See DittoError."""
        return {"peer": self.peer}


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


class CertificateError(PeerIdentityError):
    """A certificate that does not prove whose it is; ``cause`` says why, for scripts.

    The text speaks of the certificate, which whoever shows it knows.
    """

    code = "certificate"
    public = "A certificate does not prove whose it is."

    def __init__(self, message: str, *, peer: str, cause: str) -> None:
        super().__init__(message, peer=peer)
        self.cause = cause

    def public_details(self) -> dict[str, str]:
        """See DittoError."""
        return {"peer": self.peer, "cause": self.cause}


class UnsupportedOperationError(DittoError):
    """SPU cannot compile an operation. Names the operation and its scope."""

    code = "unsupported"
    public = "The model uses an operation that the engine does not support."

    def __init__(self, message: str, *, operation: str, scope: str) -> None:
        super().__init__(message)
        self.operation = operation
        self.scope = scope

    def public_message(self) -> str:
        """Compiling sees the plan and nothing secret: the whole text."""
        return str(self)

    def public_details(self) -> dict[str, str]:
        """The plan names both."""
        return {"operation": self.operation, "scope": self.scope}


class EngineError(DittoError):
    """SPU failed while running a region. Names the operation and its scope."""

    code = "engine"
    public = "The engine failed while computing."

    def __init__(self, message: str, *, operation: str, scope: str) -> None:
        super().__init__(message)
        self.operation = operation
        self.scope = scope

    def public_details(self) -> dict[str, str]:
        """The plan names both."""
        return {"operation": self.operation, "scope": self.scope}


class WarmProcessError(DittoError):
    """The process that kept three local parties warm is gone."""

    code = "warm-process"
    public = "The process that kept the three parties is gone."


class SetupError(DittoError):
    """A configuration or installation problem, with the way out in the message."""

    code = "setup"
    public = "A compute party is not set up correctly."


class AgreementError(SetupError):
    """A ``deployment.toml`` that cannot be read, or that contradicts itself."""

    code = "agreement"
    public = "The agreement of the deployment cannot be used."


class TrioMismatchError(SetupError):
    """Parties of a trio that were started with different things.

    The text has the name of a party, and digests or versions that all may know.
    """

    code = "trio-mismatch"
    public = "The parties of a trio were started with different things."

    def public_message(self) -> str:
        """See DittoError."""
        return str(self)


class ScriptSetupError(SetupError):
    """A script that starts parties is run as a program by the parties as well."""

    public = (
        "The process of a party imported a script to find the function that it is to "
        "call, and the script began to run there as a program. Put the part of it that "
        'starts parties under `if __name__ == "__main__":`.'
    )


class PlanError(DittoError):
    """A plan that is damaged, of another version, or breaks a rule."""

    code = "plan"
    public = "The plan of the computation is not valid here."


class CapacityError(DittoError):
    """A value went beyond its calibrated range in a simulation."""

    code = "capacity"
    public = "A value lies outside the range the model was prepared for."


class OutOfRangeError(DittoError):
    """The parties noted a value that left its range: the answer may be wrong."""

    code = "out-of-range"
    public = "The answer was refused: a value left the range the model is prepared for."


class AnswerWarning(UserWarning):
    """An answer that is not to be trusted: it is not what the float model says."""


class TextCutWarning(UserWarning):
    """A text that is longer than the model takes: its end was left out."""


class WarmWarning(UserWarning):
    """A warm process was there and is gone: parties are started instead."""


class CacheWarning(UserWarning):
    """What could be kept on disk is not: it will be made again."""


class TrainingError(DittoError):
    """A training run that cannot go on."""

    code = "training"
    public = "The training run failed."


class CheckpointError(DittoError):
    """A model folder that cannot be read, or that holds an unsupported model."""

    code = "checkpoint"
    public = "The model cannot be loaded."


class ChatTemplateError(DittoError):
    """A chat template that cannot be read, or that refuses a conversation.

    ``reason`` is what a template that refuses says, to whoever asked: templates check
    the order of roles so.
    """

    code = "chat-template"
    public = "The model's chat template does not take this conversation."

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason

    def public_message(self) -> str:
        """See DittoError; the reason goes to the one who wrote the conversation."""
        return f"{self.public} It says: {self.reason}" if self.reason else self.public
