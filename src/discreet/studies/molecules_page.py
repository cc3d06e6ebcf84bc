"""The figures of the study of molecules as JSON and as Markdown tables, the paper's beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from discreet._words import number
from discreet.studies.molecules import Molecules
from discreet.studies.molecules_claims import Claim, claims
from discreet.studies.molecules_tables import Cell, tables
from discreet.studies.molecules_unit import FULL, VARIANTS
from discreet.studies.paper_tables import PaperCell, paper_tables

__all__ = ["SHORT", "to_json", "to_markdown"]

SHORT = {
    "sign": "Sign",
    "ternary(zeros=0.33)": "1.58b 33%",
    "ternary(zeros=0.5)": "1.58b 50%",
    "ternary(zeros=0.9)": "1.58b 90%",
    "uniform(bits=2)": "2 bits",
    "uniform(bits=3)": "3 bits",
    "uniform(bits=4)": "4 bits",
    "uniform(bits=5)": "5 bits",
    FULL: "original",
}
"""Names of the paper's tables."""

_ORDER = (*(v for v in VARIANTS if v != FULL), FULL)
_TITLES = {"auroc": "AUROC (Table 3)", "r2": "R2 (Table 4)", "spearman": "Spearman (Table 5)"}
_OWN = "each variant at its own best checkpoint"


def to_json(found: Molecules) -> dict[str, Any]:
    """All figures with intervals and counts; what is not finite is null."""
    cells, own = tables(found), tables(found, own=True)
    return {
        "schema": "discreet.study/1",
        "study": "molecules",
        "scale": asdict(found.scale),
        "seed": found.seed,
        "tasks": {
            name: {
                "task": task.data.task,
                "unit": task.data.unit,
                "sha256": dict(task.data.sha256),
                "licence": task.data.licence,
                "source": task.data.source,
                "counts": dict(task.data.counts),
                "pool": len(task.parts.pool),
                "trained on by a run": task.parts.n_train,
                "validation": len(task.parts.validation),
            }
            for name, task in found.tasks.items()
        },
        "left_out": dict(found.left_out),
        "tables": [_cell_json(key, cell, own[key]) for key, cell in cells.items()],
        "security": [
            {
                "task": row.task,
                "embedder": row.embedder,
                "checkpoint of each run": list(row.step),
                "ranking": row.ranking.to_json(),
                "deciding": {
                    i.variant: row.ranking.lambda_by_rank(i.variant).to_json() for i in row.ranking.ranked
                },
            }
            for row in found.measured
        ],
        "claims": [asdict(claim) for claim in claims(found, cells, own)],
    }


def _cell_json(key: tuple[str, str, str], cell: Cell, own: Cell) -> dict[str, Any]:
    paper = paper_tables().get(key)
    return {
        **dict(zip(("metric", "task", "variant"), key, strict=True)),
        **_finite(cell),
        _OWN: _finite(own),
        "paper": None if paper is None else _finite(paper),
    }


def _finite(cell: Cell | PaperCell) -> dict[str, Any]:
    return {name: value if math.isfinite(value) else None for name, value in asdict(cell).items()}


