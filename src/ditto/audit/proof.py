"""audit: each party proves to the two others that what it sent was right.

Of products and of provable recasts. The statement is ``products``: <u, v> = c, where
the party before the prover knows u and a summand of c, the party after it v and the
other summand, and the prover u and v. All three parties prove, each its own statement,
in the same messages.

Steps (of one proof; the prover is P, B the party before it, A the party after it)
    1. When a part of a run has ended, and before anything is answered, B and A each
       send P half of the seed of the weights, and hashes of what the other sends
       (``coins``). Each computes its part of the statement.
    2. P sends A the coefficients of h (``folding``), minus pads that P and B share, and
       sends B a keyed hash of the shares that u is made of, and A one of those of v. B
       and A stop if these are not what they hold themselves.
    3. A sends P the coin of this fold, which A and B know; P stops if it is not what B
       has sent the hash of. All fold: first the terms that are words, then those that
       are elements with them. Steps 2, without the hashes, and 3 are repeated.
    4. After the last message of step 2, with the masking elements, B sends A f(r) and
       its summand of h(r), and A sends B g(r) and its own. Both check that
       f(r) g(r) = h(r), and stop if it is not.

Cost
    ``audit_cost``: with T folds 2T + 1 rounds, whatever was proved; 5.8 kB for the
    first fold of a proof, 24.2 kB where there are recasts, 1.2 kB for each other and
    1.5 kB for the last. T grows by one when the terms are four times as many.

Security
    Soundness. If P deviates, A and B are honest and know the same coins, each of which
    P learns when it has sent what it is to fix: the seed when both have received all
    messages of the part, the coin of a fold when A has the coefficients. A message that
    is not what the honest parties' shares say makes a claim wrong; then c is wrong, and
    stays wrong in each fold, but for roots/2^d <= 2^-40 in all (``soundness``); and
    step 4 compares exactly.
    Zero knowledge. P sees coins and hashes of them. A sees coefficients minus pads of
    P and B, which are uniform; in step 4 f(r), which is uniform because of u*, a mask
    of P and B times a unit; and B's summand of h(r), which is f(r) g(r) minus A's. B
    sees no coefficients, and in step 4 the same with v*, a mask of P and A. So a
    simulator draws what each sees at random. It holds for a verifier that deviates too:
    it cannot give P other coins, of which the other verifier has sent the hash; and
    what it sends in step 4 is compared with what it has been sent itself.
    The last of that needs P and the honest verifier to hold the same: if a deviating
    party gave them different shares of a value (which protocols that are not audited
    allow), the difference of the summands would be a sum of secrets. The hashes of step
    2 are compared before; u and v, which follow from shares and coins, are all that
    step 4 depends on. It is the shares that are hashed, not u and v: the deviating
    party knows the coins of two proofs from the start, and could make a difference that
    they do not see. Each share is hashed once, and what is sent is a keyed hash of
    those hashes: it tells its receiver nothing, who knows what is hashed but for its
    own lies.
    That a run was stopped is seen by all. What makes it stop are a deviating party's
    own messages, and, if that party gave the others different shares, whether they
    differ.

Source
    Boneh, Boyle, Corrigan-Gibbs, Gilboa, Ishai (CRYPTO 2019); Boyle, Gilboa, Ishai, Nof
    (CCS 2019); the folding with positive and negative powers as in Bootle et al.
    (EUROCRYPT 2016); random combinations of products of matrices by Freivalds (1977).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from ditto.audit.coins import (
    OPENING_BYTES,
    Coins,
    Expander,
    challenge_of,
    digest,
)
from ditto.audit.folding import (
    SENT,
    SENT_LAST,
    block_products,
    first_products,
    fold,
    fold_claim,
    fold_first,
    fold_last,
    folds_for,
    masked_products,
    sent_first,
    without_claim,
)
from ditto.audit.galois import GaloisRing
from ditto.audit.products import Recorded, Reduction, Side, Vector
from ditto.audit.soundness import DEGREE, FOLD
from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks import together
from ditto.protocols.cost import Cost
from ditto.protocols.kernels import prepared
from ditto.protocols.ledger import Claim, Ledger, WrapClaim
from ditto.protocols.party import Exchange, Expected, Field, Party, Role, Steps
from ditto.sharing import Masks, Rank, Shared
from ditto.sharing.packing import Bytes

T = TypeVar("T")

_RINGS = 32, 64
_BYTE = Ring(8)
_HASH = OPENING_BYTES


@dataclass(frozen=True)
class Fault:
    """Why a party stops: of whose proof, and who may have deviated."""

    prover: Rank
    suspects: tuple[Rank, ...]
    reason: str


class _StopError(Exception):
    """Raised inside the protocol."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


