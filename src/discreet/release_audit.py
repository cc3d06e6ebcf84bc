"""What the finished models of a setting are worth: task performance, and how well anyone tells their members.

The attackers learn on one half of the audit panel and are judged on the other; nothing else ever saw its non-members.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float, Int, Num
from discreet.estimate import Estimate
from discreet.initial import Architecture
from discreet.model_seeds import stream
from discreet.performance import performance
from discreet.phase import Setting
from discreet.safety import Case, Found, SafetyTest, parse
from discreet.safety._judge import LEVEL, judge
from discreet.safety.basket import Basket
from discreet.seen import cases, cases_of, outputs_on
from discreet.tried import tried

__all__ = [
    "TESTS",
    "Assessment",
    "assess",
    "assess_answers",
    "check_tests",
    "less",
    "mean_of_runs",
    "try_tests",
]

TESTS = ("modified", "loss", "odds")
"""Attacks of an audit by default. The strongest one counts."""
Answering = Callable[[Tensor], Num[np.ndarray, " sample *out"]]
"""A model that runs elsewhere: inputs in, raw outputs out."""
_Answers = Callable[[Int[np.ndarray, "run sample"]], list[Float[np.ndarray, "sample out"]]]
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
        tm: Task performance over ``mia``, Eq. 6 with lambda 1; None if a run's performance is below 0, as the ratio
            would then be higher the more leaks.
        by_run: Task, mia and tm (or None) of each run.
    """

    task: Estimate
    train: Estimate
    attacks: Mapping[str, Estimate]
    mia: Estimate
    auc: Estimate
    tpr: Mapping[float, Estimate]
    tm: Estimate | None
    by_run: tuple[Mapping[str, float | None], ...]

    def to_json(self) -> dict[str, Any]:
        """All numbers as plain data."""
        return {
            **{name: getattr(self, name).to_json() for name in ("task", "train", "mia", "auc")},
            "tm": None if self.tm is None else self.tm.to_json(),
            "attacks": {name: each.to_json() for name, each in self.attacks.items()},
            "tpr": {f"{fpr:g}": each.to_json() for fpr, each in self.tpr.items()},
            "by_run": [dict(each) for each in self.by_run],
        }


def assess(
    setting: Setting,
    model: Architecture,
    params: Mapping[str, Tensor],
    *,
    tests: Sequence[str] | None = None,
) -> Assessment:
    """Audit models on the samples that were kept for it.

    Args:
        setting: The task.
        model: The models' architecture.
        params: The stack, one model a run.
        tests: Safety tests that score samples and tell an accuracy, by spec string; None: ``TESTS``, or the loss
            alone where there are no classes.

    Raises:
        ValueError: As ``check_tests``.
    """
    tests = (("loss",) if setting.kind == "mse" else TESTS) if tests is None else tests
    methods = check_tests(tests, setting.kind)
    needs = frozenset().union(*(test.needs for test in methods.values()))
    shown = cases(setting, model, {"": params}, setting.roles.audit, needs)[""]

    def answers(places: Int[np.ndarray, "run sample"]) -> list[Float[np.ndarray, "sample out"]]:
        told = outputs_on(setting, model, {"": params}, places)[""]
        return [each["outputs"] for each in told]

    return _assessment(setting, methods, shown, answers)


