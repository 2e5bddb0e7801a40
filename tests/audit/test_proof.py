"""Honest parties are believed, a deviating one is caught, and the price is exact."""

import numpy as np
import pytest

from ditto.audit import coins, proof
from ditto.audit.galois import GaloisRing
from ditto.audit.products import Recorded
from ditto.audit.proof import Fault
from ditto.audit.soundness import DEGREE, FOLD, WORDS
from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols import party
from ditto.protocols.kernels import shared_einsum
from ditto.protocols.ledger import Factors
from ditto.protocols.multiply import product_task, product_type
from ditto.protocols.party import Exchange, Party
from ditto.sharing import RANKS, Rank, Shared

from .parties import (
    CASES,
    RECASTS,
    SPLIT_FROM,
    TYPE,
    Alter,
    Case,
    audited,
    flip,
    honest,
    masks_from,
    product,
)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(party, "SPLIT_FROM", SPLIT_FROM)


@pytest.mark.parametrize("name", CASES)
def test_honest_parties_are_believed_at_the_declared_price(name: str) -> None:
    case = CASES[name]
    for seed in range(2):
        outcomes = audited(case, case.deal(seed), masks_from(seed, {}))
        assert [o.fault for o in outcomes] == [None] * 3
        cost = outcomes[0].cost
        assert sum(o.bytes for o in outcomes) * 8 == cost.bits
        assert {o.rounds for o in outcomes} == {cost.rounds}


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("name", CASES)
def test_a_wrong_product_is_caught(name: str, rank: Rank) -> None:
    """A bit, a row, all of a message: both others stop, and name who sent it."""
    case, rng = CASES[name], np.random.default_rng(rank)
    for seed, words in enumerate((1, 1, 3, None)):
        sends: list[bool] = []
        spoil = flip(0, rng, words=words, which=seed)

        def alter(
            number: int,
            exchanges: dict[int, Exchange],
            spoil: Alter = spoil,
            sends: list[bool] = sends,
        ) -> None:
            if number == 0:
                sends.extend(bool(exchange.send) for exchange in exchanges.values())
            spoil(number, exchanges)

        operands, source = case.deal(seed), masks_from(seed, {})
        outcomes = audited(case, operands, source, alter={rank: alter})
        if not any(sends):  # one party of three sends nothing in a fused product
            assert "recast" in name or len(sends) == 1
            assert [o.fault for o in outcomes] == [None] * 3
            continue
        for outcome in honest(outcomes, rank):
            fault = outcome.fault
            assert isinstance(fault, Fault)
            assert fault.prover == rank
            assert rank in fault.suspects


@pytest.mark.parametrize("rank", RANKS)
def test_a_wrong_recast_goes_unnoticed(rank: Rank) -> None:
    """What is not covered yet: the exchanges after the product's own."""
    case, rng = CASES["multiply + recast"], np.random.default_rng(rank)
    operands, source = case.deal(1), masks_from(1, {})
    before = audited(case, operands, source)[rank].before
    assert before > 1
    for at in range(1, before):
        outcomes = audited(case, operands, source, alter={rank: flip(at, rng)})
        assert [o.fault for o in outcomes] == [None] * 3


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("to", [None, TYPE])
def test_a_wrong_local_product_is_caught_where_it_is_sent(
    rank: Rank, to: FxpType | None
) -> None:
    """Of a fused product P1 sends nothing: what it adds goes into the recast."""
    subscripts = "ij,jk->ik"

    def run(player: Party, x: Shared, y: Shared) -> Shared:
        z = shared_einsum(subscripts, x, y)
        if player.rank == rank:
            z = z + np.uint32(123456789)
        factors = Factors(x, y, subscripts)
        kind = product_type(x.type, y.type)
        return player.run_task(product_task(z, kind, to, 2, factors=factors))

    case = Case(run, ((4, 6), (6, 5)))
    outcomes = audited(case, case.deal(1), masks_from(1, {}))
    unseen = to is not None and rank == Rank.P1
    assert [o.caught for o in honest(outcomes, rank)] == [not unseen] * 2


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("name", ["multiply", "matmul + recast"])
def test_a_wrong_message_of_the_proof_is_caught(name: str, rank: Rank) -> None:
    """A bit of any field of any message: an honest party stops."""
    case, rng = CASES[name], np.random.default_rng(rank)
    operands, source = case.deal(1), masks_from(1, {})
    reference = audited(case, operands, source)[rank]
    for at in range(reference.before, reference.before + reference.exchanges):
        for which in range(4 if at == reference.before else 2):
            alter = {rank: flip(at, rng, which=which)}
            outcomes = audited(case, operands, source, alter=alter)
            assert any(o.caught for o in honest(outcomes, rank)), (at, which)


