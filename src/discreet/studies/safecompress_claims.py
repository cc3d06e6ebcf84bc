"""What the paper claims of SafeCompress, held against the study: holds, does not, or cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from discreet import release_audit
from discreet.estimate import Estimate
from discreet.studies.compression_tasks import TASKS
from discreet.studies.safecompress import Cell, SafeStudy

__all__ = ["SEVEN", "Claim", "claims", "lacking", "less", "less_white"]

SEVEN = ("Pr-DP", "Pr-AdvReg", "Pr-DMP", "KD-DP", "KD-AdvReg", "KD-DMP", "MIA-Pr (approximation)")
"""The paper's baselines."""


@dataclass(frozen=True)
class Claim:
    """A statement about one task.

    Attributes:
        text: The statement.
        task: Where it was looked at.
        verdict: ``holds``, ``does not`` or ``cannot tell``.
        figures: What it rests on: a label and a difference each.
    """

    text: str
    task: str
    verdict: str
    figures: tuple[tuple[str, Estimate], ...]


def claims(study: SafeStudy) -> tuple[Claim, ...]:
    """All claims that the study has rows for, task by task."""
    found: list[Claim] = []
    for task in study.scale.tasks or {"tab20": 0, "fashion": 0}:
        cells = {
            (cell.row.name, cell.row.density): cell
            for cell in study.cells
            if cell.row.task == task and not cell.row.large and cell.row.runs == study.scale.tasks.get(task)
        }
        found += _of_task(task, cells)
        found += _picks(study, task)
        found += _large(study, task)
    return tuple(found)


def less(one: Cell, other: Cell, name: str) -> Estimate:
    """First less second, run by run: they share the samples of each part."""
    return release_audit.less(one.found["by_run"], other.found["by_run"], name)


def less_white(one: Cell, other: Cell) -> Estimate:
    """The TM-score under the white-box attack, first less second, run by run."""
    return release_audit.less(one.found["whitebox"]["by_run"], other.found["whitebox"]["by_run"], "tm")


def lacking(study: SafeStudy) -> tuple[str, ...]:
    """Rows that could not be run, with the reason, as lines."""
    return tuple(f"{row.task}, {row.name}, density {row.density:g}: {why}" for row, why in study.left_out)


def _of_task(task: str, cells: Mapping[tuple[str, float], Cell]) -> list[Claim]:
    first, *others = TASKS[task].densities

    def pair(one: str, other: str, metric: str, density: float = first) -> list[tuple[str, Estimate]]:
        if (one, density) not in cells or (other, density) not in cells:
            return []
        return [(f"{metric}: {one} less {other}", less(cells[one, density], cells[other, density], metric))]

    found = []
    beaten = [each for name in SEVEN for each in pair("SafeCompress", name, "tm")]
    higher = "SafeCompress has a higher TM-score than every baseline (Tables 4 to 6)"
    missing = len(SEVEN) - len(beaten)
    if missing and beaten:
        found.append(Claim(f"{higher}; {missing} of 7 were not run", task, "cannot tell", tuple(beaten)))
    else:
        found += _claim(higher, task, beaten, _above)
    safer = pair("SafeCompress", "dense", "mia")
    found += _claim("it leaks less than the big model (section 6.3)", task, safer, _below)
    near = pair("SafeCompress", "dense", "task")
    found += _claim(
        "it costs the big model's accuracy less than four points (3.1 in section 6.3.1)",
        task,
        near,
        _not_below(-0.04),
    )
    white = [
        (f"TM under the white-box attack: white-box loop less {name}", less_white(own, other))
        for own in [cells.get(("white-box loop", first))]
        for name in SEVEN
        for other in [cells.get((name, first))]
        if own is not None and other is not None and "whitebox" in own.found and "whitebox" in other.found
    ]
    if len(white) == len(SEVEN):
        loop = (
            "with the white-box attack in the loop its TM-score under that attack is above every baseline's"
        )
        found += _claim(f"{loop} (Table 11)", task, white, _above)
    helped = pair("SafeCompress + re2", "SafeCompress", "tm")
    found += _claim("re2 raises the TM-score (Table 3)", task, helped, _above)
    grown = pair("SafeCompress + augmentation", "SafeCompress", "mia")
    found += _claim("augmentation raises the leak (Table 8)", task, grown, _above)
    for bits in ("2 bits", "1 bit"):
        aware = pair(f"{bits}, aware", bits, "task")
        found += _claim(f"training that knows of {bits} is more accurate (ours)", task, aware, _above)
        safer_bits = pair(f"{bits}, aware", bits, "mia")
        found += _claim(f"training that knows of {bits} leaks less (ours)", task, safer_bits, _below)
        even = pair(f"{bits}, aware, even losses", f"{bits}, aware", "mia")
        found += _claim(f"even losses lower the leak of {bits} (ours)", task, even, _below)
        found += _raised(task, cells, f"{bits}, aware, even losses", bits, first)
    ladder = sorted(d for d in (first, *others) if ("SafeCompress", d) in cells)
    rising = [
        (
            f"mia: density {high:g} less {low:g}",
            less(cells["SafeCompress", high], cells["SafeCompress", low], "mia"),
        )
        for low, high in pairwise(ladder)
    ]
    found += _claim("a denser model leaks more (section 6.3.1)", task, rising, _above)
    two = pair("SafeCompress", "dense, stopped early", "tm")
    found += _claim("control: it is better than stopping the big model early (TM)", task, two, _above)
    plain = pair("SafeCompress", "SET", "tm")
    found += _claim("control: it is better than plain SET of as many epochs (TM)", task, plain, _above)
    return found


