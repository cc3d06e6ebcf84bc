"""The study of language models as JSON and as Markdown: verdicts, r, attacks on every quantizer, correlations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from discreet._words import number, percent
from discreet.estimate import Estimate
from discreet.studies.averaged import mean_interval
from discreet.studies.language_claims import claims, cleaned
from discreet.studies.language_found import ATTACKS, FULL, METRICS, Found
from discreet.studies.language_tuning import TARGETS
from discreet.studies.optimum import optimum

__all__ = ["to_json", "to_markdown", "training_curve"]


def to_json(found: Found) -> dict[str, Any]:
    """All figures with intervals and counts."""
    m = found.measured
    return {
        "schema": "discreet.study/1",
        "study": "language",
        "scale": asdict(m.scale),
        "seed": m.seed,
        "model": m.base,
        "texts": {
            "name": m.texts.name,
            "sha256": dict(m.texts.sha256),
            "licence": m.texts.licence,
            "source": m.texts.source,
            "counts": dict(m.texts.counts),
            **{part: len(getattr(m.parts, part)) for part in ("pool", "public", "evaluation", "calibration")},
            "pretraining": len(m.parts.pretraining),
        },
        "blind baseline": asdict(found.blind),
        "ranking": found.ranking.to_json(),
        "optimum": optimum(found.ranking)[0][0],
        "attacks": [
            {"attack": attack, "variant": variant, "metric": metric, **value.to_json()}
            for (attack, variant, metric), value in found.figures.items()
        ],
        "correlations": [
            {"attack": attack, "metric": metric, **({} if value is None else value.to_json())}
            for (attack, metric), value in found.agreements.items()
        ],
        "training": [
            {"step": step} | dict(zip(("trained on", "others of the pool", "evaluation"), told, strict=True))
            for step, told in training_curve(found)
        ],
        "claims": [asdict(claim) for claim in claims(found)],
    }


def to_markdown(found: Found) -> str:
    """The page."""
    parts = [_setting(found), _blind(found), _verdicts(found), _security(found), _attacks(found, "auc")]
    parts += [_attacks(found, "tpr@0.01"), _correlations(found), _training(found)]
    return "\n\n".join(parts) + "\n"


def _setting(found: Found) -> str:
    m, scale = found.measured, found.measured.scale
    return (
        f"{scale.runs} models, {m.base}, fine-tuned on {m.parts.trained:,} texts each ({m.texts.name}), "
        f"{scale.epochs} epochs, adapters of rank {scale.rank} on {', '.join(TARGETS)}, AdamW at {scale.lr:g}, "
        f"batches of {scale.batch}. r over {scale.checkpoints} checkpoints on {len(m.parts.evaluation):,} texts; "
        f"attacks on the last checkpoint, {len(m.parts.pool):,} texts of which each model was fine-tuned on half. "
        "95 % intervals over models and texts.\n\n"
        f"The quantizers' lowest loss falls at {optimum(found.ranking)[0][0]:.2f} of the trajectory (0: the first "
        "checkpoint, 1: the last; median over models and quantizers). r is to be read where it falls neither in the "
        "first sixth nor beyond three fifths (diagnostics optimum-early, optimum-late, not-converged)."
    )


def _blind(found: Found) -> str:
    b = found.blind
    value = f"{number(b.auc)} ({_range(b.low, b.high)})"
    told = f"Without any model, texts alone tell members from others with AUC {value}"
    return (
        f"{told}: **the split is confounded, and nothing below is evidence of a leak.**"
        if b.confounded
        else f"{told}."
    )


def _verdicts(found: Found) -> str:
    rows = [[c.says, c.where, f"**{c.verdict}**", c.numbers] for c in claims(found)]
    return _table(["the paper says", "where", "here", "numbers"], rows)


def _security(found: Found) -> str:
    rows = []
    for i in found.ranking.indicators:
        told = [
            "–" if x is None else number(x)
            for x in (i.r, i.low, i.high, None if i.r is None else found.measured.parts.trained * i.r)
        ]
        best = found.best(i.variant, "auc")
        figure = found.figures[best, i.variant, "auc"]
        rows.append(
            [
                cleaned(i.variant),
                told[0],
                f"{told[1]} to {told[2]}",
                told[3],
                number(_final(found, i.variant)),
                f"{number(figure.value)} ({_range(figure.low, figure.high)})",
                ATTACKS[best],
                ", ".join(i.diagnostics) or "–",
            ]
        )
    head = ["variant", "r", "interval", "n·r", "loss, nats", "AUC of the best attack", "which", "diagnostics"]
    picked = "The best attack is picked on the texts that it is judged on, so its figure is a little high."
    return f"Safest first by r. {picked}\n\n{_table(head, rows)}"


def _final(found: Found, variant: str) -> float:
    """Mean loss on evaluation texts at the last checkpoint."""
    record = found.measured.trajectory
    last = [record.rows(variant, run)[-1] for run in record.runs]
    return float(np.mean([np.mean(record.signal("loss")[row], dtype=np.float64) for row in last]))


def _attacks(found: Found, metric: str) -> str:
    rows = [
        [cleaned(variant), *(_cell(found.figures[attack, variant, metric]) for attack in found.attacks)]
        for variant in found.variants
    ]
    name = "AUC" if metric == "auc" else f"TPR at {percent(float(metric.partition('@')[2]))} FPR"
    return f"{name} of every attack.\n\n{_table(['variant', *(ATTACKS[a] for a in found.attacks)], rows)}"


def _correlations(found: Found) -> str:
    rows = [
        [
            "the best attack" if attack == "best" else ATTACKS[attack],
            *("–" if (e := found.agreements[attack, metric]) is None else _cell(e) for metric in METRICS),
        ]
        for attack in ("best", *found.attacks)
    ]
    names = ["AUC" if m == "auc" else m.replace("tpr@", "TPR at FPR ") for m in METRICS]
    head = f"Spearman correlation of r with what attacks find, over {len(found.compressed)} quantizers (Figure 11)."
    return f"{head}\n\n{_table(['attack', *names], rows)}"


def _training(found: Found) -> str:
    rows = [
        [f"{step:g}", *(f"{number(mean)} ({_range(low, high)})" for mean, low, high in told)]
        for step, told in training_curve(found)
    ]
    head = ["step", "texts it was fine-tuned on", "other texts of the pool", "evaluation texts"]
    said = "Mean loss in full precision, nats a token, with 95 % t intervals over models (Figure 9)."
    return f"{said}\n\n{_table(head, rows)}"


def training_curve(found: Found) -> list[tuple[int, tuple[tuple[float, float, float], ...]]]:
    """Step, and the mean loss over runs with the ends of its t interval: on a run's own texts, on others of the pool,
    and on evaluation texts."""
    pool, held = found.measured.curves, found.measured.trajectory
    steps = sorted(set(pool.step.tolist()))
    rows = []
    for step in steps:
        own, others, evaluation = [], [], []
        for run in pool.runs:
            loss = np.asarray(pool.signal("loss")[pool.rows(FULL, run, step)[0]], np.float64)
            member = pool.membership(run)
            own.append(loss[member].mean())
            others.append(loss[~member].mean())
            evaluation.append(np.mean(held.signal("loss")[held.rows(FULL, run, step)[0]], dtype=np.float64))
        rows.append((int(step), tuple(mean_interval(each) for each in (own, others, evaluation))))
    return rows


def _cell(value: Estimate) -> str:
    return f"{number(value.value)} ({_range(value.low, value.high)})"


def _range(low: float, high: float) -> str:
    return f"{number(low)} to {number(high)}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
