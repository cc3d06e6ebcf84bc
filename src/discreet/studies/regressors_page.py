"""The figures of the regressor study as JSON and as Markdown tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from discreet.stats import Estimate
from discreet.studies.regressors import Regressors

__all__ = ["to_json", "to_markdown"]


def to_json(found: Regressors) -> dict[str, Any]:
    """All figures, with intervals and counts."""
    return {
        "schema": "discreet.study/1",
        "study": "quantile",
        "data": dict(found.data),
        "scale": asdict(found.scale),
        "regressors": [asdict(each) for each in found.regressors],
        "spearman": {
            name: None if each is None else each.to_json()
            for name, each in (("pinball and auc", found.by_auc), ("pinball and tpr@0.01", found.by_tpr))
        },
        "shadows": [
            {
                "attack": each.attack,
                "references": each.references,
                "auc": each.auc.to_json(),
                "tpr@0.01": each.tpr.to_json(),
                "auc_less_than_matched": None if each.less is None else each.less.auc.to_json(),
            }
            for each in found.shadows
        ],
    }


def to_markdown(found: Regressors) -> str:
    """Two tables: regressors by their held-out loss, and attacks by their references."""
    scale = found.scale
    ordered = sorted(found.regressors, key=lambda each: float(np.mean(each.pinball)))
    lines = [
        f"{scale.models} targets, each trained on half of {scale.private:,} samples; {scale.public:,} public ones.",
        "",
        "| regressor | held-out pinball loss at 99 % | AUC | TPR at 1 % FPR |",
        "|---|---|---|---|",
        *(
            f"| `{each.learner}` | {np.mean(each.pinball):.4f} | {np.mean(each.auc):.3f} | {np.mean(each.tpr):.2%} |"
            for each in ordered
        ),
        "",
        f"Spearman correlation of the loss with the AUC {_show(found.by_auc)}, with the TPR {_show(found.by_tpr)}, "
        "over regressors, the mean over targets (−1 would be the claim in full).",
        "",
        "| attack | references | AUC | TPR at 1 % FPR | AUC less that with matched references |",
        "|---|---|---|---|---|",
    ]
    for each in found.shadows:
        less = "" if each.less is None else _show(each.less.auc)
        lines.append(
            f"| `{each.attack}` | {each.references} | {_show(each.auc)} | {_show(each.tpr)} | {less} |"
        )
    return "\n".join(lines) + "\n"


def _show(figure: Estimate | None) -> str:
    if figure is None:
        return "not defined"
    return f"{figure.value:.3f} ({figure.low:.3f} to {figure.high:.3f})".replace("-", "−")