def test_a_prover_goes_on_with_coins_that_both_verifiers_have_alone() -> None:
    """Else one of them could have it compute what its pads and masks do not hide."""
    case, rng = CASES["multiply"], np.random.default_rng(1)
    operands, source = case.deal(1), masks_from(1, {})
    before = audited(case, operands, source)[0].before
    for at in (before, before + 2):  # the seed, the coin of the first fold
        which = 2 if at == before else 0  # what P1 sends P0
        alter = {Rank.P1: flip(at, rng, which=which)}
        outcome = audited(case, operands, source, alter=alter)[0]
        assert isinstance(outcome.fault, Fault)
        assert outcome.fault.prover == Rank.P0
        assert "coins" in outcome.fault.reason
        assert outcome.exchanges == at - before + 1


def test_different_shares_are_found_before_anything_is_shown() -> None:
    """P0 and P2, both honest, hold different shares 0: P1 must not see the sums."""
    case = CASES["matmul"]
    operands = [list(each) for each in case.deal(1)]
    x = operands[0][0]
    changed = x.first.copy()
    changed[0, 0] += np.uint32(1)
    operands[0][0] = type(x)(changed, x.second, x.type)
    outcomes = audited(case, operands, masks_from(1, {}))
    for rank in (0, 2):
        fault = outcomes[rank].fault
        assert isinstance(fault, Fault)
        assert "does not hold" in fault.reason
        assert outcomes[rank].exchanges == 2


def test_no_difference_of_shares_is_made_to_pass() -> None:
    """P2 knows the weights of the proofs of P0 and P1 from the start, and so what they
    do not see of a difference between the shares of these two."""
    rows = 120
    case = Case(product("ij,jk->ik"), ((rows, 3), (3, 5)))
    operands, source = [list(each) for each in case.deal(1)], masks_from(1, {})
    with pytest.MonkeyPatch.context() as patch:
        seen = drawn_coins(patch)
        assert not any(o.fault for o in audited(case, operands, source))
    galois = GaloisRing(32, DEGREE)
    known = []
    for whose in ("P1-P2", "P2-P0"):
        seed = seen[whose].seed
        seed.coins(5, galois)  # those of columns
        known.append(seed.coins(rows, galois))
    x = operands[0][0]
    changed = x.second.copy()
    changed[:, 0] += unseen_by(np.concatenate(known, axis=1))
    operands[0][0] = type(x)(x.first, changed, x.type)
    outcomes = audited(case, operands, source)
    assert [o.caught for o in outcomes[:2]] == [True, True]


def drawn_coins(patch: pytest.MonkeyPatch) -> dict[str, coins.Coins]:
    """The coins that two parties draw from now on, by whose masks they are."""
    seen: dict[str, coins.Coins] = {}
    draw = coins.Coins.draw.__func__  # type: ignore[attr-defined]

    def spied(cls: type, masks: object, purpose: str, folds: int) -> coins.Coins:
        drawn: coins.Coins = draw(cls, masks, purpose, folds)
        seen[masks._whose] = drawn  # type: ignore[attr-defined]
        return drawn

    patch.setattr(coins.Coins, "draw", classmethod(spied))
    return seen


def unseen_by(weights: Words) -> Words:
    """A vector modulo 2^32, not zero, whose sum with each column of weights is."""
    rows = [[int(w) for w in column] for column in weights.T]
    pivots: list[int] = []
    for c in range(len(weights)):
        place = len(pivots)
        found = next((i for i in range(place, len(rows)) if rows[i][c] & 1), None)
        if found is None:
            continue
        rows[place], rows[found] = rows[found], rows[place]
        inverse = pow(rows[place][c], -1, 1 << 32)
        rows[place] = [w * inverse % (1 << 32) for w in rows[place]]
        for i, row in enumerate(rows):
            if i != place and row[c]:
                pairs = zip(row, rows[place], strict=True)
                rows[i] = [(a - row[c] * b) % (1 << 32) for a, b in pairs]
        pivots.append(c)
    free = next(c for c in range(len(weights)) if c not in pivots)
    vector = np.zeros(len(weights), np.uint32)
    vector[free] = 1
    for row, c in zip(rows, pivots, strict=False):
        vector[c] = -row[free] % (1 << 32)
    assert not (weights.T.astype(np.uint32) @ vector).any()
    return vector


