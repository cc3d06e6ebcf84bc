"""The figures of the leakage study as JSON and as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from discreet.audit_leaks import Attack
from discreet.stats import Estimate
from discreet.studies.leakage import Leakage

__all__ = ["to_json", "to_markdown"]


def to_json(found: Leakage) -> dict[str, Any]:
    """All figures, with intervals and counts."""
    return {
        "schema": "discreet.study/1",
        "study": "attacks",
        "data": dict(found.data),
        "scale": asdict(found.scale),
        "accuracy": {
            name: {"members": inside.to_json(), "public": outside.to_json()}
            for name, (inside, outside) in found.accuracy.items()
        },
        "attacks": [
            {
                "attack": unit.attack,
                "variant": unit.exposure.variant,
                "figures": {
                    row.metric: {"value": row.value, "low": row.low, "high": row.high, **row.more}
                    for row in unit.figures
                },
            }
            for unit in found.units
        ],
        "less_than_full": [
            {"attack": attack, "variant": variant, "auc": each.auc.to_json(), "tpr@0.01": each.tpr.to_json()}
            for (attack, variant), each in found.paired.items()
        ],
        "left_out": [asdict(each) for each in found.left_out],
    }


def to_markdown(found: Leakage) -> str:
    """Tables of attacks by variants, each number with its 95 % interval."""
    variants = list(found.accuracy)
    attacks = list(dict.fromkeys(unit.attack for unit in found.units))
    at = {(unit.attack, unit.exposure.variant): unit.figures for unit in found.units}

    def cell(attack: str, variant: str, metric: str, show: Callable[[float], str]) -> str:
        row = next((row for row in at.get((attack, variant), ()) if row.metric == metric), None)
        if row is None:
            return "–"
        return _of_row(row, show) if row.more.get("resolvable", True) else "not resolvable"

    scale = found.scale
    parts = [
        f"{scale.models} models, each on half of {scale.private:,} samples; {scale.public:,} public samples; "
        "95 % intervals over models and samples.",
        _table(
            "accuracy",
            variants,
            [
                ("training samples", [_of(found.accuracy[v][0], _percent) for v in variants]),
                ("unseen samples", [_of(found.accuracy[v][1], _percent) for v in variants]),
            ],
        ),
    ]
    for title, metric, show in (
        ("AUC", "auc", _three),
        ("TPR at 1 % FPR", "tpr@0.01", _percent),
        ("TPR at 0.1 % FPR", "tpr@0.001", _percent),
    ):
        rows = [(f"`{each}`", [cell(each, v, metric, show) for v in variants]) for each in attacks]
        parts.append(_table(title, variants, rows))
    less = [
        (
            f"`{each}`",
            [
                ""
                if v == "full"
                else _of(found.paired[each, v].auc, _three)
                if (each, v) in found.paired
                else "–"
                for v in variants
            ],
        )
        for each in attacks
    ]
    parts.append(_table("AUC less that of full precision, paired", variants, less))
    parts += [f"Left out: `{each.attack}` on {each.variant}: {each.reason}" for each in found.left_out]
    return "\n\n".join(parts) + "\n"


def _table(title: str, columns: list[str], rows: list[tuple[str, list[str]]]) -> str:
    head = [f"| {title} | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    return "\n".join([*head, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows)])


def _of(figure: Estimate, show: Callable[[float], str]) -> str:
    return f"{show(figure.value)} ({show(figure.low)} to {show(figure.high)})"


def _of_row(row: Attack, show: Callable[[float], str]) -> str:
    ends = "" if row.low is None or row.high is None else f" ({show(row.low)} to {show(row.high)})"
    return f"{show(row.value)}{ends}"


def _three(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %" if value < 0.0995 else f"{100 * value:.0f} %"