def prove_ledger(party: Party, ledger: Ledger) -> Fault | None:
    """Prove and verify all that the ledger has; None if nothing is wrong."""
    noted = _by_ring(ledger)

    def instance(role: Role) -> Steps[list[None]]:
        return together(*(_proofs(role, each) for each in noted))

    try:
        party.run(instance, rotation=0)
    except _StopError as stopped:
        return stopped.fault
    return None


def audit_cost(ledger: Ledger) -> Cost:
    """What ``prove_ledger`` sends, all parties together."""
    bits, rounds = 0, 0
    for noted in _by_ring(ledger):
        cost = proof_cost(noted.folds, noted.bits, noted.on[Side.PROVER].first)
        bits, rounds = bits + cost.bits, max(rounds, cost.rounds)
    return Cost(bits, rounds)


def proof_cost(folds: int, bits: int, first: int) -> Cost:
    """Of all three proofs in a ring, with ``first`` words in the first fold."""
    openings, hashes = 2 + (folds - 1), 2 + (folds - 1) + 2
    elements = sum(_sent(folds, first)) + 4
    sent = 3 * (8 * _HASH * (openings + hashes) + elements * DEGREE * bits)
    return Cost(sent, 2 * folds + 1)


def _sent(folds: int, first: int) -> list[int]:
    """Coefficients that a prover gives in each fold."""
    return [sent_first(first), *[SENT] * (folds - 2), SENT_LAST]


@dataclass(frozen=True, eq=False)
class _Noted:
    """What a party has noted of one ring."""

    bits: int
    products: Sequence[Sequence[Claim]]
    wraps: Sequence[WrapClaim]

    @cached_property
    def on(self) -> dict[Side, Recorded]:
        """Of the messages of the prover that this party is on a side of."""
        return {side: Recorded.of(self.products, self.wraps, side) for side in Side}

    @cached_property
    def folds(self) -> int:
        """The same at all parties: as many as the longest of the three proofs needs."""
        return folds_for(max(recorded.length for recorded in self.on.values()))

    @property
    def sent(self) -> list[int]:
        """Coefficients that a prover gives in each fold."""
        return _sent(self.folds, self.on[Side.PROVER].first)


def _by_ring(ledger: Ledger) -> list[_Noted]:
    rings = {p[0].factors.x.ring.bits for p in ledger.products()} - {*_RINGS}
    if rings:
        raise FixedPointTypeError(
            f"Nothing proves products in rings of {sorted(rings)} bits: this is a "
            "defect of Ditto."
        )
    noted = [
        _Noted(
            bits,
            [p for p in ledger.products() if p[0].factors.x.ring.bits == bits],
            [claim for claim in ledger.wraps() if claim.bits == bits],
        )
        for bits in _RINGS
    ]
    return [each for each in noted if each.products or each.wraps]


class _Prover:
    """P in its own proof."""

    def __init__(
        self, role: Role, galois: GaloisRing, sent: Sequence[int], name: str
    ) -> None:
        self._galois = galois
        self._pads = _pads(role.previous, galois, sent, name)
        self._masks = (
            _element(role.previous, f"u {name}", galois),
            _element(role.next, f"v {name}", galois),
        )
        self._keys = (
            role.previous.draw(f"key u {name}", _HASH, _BYTE),
            role.next.draw(f"key v {name}", _HASH, _BYTE),
        )
        self._vectors: tuple[Vector, Vector] | None = None
        self._first = 0
        self._u = self._v = galois.zeros(0)

    def begin(self, recorded: Recorded, seed: Expander, hashes: "_Hashes") -> None:
        statement = Reduction(recorded, Side.PROVER, self._galois).statement(seed)
        self._vectors = _known(statement.u), _known(statement.v)
        self._first = recorded.first
        of_u, of_v = self._keys
        self.hashes = (
            hashes.keyed(of_u, recorded, "u"),
            hashes.keyed(of_v, recorded, "v"),
        )
        """Of what u is made of for the party before, and v for the party after."""

    def coefficients(self, i: int) -> Words:
        """What is sent in fold i, minus the pads."""
        galois = self._galois
        if self._vectors is not None:
            h = first_products(galois, *self._vectors, self._first)
            return without_claim(h, self._first) - self._pads[i]
        if i == len(self._pads) - 1:
            h = masked_products(galois, self._u, self._v, self._masks)
        else:
            h = block_products(galois, self._u, self._v)
        return without_claim(h) - self._pads[i]

    def fold(self, r: Words) -> None:
        galois = self._galois
        if self._vectors is None:
            self._u = fold(galois, self._u, r, is_u=True)
            self._v = fold(galois, self._v, r, is_u=False)
            return
        vectors, self._vectors = self._vectors, None
        self._u, self._v = (fold_first(galois, x, r, self._first) for x in vectors)


