"""Safety tests in their particulars: thresholds, metrics, baskets, attributes, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from discreet._find import SpecError
from discreet.estimate import Estimate
from discreet.methods import fit
from discreet.release_audit import _ratio, assess, check_tests, less, mean_of_runs, try_tests
from discreet.safety import Case, Found, parse
from discreet.safety._judge import best_threshold, decided, judge
from discreet.safety.attribute import Attribute, _check_kind
from discreet.safety.basket import Basket
from tests.compression import setting
from tests.conformance.test_safety import case, the_same


def test_the_best_threshold_is_that_of_a_naive_loop() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores, member = rng.integers(0, 8, 30).astype(float), rng.random(30) < 0.5
        member[:2] = True, False
        found = best_threshold(scores, member)
        gains = [(scores[member] > t).mean() - (scores[~member] > t).mean() for t in np.unique(scores)]
        assert (scores[member] > found).mean() - (scores[~member] > found).mean() == pytest.approx(max(gains))


def test_constant_scores_are_worth_a_half() -> None:
    member = np.arange(100) < 90
    threshold = best_threshold(np.zeros(100), member)
    found = judge(np.zeros(100), member, "accuracy", threshold=threshold)
    assert found.leak == found.value.value == 0.5


def test_accuracy_is_balanced_when_classes_are_not() -> None:
    member = np.arange(100) < 90
    assert decided(np.ones(100, bool), member).value == 0.5
    assert decided(member, member).value == 1.0


def test_an_attack_that_is_wrong_is_no_safety() -> None:
    scores, member = np.arange(100.0), np.arange(100) < 50
    found = judge(scores, member, "accuracy", threshold=49.5)
    assert (found.value.value, found.leak) == (0.0, 0.5)
    assert judge(scores, member, "auc").leak == 0.5


def test_tpr_at_fpr_as_the_metric() -> None:
    scores = np.concatenate([np.full(60, 2.0), np.zeros(40), np.linspace(-1, 1, 100)])
    found = judge(scores, np.arange(200) < 100, "tpr@0.01")
    assert found.leak == found.value.value == 0.6


@pytest.mark.parametrize("metric", ["tpr", "tpr@0", "tpr@2", "f1", "tpr@x"])
def test_metrics_that_there_are_not(metric: str) -> None:
    with pytest.raises(SpecError, match=r"metric: expected accuracy, auc or tpr@RATE"):
        parse(f"modified(metric={metric!r})")


def test_a_basket_is_its_strongest_part_or_a_weighted_mean() -> None:
    one = case(1, 1.0)
    parts = [parse(name)([one], seeds=[3])[0] for name in ("modified", "loss")]
    worst = parse("basket(tests=('modified', 'loss'))")([one], seeds=[3])[0]
    assert worst.leak == max(each.leak for each in parts)
    mean = parse("basket(tests=('modified', 'loss'), weights=(3.0, 1.0))")([one], seeds=[3])[0]
    assert mean.leak == pytest.approx(0.75 * parts[0].leak + 0.25 * parts[1].leak)
    assert list(mean.parts) == ["modified", "loss"]
    assert mean.value.value == mean.leak
    assert mean.error == pytest.approx(0.75 * parts[0].error + 0.25 * parts[1].error)


def test_the_default_basket_is_bit_for_bit_the_stronger_of_its_tests() -> None:
    for strength in (0.0, 1.0):
        one = case(1, strength)
        alone = [parse(name)([one], seeds=[3])[0] for name in ("modified", "odds")]
        worst = max(alone, key=lambda each: each.leak)
        the_same(parse("basket")([one], seeds=[3])[0], worst)
        assert parse("basket")([one], seeds=[3])[0].error == worst.error


def test_a_weighted_mean_rises_with_an_attribute_s_leak_whatever_its_unit() -> None:
    """A mean absolute error falls the more leaks; its size in pounds or tons says nothing."""
    pytest.importorskip("sklearn")
    test = parse("basket(tests=('loss', \"attribute(metric='mae')\"), weights=(1.0, 1.0))")
    told = {(unit, strength): test([aged(strength, unit)], seeds=[0])[0]
            for unit in (1.0, 1000.0) for strength in (0.0, 5.0)}  # fmt: skip
    assert told[1.0, 5.0].value.value == told[1.0, 5.0].leak > told[1.0, 0.0].value.value + 0.5
    for found in told.values():
        assert found.error == pytest.approx(sum(each.error for each in found.parts.values()) / 2)
    for strength in (0.0, 5.0):
        one, other = told[1.0, strength], told[1000.0, strength]
        assert (one.leak, one.error) == (
            pytest.approx(other.leak, rel=0.01),
            pytest.approx(other.error, rel=0.01),
        )


@dataclass(frozen=True)
class Rates:
    """A test of one's own that says only in its outcome what it measures."""

    metric_: str = "auc"
    scored: bool = True

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    def __call__(
        self, cases: Sequence[Case], *, seeds: Sequence[int], init: Sequence[Found] | None = None
    ) -> list[Found]:
        del seeds, init
        scores = np.arange(len(cases[0].judged), dtype=float)
        value = Estimate(0.06, 0.05, 0.07, 9, 0.95)
        return [Found(0.5, value, self.metric_, scores if self.scored else None) for _ in cases]


