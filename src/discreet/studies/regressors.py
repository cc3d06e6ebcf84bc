"""Two claims of "Scalable Membership Inference Attacks via Quantile Regression", on real models.

Section 3: the lower the held-out pinball loss of a regressor, the stronger its attack. Section 1: attacks with shadow
models lose power where the shadows are simpler than the target, and quantile regression has no shadows to be wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from discreet.attacks.quantile import Quantile
from discreet.bank import BankSettings, bank
from discreet.exposure import Exposure, expose
from discreet.mlp import MLP
from discreet.records import Record
from discreet.stats import Comparison, Estimate, auc, compare, roc, spearman, tpr_at_fpr
from discreet.store import Store
from discreet.studies.leakage import Scale, content_of, with_features
from discreet.studies.tasks import Task, task

__all__ = ["REGRESSORS", "SCALES", "Regressor", "Regressors", "Shadows", "regressors"]

REGRESSORS: Mapping[str, tuple[str, ...]] = {
    "fashion": (
        "ridge",
        "pinball",
        "pinball(head='gaussian')",
        "pinball(head='robust')",
        "pinball(hidden=(8,))",
        "pinball(epochs=2)",
        "pinball(hidden=(512, 512))",
    ),
    "adult": (
        "ridge",
        "pinball",
        "pinball(head='gaussian')",
        "pinball(head='robust')",
        "pinball(hidden=(8,))",
        "pinball(epochs=2)",
        "lightgbm",
        "catboost",
    ),
}
"""Weak and strong ones on purpose."""

SCALES: Mapping[str, Scale] = {"small": Scale(8, 2000, 2000), "paper": Scale(16, 4000, 10_000)}
"""Every regressor is fitted to every target, so there are fewer targets than in the study of attacks."""

FPR = 0.01
_WHICH = ("loss", "margin", "confidence")


@dataclass(frozen=True)
class Regressor:
    """One regressor over all targets.

    Attributes:
        learner: Spec string.
        pinball: Held-out pinball loss at 1 - FPR on public samples, target by target.
        auc: AUC of its attack, target by target.
        tpr: TPR at 1 % FPR, target by target.
    """

    learner: str
    pinball: tuple[float, ...]
    auc: tuple[float, ...]
    tpr: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Shadows:
    """An attack with references of another architecture than the target's.

    Attributes:
        attack: Spec string.
        references: The references' architecture.
        auc: Its AUC.
        tpr: Its TPR at 1 % FPR.
        less: Its AUC less that with references of the target's architecture, on the same rows.
    """

    attack: str
    references: str
    auc: Estimate
    tpr: Estimate
    less: Comparison | None


@dataclass(frozen=True, eq=False)
class Regressors:
    """What the study found.

    Attributes:
        data: Where the data came from.
        scale: How large it was.
        regressors: One entry a regressor.
        by_auc: Spearman correlation of held-out pinball and AUC over regressors, the mean over targets (-1: the claim
            holds fully); None where fewer than two targets tell.
        by_tpr: The same for TPR at 1 % FPR.
        shadows: Attacks with matched and with simpler references; beside them the loss, and the quantile attack with
            the regressor of least held-out loss.
    """

    data: Mapping[str, Any]
    scale: Scale
    regressors: tuple[Regressor, ...]
    by_auc: Estimate | None
    by_tpr: Estimate | None
    shadows: tuple[Shadows, ...]


def regressors(
    folder: str | Path,
    data: str = "fashion",
    *,
    scale: Scale,
    learners: Sequence[str] | None = None,
    seed: int = 0,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> Regressors:
    """Fit every regressor to every target, and attack with shadows of three architectures.

    Args:
        folder: The run directory; what is there is not made again.
        data: ``"fashion"`` or ``"adult"``.
        scale: How many targets and samples.
        learners: Spec strings of at least three regressors; those of ``REGRESSORS`` when None.
        seed: Of everything.
        progress: Called with what is being done, and the share of all work that is done.

    Raises:
        ValueError: Unknown data, or too few regressors.
        DataError: The data is not installed.
    """
    chosen = tuple(REGRESSORS.get(data, REGRESSORS["adult"]) if learners is None else learners)
    if len(chosen) < 3:
        raise ValueError(f"learners: expected at least 3 to rank, got {len(chosen)}")
    progress(f"reading {data}", 0.0)
    given = task(data, private=scale.private, public=scale.public, seed=seed)
    store = Store(folder)
    banks = {}
    for at, (name, network) in enumerate(_networks(given.network).items()):
        progress(f"training {name}", at / 12)
        banks[name] = _bank(store, given, network, scale, seed)
    target = with_features(next(iter(banks.values())), given)
    with store.lock():
        found = []
        for number, learner in enumerate(chosen):
            progress(learner, 0.25 + 0.7 * number / len(chosen))
            found.append(_regressor(store, target, learner))
    progress("attacks with shadows", 0.95)
    fitted, best = min(found, key=lambda pair: float(np.mean(pair[0].pinball)))
    shadows = (
        *_shadowed(banks),
        _shadows("loss", "none", expose(target, "loss", "full"), None),
        _shadows(f"quantile, {fitted.learner}", "none", best, None),
    )
    progress("done", 1.0)
    told = tuple(each for each, _ in found)
    return Regressors(
        given.about,
        scale,
        told,
        _agreement([each.pinball for each in told], [each.auc for each in told]),
        _agreement([each.pinball for each in told], [each.tpr for each in told]),
        shadows,
    )


def _networks(network: MLP) -> dict[str, MLP]:
    """The target's architecture, and two simpler ones."""
    first, *_, last = network.widths
    return {
        "-".join(map(str, each.widths)): each for each in (network, MLP((first, 8, last)), MLP((first, last)))
    }


