"""Lots: what a party gets says nothing, and what all three get says what was chosen."""

import hashlib
import math
from itertools import combinations

import numpy as np
import pytest

from ditto.client.lots import deal_lots, is_chosen
from ditto.errors import RequestError
from ditto.wire import RunPlan, decode_request, encode
from ditto.wire.messages import Lot

DRAWN = 4000


def bits(lots: list[Lot]) -> list[int]:
    return [bytes.fromhex(lot.secret)[0] & 1 for lot in lots]


def within_chance(count: int, of: int, chance: float) -> bool:
    return abs(count - of * chance) < 6 * math.sqrt(of * chance * (1 - chance))


@pytest.mark.parametrize("chance", [0.1, 0.5])
def test_a_choice_has_its_chance_and_no_two_parties_know_it(chance: float) -> None:
    drawn = [bits(deal_lots(is_chosen(chance))) for _ in range(DRAWN)]
    audited = [sum(each) % 2 for each in drawn]
    assert within_chance(sum(audited), DRAWN, chance)
    for known in combinations(range(3), 2):
        for seen in [(0, 0), (0, 1), (1, 0), (1, 1)]:
            chosen = [
                choice
                for each, choice in zip(drawn, audited, strict=True)
                if tuple(each[rank] for rank in known) == seen
            ]
            assert within_chance(len(chosen), DRAWN, 0.25)
            assert within_chance(sum(chosen), len(chosen), chance)


def test_all_three_get_the_same_hashes_of_secrets_that_nobody_else_has() -> None:
    lots = [lot for k in range(20) for lot in deal_lots(k % 2 == 1)]
    assert len({lot.secret for lot in lots}) == len(lots)
    for start in range(0, len(lots), 3):
        three = lots[start : start + 3]
        hashes = tuple(
            hashlib.sha256(bytes.fromhex(lot.secret)).hexdigest() for lot in three
        )
        assert [lot.digests for lot in three] == [hashes] * 3
        assert three[0].secret not in repr(three)
        fitting = [[lot.fits(rank) for rank in range(3)] for lot in three]
        assert fitting == np.eye(3, dtype=bool).tolist()


def test_a_lot_travels_and_others_are_refused() -> None:
    (lot, *_) = deal_lots(True)
    body, arrays = encode(RunPlan("m", "p", audit="products", lot=lot))
    read = decode_request(body, arrays)
    assert isinstance(read, RunPlan)
    assert read.lot == lot
    assert "lot" not in encode(RunPlan("m", "p"))[0]["fields"]
    for wrong in (
        {"secret": lot.secret[:-1], "digests": lot.digests},
        {"secret": lot.secret.upper() + "G", "digests": lot.digests},
        {"secret": lot.secret, "digests": lot.digests[:2]},
        {"secret": lot.secret, "digests": lot.digests, "more": 1},
    ):
        body["fields"]["lot"] = wrong
        with pytest.raises(RequestError):
            decode_request(body, arrays)
