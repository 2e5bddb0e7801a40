"""What a party keeps: plans, shares of weights, states of conversations.

A store outlives the sessions of its party, and several lanes may share it. A plan runs
with a model's weights only if the owner of that model has approved its digest, and from
a kept state only if the owner has said that it continues the plan which left the state.

A plan decides what is opened. Which plans are safe to run with one another's states is
for the owner to say, who knows what they compute: that a state happens to have the
shapes and types that a plan takes says nothing. Who may approve is settled by
``register_model``: the one who registered the model first.

A state belongs to the client that began it; nobody else can continue or drop it. One
that nobody has used for an hour is dropped: its client is gone.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from ditto.errors import BusyError, RequestError, StateLostError
from ditto.fixedpoint import FxpType
from ditto.party.comparison import ShareDigests, share_digests
from ditto.plan import Plan
from ditto.runtime import Region
from ditto.sharing import Shared
from ditto.wire import Turn

State = tuple[Shared, ...]
WeightKey = tuple[str, str, FxpType]
"""The model's name, the input's name, and the type."""

KEEP_STATES_FOR = 3600.0
"""Seconds after its last use for which the state of a conversation is kept."""


@dataclass(frozen=True)
class HeldPlan:
    """A plan with its regions compiled for SPU."""

    plan: Plan
    regions: list[Region]


@dataclass(frozen=True)
class ModelRecord:
    """Who owns a model, and the plans that may run with its weights."""

    owner: str
    plans: frozenset[str]
    continues: frozenset[tuple[str, str]] = frozenset()
    """Pairs of a plan and one whose state it may continue."""


@dataclass(frozen=True)
class KeptState:
    """What a run left, and the plan that it ran."""

    plan: str
    shares: State


@dataclass(frozen=True)
class Conversation:
    """The state after the last run of a conversation, and after the one before it."""

    model: str
    number: int
    """How many runs it has had."""
    last_used: float
    state: KeptState | None = None
    previous: KeptState | None = None
    in_use: bool = False
    client: str = ""
    """Who began it."""


class PartyStore:
    """All that a party keeps between calls. Safe to share by threads."""

    def __init__(
        self,
        *,
        keep_states_for: float = KEEP_STATES_FOR,
        states_per_client: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keep_states_for, self._clock = keep_states_for, clock
        self._states_per_client = states_per_client
        self._lock = threading.Lock()
        self._models: dict[str, ModelRecord] = {}
        self._plans: dict[str, HeldPlan] = {}
        self._weights: dict[WeightKey, tuple[Shared, ShareDigests]] = {}
        self._conversations: dict[str, Conversation] = {}

    # Models and plans

    def register_model(
        self,
        model: str,
        owner: str,
        plans: Iterable[str],
        continues: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Note the owner of a model, the plans that it approves, and which of them may
        continue the states of which."""
        pairs = frozenset(continues)
        with self._lock:
            record = self._models.get(model, ModelRecord(owner, frozenset()))
            if record.owner != owner:
                raise RequestError(f"Model {model!r} belongs to another owner.")
            approved = record.plans | frozenset(plans)
            for digest in {digest for pair in pairs for digest in pair} - approved:
                raise RequestError(
                    f"Plan {digest[:12]} is to continue a state, or to be continued, "
                    f"but is not approved for model {model!r}. Approve it as well."
                )
            self._models[model] = replace(
                record, plans=approved, continues=record.continues | pairs
            )

    def models(self) -> dict[str, ModelRecord]:
        """Every registered model."""
        with self._lock:
            return dict(self._models)

    def check_approved(self, model: str, digest: str) -> None:
        """Refuse a plan that the owner of the model has not approved."""
        with self._lock:
            self._check_approved(model, digest)

    def _check_approved(self, model: str, digest: str) -> None:
        record = self._models.get(model)
        if record is None:
            raise RequestError(
                f"Model {model!r} is not registered at this party. Its owner registers "
                f"it with the digests of the plans that may run."
            )
        if digest not in record.plans:
            raise RequestError(
                f"The owner of model {model!r} has not approved plan {digest[:12]}; "
                f"only plans that it approved run with its weights."
            )

    def put_plan(self, model: str, held: HeldPlan) -> None:
        """Keep a plan that is approved for a model."""
        digest = held.plan.digest
        with self._lock:
            self._check_approved(model, digest)
            self._plans[digest] = held

    def plan(self, model: str, digest: str) -> HeldPlan:
        """A plan that was put before, to be run with a model's weights."""
        with self._lock:
            self._drop_expired()
            if digest not in self._plans:
                raise RequestError("This party does not hold that plan.")
            self._check_approved(model, digest)
            return self._plans[digest]

    def plans(self) -> tuple[str, ...]:
        """The digests of all plans."""
        with self._lock:
            return tuple(self._plans)

    def drop_model(self, model: str) -> None:
        """Forget a model: its plans that no other uses, its weights and its states."""
        with self._lock:
            record = self._models.pop(model, None)
            if record is None:
                return
            used = {plan for other in self._models.values() for plan in other.plans}
            for digest in record.plans - used:
                self._plans.pop(digest, None)
            for key in [key for key in self._weights if key[0] == model]:
                del self._weights[key]
            for name, found in list(self._conversations.items()):
                if found.model == model and not found.in_use:
                    del self._conversations[name]

    # Weights

    def put_weights(self, weights: Mapping[WeightKey, Shared]) -> None:
        """Keep shares of weights: all or, if some are here already, none."""
        added = {key: (each, share_digests(each)) for key, each in weights.items()}
        with self._lock:
            for key in weights:
                if key in self._weights:
                    raise RequestError(f"This party has shares of {key[1]} already.")
            self._weights |= added

    def weight(self, key: WeightKey) -> tuple[Shared, ShareDigests] | None:
        """The shares of a weight in a type and their digests, if they are here."""
        with self._lock:
            return self._weights.get(key)

    def weights(self) -> dict[WeightKey, Shared]:
        """The shares of all weights."""
        with self._lock:
            return {key: shared for key, (shared, _) in self._weights.items()}

    # States

    def check_out(
        self, turn: Turn, model: str, plan: str, *, begins: bool, client: str = ""
    ) -> State:
        """Take the state of a turn for a run; nobody else gets it meanwhile.

        The state stays as it is until ``commit``; ``give_back`` leaves it so.
        """
        with self._lock:
            self._drop_expired()
            found = self._conversations.get(turn.conversation)
            if begins and found is not None:
                raise RequestError(
                    "A conversation that has begun cannot begin again. Drop its state, "
                    "or name another."
                )
            if begins:
                self._check_quota(client)
                found = Conversation(model, 0, self._clock(), client=client)
            if found is None or found.client != client:
                raise StateLostError  # another's is as good as none
            if found.model != model:
                raise RequestError("The state is of a conversation with another model.")
            if found.in_use:
                raise RequestError("Another run uses the state of this conversation.")
            state = found.state
            if turn.number == found.number - 1 and found.previous is not None:
                state = found.previous  # the run failed elsewhere and is tried again
            elif turn.number != found.number:
                raise RequestError(
                    f"The conversation stands at turn {found.number}, the run asks for "
                    f"turn {turn.number}."
                )
            if state is not None:
                self._check_continues(model, plan, state.plan)
            self._conversations[turn.conversation] = replace(found, in_use=True)
            return () if state is None else state.shares

    def _check_quota(self, client: str) -> None:
        most = self._states_per_client
        kept = sum(each.client == client for each in self._conversations.values())
        if most is not None and kept >= most:
            raise BusyError(
                f"This party keeps {kept} states for {client or 'this client'}, and "
                f"{most} is the most it keeps for one. End a conversation first.",
                retry_after=5.0,
            )

    def _check_continues(self, model: str, plan: str, earlier: str) -> None:
        record = self._models.get(model)
        if record is None or (plan, earlier) not in record.continues:
            raise RequestError(
                f"The owner of model {model!r} has not said that plan {plan[:12]} may "
                f"continue a state that plan {earlier[:12]} left."
            )

    def _drop_expired(self) -> None:
        oldest = self._clock() - self._keep_states_for
        for name, found in list(self._conversations.items()):
            if found.last_used < oldest and not found.in_use:
                del self._conversations[name]

    def commit(self, turn: Turn, plan: str, state: State) -> None:
        """After a run from a turn: keep what it left, beside what it started from."""
        with self._lock:
            found = self._conversations[turn.conversation]
            start = found.state if found.number == turn.number else found.previous
            self._conversations[turn.conversation] = Conversation(
                found.model,
                turn.number + 1,
                self._clock(),
                KeptState(plan, state),
                previous=start if turn.number else None,
                client=found.client,
            )

    def give_back(self, turn: Turn) -> None:
        """After a run that failed: the conversation stands where it stood."""
        with self._lock:
            found = self._conversations[turn.conversation]
            if found.number:
                self._conversations[turn.conversation] = replace(
                    found, in_use=False, last_used=self._clock()
                )
            else:
                del self._conversations[turn.conversation]

    def drop_state(self, conversation: str, client: str = "") -> None:
        """Free the state of a conversation, if there is one and no run uses it.

        Another client's stays, and whoever asks does not learn that there is one.
        """
        with self._lock:
            found = self._conversations.get(conversation)
            if found is not None and found.client != client:
                return
            if found is not None and found.in_use:
                raise RequestError("A run uses the state of this conversation.")
            self._conversations.pop(conversation, None)

    def conversations(self) -> dict[str, Conversation]:
        """Every conversation whose state is kept."""
        with self._lock:
            self._drop_expired()
            return dict(self._conversations)
