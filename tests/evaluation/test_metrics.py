"""Metrics against their textbook formulas."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cosine as cosine_distance
from scipy.stats import binomtest

from ditto.errors import SetupError
from ditto.evaluation import TASKS, accuracy, cosine, f1, matthews, score
from ditto.evaluation.metrics import METRICS, bootstrap, intervals, wilson

ANSWERS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1)


@given(ANSWERS)
def test_two_classes(answers: list[tuple[int, int]]) -> None:
    labels, predictions = zip(*answers, strict=True)
    tp, tn, fp, fn = (answers.count(c) for c in ((1, 1), (0, 0), (0, 1), (1, 0)))
    below = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    expected = (tp * tn - fp * fn) / below if below else 0.0
    assert matthews(labels, predictions) == pytest.approx(expected)
    assert accuracy(labels, predictions) == pytest.approx((tp + tn) / len(answers))
    precision, recall = tp / max(tp + fp, 1), tp / max(tp + fn, 1)
    harmonic = 2 * precision * recall / (precision + recall) if tp else 0.0
    assert f1(labels, predictions) == pytest.approx(harmonic)


def test_matthews_of_two_classes_is_their_correlation() -> None:
    labels = np.random.default_rng(0).integers(0, 2, 200)
    predictions = np.where(np.random.default_rng(1).random(200) < 0.7, labels, 0)
    correlation = np.corrcoef(labels, predictions)[0, 1]
    assert matthews(labels, predictions) == pytest.approx(correlation)


def test_matthews_of_three_classes() -> None:
    # By hand: 4 of 6 right; labels 2, 2, 2 and predictions 2, 3, 1 a class.
    found = matthews([0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2, 0])
    assert found == pytest.approx((4 * 6 - 12) / math.sqrt((36 - 12) * (36 - 14)))
    assert matthews([7, 7, 9], [9, 9, 7]) == pytest.approx(-1)


def test_large_counts_do_not_overflow() -> None:
    labels = np.tile(np.array([0, 1], np.int8), 100_000)
    assert matthews(labels, labels) == 1
    assert f1(labels, labels) == accuracy(labels, labels) == 1


def test_score() -> None:
    labels, predictions = [1, 1, 0, 0], [1, 0, 0, 0]
    assert score("accuracy", labels, predictions) == {"accuracy": 0.75}
    assert score("accuracy_and_f1", labels, predictions) == {
        "accuracy": 0.75,
        "f1": pytest.approx(2 / 3),
    }
    assert list(score("matthews", labels, predictions)) == ["matthews"]
    assert {task.metric for task in TASKS.values()} <= set(METRICS)


@pytest.mark.parametrize(("labels", "predictions"), [([], []), ([1], [1, 0])])
def test_bad_answers_are_refused(labels: list[int], predictions: list[int]) -> None:
    for metric in METRICS:
        with pytest.raises(SetupError, match="as many of both"):
            score(metric, labels, predictions)


def test_unknown_metric_is_named() -> None:
    with pytest.raises(SetupError, match="'bleu'; there are: matthews"):
        score("bleu", [1], [1])


def test_cosine_of_rows() -> None:
    a, b = np.random.default_rng(2).normal(size=(2, 5, 8))
    expected = [1 - cosine_distance(x, y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(cosine(a, b), expected, atol=1e-12)
    np.testing.assert_allclose(cosine(a, -3 * a), -1)
    np.testing.assert_allclose(cosine(1e200 * a, 1e-200 * a), 1)
    assert cosine([[0, 0], [1, 0]], [[1, 2], [0, 5]]).tolist() == [0, 0]
    assert cosine([3, 4], [3, 4]) == pytest.approx(1)
    for shape in ((4, 8), (5, 7), ()):
        with pytest.raises(SetupError, match="cannot be compared"):
            cosine(np.ones(shape), np.ones((5, 8)))


@pytest.mark.parametrize(("right", "count"), [(0, 10), (8, 10), (10, 10), (790, 872)])
def test_wilson_is_that_of_scipy(right: int, count: int) -> None:
    expected = binomtest(right, count).proportion_ci(method="wilson")
    assert wilson(right, count) == pytest.approx((expected.low, expected.high))


def test_the_interval_of_a_share_is_known() -> None:
    assert wilson(8, 10) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    with pytest.raises(SetupError, match="11 of 10 is no share"):
        wilson(11, 10)


def test_intervals_hold_the_score_and_do_not_change() -> None:
    labels = [0, 1] * 100
    said = [0, 1] * 80 + [1, 0] * 20
    found = intervals("accuracy_and_f1", labels, said)
    assert found["accuracy"] == wilson(160, 200)
    assert found["f1"] == bootstrap(f1, labels, said)
    low, high = bootstrap(matthews, labels, said)
    assert low < matthews(labels, said) < high
    assert matthews(labels, said) == pytest.approx(0.6)
    # the deviation of a correlation r of n pairs is about (1 - r^2) / sqrt(n)
    assert high - low == pytest.approx(2 * 1.96 * (1 - 0.6**2) / 200**0.5, rel=0.35)
    assert bootstrap(matthews, labels, labels) == (1.0, 1.0)
