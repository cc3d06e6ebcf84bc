"""Figures of an audit as the metadata of a model card: Hugging Face's ``model-index``, in YAML.

Strings are written as JSON, which YAML holds too, so that no name of a variant can break the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from discreet.audit import Analysis, Attack, Audit, Ranked

__all__ = ["chosen", "front_matter", "model_index", "worst"]

_TASK = {"type": "other", "name": "membership inference against the training data"}
RATES = ("auc", "tpr@0.01", "tpr@0.001")


def chosen(audit: Audit, variants: Sequence[str]) -> tuple[Ranked, ...]:
    """Rows of the headline's ranking, all of them when no variant is named.

    Raises:
        ValueError: A variant that the audit lacks.
    """
    rows = audit.analyses[0].ranking.variants
    for name in variants:
        if name not in {row.variant for row in rows}:
            raise ValueError(
                f"variant: the audit has no {name!r}; it has {', '.join(row.variant for row in rows)}"
            )
    return tuple(row for row in rows if not variants or row.variant in variants)


def worst(analysis: Analysis, variant: str, metric: str) -> Attack | None:
    """The largest figure that any attack reached in a variant, if one was measured and its rate is resolvable."""
    rows = [
        row
        for row in analysis.attacks
        if (row.variant, row.metric) == (variant, metric) and row.more.get("resolvable") is not False
    ]
    return max(rows, key=lambda row: row.value, default=None)


def model_index(audit: Audit, variants: Sequence[str] = (), name: str | None = None) -> list[dict[str, Any]]:
    """The list that goes under ``model-index``: one result for each data set, with a metric for each figure.

    Figures of attacks on a confounded split are no evidence of anything, and are left out.

    Args:
        audit: What was measured; its headline is taken.
        variants: Those that ship; all when none is named.
        name: Of the model; the audit's title when None.
    """
    analysis = audit.analyses[0]
    void = audit.blind is not None and audit.blind.confounded
    metrics = [
        metric
        for row in chosen(audit, variants)
        for metric in (*_indicator(row, analysis), *(() if void else _attacks(row, analysis)))
    ]
    data = [each.name for each in audit.provenance.data] or ["training data"]
    dataset = {"name": ", ".join(data), "type": "-".join(data).replace(" ", "-").lower()}
    results = [{"task": _TASK, "dataset": dataset, "metrics": metrics}] if metrics else []
    return [{"name": name or audit.title, "results": results}]


def front_matter(index: Sequence[Mapping[str, Any]]) -> str:
    """The YAML at the top of a card, between its two lines of dashes.

    Example:
        >>> print(front_matter([{"name": "a: b", "results": []}]))
        ---
        model-index:
          -
            name: "a: b"
            results: []
        ---
    """
    return "\n".join(["---", "model-index:", *_lines(list(index), 1), "---"])


def _indicator(row: Ranked, analysis: Analysis) -> Iterator[dict[str, Any]]:
    if row.status != "ok" or row.r is None:
        return
    ranking = analysis.ranking
    about = {"variant": row.variant, "low": row.low, "high": row.high, "level": ranking.level}
    about |= {
        "statistic": ranking.statistic,
        "runs": row.runs,
        "samples": row.samples,
        "resolution": row.resolution,
    }
    about |= {"n_train_r": row.n_train_r, "diagnostics": list(row.diagnostics)}
    yield {
        "type": "mis_indicator_r",
        "name": f"membership-inference indicator r of {row.variant} (higher is safer)",
        "value": row.r,
        "args": about,
    }


def _attacks(row: Ranked, analysis: Analysis) -> Iterator[dict[str, Any]]:
    for metric in RATES:
        found = worst(analysis, row.variant, metric)
        if found is None:
            continue
        kind, _, rate = metric.partition("@")
        about: dict[str, Any] = {
            "variant": row.variant,
            "attack": found.attack,
            "low": found.low,
            "high": found.high,
        }
        about |= {"members": found.members, "nonmembers": found.nonmembers, "runs": found.runs}
        if rate:
            about |= {"fpr": float(rate), "realised_fpr": found.more.get("realised_fpr")}
        yield {
            "type": f"mia_{kind}",
            "name": f"{kind.upper()}{f' at an FPR of {rate}' if rate else ''} of the attack that reaches most in "
            f"{row.variant} (lower leaks less)",
            "value": found.value,
            "args": {key: value for key, value in about.items() if value is not None},
        }


def _lines(value: Any, depth: int) -> Iterator[str]:
    """Block style, two spaces a level; what is empty or plain stands on one line."""
    space = "  " * depth
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{space}{key}:", item, depth)
    else:
        for item in value:
            yield from _entry(f"{space}-", item, depth)


def _entry(head: str, item: Any, depth: int) -> Iterator[str]:
    if isinstance(item, Mapping | list | tuple) and item:
        yield head
        yield from _lines(item, depth + 1)
    else:
        yield f"{head} {json.dumps(item, ensure_ascii=False, allow_nan=False)}"
