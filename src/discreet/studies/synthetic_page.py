"""The figures of the synthetic study as JSON and as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet.baseline import BEST
from discreet.estimate import Estimate
from discreet.stability import Curve
from discreet.studies.synthetic_attack import chosen
from discreet.studies.synthetic_found import MapRow, SetFound, Synthetic, needed
from discreet.studies.synthetic_setting import FULL, NAMES

__all__ = ["to_json", "to_markdown"]

_SIMPLE = "loss threshold"


def to_json(found: Synthetic) -> dict[str, Any]:
    """All figures, with intervals and counts."""
    return {
        "schema": "discreet.study/1",
        "study": "synthetic",
        "scale": dict(found.scale),
        "claims": [each.to_json() for each in found.claims],
        "average": _agreements(found.average),
        "sets": [_set(each, found.scale) for each in found.sets],
        "map": [_row(each) for each in found.rows],
        "trend": None if found.trend is None else found.trend.to_json(),
    }


def _set(found: SetFound, scale: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": found.setting.name,
        "setting": found.setting.to_json(),
        "agreement": _agreements(found.agreement),
        "optimum": found.optimum,
        "left_out": list(found.left_out),
        "ranking": found.ranking.to_json(),
        "security": [{"kind": k, "variant": v} | each.to_json() for (k, v), each in found.security.items()],
        "chosen": chosen(found.security, found.setting, scale["attacked"], scale["attack"]["folds"]),
        "beyond_loss": [
            {"kind": k, "variant": v} | found.security["loss-only", v].less(each).to_json()
            for (k, v), each in found.security.items()
            if k not in ("loss-only", _SIMPLE)
        ],
        "stability": {
            "r": found.stability.to_json(),
            "discriminator": found.attack_stability.to_json(),
            "loss threshold": found.threshold_stability.to_json(),
        },
        "curves": {
            name: {"training": list(a), "evaluation": list(b)} for name, (a, b) in found.curves.items()
        },
        "lambda_by_rank": {
            name: found.ranking.lambda_by_rank(name).to_json() for name in found.setting.specs
        },
    }


def _row(found: MapRow) -> dict[str, Any]:
    return {
        "setting": found.setting.to_json(),
        "optimum": {"quantizers": found.optimum[0], "full": found.optimum[1]},
        "edges": found.edges,
        "agreement": {
            name: None if each is None else each.to_json() for name, each in found.agreement.items()
        },
        "mis": {name: each.to_json() for name, each in found.mis.items()},
        "r": dict(found.r),
    }


def _agreements(found: Any) -> list[dict[str, Any]]:
    return [
        {"statistic": statistic, "kind": kind, "spearman": None if each is None else each.to_json()}
        for (statistic, kind), each in found.items()
    ]


def to_markdown(found: Synthetic) -> str:
    """Claims, agreements, the MIS against each kind of attack, and the map."""
    scale, kinds = found.scale, list(dict.fromkeys(kind for _, kind in found.average))
    lines = [
        f"{scale['runs']} runs for r on {scale['evaluation']:,} evaluation samples, {scale['attacked']} runs for the"
        f" MIS, {len(found.sets)} data set{'s' * (len(found.sets) > 1)}; 95 % intervals. Every MIS is an upper"
        " estimate.",
        "",
        "| claim | verdict | found | rule |",
        "|---|---|---|---|",
        *(f"| {each.said} | **{each.verdict}** | {each.found} | {each.rule} |" for each in found.claims),
        "",
        "Spearman correlation of r with the MIS over quantizers, mean over data sets. Data sets share no sample,"
        " centre, label or start; the interval is a t interval over them. It covers their noise and how they differ,"
        " as if modes and sigma had been drawn at random, and no other quantizers, networks or ways of training:",
        "",
        "| r over runs | " + " | ".join(f"MIS against {kind}" for kind in kinds) + " |",
        "|---|" + "---|" * len(kinds),
        *(
            f"| {statistic} | " + " | ".join(_show(found.average[statistic, kind]) for kind in kinds) + " |"
            for statistic in ("mean", "median")
        ),
        "",
        "| data set | optimum | Spearman, mean r | median r | without a finite r |"
        " runs for 0.9: r, full discriminator, threshold |",
        "|---|---|---|---|---|---|",
    ]
    for each in found.sets:
        curves = (each.stability, each.attack_stability, each.threshold_stability)
        lines.append(
            f"| {each.setting.name} | {each.optimum:.2f} | {_show(each.agreement['mean', BEST])} |"
            f" {_show(each.agreement['median', BEST])} | {', '.join(each.left_out) or 'none'} |"
            f" {', '.join(map(_needed, curves))} |"
        )
    names = list(NAMES)
    lines += [
        "",
        "MIS against the best attack, for each variant and fold the trained kind surest (by cross-entropy) on the"
        " runs that stop the training, not on those that judge it (0: members are told without error; 1: no attack"
        " helps):",
        "",
        "| data set | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
        *(
            f"| {each.setting.name} | "
            + " | ".join(_show(each.security[BEST, name].mis) for name in names)
            + " |"
            for each in found.sets
        ),
        "",
        "r, thousandths (mean over runs; * below the resolution):",
        "",
        "| data set | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
        *(
            f"| {each.setting.name} | " + " | ".join(_r(each, name) for name in names) + " |"
            for each in found.sets
        ),
        "",
        "The MIS against each kind of attack, means over data sets, and on how many variants of data sets it finds"
        " less than the attack on losses alone, told apart: all read the losses too, so there a kind was not trained"
        " well enough:",
        "",
        "| attack reads | " + " | ".join(names) + " | worse than loss-only |",
        "|---|" + "---|" * (len(names) + 1),
        *(_attack(found, kind) for kind in kinds),
        "",
        *_map(found),
    ]
    return "\n".join(lines) + "\n"


def _attack(found: Synthetic, kind: str) -> str:
    means = (np.mean([each.security[kind, name].mis.value for each in found.sets]) for name in NAMES)
    worse = (
        "" if kind in ("loss-only", _SIMPLE) else f"{sum(each.worse_than_loss(kind) for each in found.sets)}"
    )
    cells = [f"{mean:.3f}" for mean in means]
    return f"| {kind} | {' | '.join(cells)} | {worse and f'{worse} of {len(found.sets) * len(NAMES)}'} |"


def _map(found: Synthetic) -> list[str]:
    if not found.rows:
        return []
    scale, method = found.scale, "" if found.trend is None else f" ({found.trend.method})"
    return [
        f"The map: {scale['map_runs']} runs for r on {scale['map_evaluation']:,} evaluation samples and"
        f" {scale['map_attacked']} runs for the MIS by the loss threshold, for each setting; settings equal to a data"
        " set's above are left out, and rows of one data set share its samples.",
        "",
        "Over data sets and settings, the correlation of where the quantizers' lowest loss falls (optimum: 0 the"
        " first checkpoint, 1 the last; median over runs) with how the mean r agrees with the MIS by the loss"
        " threshold:"
        f" {_show(found.trend)}{method}.",
        "",
        "In order of the optimum:",
        "",
        "| data set | depth, width | batch | spread | rate | granularity | optimum: quantizers, full | at an end |"
        " Spearman, mean r | median r | least to greatest MIS |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(_map_line(row) for row in sorted(found.rows, key=lambda row: row.optimum)),
    ]


def _map_line(row: MapRow) -> str:
    s = row.setting
    mis = [each.value for name, each in row.mis.items() if name != FULL]
    width = "0" if not s.depth else f"{s.depth}, {s.width}"
    return (
        f"| {s.name} | {width} | {s.batch_size} | {s.spread:g} | {s.lr:g} | {s.granularity} | {row.optimum[0]:.2f},"
        f" {row.optimum[1]:.2f} | {row.edges:.0%} | {_show(row.agreement['mean'])} |"
        f" {_show(row.agreement['median'])} |"
        f" {min(mis):.2f} to {max(mis):.2f} |"
    )


def _needed(curve: Curve) -> str:
    count = needed(curve)
    if count is not None and count == curve.runs[0]:
        return f"{count} (fewest tried)"
    return str(count) if count is not None else "not reached" if len(curve.runs) > 1 else "not drawn"


def _r(found: SetFound, name: str) -> str:
    each = found.ranking[name]
    if each.r is None:
        return each.status
    return f"{1000 * each.r:.2f}{'*' if each.r < each.resolution else ''}"


def _show(figure: Estimate | None) -> str:
    if figure is None:
        return "not defined"
    return f"{figure.value:.2f} ({figure.low:.2f} to {figure.high:.2f})".replace("-", "−")