def assess_answers(setting: Setting, answer: Answering, *, tests: Sequence[str]) -> Assessment:
    """Audit one model that runs elsewhere, by its answers: that of a setting with one run.

    Args:
        setting: The task.
        answer: Raw outputs [sample, out] for inputs [sample, …].
        tests: As ``assess``, of those that read nothing but outputs.

    Raises:
        ValueError: As ``check_tests``; a test that reads more than outputs; several runs.
    """
    if setting.runs != 1:
        raise ValueError(f"setting: expected one run, got {setting.runs}")
    methods = check_tests(tests, setting.kind)
    for spec, test in methods.items():
        if test.needs:
            raise ValueError(
                f"tests: {spec!r} needs {', '.join(sorted(test.needs))}, a model that runs elsewhere gives outputs"
            )
    panel = setting.roles.audit

    def answers(places: Int[np.ndarray, "run sample"]) -> list[Float[np.ndarray, "sample out"]]:
        found = np.asarray(answer(setting.x[torch.from_numpy(places[0])]), np.float64)
        return [found.reshape(len(found), -1)]

    whole = answers(np.concatenate([panel.known, panel.judged], axis=1))
    return _assessment(setting, methods, cases_of(setting, [{"outputs": whole[0]}], panel), answers)


def _assessment(
    setting: Setting, methods: Mapping[str, SafetyTest], shown: Sequence[Case], answers: _Answers
) -> Assessment:
    seeds = [int(stream(setting.seed, run, AUDIT).integers(2**62)) for run in range(setting.runs)]
    found = {
        spec: [_accused(spec, each) for each in test(shown, seeds=seeds)] for spec, test in methods.items()
    }
    member = [case.judged_member for case in shown]
    strongest = [
        max((each[run] for each in found.values()), key=lambda each: each.leak) for run in range(setting.runs)
    ]
    tasks, fits = (
        _performance(setting, answers, setting.roles.test),
        _performance(setting, answers, setting.roles.audit.judged_in),
    )
    aucs = [_judged(each, inside, "auc") for each, inside in zip(strongest, member, strict=True)]
    rates = {
        fpr: [_judged(each, inside, f"tpr@{fpr}") for each, inside in zip(strongest, member, strict=True)]
        for fpr in FPRS
    }
    floor = [_floored(each.value) for each in strongest]
    bounds = (0.0, 1.0) if setting.kind != "mse" and ":" not in setting.metric else (-math.inf, math.inf)
    ratios = [_ratio(task, mia) for task, mia in zip(tasks, floor, strict=True)]
    defined = [each for each in ratios if each is not None]
    return Assessment(
        mean_of_runs(tasks, within=bounds),
        mean_of_runs(fits, within=bounds),
        {spec: mean_of_runs([run.value for run in each], within=(0.0, 1.0)) for spec, each in found.items()},
        mean_of_runs(floor, within=(0.5, 1.0)),
        mean_of_runs(aucs, within=(0.0, 1.0)),
        {fpr: mean_of_runs(each, within=(0.0, 1.0)) for fpr, each in rates.items()},
        mean_of_runs(defined) if len(defined) == len(ratios) else None,
        tuple(
            {"task": task.value, "mia": mia.value, "tm": None if tm is None else tm.value}
            for task, mia, tm in zip(tasks, floor, ratios, strict=True)
        ),
    )


def check_tests(tests: Sequence[str], task: str) -> dict[str, SafetyTest]:
    """The tests of an audit.

    Args:
        tests: Spec strings.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.

    Raises:
        SpecError: No such test.
        ValueError: None at all, one that does not tell an accuracy of accusations, or one that needs classes where
            there are none.

    Example:
        >>> list(check_tests(["loss"], "mse"))
        ['loss']
    """
    if not tests:
        raise ValueError("tests: expected at least one, got none")
    methods = {spec: parse(spec) for spec in tests}
    for spec, test in methods.items():
        for own, each in _within(spec, test):
            weighted = isinstance(each, Basket) and each.weights is not None
            if "attribute" in each.needs or weighted or getattr(each, "metric", "accuracy") != "accuracy":
                raise ValueError(f"tests: expected membership attacks that tell an accuracy, got {spec!r}")
            if task == "mse" and own.partition("(")[0] in ("modified", "odds", "blackbox", "whitebox"):
                raise ValueError(f"tests: {own!r} reads classes, but the task is a regression; use 'loss'")
    return methods