@pytest.mark.parametrize("name", ["multiply", "matmul", "sum of few squares"])
def test_who_knows_the_coins_too_early_can_cheat(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why the order matters: with a coin that it knew, a prover hides its error.

    The prover adds e to its message. Once it knows the weights it knows what that makes
    of the claim. If it also knew the coin r of the fold in which the claim is first, it
    could take the error, times r^(L-1), out of the lowest coefficient. It is caught if
    it guesses r.
    """
    case, rank = CASES[name], Rank.P0
    operands, source = case.deal(5), masks_from(5, {})
    for knows_coin in (True, False):
        unseen = cheated(
            monkeypatch,
            case,
            operands,
            source,
            rank,
            knows_coin=knows_coin,
            of_words=name != "matmul",
        )
        assert unseen == knows_coin


@pytest.mark.parametrize(
    "name", ["matmul", "wide matmul", "matmul + recast", "provable matmul in parts"]
)
def test_what_joins_after_the_first_fold_is_not_hidden_in_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No coin of a fold is needed to know what an error makes of the products of
    matrices, which are added to h(r): taken out of the lowest coefficient of h it would
    be gone, if h(r) were not multiplied by r before."""
    case = (CASES | RECASTS)[name]
    assert not cheated(
        monkeypatch,
        case,
        case.deal(5),
        masks_from(5, {}),
        Rank.P0,
        knows_coin=False,
        of_words=False,
        in_first_fold=True,
    )


def cheated(
    monkeypatch: pytest.MonkeyPatch,
    case: object,
    operands: object,
    source: object,
    rank: Rank,
    *,
    knows_coin: bool,
    of_words: bool,
    in_first_fold: bool = False,
) -> bool:
    """Whether nobody notices."""
    seen: dict[str, Words] = {}
    with monkeypatch.context() as patch:
        drawn = drawn_coins(patch)
        begin = proof._Prover.begin

        def wrong_claim(
            self: proof._Prover,
            recorded: Recorded,
            seed: coins.Expander,
            hashes: proof._Hashes,
        ) -> None:
            begin(self, recorded, seed, hashes)
            if "error" in seen:
                return
            galois = self._galois
            again = coins.Expander.of(
                drawn["P1-P2"].openings[0], drawn["P1-P2"].openings[1]
            )
            both = (each._masks.draw("whose", 4, Ring(32)) for each in (again, seed))
            if not np.array_equal(*both):
                return  # the proof of another party
            for product in recorded.products:
                product.side = proof.Side.AFTER
                flat = np.zeros(product.sent.size, galois.dtype)
                flat[0] = 1
                product._known = [(slice(0, flat.size), flat)]
            only = proof.Reduction(recorded, proof.Side.AFTER, galois).statement(again)
            seen["error"] = only.claim if of_words else only.rest
            seen["mine"] = self  # type: ignore[assignment]

        coefficients = proof._Prover.coefficients

        def corrected(self: proof._Prover, i: int) -> Words:
            sent = coefficients(self, i)
            if in_first_fold:
                if i == 0 and seen.get("mine") is self:
                    sent[0] -= seen["error"]
                return sent
            at, size = (0, WORDS) if of_words else (1, FOLD)
            if i == at and seen.get("mine") is self:
                galois = self._galois
                known = drawn["P1-P2"].openings[2 + at]
                opening = known if knows_coin else np.arange(32)
                r = coins.challenge_of(opening.astype(np.uint8), galois)
                power = galois.powers(r, size)[size - 1]
                sent[0] -= galois.times(power, seen["error"])
            return sent

        patch.setattr(proof._Prover, "begin", wrong_claim)
        patch.setattr(proof._Prover, "coefficients", corrected)

        def add_one(number: int, exchanges: dict[int, Exchange]) -> None:
            if number:
                return
            ((field,),) = exchanges[0].send.values()
            field.values[0] += field.values.dtype.type(1)

        outcomes = audited(case, operands, source, alter={rank: add_one})  # type: ignore[arg-type]
    assert "error" in seen
    assert seen["error"].any()
    return not any(o.caught for o in honest(outcomes, rank))
