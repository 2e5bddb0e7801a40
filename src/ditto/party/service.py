"""What a party does when it is asked: one method for each verb.

Each checks all that it is given before it changes or sends anything, so that a call
which is refused leaves the party as it was. A run commits the state of its conversation
at its end: after a run that failed the old state is still there.

A party sees shares, public lengths and positions, and what the plan says; never a plain
value. It has no code that combines shares.
"""

from typing import cast

from ditto.errors import PlanError, RequestError
from ditto.party.inputs import receive_value
from ditto.party.running import admit, execute, reserve
from ditto.party.store import HeldPlan, PartyStore, WeightKey
from ditto.protocols.kernels import resident
from ditto.runtime import Session
from ditto.runtime.executor import prepare
from ditto.sharing import Shared
from ditto.steps import plan_from_bytes
from ditto.steps.base import as_shared
from ditto.wire import (
    Accepted,
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
)
from ditto.wire.messages import AnyRequest, Message, ReplyT


class PartyService:
    """One party: answers requests out of its store, over one session with its peers."""

    def __init__(self, store: PartyStore, session: Session) -> None:
        self._store = store
        self._session = session

    def answer(self, request: Request[ReplyT]) -> ReplyT:
        """The reply to a request of any verb."""
        return cast(ReplyT, self._answer(request))

    def _answer(self, request: AnyRequest) -> Message:
        match request:
            case RegisterModel():
                return self.register_model(request)
            case PutPlan():
                return self.put_plan(request)
            case PutWeights():
                return self.put_weights(request)
            case RunPlan():
                return self.run_plan(request)
            case DropState():
                return self.drop_state(request)
            case Status():
                return self.status(request)
        raise RequestError(f"A party cannot be asked for {type(request).__name__}.")

    def register_model(self, request: RegisterModel) -> Accepted:
        """Note whose a model is and which plans may run with its weights."""
        self._store.register_model(
            request.model, request.owner, request.plans, request.continues
        )
        return Accepted()

    def put_plan(self, request: PutPlan) -> PlanAccepted:
        """Check a plan, compile its regions and keep it."""
        try:
            plan = plan_from_bytes(request.plan)
        except PlanError as error:  # it speaks of what whoever asks has sent
            raise RequestError(str(error)) from None
        digest = plan.digest
        self._store.check_approved(request.model, digest)  # before the long work
        self._store.put_plan(request.model, HeldPlan(plan, prepare(plan)))
        return PlanAccepted(digest)

    def put_weights(self, request: PutWeights) -> Accepted:
        """Keep shares of weights, in encodings that a plan names."""
        plan = self._store.plan(request.model, request.plan).plan
        weights = {
            v: spec
            for spec in plan.inputs
            if spec.role == "weight"
            for v in spec.encodings
        }
        added: dict[WeightKey, Shared] = {}
        for v in request.values:
            if v not in weights:
                raise RequestError(
                    "Weights were sent for what is no weight of the plan."
                )
            key = request.model, weights[v].name, plan.values[v].fxp
            if key in added:
                raise RequestError(f"This party has shares of {key[1]} already.")
            weight = receive_value(plan, weights[v], v, request.arrays)
            added[key] = resident(as_shared(weight))
        self._store.put_weights(added)
        return Accepted()

    def run_plan(self, request: RunPlan) -> RunReply:
        """Run a plan on the client's shares; answers with this party's summands."""
        run = admit(self._store, request)
        state = reserve(self._store, run)
        return execute(self._store, self._session, run, state)

    def drop_state(self, request: DropState) -> Accepted:
        """Free the state of a conversation that will not be continued."""
        self._store.drop_state(request.conversation)
        return Accepted()

    def status(self, _: Status) -> PartyStatus:
        """What this party keeps."""
        weights = self._store.weights().values()
        return PartyStatus(
            models={
                name: tuple(sorted(record.plans))
                for name, record in self._store.models().items()
            },
            plans=self._store.plans(),
            weights=sum(w.first.nbytes + w.second.nbytes for w in weights),
            states=len(self._store.conversations()),
            peak_memory=_peak_memory(),
        )


def _peak_memory() -> int:
    """Bytes; getrusage would also count the process that started this one."""
    with open("/proc/self/status", encoding="ascii") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) * 1024
