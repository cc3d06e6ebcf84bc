"""The compression study as JSON and as Markdown tables in the paper's form."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from typing import Any

from discreet.estimate import Estimate
from discreet.studies.compression_grid import METHOD, Grid
from discreet.studies.compression_tasks import TASKS
from discreet.studies.safecompress import Cell, SafeStudy
from discreet.studies.safecompress_claims import claims, lacking
from discreet.studies.safecompress_plan import SIX

__all__ = ["paper_rows", "to_json", "to_markdown"]

_PAPER = {
    "cifar100": "CIFAR100",
    "cifar10": "CIFAR10",
    "tinyimagenet": "TinyImageNet",
    "yelp5": "Yelp-5",
    "ag_news": "AG-News",
}
"""Data sets as the paper's tables name them."""


def to_json(study: SafeStudy) -> dict[str, Any]:
    """All figures with intervals and counts; processor times, which differ each time, are in the tables alone."""
    return {
        "schema": "discreet.study/1",
        "study": "safecompress",
        "seed": study.seed,
        "rows": [
            asdict(cell.row)
            | {
                "method": cell.row.method,
                "epochs": cell.epochs,
                "spent": cell.spent,
                "notes": list(cell.notes),
            }
            | {"epsilon": None if cell.epsilon is None else list(cell.epsilon)}
            | dict(cell.found)
            for cell in study.cells
        ],
        "claims": [
            {
                "claim": each.text,
                "task": each.task,
                "verdict": each.verdict,
                "figures": {label: figure.to_json() for label, figure in each.figures},
            }
            for each in claims(study)
        ],
        "grids": [asdict(each) for each in study.grids],
        "left_out": list(lacking(study)),
    }


def to_markdown(study: SafeStudy) -> str:
    """Tables, claims, and what was left out."""
    parts = []
    for task, runs in study.scale.tasks.items():
        cells = [cell for cell in study.cells if cell.row.task == task and cell.row.runs == runs]
        if cells:
            parts += [
                *_methods(task, cells),
                *_whitebox(task, cells),
                *_bits(task, cells),
                *_ladder(task, cells),
            ]
    if study.scale.picks:
        parts += _picks(study)
    for each in study.grids:
        parts += _grid(each)
    parts += _claims(study)
    for line in lacking(study):
        parts.append(f"- not run: {line}")
    return "\n".join(parts) + "\n"


