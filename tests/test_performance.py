"""Task performance against other libraries' figures and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.performance import check_metric, performance


def second_output(outputs: np.ndarray, y: np.ndarray) -> np.ndarray:
    return outputs[:, 1] * y


def test_accuracy_and_auroc_and_r2_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    outputs = rng.normal(size=(200, 3)) + 2 * np.eye(3)[y]
    assert performance(outputs, y, "ce").value == pytest.approx(
        metrics.accuracy_score(y, outputs.argmax(axis=1))
    )
    binary, logit = y % 2, outputs[:, :1]
    assert performance(logit, binary, "bce", "auroc").value == pytest.approx(
        metrics.roc_auc_score(binary, logit[:, 0])
    )
    target = rng.normal(size=200)
    guess = (target + rng.normal(size=200))[:, None]
    assert performance(guess, target, "mse").value == pytest.approx(metrics.r2_score(target, guess[:, 0]))


def test_ties_are_no_hit() -> None:
    assert performance(np.zeros((5, 2)), np.zeros(5, int), "ce").value == 0.0


def test_the_interval_of_r2_covers() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        target = rng.normal(size=300)
        found = performance((target + 0.5 * rng.normal(size=300))[:, None], target, "mse")
        covered += found.covers(0.75)
    assert covered >= 170  # the variance of the targets is held fixed, so a little under 95 %


def test_a_metric_of_ones_own() -> None:
    name = f"{__name__}:second_output"
    found = performance(np.array([[0.0, 2.0], [0.0, 4.0]]), np.array([1, 1]), "ce", name)
    assert found.value == 3.0


def undefined(outputs: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y > 0, 1.0, np.nan)


def third_output(outputs: np.ndarray, y: np.ndarray) -> np.ndarray:
    return outputs[:, 2]


def test_a_metric_of_ones_own_that_does_not_do() -> None:
    from discreet.spec import CalledError

    given = np.zeros((3, 2)), np.array([1, 0, 0])
    with pytest.raises(
        ValueError, match=r"metric: expected finite scores from .*, got nan at position 1 \(2 such\)"
    ):
        performance(*given, "ce", f"{__name__}:undefined")
    with pytest.raises(
        CalledError, match=r"metric: .*third_output\(\) was called on outputs .* raised IndexError"
    ) as e:
        performance(*given, "ce", f"{__name__}:third_output")
    assert "outputs[:, 2]" in e.value.shown


@pytest.mark.parametrize(
    ("metric", "task", "message"),
    [
        ("auroc", "ce", "metric: expected accuracy for ce, or package.module:function, got 'auroc'"),
        ("acuracy", "bce", "got 'acuracy'; did you mean 'accuracy'"),
    ],
)
def test_metrics_that_do_not_fit(metric: str, task: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_metric(metric, task)


def test_targets_that_do_not_vary() -> None:
    with pytest.raises(ValueError, match="y: expected targets that differ, got equal ones"):
        performance(np.zeros((4, 1)), np.ones(4), "mse")