def _raised(
    task: str, cells: Mapping[tuple[str, float], Cell], one: str, other: str, density: float
) -> list[Claim]:
    """Whether training for both raises the indicator (the open question at the end of the MIS paper)."""
    histories = [cells[name, density].history if (name, density) in cells else {} for name in (one, other)]
    mine, theirs = (each.get("r_of_run") for each in histories)
    if not mine or not theirs or None in (*mine, *theirs):
        return []
    apart = [a - b for a, b in zip(mine, theirs, strict=True)]
    figure = release_audit.mean_of_runs([Estimate(v, v, v, 1, 0.95) for v in apart])
    text = f"training for accuracy and even losses of {other} raises r (open question of the MIS paper)"
    return _claim(text, task, [(f"r: {one} less {other}", figure)], _above)


def _picks(study: SafeStudy, task: str) -> list[Claim]:
    """Every way to pick candidates against drawing lots, at the same cost."""
    many = {cell.row.runs for cell in study.cells if cell.row.task == task}
    runs = study.scale.picks if study.scale.picks in many else study.scale.tasks.get(task, 0)
    cells = {
        cell.row.name: cell
        for cell in study.cells
        if cell.row.task == task
        and cell.row.runs == runs
        and cell.row.density == TASKS[task].densities[0]
        and not cell.row.large
    }
    found = []
    for name, cell in cells.items():
        control = cells.get("long: random" if name.startswith("long") else "pick: random")
        if control is None or control is cell:
            continue
        if name == "SafeCompress" or name.startswith(("pick", "long", "growth")):
            label = "pick: TM-score" if name == "SafeCompress" else name
            figures = [
                (f"{metric}: less random pick", less(cell, control, metric)) for metric in ("tm", "mia")
            ]
            verdict = _above([figures[0][1]])
            found.append(
                Claim(
                    f"{label} is better than a random pick of equal cost (TM)", task, verdict, tuple(figures)
                )
            )
    return found


def _large(study: SafeStudy, task: str) -> list[Claim]:
    """Section 8: of two big models of like accuracy, compressed to the same density, does the larger leak more?"""
    first = TASKS[task].densities[0]
    by = {
        (cell.row.name, cell.row.large): cell
        for cell in study.cells
        if cell.row.task == task
        and cell.row.density == first
        and cell.row.runs == study.scale.tasks.get(task)
    }
    figures = [
        (f"{metric}: {name}, twice as wide less as wide", less(by[name, True], by[name, False], metric))
        for name in ("dense", "SET", "SafeCompress")
        if (name, True) in by and (name, False) in by
        for metric in ("task", "mia")
    ]
    judged = [each for label, each in figures if label.startswith("mia: S")]
    if not judged:
        return []
    text = "of two big models, compressed to the same density, the larger leaks more (open question of section 8)"
    return [Claim(text, task, _above(judged), tuple(figures))]


def _claim(
    text: str,
    task: str,
    figures: Sequence[tuple[str, Estimate]],
    judge: Callable[[Sequence[Estimate]], str],
) -> list[Claim]:
    if not figures:
        return []
    return [Claim(text, task, judge([each for _, each in figures]), tuple(figures))]


def _above(values: Sequence[Estimate]) -> str:
    return _not_below(0.0)(values)


def _below(values: Sequence[Estimate]) -> str:
    turned = [
        Estimate(-each.value, -each.high, -each.low, each.n, each.level, each.method) for each in values
    ]
    return _above(turned)


def _not_below(edge: float) -> Callable[[Sequence[Estimate]], str]:
    """All intervals above the edge: holds; one wholly below it: does not."""

    def judge(values: Sequence[Estimate]) -> str:
        lows, highs = (np.array([getattr(each, end) for each in values]) for end in ("low", "high"))
        if min(each.n for each in values) < 2:
            return "cannot tell"  # one run has no spread
        if (lows > edge).all():
            return "holds"
        return "does not" if (highs < edge).any() else "cannot tell"

    return judge
