"""What every safety test must do, whichever files are in its room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from discreet import safety
from discreet.safety import Answers, Case, Found, Reference

KNOWN = JUDGED = 400
SPECS = {
    "attack": "attack",
    "attribute": "attribute",
    "basket": "basket",
    "blackbox": "blackbox(learner='neural_blackbox(posterior=(32,), label=(8,), fusion=(16,), epochs=15)')",
    "whitebox": (
        "whitebox(learner='neural_whitebox(posterior=(16,), loss=(8,), gradient=(16,), label=(8,), fusion=(16,),"
        " kernel=3, epochs=15)')"
    ),
}


def spec_of(name: str) -> str:
    return SPECS.get(name, name)


def answers(rng: np.random.Generator, member: np.ndarray, strength: float, first: int) -> Answers:
    """A classifier of three classes that is surer of members by ``strength``; its hidden layer tells an attribute."""
    label = rng.integers(0, 3, len(member))
    attribute = rng.integers(0, 2, len(member))
    own = np.eye(3)[label] * (1 + strength * member)[:, None]
    hidden = rng.normal(size=(len(member), 4)) + strength * attribute[:, None]
    return Answers(
        rng.normal(size=(len(member), 3)) + own,
        label,
        first + np.arange(len(member)),
        "ce",
        hidden,
        attribute,
    )


def case(seed: int, strength: float) -> Case:
    rng = np.random.default_rng(seed)
    known, judged = np.arange(KNOWN) < KNOWN // 2, np.arange(JUDGED) < JUDGED // 2
    own = [answers(rng, member, strength, first) for member, first in ((known, 0), (judged, KNOWN))]
    other = Reference(rng.normal(size=(KNOWN, 3)), rng.normal(size=(JUDGED, 3)), ~known, ~judged)
    return Case(own[0], known, own[1], judged, (other,))


@pytest.fixture(params=safety.names(), scope="module")
def test_of(request: pytest.FixtureRequest) -> safety.SafetyTest:
    if request.param == "attribute":
        pytest.importorskip("sklearn")
    return safety.parse(spec_of(request.param))


def the_same(one: Found, other: Found) -> None:
    assert (one.leak, one.value, one.metric) == (other.leak, other.value, other.metric)
    if one.scores is not None:
        assert other.scores is not None
        assert np.array_equal(one.scores, other.scores)


def test_no_signal_no_leak_and_a_planted_one_is_found(test_of: safety.SafetyTest) -> None:
    null, planted = test_of([case(0, 0.0), case(1, 4.0)], seeds=[1, 2])
    assert null.value.low <= 0.55
    assert planted.value.low > 0.6
    assert planted.leak > null.leak >= 0.5
    assert planted.value.n == JUDGED


def test_an_outcome_does_not_depend_on_the_other_cases(test_of: safety.SafetyTest) -> None:
    cases = [case(0, 1.0), case(1, 0.5), case(2, 2.0)]
    together = test_of(cases, seeds=[5, 6, 7])
    the_same(test_of([cases[2]], seeds=[7])[0], together[2])
    the_same(test_of(cases[::-1], seeds=[7, 6, 5])[0], together[2])


def test_the_order_of_known_samples_changes_nothing(test_of: safety.SafetyTest) -> None:
    one = case(3, 1.0)
    order = np.random.default_rng(0).permutation(KNOWN)
    mixed = replace(
        one,
        known=one.known.take(order),
        known_member=one.known_member[order],
        references=tuple(
            replace(each, known=each.known[order], known_member=each.known_member[order])
            for each in one.references
        ),
    )
    found, again = test_of([one], seeds=[5])[0], test_of([mixed], seeds=[5])[0]
    assert again.leak == pytest.approx(found.leak, abs=1e-9)


def test_an_attack_never_sees_who_is_a_judged_member(test_of: safety.SafetyTest) -> None:
    one = case(4, 1.0)
    turned = replace(one, judged_member=~one.judged_member)
    found, other = test_of([one], seeds=[5])[0], test_of([turned], seeds=[5])[0]
    if (
        found.scores is not None and other.scores is not None and not found.parts
    ):  # a basket names its strongest part
        assert np.array_equal(found.scores, other.scores)
        assert found.value.value + other.value.value == pytest.approx(1.0)


def test_it_may_start_from_what_it_found(test_of: safety.SafetyTest) -> None:
    first = test_of([case(5, 2.0), case(6, 2.0)], seeds=[1, 2])
    tuned = test_of([case(7, 2.0), case(8, 2.0)], seeds=[1, 2], init=first)
    assert all(each.value.low > 0.55 for each in tuned)


def test_one_logit_will_do(test_of: safety.SafetyTest) -> None:
    def binary(one: Answers) -> Answers:
        label = one.label % 2
        return replace(one, outputs=one.outputs[:, :1] * (2 * label - 1)[:, None], label=label, task="bce")

    one = case(9, 2.0)
    narrow = replace(
        one,
        known=binary(one.known),
        judged=binary(one.judged),
        references=tuple(replace(r, known=r.known[:, :1], judged=r.judged[:, :1]) for r in one.references),
    )
    assert np.isfinite(test_of([narrow], seeds=[0])[0].leak)
