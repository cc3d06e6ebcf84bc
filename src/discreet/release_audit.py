"""What the finished models of a setting are worth: task performance, and how well anyone tells their members.

The attackers learn on one half of the audit panel and are judged on the other; nothing else ever saw its non-members.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from discreet.estimate import Estimate
from discreet.initial import Architecture
from discreet.model_seeds import stream
from discreet.performance import performance
from discreet.phase import Setting
from discreet.safety import Found, parse
from discreet.safety._judge import LEVEL, judge
from discreet.seen import cases, outputs_on

__all__ = ["TESTS", "Assessment", "assess", "mean_of_runs"]

TESTS = ("modified", "loss", "odds")
"""Attacks of an audit by default. The strongest one counts."""
AUDIT = 5  # what ``stream`` draws for here
FPRS = (0.1, 0.01)


@dataclass(frozen=True, eq=False)
class Assessment:
    """What an audit of some models found; every number is a mean over runs, with the spread between them.

    Attributes:
        task: Performance on test samples; n counts runs, or samples if there is one run.
        train: The same on the attacked training samples.
        attacks: For each test its metric (balanced attack accuracy).
        mia: The strongest attack's accuracy in each run, at least 0.5: Zhu et al., section 4.3.4.
        auc: Its AUC.
        tpr: Its TPR at each FPR.
        tm: Task performance over ``mia``, Eq. 6 with lambda 1.
        by_run: Task, mia and tm of each run.
    """

    task: Estimate
    train: Estimate
    attacks: Mapping[str, Estimate]
    mia: Estimate
    auc: Estimate
    tpr: Mapping[float, Estimate]
    tm: Estimate
    by_run: tuple[Mapping[str, float], ...]

    def to_json(self) -> dict[str, Any]:
        """All numbers as plain data."""
        return {
            **{name: getattr(self, name).to_json() for name in ("task", "train", "mia", "auc", "tm")},
            "attacks": {name: each.to_json() for name, each in self.attacks.items()},
            "tpr": {f"{fpr:g}": each.to_json() for fpr, each in self.tpr.items()},
            "by_run": [dict(each) for each in self.by_run],
        }


def assess(
    setting: Setting, model: Architecture, params: Mapping[str, Tensor], *, tests: Sequence[str] = TESTS
) -> Assessment:
    """Audit models on the samples that were kept for it.

    Args:
        setting: The task.
        model: The models' architecture.
        params: The stack, one model a run.
        tests: Safety tests that score samples, by spec string.

    Raises:
        ValueError: No tests, or one that gives no scores.
    """
    if not tests:
        raise ValueError("tests: expected at least one, got none")
    methods = {spec: parse(spec) for spec in tests}
    needs = frozenset().union(*(test.needs for test in methods.values()))
    shown = cases(setting, model, {"": params}, setting.roles.audit, needs)[""]
    seeds = [int(stream(setting.seed, run, AUDIT).integers(2**62)) for run in range(setting.runs)]
    found = {spec: test(shown, seeds=seeds) for spec, test in methods.items()}
    member = [case.judged_member for case in shown]
    strongest: list[Found] = []
    for run in range(setting.runs):
        strongest.append(max((each[run] for each in found.values()), key=lambda each: each.leak))
        if strongest[-1].scores is None:
            raise ValueError("tests: expected membership attacks, got one that scores no samples")
    tasks, fits = (
        _performance(setting, model, params, setting.roles.test),
        _performance(setting, model, params, setting.roles.audit.judged_in),
    )
    aucs = [_judged(each, inside, "auc") for each, inside in zip(strongest, member, strict=True)]
    rates = {
        fpr: [_judged(each, inside, f"tpr@{fpr}") for each, inside in zip(strongest, member, strict=True)]
        for fpr in FPRS
    }
    floor = [_floored(each.value) for each in strongest]
    tms = [_ratio(task, mia) for task, mia in zip(tasks, floor, strict=True)]
    return Assessment(
        mean_of_runs(tasks),
        mean_of_runs(fits),
        {spec: mean_of_runs([run.value for run in each]) for spec, each in found.items()},
        mean_of_runs(floor),
        mean_of_runs(aucs),
        {fpr: mean_of_runs(each) for fpr, each in rates.items()},
        mean_of_runs(tms),
        tuple(
            {"task": task.value, "mia": mia.value, "tm": tm.value}
            for task, mia, tm in zip(tasks, floor, tms, strict=True)
        ),
    )


def mean_of_runs(values: Sequence[Estimate]) -> Estimate:
    """The mean over runs with a t interval; of one run, what it says itself.

    Runs draw their samples from one pool, so for new data the interval is a little too narrow.

    Example:
        >>> one = Estimate(0.6, 0.5, 0.7, 100, 0.95)
        >>> mean_of_runs([one]) == one
        True
    """
    if len(values) == 1:
        return values[0]
    from scipy import special

    numbers = np.array([each.value for each in values])
    n, mean = len(numbers), float(numbers.mean())
    half = float(special.stdtrit(n - 1, (1 + LEVEL) / 2) * numbers.std(ddof=1) / math.sqrt(n))
    return Estimate(mean, mean - half, mean + half, n, LEVEL, "t interval over runs")


def _performance(
    setting: Setting, model: Architecture, params: Mapping[str, Tensor], places: np.ndarray
) -> list[Estimate]:
    label = setting.y.numpy()
    told = outputs_on(setting, model, {"": params}, places)[""]
    return [
        performance(answers["outputs"], label[rows], setting.kind, setting.metric)
        for answers, rows in zip(told, places, strict=True)
    ]


def _judged(found: Found, member: np.ndarray, metric: str) -> Estimate:
    if found.scores is None:
        raise ValueError("tests: expected membership attacks, got one that scores no samples")
    return judge(found.scores, member, metric).value


def _floored(value: Estimate) -> Estimate:
    """At least one half: an attack that is wrong more often than not is no attack."""
    value_, low, high = (max(0.5, end) for end in (value.value, value.low, value.high))
    return Estimate(value_, low, high, value.n, value.level, value.method)


def _ratio(task: Estimate, mia: Estimate) -> Estimate:
    """Task over mia, with the ends that both intervals allow."""
    how = "ends of both intervals (wider than needed)"
    return Estimate(
        task.value / mia.value, task.low / mia.high, task.high / mia.low, min(task.n, mia.n), LEVEL, how
    )