def test_metrics_that_only_an_outcome_tells_are_not_mixed() -> None:
    for own in (f"{__name__}:Rates", f"{__name__}:Rates('accuracy', False)"):
        with pytest.raises(
            ValueError, match=r"tests: expected tests of one metric.*got 'modified' \(accuracy\) and"
        ):
            Basket(("modified", own))([case(0, 1.0)], seeds=[0])


def test_a_basket_needs_what_its_tests_need() -> None:
    assert Basket(("modified", "whitebox")).needs == {"hidden"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("basket(tests=())", "tests: expected spec strings of tests"),
        ("basket(weights=(1.0,))", r"weights: expected 2 positive numbers, one a test, got \(1.0,\)"),
        ("basket(tests=('modifed',))", "did you mean 'modified'"),
        (
            "basket(tests=('loss', 'odds', 'loss'), weights=(1.0, 1.0, 1.0))",
            "tests: expected each test once, got 'loss' twice",
        ),
        ("basket(tests=('loss', 'loss'))", "tests: expected each test once, got 'loss' twice"),
        (
            "basket(tests=('modified', 'attribute'))",
            r"one metric, of which .*, got 'modified' \(accuracy\) and 'attribute' \(accuracy of an attribute\)",
        ),
        (
            "basket(tests=('odds', \"loss(metric='tpr@0.01')\"))",
            r"one metric.*\(tpr@0.01\); give weights for a mean",
        ),
        (
            "basket(tests=('odds', \"basket(tests=('loss', 'modified'), weights=(1.0, 2.0))\"))",
            "one metric.*a weighted mean of loss, modified",
        ),
        ("attack('lyra')", "did you mean 'lira'"),
        ("blackbox(learner='ridge')", "learner: expected neural_blackbox with settings, got 'ridge'"),
    ],
)
def test_tests_that_there_are_not(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse(spec)


def test_an_error_of_an_estimate_as_a_standard_error() -> None:
    member = np.arange(20_000) < 10_000
    scores = np.random.default_rng(0).random(20_000)
    found = judge(scores, member, "accuracy", threshold=0.5)
    assert found.error == pytest.approx(np.sqrt(2 * 0.25 / 10_000) / 2, rel=0.02)


def aged(strength: float, unit: float = 1.0) -> Case:
    """A case with a number in its hidden layer, more of it the greater the strength."""
    one, rng = case(0, 0.0), np.random.default_rng(1)

    def tell(part):
        age = rng.normal(50, 10, len(part))
        hidden = rng.normal(size=(len(part), 3)) + strength * (age - 50)[:, None] / 10
        return replace(part, hidden=hidden, attribute=unit * age)

    return replace(one, known=tell(one.known), judged=tell(one.judged))


def test_what_is_no_class_is_not_told_as_one() -> None:
    with pytest.raises(ValueError, match=r"attribute: expected classes .*use attribute\(metric='mae'\)"):
        Attribute()([aged(1.0)], seeds=[0])
    _check_kind(np.array(["a", "b"]), "accuracy")
    with pytest.raises(ValueError, match="attribute: expected numbers for the metric mae"):
        _check_kind(np.array(["a", "b"]), "mae")


def test_a_number_is_inferred_and_leaks_more_the_lower_the_error() -> None:
    pytest.importorskip("sklearn")
    test = Attribute(("linear", "trees"), metric="mae")

    def with_age(strength: float) -> Found:
        return test([aged(strength)], seeds=[0])[0]

    blind, told = with_age(0.0), with_age(5.0)
    assert blind.leak == pytest.approx(1.0, abs=0.02)
    assert told.leak > 3
    assert told.value.value < blind.value.value
    assert set(told.parts) == {"linear", "trees"}


def test_regression_is_for_the_loss_alone() -> None:
    one = case(0, 0.0)
    numbers = {
        name: replace(part, outputs=part.outputs[:, :1], label=part.label.astype(float), task="mse")
        for name, part in (("known", one.known), ("judged", one.judged))
    }
    assert parse("loss")([replace(one, **numbers)], seeds=[0])[0].leak >= 0.5
    with pytest.raises(ValueError, match="task: modified reads classes, got a regression"):
        parse("modified")([replace(one, **numbers)], seeds=[0])


def test_an_attacker_who_holds_two_versions_knows_more() -> None:
    one, other = case(20, 0.8), case(20, 0.8)
    rng = np.random.default_rng(5)

    def second(part, member):
        noise = rng.normal(size=part.outputs.shape) + np.eye(3)[part.label] * (1 + 0.8 * member)[:, None]
        return replace(part, also=(noise,))

    both = replace(
        other,
        known=second(other.known, other.known_member),
        judged=second(other.judged, other.judged_member),
    )
    test = parse("odds(metric='auc')")
    alone, together = test([one], seeds=[1])[0], test([both], seeds=[1])[0]
    assert together.leak > alone.leak + 0.02


def test_equal_models_are_equally_attacked_whatever_else_is() -> None:
    one, other = case(20, 0.8), case(21, 0.8)
    test = parse("odds")
    before = test([one], seeds=[1])[0]
    found = test([one, other, one], seeds=[7, 7, 7], init=[before] * 3)
    alone = test([one], seeds=[7], init=[before])[0]
    for each in (found[0], found[2]):
        the_same(each, alone)
    assert found[1].value != alone.value


def test_an_audit_takes_attacks_that_tell_an_accuracy() -> None:
    for spec in (
        "modified(metric='auc')",
        "attribute",
        "basket(weights=(1.0, 2.0))",
        "basket(tests=(\"modified(metric='auc')\",))",
        "basket(tests=('basket(weights=(1.0, 2.0))',))",
    ):
        with pytest.raises(ValueError, match="tests: expected membership attacks that tell an accuracy, got"):
            check_tests([spec], "ce")
    with pytest.raises(ValueError, match="'modified' reads classes, but the task is a regression"):
        check_tests(["modified"], "mse")
    with pytest.raises(ValueError, match="'modified' reads classes, but the task is a regression"):
        check_tests(["basket"], "mse")
    assert list(check_tests(["basket(tests=('loss',))"], "mse")) == ["basket(tests=('loss',))"]
    with pytest.raises(ValueError, match="tests: expected at least one, got none"):
        check_tests([], "ce")


@pytest.mark.parametrize(
    ("own", "told"), [("Rates", "tells auc"), ("Rates('accuracy', False)", "scores no samples")]
)
def test_an_audit_reads_no_rate_as_an_accuracy(own: str, told: str) -> None:
    given = setting()
    fresh = given.model.init([0, 1])
    message = rf"tests: expected membership attacks that tell an accuracy, got .*, which {told}"
    with pytest.raises(ValueError, match=message):
        assess(given, given.model, fresh, tests=["loss", f"{__name__}:{own}"])
    with pytest.raises(ValueError, match=message):
        try_tests([f"{__name__}:{own}"], given)


def test_runs_that_agree_are_no_certainty_and_intervals_end_where_the_figure_does() -> None:
    one = Estimate(0.5, 0.5, 0.54, 400, 0.95)
    found = mean_of_runs([one] * 4, within=(0.5, 1.0))
    assert (found.value, found.low) == (0.5, 0.5)
    assert found.high == pytest.approx(0.51)
    wide = mean_of_runs([Estimate(v, v, v, 1, 0.95) for v in (0.52, 0.62)], within=(0.5, 1.0))
    assert (wide.low, wide.high) == (0.5, 1.0)


def test_the_tm_score_of_a_model_about_as_good_as_the_mean_has_its_interval() -> None:
    found = _ratio(Estimate(0.05, -0.4, 0.1, 50, 0.95), Estimate(0.6, 0.5, 0.7, 50, 0.95))
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(-0.8), pytest.approx(0.2))


def test_the_tm_score_of_a_model_worse_than_the_mean_is_not_defined() -> None:
    """It would be better the more leaks."""
    given = setting(task="mse", recipe={"epochs": 1, "lr": 1e-30})
    found = assess(given, given.model, fit("dense", given).params)
    assert found.task.value < 0
    assert found.tm is None
    assert [each["tm"] for each in found.by_run] == [None, None]
    told = found.to_json()
    assert told["tm"] is None
    with pytest.raises(ValueError, match="tm: expected a figure of every run, run 0 has none"):
        less(told["by_run"], told["by_run"], "tm")