def to_markdown(found: Molecules) -> str:
    """Verdicts, then Tables 3, 4 and 5 with the paper's rows under ours, r, and what was left out."""
    cells, own = tables(found), tables(found, own=True)
    scale = found.scale
    used = list(dict.fromkeys(row.embedder for row in found.measured))
    parts = [
        f"{scale.runs} runs of each of {len(found.tasks)} tasks and {len(used)} embedders ({', '.join(used)}); "
        f"two-layer networks, hidden {scale.hidden}, {scale.epochs} epochs at {scale.lr:g}, batches of "
        f"{scale.batch_size}, r over every {_nth(scale.every)} epoch; 95 % intervals over runs and molecules.",
        _sizes(found),
        _verdicts(claims(found, cells, own)),
        *_all_tables(found, cells),
        _own_shares(own),
        *(
            ["–: no share of the original, whose mean over runs is not above 0 on every embedder."]
            if any(math.isnan(cell.share) for cell in (*cells.values(), *own.values()))
            else []
        ),
        *(_security(found, name) for name in found.tasks),
        "↓: r below the resolution of the validation sample, 1.92/n. Ranks: 1 is safest; a range where variants are "
        "not told apart.",
        *(f"Left out: {name}. {why}" for name, why in found.left_out.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _nth(every: int) -> str:
    return "" if every == 1 else f"{every}th"


def _sizes(found: Molecules) -> str:
    rows = [
        [
            name,
            task.data.task,
            f"{len(task.parts.pool) + len(task.parts.validation):,} of {len(task.data):,}",
            f"{task.parts.n_train:,} of {len(task.parts.pool):,}",
            f"{len(task.parts.validation):,}",
            task.data.licence,
        ]
        for name, task in found.tasks.items()
    ]
    return _table(["task", "kind", "molecules", "trained on by a run", "validation", "licence"], rows)


def _verdicts(found: tuple[Claim, ...]) -> str:
    rows = [
        [claim.says, claim.where, f"**{claim.verdict}**", claim.numbers, claim.needs or "–"]
        for claim in found
    ]
    return _table(["claim of the paper", "where", "verdict", "numbers", "what would tell"], rows)


def _all_tables(found: Molecules, cells: Mapping[tuple[str, str, str], Cell]) -> Iterator[str]:
    for metric, title in _TITLES.items():
        names = [name for name in found.tasks if (metric, name, FULL) in cells]
        if not names:
            continue
        rows, ends = [], []
        for name in names:
            rows.append([name, *(_shown(cells[metric, name, v], metric) for v in _ORDER)])
            ends.append([name, *(_interval(cells[metric, name, v], metric) for v in _ORDER)])
            paper = [paper_tables().get((metric, name, v)) for v in _ORDER]
            if all(cell is not None for cell in paper):
                rows.append([f"*{name}, in the paper*", *(_printed(cell) for cell in paper if cell)])
        head = [title, *(SHORT[v] for v in _ORDER)]
        yield _table(head, rows)
        yield _table([f"{title}: 95 % intervals", *head[1:]], ends)


def _own_shares(cells: Mapping[tuple[str, str, str], Cell]) -> str:
    """What is kept where every variant takes the checkpoint of its own lowest validation loss."""
    rows = [
        [f"{name}, {metric}", *(_share(cells[metric, name, v].share) for v in _ORDER)]
        for metric, name in dict.fromkeys((m, n) for m, n, _ in cells)
    ]
    return _table([f"share of the original, {_OWN}", *(SHORT[v] for v in _ORDER)], rows)


def _shown(cell: Cell, metric: str) -> str:
    return f"{_value(cell.value, metric)} ({_share(cell.share)})"


def _interval(cell: Cell, metric: str) -> str:
    return f"{_value(cell.low, metric)} to {_value(cell.high, metric)}"


def _value(value: float, metric: str) -> str:
    return "-inf" if metric == "r2" and value < -1 else f"{value:.3f}"


def _share(share: float) -> str:
    if math.isnan(share):
        return "–"
    return "-inf%" if share < -10 else f"{100 * share:.0f}%"


def _printed(cell: PaperCell) -> str:
    share = f"{100 * cell.share:.0f}%" if math.isfinite(cell.share) else "-inf%"
    return f"*{cell.value:.3f} ({share})*" if math.isfinite(cell.value) else f"*-inf ({share})*"


def _security(found: Molecules, name: str) -> str:
    rows = []
    for row in found.measured:
        if row.task == name:
            rows.append([f"`{row.embedder}`", *(_r(row.ranking, v) for v in _ORDER)])
    return _table([f"r, {name}: value (95 % interval), rank", *(SHORT[v] for v in _ORDER)], rows)


def _r(ranking: Any, variant: str) -> str:
    one = ranking[variant]
    if one.status != "ok":
        return one.status
    low, high = ranking.rank_interval(variant)
    rank = f"{low}" if low == high else f"{low} to {high}"
    heed = " ↓" if "below-resolution" in one.diagnostics else ""
    return f"{number(one.r, 2)}{heed} ({number(one.low, 2)} to {number(one.high, 2)}), {rank}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
