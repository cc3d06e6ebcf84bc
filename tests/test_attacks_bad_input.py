"""What users bring that cannot be judged, or only just: one clear error, or figures that claim nothing."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.attacked import attacked
from discreet.attacks import Scores
from discreet.records import Record, RecordError, merge_runs

MANY = (
    "loss",
    "lira",
    "lira(mode='offline')",
    "lira(variance='sample')",
    "rmia",
    "base",
    "reference",
    "attack_p",
)


def release(
    member: np.ndarray, loss: np.ndarray | None = None, *, variant: str = "full", seed: int = 0
) -> Record:
    runs, samples = member.shape
    values = np.random.default_rng(seed).gamma(2.0, size=member.shape) if loss is None else loss
    return Record(
        run=tuple(map(str, range(runs))),
        step=np.ones(runs),
        variant=(variant,) * runs,
        sample=np.arange(samples),
        signals={"loss": values},
        member=member,
    )


def halves(runs: int, samples: int, seed: int = 0) -> np.ndarray:
    member = np.random.default_rng(seed).random((runs, samples)) < 0.5
    member[1::2] = ~member[::2]
    return member


@pytest.mark.parametrize(("value", "lacks"), [(True, "non-member"), (False, "member")])
def test_only_members_or_only_nonmembers(value: bool, lacks: str) -> None:
    with pytest.raises(ValueError, match=f"member: expected both classes, got no {lacks}$"):
        attacked(release(np.full((1, 30), value)), ["loss"])


def test_ten_records() -> None:
    """Intervals hold almost everything, and low rates are not resolvable."""
    member = np.arange(10) < 5
    found = attacked(release(np.vstack([member, ~member])), ["loss"]).results[0]
    assert found.auc.low < 0.5 < found.auc.high
    assert found.auc.high - found.auc.low > 0.4
    assert [point.resolvable for point in found.points] == [False] * 4
    assert [point.needs for point in found.points] == [10, 100, 1000, 10_000]


@pytest.mark.parametrize("attack", MANY)
def test_all_losses_equal(attack: str) -> None:
    """Nothing to see: no member is caught, whatever the ties."""
    member = halves(6, 200)
    found = attacked(release(member, np.full(member.shape, 0.7)), [attack]).results[0]
    assert found.auc.value == 0.5
    assert [point.tpr.value for point in found.points] == [0, 0, 0, 0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_name_the_sample(bad: float) -> None:
    values = np.zeros(6)
    values[4] = bad
    with pytest.raises(
        ValueError, match=r"loss: expected finite scores, got (nan|inf) for sample number 4 of run 'a'"
    ):
        Scores(values, "loss", "a", 1.0, "full")
    loss = np.ones((2, 6))
    loss[1, 3] = bad
    with pytest.raises(RecordError, match=r"run '1'"):
        release(halves(2, 6), loss)


@pytest.mark.parametrize("attack", MANY)
def test_losses_of_exactly_zero(attack: str) -> None:
    """Probabilities that were rounded to 1 before anyone took the logarithm."""
    member = halves(6, 300, seed=1)
    loss = np.random.default_rng(2).gamma(1.0, size=member.shape)
    loss[member & (np.random.default_rng(3).random(member.shape) < 0.5)] = 0.0
    found = attacked(release(member, loss.astype(np.float32)), [attack]).results[0]
    assert np.isfinite(found.exposure.scores).all()
    assert found.auc.low > 0.5


@pytest.mark.parametrize("attack", MANY)
def test_a_sample_that_trained_every_model_and_shadows_that_agree(attack: str) -> None:
    member = halves(6, 120, seed=4)
    member[:, :5] = True
    loss = np.random.default_rng(5).gamma(2.0, size=member.shape)
    loss[:, 5:15] = 0.25  # all models agree on these samples
    found = attacked(release(member, loss), [attack]).results[0]
    assert np.isfinite(found.exposure.scores).all()
    assert found.exposure.members == int(member.sum())


def test_unbalanced_classes() -> None:
    member = np.arange(550) < 500
    loss = np.random.default_rng(6).gamma(2.0, size=(1, 550)) - 0.3 * member
    found = attacked(release(member[None], loss - loss.min()), ["loss"]).results[0]
    assert (found.exposure.members, found.exposure.nonmembers) == (500, 50)
    assert 0.4 < found.balanced_accuracy.value < 0.75
    assert [point.resolvable for point in found.points] == [True, False, False, False]


def test_an_odd_number_of_shadows() -> None:
    member = np.random.default_rng(7).random((5, 400)) < 0.5
    loss = np.random.default_rng(8).gamma(1.0 + 2 * ~member)
    found = attacked(release(member, loss), ["lira", "rmia"]).results
    assert all(len(each.exposure.runs) == 5 and each.auc.low > 0.6 for each in found)


def test_rows_that_differ_between_variants() -> None:
    member = halves(2, 20)
    one, other = release(member), release(member[:, 1:], variant="sign")
    with pytest.raises(RecordError, match="sample"):
        merge_runs([one, other])
