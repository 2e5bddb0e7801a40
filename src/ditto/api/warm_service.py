"""The process that keeps three parties warm, for others of the same user.

See ``warm`` for what it is asked. Requests are answered one after another.
"""

import contextlib
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax

from ditto.api.pretrained import Pretrained
from ditto.api.warm import (
    Connection,
    described,
    gather,
    scatter,
)
from ditto.client import Signature, share_question
from ditto.errors import DittoError, RequestError, SetupError
from ditto.files import Json, private_folder
from ditto.fixedpoint import Array
from ditto.models.computation import Computation, Phase
from ditto.owner import Publisher
from ditto.party import LocalDeployment
from ditto.plan import Plan
from ditto.steps import plan_from_bytes
from ditto.wire import (
    Arrays,
    DropState,
    RunPlan,
    Status,
    Turn,
    decode_request,
    encode,
)
from ditto.wire.messages import AnyRequest

_ALLOWED = (RunPlan, DropState, Status)
_PATIENCE = struct.pack("ll", 30, 0)
"""Seconds, and microseconds, for which others wait for one that does not read."""
_WAITING = 16
"""Connections that may wait to be taken."""


@dataclass(frozen=True)
class _Served:
    """A model that is kept."""

    model: str
    """What the parties call it."""
    publisher: Publisher
    plans: dict[str, Plan]
    """What was published, by digest."""

    def publish(self, plan: Plan, on_stage: Callable[[str], None]) -> Signature:
        """Have the parties keep a plan and its weights."""
        signature = self.publisher.publish(plan, on_stage)
        self.plans[signature.digest] = plan
        return signature

    def publish_again(self, digest: str) -> None:
        """The same, if the parties were started again since."""
        if digest not in self.plans:
            raise RequestError("The plan was not published to this warm process.")
        self.publisher.publish(self.plans[digest])


class WarmService:
    """Keeps three parties and the models they share."""

    def __init__(self, deployment: LocalDeployment) -> None:
        self._deployment = deployment
        self._served: dict[str, _Served] = {}
        self._lock = threading.Lock()

    def serve_model(
        self,
        model: Pretrained,
        lengths: Sequence[int],
        on_stage: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Share the weights of a model, hand out its plans for some lengths, and run
        each once."""
        name = uuid.uuid4().hex
        weights = jax.tree_util.tree_leaves(model.plans.model.params)
        publisher = Publisher(self._deployment, name, "local", weights)
        served = _Served(name, publisher, {})
        phase = Phase.PREFILL if model.model.family.is_decoder else Phase.FORWARD
        for length in lengths:
            computation = model.computation(phase, 1, length)
            plan = model.plans.plan(computation, on_stage)
            _ = self._deployment.trio  # started before anything is shared
            signature = served.publish(plan, on_stage)
            on_stage(f"trying {computation}")
            inputs = model.plans.samples(computation)[0][1:]
            self._try(served, computation, signature, inputs)
        self._served[model.plans.identity] = served

    def _try(
        self,
        served: _Served,
        computation: Computation,
        signature: Signature,
        inputs: Sequence[Array],
    ) -> None:
        """Run a plan once, so that the parties have compiled what they need."""
        public = [k - 1 for k in computation.public_argnums]  # after the weights
        turn = Turn(uuid.uuid4().hex) if computation.retain_outputs else None
        self._deployment.call(
            [
                RunPlan(served.model, signature.digest, turn, arrays)
                for arrays in share_question(signature, inputs, public)
            ]
        )
        if turn is not None:
            self._deployment.call_all(DropState(turn.conversation))

    def answer(self, connection: Connection) -> None:
        """Answer the frames of one connection until it ends."""
        conversations: set[str] = set()
        try:
            while (frame := connection.receive()) is not None:
                with self._lock:
                    self._answer(connection, *frame, conversations)
        except (OSError, ValueError, DittoError):
            pass  # whoever asked is gone, or speaks another language
        finally:
            connection.close()
            self._drop(conversations)

    def _answer(
        self,
        connection: Connection,
        body: Json,
        arrays: Arrays,
        conversations: set[str],
    ) -> None:
        try:
            match body.get("ask"):
                case "hello":
                    served = self._served.get(str(body.get("identity")))
                    connection.send({"model": None if served is None else served.model})
                case "publish":
                    plan = plan_from_bytes(arrays["plan"].tobytes())
                    said = _quietly(lambda stage: connection.send({"stage": stage}))
                    _ = self._deployment.trio  # started again if need be
                    self._of(body).publish(plan, said)
                    connection.send({"published": plan.digest})
                case "call":
                    requests = [
                        decode_request(*part)
                        for part in scatter(body.get("requests"), arrays)
                    ]
                    self._check(requests, self._of(body))
                    conversations |= {
                        r.turn.conversation
                        for r in requests
                        if isinstance(r, RunPlan) and r.turn is not None
                    }
                    self._call(connection, requests)
                case other:
                    raise RequestError(f"A warm process is not asked for {other!r}.")
        except DittoError as error:
            connection.send({"error": described(error)})
        except KeyError as missing:
            connection.send({"error": described(RequestError(f"No {missing} came."))})

    def _of(self, body: Json) -> _Served:
        served = self._served.get(str(body.get("identity")))
        if served is None:
            raise RequestError("The warm process does not keep this model.")
        return served

    def _check(self, requests: list[AnyRequest], served: _Served) -> None:
        if len({type(request) for request in requests}) != 1:
            raise RequestError("The three parties are asked for the same.")
        for request in requests:
            if not isinstance(request, _ALLOWED):
                raise RequestError(
                    f"A warm process does not pass on {type(request).__name__}."
                )
            if isinstance(request, RunPlan) and request.model != served.model:
                raise RequestError("The request is about another model.")
        _ = self._deployment.trio  # started again if need be
        for request in requests:
            if isinstance(request, RunPlan):
                served.publish_again(request.plan)

    def _call(self, connection: Connection, requests: list[AnyRequest]) -> None:
        def show(rank: int, progress: Json) -> None:
            if rank == 0:
                _quietly(lambda _: connection.send({"progress": [rank, progress]}))("")

        replies = self._deployment.call(requests, show)
        bodies, found = gather([encode(reply) for reply in replies])
        connection.send({"replies": bodies}, found)

    def _drop(self, conversations: set[str]) -> None:
        """Free the states of conversations that nobody can continue."""
        with self._lock, contextlib.suppress(DittoError):
            for conversation in conversations:
                if self._deployment.running:
                    self._deployment.call_all(DropState(conversation))


def _quietly(send: Callable[[str], None]) -> Callable[[str], None]:
    """Whoever asked may be gone; the work goes on."""

    def sending(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            send(text)

    return sending


def serve_forever(
    service: WarmService, path: Path, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Answer at a socket of this user's until interrupted, and leave nothing there."""
    private_folder(path.parent)
    if _is_taken(path):
        raise SetupError(
            f"A process that keeps parties warm already answers at {path}; end it "
            f"first."
        )
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(str(path))
        except OSError as error:
            raise SetupError(f"{path} cannot be listened at: {error}.") from None
        try:
            path.chmod(0o600)
            listener.listen(_WAITING)
            on_ready()
            while True:
                plain, _ = listener.accept()
                _answer_apart(service, plain)
        finally:
            path.unlink(missing_ok=True)


def _answer_apart(service: WarmService, plain: socket.socket) -> None:
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _PATIENCE)
    try:
        connection = Connection(plain)
    except DittoError:  # another user's
        plain.close()
        return
    thread = threading.Thread(target=service.answer, args=(connection,), daemon=True)
    thread.start()


def _is_taken(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