def paper_rows() -> list[dict[str, str]]:
    """Tables 3 to 11 as printed, percent and hours, one row a cell.

    Example:
        >>> [row["tm"] for row in paper_rows() if row["table"] == "11" and row["method"] == "Pr-DMP"]
        ['1.18']
    """
    text = resources.files("discreet.studies").joinpath("safecompress_paper.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def _methods(task: str, cells: Sequence[Cell]) -> list[str]:
    first = TASKS[task].densities[0]
    here = [cell for cell in cells if cell.row.density == first]
    dense = next((cell for cell in here if cell.row.name == "dense" and not cell.row.large), None)
    printed = _printed(task, first)
    head = "| method | Task Acc | on members | MIA Acc | AUC | TPR at 1 % FPR | TM-score | passes | time / dense |"
    lines = [
        f"## {TASKS[task].title}, density {first:g}, {here[0].row.runs} runs",
        "",
        head + (" paper's protocol (confounded) | paper: Task, MIA, TM |" if printed else ""),
        "|---" * (9 + 2 * bool(printed)) + "|",
    ]
    for cell in here:
        told = cell.found
        name = f"{cell.row.name}, twice as wide" if cell.row.large else cell.row.name
        name += "" if cell.epsilon is None else f" (ε = {cell.epsilon[0]:.3g}, δ = {cell.epsilon[1]:.0e})"
        ratio = "" if dense is None else f"{cell.seconds / dense.seconds:.1f}"
        figures = [_show(told[key]) for key in ("task", "train", "mia", "auc")]
        lines.append(
            f"| {name} | {' | '.join(figures)} | {_show(told['tpr']['0.01'])} | {_show(told['tm'])} |"
            f" {cell.spent:.0f} | {ratio} |" + (_beside(cell, printed) if printed else "")
        )
    return [*lines, ""]


def _printed(task: str, density: float, *, whitebox: bool = False) -> dict[str, dict[str, str]]:
    """The paper's rows for a task that it has, by method; of Table 11, or of the others."""
    data = _PAPER.get(task, "")
    found: dict[str, dict[str, str]] = {}
    for row in paper_rows():
        if row["data"] == data and float(row["density"]) == density and (row["table"] == "11") == whitebox:
            known = found.setdefault(row["method"], {})
            known |= {name: value for name, value in row.items() if value}
    return found


def _whitebox(task: str, cells: Sequence[Cell]) -> list[str]:
    """Table 11: what the white-box attack gets."""
    here = [cell for cell in cells if "whitebox" in cell.found]
    if not here:
        return []
    printed = _printed(task, here[0].row.density, whitebox=True)
    lines = [
        f"Under the white-box attack (Table 11), {TASKS[task].title}:",
        "",
        "| method | Task Acc | WMIA Acc | TM-score |" + (" paper: Task, WMIA, TM |" if printed else ""),
        "|---" * (4 + bool(printed)) + "|",
    ]
    for cell in here:
        told = cell.found["whitebox"]
        line = f"| {cell.row.name} | {' | '.join(_show(told[key]) for key in ('task', 'mia', 'tm'))} |"
        lines.append(line + (f" {_figures(cell, printed)} |" if printed else ""))
    return [*lines, ""]


def _beside(cell: Cell, printed: dict[str, dict[str, str]]) -> str:
    """Cells for the paper's protocol and the paper's own figures."""
    own = cell.found.get("paper_protocol")
    return f" {_show(own['confounded']) if own else ''} | {_figures(cell, printed)} |"


def _figures(cell: Cell, printed: dict[str, dict[str, str]]) -> str:
    told = printed.get(cell.row.name.partition(" (")[0], {})
    return " / ".join(told.get(name, "") for name in ("task", "mia", "tm")) if told else ""


def _bits(task: str, cells: Sequence[Cell]) -> list[str]:
    """Few bits after training, or known to it: task, leak, and the indicator of the quantized trajectory."""
    here = [cell for cell in cells if cell.history.get("r")]
    if not here:
        return []
    lines = [
        f"Few bits, {TASKS[task].title}: r is that of the quantized checkpoints, on validation samples.",
        "",
        "| method | Task Acc | MIA Acc | TM-score | r (95 %) | told from 0 | epoch of the lowest loss |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in here:
        r = cell.history["r"]
        figures = " | ".join(_show(cell.found[key]) for key in ("task", "mia", "tm"))
        told = "–" if r["r"] is None else f"{r['r']:.5f} ({r['low']:.5f} to {r['high']:.5f})"
        above = r["r"] is not None and r["low"] > 0
        best = ", ".join(str(each) for each in cell.history["best"])
        lines.append(f"| {cell.row.name} | {figures} | {told} | {'yes' if above else 'no'} | {best} |")
    return [*lines, ""]


def _ladder(task: str, cells: Sequence[Cell]) -> list[str]:
    densities = sorted({cell.row.density for cell in cells})
    if len(densities) < 2:
        return []
    by = {(cell.row.name, cell.row.density): cell for cell in cells if not cell.row.large}
    head = " | ".join(f"density {each:g}" for each in densities)
    lines = [
        f"TM-score (and MIA Acc), {TASKS[task].title}:",
        "",
        f"| method | {head} |",
        "|---" * (len(densities) + 1) + "|",
    ]
    for name in SIX:
        if all((name, density) in by for density in densities):
            told = [by[name, density].found for density in densities]
            row = " | ".join(f"{_show(each['tm'])} ({each['mia']['value']:.3f})" for each in told)
            lines.append(f"| {name} | {row} |")
    return [*lines, ""] if len(lines) > 4 else []


def _picks(study: SafeStudy) -> list[str]:
    lines = [
        f"## How candidates are picked, {study.scale.picks} runs",
        "",
        "| task | way | Task Acc | MIA Acc | TPR at 1 % FPR | TM-score | passes |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in study.cells:
        if cell.row.runs == study.scale.picks and cell.row.runs != study.scale.tasks.get(cell.row.task):
            told = cell.found
            figures = [_show(each) for each in (told["task"], told["mia"], told["tpr"]["0.01"], told["tm"])]
            lines.append(f"| {cell.row.task} | {cell.row.name} | {' | '.join(figures)} | {cell.spent:.0f} |")
    return [*lines, ""]


def _grid(found: Grid) -> list[str]:
    """One table of densities and bits, and what holding all densities adds."""
    lines = [
        f"## Sparse times bits: {TASKS[found.task].title}, {METHOD}",
        "",
        "| density, bits | Task Acc | MIA Acc | TPR at 1 % FPR | TM-score |",
        "|---|---|---|---|---|",
    ]
    for name, told in found.cells.items():
        figures = [_show(each) for each in (told["task"], told["mia"], told["tpr"]["0.01"], told["tm"])]
        lines.append(f"| {name} | {' | '.join(figures)} |")
    alone = ", ".join(f"density {name}: {_show(told)}" for name, told in found.alone.items())
    return [
        *lines,
        "",
        f"Attack network on one model ({alone}), on all of them at once {_show(found.joint)}, which is"
        f" {_show(found.gain)} more than on the best one alone.",
        "",
    ]


def _claims(study: SafeStudy) -> list[str]:
    lines = ["## Claims", "", "| claim | task | verdict | rests on |", "|---|---|---|---|"]
    for each in claims(study):
        figures = "; ".join(f"{label} {_estimate(figure)}" for label, figure in each.figures)
        lines.append(f"| {each.text} | {each.task} | **{each.verdict}** | {figures} |")
    return [*lines, ""]


def _show(told: Any) -> str:
    half = (told["high"] - told["low"]) / 2
    return f"{told['value']:.3f} ± {half:.3f}"


def _estimate(figure: Estimate) -> str:
    return f"{figure.value:+.3f} ({figure.low:+.3f} to {figure.high:+.3f})".replace("-", "−")