class _Verifier:
    """A or B in the proof of another party."""

    def __init__(
        self,
        galois: GaloisRing,
        side: Side,
        coins: Coins,
        mask: Words,
        key: Words,
        recorded: Recorded,
        hashes: "_Hashes",
    ) -> None:
        self._galois, self._coins, self._mask = galois, coins, mask
        self._is_u = side is Side.BEFORE
        statement = Reduction(recorded, side, galois).statement(coins.seed)
        self._vector = _known(statement.u if self._is_u else statement.v)
        self._first = recorded.first
        self._folded: Words | None = None
        self._claim, self._rest = statement.claim, statement.rest
        self.hash = hashes.keyed(key, recorded, "u" if self._is_u else "v")
        """What the prover must have sent."""

    def fold(self, i: int, given: Words, last: bool) -> None:
        """``given`` is this party's summand of the coefficients."""
        galois, is_u = self._galois, self._is_u
        r = self._coins.challenge(i, galois)
        size = self._first if i == 0 else FOLD
        self._claim = fold_claim(galois, self._claim, given, r, size)
        if self._folded is None:
            # times r: else a wrong h could make up for the rest, which has no coin yet
            self._claim = galois.times(self._claim, r) + self._rest
            self._folded = fold_first(galois, self._vector, r, self._first)
        elif last:
            self._folded = fold_last(galois, self._folded, r, self._mask, is_u=is_u)
        else:
            self._folded = fold(galois, self._folded, r, is_u=is_u)

    def shown(self) -> Words:
        """(2, d): f(r) or g(r), and a summand of h(r)."""
        return np.stack([_known(self._folded), self._claim])

    def accepts(self, other: Words) -> bool:
        """Whether f(r) g(r) = h(r), with what the other verifier shows."""
        mine, product = self.shown(), self._galois.times
        return bool((product(mine[0], other[0]) == mine[1] + other[1]).all())