def try_tests(tests: Sequence[str], setting: Setting) -> None:
    """Before anything is trained, refuse tests of an audit that refuse the model or the data: each is run once.

    Args:
        tests: As ``assess``.
        setting: The task.

    Raises:
        ValueError: As ``check_tests``, and of a test itself.
    """
    for spec, test in check_tests(tests, setting.kind).items():
        _accused(spec, tried(setting, "audit", test))


def _within(spec: str, test: SafetyTest) -> Iterator[tuple[str, SafetyTest]]:
    """A test with its spec string, and those that it consists of."""
    yield spec, test
    if isinstance(test, Basket):
        for own, each in test.methods.items():
            yield from _within(own, each)


def _accused(spec: str, found: Found) -> Found:
    """An outcome, if it is one of a membership attack that tells an accuracy.

    Raises:
        ValueError: It is not: a rate would be read as an accuracy.
    """
    if found.metric != "accuracy" or found.scores is None:
        told = "scores no samples" if found.scores is None else f"tells {found.metric}"
        raise ValueError(
            f"tests: expected membership attacks that tell an accuracy, got {spec!r}, which {told}"
        )
    return found


def mean_of_runs(
    values: Sequence[Estimate], *, within: tuple[float, float] = (-math.inf, math.inf)
) -> Estimate:
    """The mean over runs with a t interval; of one run, what it says itself.

    The interval is at least as wide as the runs' own intervals make that of their mean, so runs that agree by chance
    are not taken for certainty. Runs draw their samples from one pool: for new data it is a little too narrow.

    Args:
        values: One a run.
        within: What the mean can be; the interval ends there.

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
    own = math.sqrt(sum(((each.high - each.low) / 2) ** 2 for each in values)) / n
    half = max(half, own)
    low, high = max(within[0], mean - half), min(within[1], mean + half)
    return Estimate(mean, min(low, mean), max(high, mean), n, LEVEL, "t interval over runs")


def less(
    one: Sequence[Mapping[str, float | None]], other: Sequence[Mapping[str, float | None]], name: str
) -> Estimate:
    """A figure of one method less that of another, run by run: they share the samples of each part.

    Args:
        one: Figures of each run, as ``Assessment.by_run``.
        other: The same of the other method.
        name: Of the figure.

    Raises:
        ValueError: A run of either has no such figure.

    Example:
        >>> round(less([{"mia": 0.6}, {"mia": 0.7}], [{"mia": 0.5}, {"mia": 0.5}], "mia").value, 3)
        0.15
    """
    values = []
    for run, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        first, second = mine[name], theirs[name]
        if first is None or second is None:
            raise ValueError(f"{name}: expected a figure of every run, run {run} has none")
        values.append(first - second)
    return mean_of_runs([Estimate(each, each, each, 1, LEVEL) for each in values])


def _performance(
    setting: Setting, answers: _Answers, places: Int[np.ndarray, "run sample"]
) -> list[Estimate]:
    label = setting.y.numpy()
    return [
        performance(outputs, label[rows], setting.kind, setting.metric)
        for outputs, rows in zip(answers(places), places, strict=True)
    ]


def _judged(found: Found, member: np.ndarray, metric: str) -> Estimate:
    return judge(cast(np.ndarray, found.scores), member, metric).value


def _floored(value: Estimate) -> Estimate:
    """At least one half: an attack that is wrong more often than not is no attack."""
    value_, low, high = (max(0.5, end) for end in (value.value, value.low, value.high))
    return Estimate(value_, low, high, value.n, value.level, value.method)


def _ratio(task: Estimate, mia: Estimate) -> Estimate | None:
    """Task over mia, with the ends that both intervals allow; None below 0, where it rises with mia."""
    if task.value < 0:
        return None
    how = "ends of both intervals (wider than needed)"
    ends = [end / other for end in (task.low, task.high) for other in (mia.low, mia.high)]
    return Estimate(task.value / mia.value, min(ends), max(ends), min(task.n, mia.n), LEVEL, how)
