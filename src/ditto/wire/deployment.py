"""Three parties that are asked together, wherever they run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ditto.files import Json
from ditto.wire.messages import ReplyT, Request

OnProgress = Callable[[int, Json], None]
"""Called with a party's rank and how far its call has come."""


class Deployment(ABC):
    """The three parties of one deployment."""

    @abstractmethod
    def call(
        self,
        requests: Sequence[Request[ReplyT]],
        on_progress: OnProgress | None = None,
    ) -> list[ReplyT]:
        """Ask each party for its own; raises the error that made the others fail."""

    def call_all(self, request: Request[ReplyT]) -> list[ReplyT]:
        """Ask all three for the same."""
        return self.call([request] * 3)

    @property
    @abstractmethod
    def generation(self) -> int:
        """Changes when the parties were started again and have lost all they kept."""