def _bank(store: Store, given: Task, network: MLP, scale: Scale, seed: int) -> Record:
    settings = BankSettings(network, given.recipe, models=scale.models, which=_WHICH, seed=seed)
    return bank(store, settings, given.x, given.y, public=given.public, group=given.group)


def _regressor(store: Store, record: Record, learner: str) -> tuple[Regressor, Exposure]:
    """Fit one learner to every target, once."""

    def fit(aside: Path) -> None:
        method = Quantile(learner=learner, alpha=FPR, folds=2)
        blinds = [record.blind(run) for run in record.runs]
        fits = [
            method.fit(blind, int(blind.rows("full", run)[0]))
            for blind, run in zip(blinds, record.runs, strict=True)
        ]
        pinball = np.array([each.selection.best.pinball for each in fits])
        save_file({"pinball": pinball, "scores": np.array([each.scores for each in fits])}, aside)

    content = {"learner": learner, "record": content_of(record), "fpr": FPR}
    told = load_file(store.make(store.key(f"attacks/regressor {learner}.safetensors", **content), fit))
    e = dataclasses.replace(expose(record, "loss", "full"), attack="quantile", scores=told["scores"])
    runs = list(zip(e.scores, e.member, e.keep, strict=True))
    area = tuple(auc(s, y, keep=k).value for s, y, k in runs)
    caught = tuple(float(roc(s, y, keep=k).at(np.array([FPR]))[0]) for s, y, k in runs)
    return Regressor(learner, tuple(told["pinball"].tolist()), area, caught), e


def _agreement(pinball: Sequence[Sequence[float]], power: Sequence[Sequence[float]]) -> Estimate | None:
    """Mean over targets of the Spearman correlation over regressors, with a t interval over targets.

    Targets for which all regressors are equally strong say nothing; None if there are not two others.
    """
    from scipy import stats

    pairs = [
        (np.array(lost), np.array(won))
        for lost, won in zip(zip(*pinball, strict=True), zip(*power, strict=True), strict=True)
    ]
    found = [spearman(lost, won).value for lost, won in pairs if np.ptp(won) > 0 and np.ptp(lost) > 0]
    if len(found) < 2:
        return None
    mean, n = float(np.mean(found)), len(found)
    half = float(stats.t.ppf(0.975, n - 1) * np.std(found, ddof=1) / np.sqrt(n))
    return Estimate(mean, max(-1.0, mean - half), min(1.0, mean + half), n, 0.95, "t interval over targets")


def _shadowed(banks: Mapping[str, Record]) -> list[Shadows]:
    """Attacks with references, of the target's architecture and of simpler ones."""
    target = next(iter(banks.values()))
    found = []
    for attack in ("lira", "lira(mode='offline')", "rmia"):
        matched = expose(target, attack, "full")
        for name, bank_ in banks.items():
            e = matched if bank_ is target else _mismatched(target, bank_, attack)
            less = (
                None if bank_ is target else compare(e.scores, matched.scores, e.member, keep=e.keep, fpr=FPR)
            )
            found.append(_shadows(attack, name, e, less))
    return found


def _shadows(attack: str, references: str, e: Exposure, less: Comparison | None) -> Shadows:
    return Shadows(
        attack,
        references,
        auc(e.scores, e.member, keep=e.keep),
        tpr_at_fpr(e.scores, e.member, FPR, keep=e.keep).tpr,
        less,
    )


def _mismatched(target: Record, references: Record, attack: str) -> Exposure:
    """Attack each target with the other runs' models of another architecture; halves are the same in both banks."""
    scores = []
    for run in target.runs:
        row, other = int(target.rows("full", run)[0]), int(references.rows("full", run)[0])
        signals = {name: np.array(values) for name, values in references.signals.items()}
        for name in _WHICH:
            signals[name][other] = target.signals[name][row]
        mixed = dataclasses.replace(references, signals=signals)
        scores.append(expose(mixed, attack, "full", runs=[run]).scores[0])
    return dataclasses.replace(expose(target, "loss", "full"), attack=attack, scores=np.array(scores))