def _proofs(role: Role, noted: _Noted) -> Steps[None]:
    """All three proofs, of one ring."""
    bits, folds, sent = noted.bits, noted.folds, noted.sent
    galois, name = GaloisRing(bits, DEGREE), f"of {bits} bits"
    me, ahead, behind = role.rank, role.rank.next, role.rank.previous
    # of the next party's proof this party is B, of the previous one's it is A
    coins_ahead = Coins.draw(role.previous, f"coins {name}", folds)
    coins_behind = Coins.draw(role.next, f"coins {name}", folds)
    prover = _Prover(role, galois, sent, name)
    pads = _pads(role.next, galois, sent, name)
    masks = (
        _element(role.next, f"u {name}", galois),
        _element(role.previous, f"v {name}", galois),
    )
    keys = (
        role.next.draw(f"key u {name}", _HASH, _BYTE),
        role.previous.draw(f"key v {name}", _HASH, _BYTE),
    )

    inbox = yield Exchange(
        send={
            ahead: [
                _field(coins_ahead.openings[1]),
                _field(coins_ahead.commitments[[0, *range(2, 1 + folds)]]),
            ],
            behind: [
                _field(coins_behind.openings[0]),
                _field(coins_behind.commitments[1]),
            ],
        },
        receive={
            ahead: [Expected(_HASH, 8), Expected(_HASH, 8)],
            behind: [Expected(_HASH, 8), Expected(folds * _HASH, 8)],
        },
    )
    half, hash_of_other = inbox[ahead]
    other, hashes_of_others = inbox[behind]
    committed = hashes_of_others.reshape(folds, _HASH)
    _demand_coin(me, half, committed[0])
    _demand_coin(me, other, hash_of_other)

    hashes = _Hashes()
    prover.begin(noted.on[Side.PROVER], Expander.of(half, other), hashes)
    before, after = (
        _Verifier(
            galois,
            side,
            coins,
            mask,
            key,
            noted.on[side],
            hashes,
        )
        for side, coins, mask, key in zip(
            (Side.BEFORE, Side.AFTER),
            (coins_ahead, coins_behind),
            masks,
            keys,
            strict=True,
        )
    )
    for i in range(folds):
        last = i == folds - 1
        count = sent[i]
        to_ahead = [Field(prover.coefficients(i).reshape(-1), bits)]
        from_behind = [Expected(count * DEGREE, bits)]
        to_behind: list[Field] = []
        from_ahead: list[Expected] = []
        if i == 0:
            of_u, of_v = prover.hashes
            to_ahead.append(_field(of_v))
            to_behind.append(_field(of_u))
            from_behind.append(Expected(_HASH, 8))
            from_ahead.append(Expected(_HASH, 8))
        inbox = yield Exchange(
            send={ahead: to_ahead} | ({behind: to_behind} if to_behind else {}),
            receive={behind: from_behind} | ({ahead: from_ahead} if i == 0 else {}),
        )
        if i == 0:
            _demand_same(ahead, behind, inbox[ahead][0], before.hash)
            _demand_same(behind, ahead, inbox[behind][1], after.hash)
        given = inbox[behind][0].reshape(count, DEGREE)
        before.fold(i, pads[i], last)
        after.fold(i, given, last)
        if last:
            break
        inbox = yield Exchange(
            send={behind: [_field(coins_behind.openings[2 + i])]},
            receive={ahead: [Expected(_HASH, 8)]},
        )
        (opening,) = inbox[ahead]
        _demand_coin(me, opening, committed[1 + i])
        prover.fold(challenge_of(opening, galois))

    expected = [Expected(2 * DEGREE, bits)]
    inbox = yield Exchange(
        send={
            ahead: [Field(after.shown().reshape(-1), bits)],
            behind: [Field(before.shown().reshape(-1), bits)],
        },
        receive={ahead: expected, behind: expected},
    )
    of_behind, of_ahead = (
        inbox[peer][0].reshape(2, DEGREE) for peer in (ahead, behind)
    )
    for verifier, shown, proved in (
        (before, of_ahead, ahead),
        (after, of_behind, behind),
    ):
        if not verifier.accepts(shown):
            third = ahead if proved == behind else behind
            raise _StopError(
                Fault(proved, (proved, third), "products that it sent are wrong")
            )


def _pads(
    masks: Masks, galois: GaloisRing, sent: Sequence[int], name: str
) -> list[Words]:
    """For each fold as many elements as the prover sends."""
    return [
        masks.draw(f"pad {i} {name}", n * galois.degree, galois.ring).reshape(
            n, galois.degree
        )
        for i, n in enumerate(sent)
    ]


def _element(masks: Masks, purpose: str, galois: GaloisRing) -> Words:
    return masks.draw(purpose, galois.degree, galois.ring)


class _Hashes:
    """Of all shares that enter proofs, each made once."""

    def __init__(self) -> None:
        self._made: dict[int, bytes] = {}

    def keyed(self, key: Words, recorded: Recorded, which: str) -> Bytes:
        """A hash of the shares that u or v is made of, under a key of two parties."""
        state = hashlib.blake2b(key=key.tobytes(), digest_size=_HASH)
        for shared, share in recorded.raw(which):
            made = self._made
            if shared is not None and prepared(shared).is_weight:
                made = _WEIGHTS.setdefault(shared, {})
            if id(share) not in made:  # the ledger, or the tensor, keeps it as it is
                data = np.ascontiguousarray(share).data
                made[id(share)] = hashlib.blake2b(data, digest_size=_HASH).digest()
            state.update(made[id(share)])
        return np.frombuffer(state.digest(), np.uint8)


_WEIGHTS: "WeakKeyDictionary[Shared, dict[int, bytes]]" = WeakKeyDictionary()
"""Hashes of weights, which are the same in all runs: of a file of weights that changes
under an honest party only the end of a proof, step 4, takes note."""


def _field(data: Bytes) -> Field:
    return Field(data.reshape(-1), 8)


def _demand_coin(me: Rank, opening: Words, commitment: Words) -> None:
    if (digest(opening.astype(np.uint8)) != commitment).any():
        raise _StopError(
            Fault(
                me, (me.next, me.previous), "its verifiers do not tell the same coins"
            )
        )


def _demand_same(prover: Rank, third: Rank, got: Words, expected: Bytes) -> None:
    if (got != expected).any():
        raise _StopError(
            Fault(prover, (prover, third), "it does not hold what its verifier holds")
        )


def _known(value: T | None) -> T:
    if value is None:
        raise TypeError("This side of the proof does not know it.")
    return value
