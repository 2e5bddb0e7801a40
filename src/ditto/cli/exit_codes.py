"""What a command's exit code says to a script."""

from enum import IntEnum

from ditto.errors import (
    AuditError,
    CapacityError,
    CheckpointError,
    DisagreementError,
    DittoError,
    EngineError,
    MessageError,
    OutOfRangeError,
    PeerError,
    PlanError,
    SetupError,
    ShareConsistencyError,
    UnsupportedOperationError,
)


class ExitCode(IntEnum):
    """How a command ended. 128 and more: by a signal, as shells count them."""

    DONE = 0
    """Done; every answer may be trusted."""
    FAILED = 1
    """Something failed that no other code names."""
    USAGE = 2
    """The command line is not understood."""
    DOUBTFUL = 3
    """An answer is not to be trusted, or a model not to be served."""
    SETUP = 4
    """The model, a file, an option or this machine does not fit; the error says what
    to do."""
    PARTIES = 5
    """The parties could not finish; asking again may help."""


_CODES: tuple[tuple[type[DittoError], ExitCode], ...] = (
    (OutOfRangeError, ExitCode.DOUBTFUL),
    (CapacityError, ExitCode.DOUBTFUL),
    (SetupError, ExitCode.SETUP),
    (CheckpointError, ExitCode.SETUP),
    (PlanError, ExitCode.SETUP),
    (UnsupportedOperationError, ExitCode.SETUP),
    (PeerError, ExitCode.PARTIES),
    (EngineError, ExitCode.PARTIES),
    (AuditError, ExitCode.PARTIES),
    (DisagreementError, ExitCode.PARTIES),
    (ShareConsistencyError, ExitCode.PARTIES),
    (MessageError, ExitCode.PARTIES),
)

EPILOG = (
    "Exit codes: 0 done; 1 failed; 2 command line not understood; 3 an answer is not "
    "to be trusted; 4 the model, a file, an option or this machine does not fit; "
    "5 the parties could not finish."
)


def exit_code_of(error: DittoError) -> ExitCode:
    """The code of a command that ends with an error."""
    codes = (code for kind, code in _CODES if isinstance(error, kind))
    return next(codes, ExitCode.FAILED)
