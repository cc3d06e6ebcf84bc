"""Synthetic audits: one that looks like a real demo, and the ones that break pages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from discreet.audit import Audit
from discreet.summary import summarize

SPECS = {
    "ternary(zeros=0.9)": 0.0212,
    "sign": 0.0094,
    "ternary(zeros=0.5)": 0.0081,
    "ternary(zeros=0.33)": 0.0052,
    "uniform(bits=2)": 0.0019,
    "uniform(bits=3)": 0.0011,
    "uniform(bits=4)": 0.00093,
    "uniform(bits=5)": 0.00071,
    "full": 0.00066,
}
BITS = dict(zip(SPECS, (1.6, 1.0, 1.6, 1.6, 3.0, 4.0, 5.0, 6.0, 32.0), strict=True))
SHARE = dict(zip(SPECS, (0.882, 0.931, 0.947, 0.958, 0.985, 0.994, 0.998, 1.001, 1.0), strict=True))
SAMPLES, RUNS, STEPS = 1560, 16, 40
RESOLUTION = 1.96**2 / (2 * SAMPLES)


def ranked(variant: str, r: float, rank: int, count: int, **changes: Any) -> dict[str, Any]:
    """One row of a ranking, as ``discreet rank`` writes it."""
    spread = 0.22 + 0.5 * RESOLUTION / (r + RESOLUTION)
    flags = ["few-runs"] if changes.pop("few", False) else []
    if r < RESOLUTION:
        flags.append("below-resolution")
    if 4096 * r < 10:
        flags.append("theorem-silent")
    if variant == "full":
        flags.append("full-precision-reference")
    row = {
        "variant": variant, "status": "ok", "r": r, "r_median": 0.9 * r,
        "low": max(0.0, r * (1 - 2.1 * spread)) if r > RESOLUTION else 0.0, "high": r * (1 + 2.6 * spread),
        "runs": RUNS, "runs_undefined": 0, "runs_infinite": 0, "checkpoints": STEPS, "candidates": STEPS - 1,
        "samples": SAMPLES, "n_train_r": 4096 * r, "resolution": RESOLUTION,
        "rank": rank, "rank_low": max(1, rank - 1 - (r < 0.002)), "rank_high": min(count, rank + 1 + (r < 0.002)),
        "diagnostics": flags,
    }  # fmt: skip
    return row | changes


def unranked(variant: str, status: str) -> dict[str, Any]:
    """A row without a rank."""
    missing = dict.fromkeys(("r", "r_median", "low", "high", "n_train_r", "rank", "rank_low", "rank_high"))
    flags = {"undefined": ["runs-undefined"], "infinite": ["runs-infinite"]}[status]
    counts = {f"runs_{status}": RUNS, "status": status, "diagnostics": flags, "candidates": 0}
    return ranked(variant, 0.01, 1, 1) | missing | counts


def _pair(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    names = {"safer": a["variant"], "than": b["variant"]}
    if a["rank"] is None or b["rank"] is None:
        return {**names, "probability": None, "told_apart": False}
    z = math.log((a["r"] + 1e-9) / (b["r"] + 1e-9)) / 0.35
    chance = 0.5 * (1 + math.erf(z / math.sqrt(2)))
    both_low = a["r"] < RESOLUTION and b["r"] < RESOLUTION
    return {**names, "probability": round(chance, 3), "told_apart": chance > 0.975 and not both_low}


def rank_json(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The JSON of ``discreet rank`` for some rows."""
    pairs = [_pair(a, b) for i, a in enumerate(rows) for b in rows[i + 1 :]]
    return {
        "schema": "discreet.rank/1",
        "level": 0.95,
        "statistic": "mean",
        "variants": rows,
        "pairwise": pairs,
    }


def ranking_of(values: dict[str, float]) -> dict[str, Any]:
    """Rank variants with these r."""
    names = sorted(values, key=lambda name: -values[name])
    return rank_json([ranked(name, values[name], i, len(names)) for i, name in enumerate(names, 1)])


def _curves(names: list[str]) -> list[dict[str, Any]]:
    steps = np.arange(1, STEPS + 1, dtype=float)
    out = []
    for i, name in enumerate(names):
        lift = 0.02 + 0.35 * (1 - SHARE.get(name, 0.95))
        loss = 0.42 + lift + 0.45 * np.exp(-steps / 6) + 0.0028 * np.maximum(0, steps - 18) * (1 + 0.05 * i)
        loss += 0.006 * np.sin(steps / (2 + i))
        area = 0.9 * SHARE.get(name, 0.95) - 0.3 * np.exp(-steps / 7)
        for signal, mean, width in (("loss", loss, 0.025), ("auroc", area, 0.012)):
            ends = {"mean": mean, "low": mean - width, "high": mean + width}
            numbers = {key: value.round(5).tolist() for key, value in ends.items()}
            out.append({"variant": name, "signal": signal, "steps": steps.tolist(), **numbers})
    return out


def _lambda(names: list[str]) -> list[dict[str, Any]]:
    ranks = np.arange(2, STEPS + 1)
    out = []
    for i, name in enumerate(names):
        height = 0.05 * np.exp(-((np.log(ranks) - np.log(3 + i / 2)) ** 2)) + 0.002 / ranks
        deciding = np.zeros(len(ranks), int)
        deciding[[0, 1, 2, 4 + i % 3]] = [7, 5, 3, 1]
        out.append(
            {
                "variant": name,
                "rank": ranks.tolist(),
                "median": height.tolist(),
                "deciding": deciding.tolist(),
            }
        )
    return out


def _stability() -> dict[str, Any]:
    runs = [2, 3, 4, 5, 6, 7, 8]

    def point(run: int, top: float, width: float) -> dict[str, Any]:
        return {"runs": run, "spearman": top, "low": top - width, "high": min(1.0, top + width)}

    whole = [point(run, round(1 - 0.6 / run, 3), 0.5 / run) for run in [*runs, 10, 12, 14, 16]]
    halves = [point(run, round(0.9 - 1.1 / run, 3), 0.9 / run) for run in runs]
    return {"subset_vs_all": whole, "disjoint_halves": halves, "runs_needed": {"0.9": 40, "0.95": None}}


def _performance(name: str) -> dict[str, Any]:
    share = SHARE.get(name, 0.95)
    area = {"value": round(0.905 * share, 4), "low": round(0.905 * share - 0.012, 4)}
    shares = {"share_of_full": share, "share_low": share - 0.009, "share_high": share + 0.008}
    high = round(0.905 * share + 0.011, 4)
    return {"variant": name, "metric": "auroc", **area, "high": high, "n": SAMPLES, **shares}


def _storage(name: str) -> dict[str, Any]:
    bits = BITS.get(name, 4.0)
    size = {"bits_per_weight": bits, "bytes": int(262_401 * bits / 8)}
    return {"variant": name, **size, "levels": 2, "bytes_full": 1_049_604}


def _attack(name: str, r: float) -> dict[str, Any]:
    value = min(max(0.74 - 0.05 * math.log10(r / 0.0005), 0.45), 0.95)
    ends = {"value": round(value, 4), "low": round(value - 0.015, 4), "high": round(value + 0.015, 4)}
    counts = {"members": 2600, "nonmembers": 2600, "runs": RUNS, "rule": "negative loss; Mann-Whitney"}
    return {"variant": name, "attack": "loss", "metric": "auc", **ends, **counts}


def analysis_json(name: str, values: dict[str, float], note: str = "") -> dict[str, Any]:
    """An analysis with everything in it."""
    ranking = ranking_of(values)
    names = [row["variant"] for row in ranking["variants"]]
    agreement = {"with": "loss attack AUC", "spearman": -0.73, "low": -0.95, "high": -0.21, "n": len(names)}
    return {
        "name": name,
        "note": note,
        "ranking": ranking,
        "performance": [_performance(n) for n in names],
        "storage": [_storage(n) for n in names],
        "attacks": [_attack(n, values[n]) for n in names],
        "agreement": [agreement],
        "curves": _curves(names),
        "lambda": _lambda(names),
        "stability": _stability(),
    }


NAMES = ("lira(mode='offline')", "loss", "rmia", "base", "metric(kind='correctness')", "reference")


def _figures(name: str, r: float, attack: str, place: int) -> list[dict[str, Any]]:
    """Every figure of one attack on one variant."""
    base = _attack(name, r) | {"attack": attack}
    area = min(0.99, base["value"] + 0.02 * place)
    rows = [base | {"value": area, "low": area - 0.015, "high": min(1.0, area + 0.015)}]
    for fpr in (0.1, 0.01, 0.001, 0.0001):
        rate = min(1.0, fpr * (2 + place) * area)
        told = {"fpr": fpr, "realised_fpr": fpr, "resolvable": fpr > 0.0005, "needs": round(1 / fpr)}
        ends = {"value": rate, "low": 0.8 * rate, "high": min(1.0, 1.3 * rate)}
        rows.append(base | ends | told | {"metric": f"tpr@{fpr:g}"})
    rows.append(base | {"metric": "advantage", "value": -0.01, "low": -0.03, "high": 0.02})
    return [*rows, base | {"metric": "epsilon", "value": 0.4, "low": 0.4, "high": None}]


def _curve(name: str, attack: str, gain: float) -> dict[str, Any]:
    rates = np.geomspace(1 / 1900, 1, 40)
    caught = np.minimum(1, gain * rates**0.8) * (rates > 0.002 * (gain < 1))
    return {
        "variant": name,
        "attack": attack,
        "fpr": rates.tolist(),
        "tpr": np.maximum.accumulate([*caught[:-1], 1.0]).tolist(),
        "resolvable": 1 / 1900,
    }


def _exposed(name: str, attack: str) -> list[dict[str, Any]]:
    counts = {"runs": 8, "others": 8, "accused": 0, "fpr": 0.01}
    return [
        {"variant": name, "attack": attack, "sample": f"m{i}", "label": str(i % 2), "caught": 8 - i // 5}
        | counts
        | {"mean_rank": 0.999 - i / 1000}
        for i in range(20)
    ]


def _paired(name: str, attack: str, gap: float) -> list[dict[str, Any]]:
    answer = "less" if gap + 0.01 < 0 else "more" if gap - 0.01 > 0 else "not told apart"
    row = {
        "variant": name,
        "against": "full",
        "attack": attack,
        "value": gap,
        "low": gap - 0.01,
        "high": gap + 0.01,
    }
    return [row | {"metric": metric, "answer": answer} for metric in ("auc", "tpr@0.01")]


def attacked_json(name: str, values: dict[str, float]) -> dict[str, Any]:
    """An analysis as ``discreet audit`` leaves it."""
    raw = analysis_json(name, values)
    names = [row["variant"] for row in raw["ranking"]["variants"]]
    shown = NAMES[:2]
    classes = [
        {
            "variant": n,
            "attack": shown[0],
            "label": label,
            "metric": metric,
            "value": 0.6,
            "low": 0.5,
            "high": 0.7,
        }
        | {"members": 1200, "nonmembers": 1300}
        for n in names
        for label in ("0", "1")
        for metric in ("auc", "tpr@0.01")
    ]
    agreed = [
        {"with": f"{attack} attack {figure}", "spearman": -0.7, "low": -0.9, "high": 0.1, "n": len(names) - 1}
        for attack in NAMES
        for figure in ("AUC", "TPR@0.01")
    ]
    return raw | {
        "attacks": [row for i, a in enumerate(NAMES) for n in names for row in _figures(n, values[n], a, i)],
        "roc": [_curve(n, a, 1.6 - i) for i, a in enumerate(shown) for n in names],
        "exposed": [row for n in names for row in _exposed(n, shown[0])],
        "classes": classes,
        "paired": [
            row
            for a in shown
            for i, n in enumerate(names)
            if n != "full"
            for row in _paired(n, a, i / 100 - 0.05)
        ],
        "agreement": agreed,
    }


def attacked() -> dict[str, Any]:
    """Six attacks on four variants; the second analysis shares them, and so has figures and agreement alone."""
    some = {name: SPECS[name] for name in ("ternary(zeros=0.9)", "sign", "uniform(bits=2)", "full")}
    first = attacked_json("attacked, every epoch", some)
    second = attacked_json("attacked, every fourth epoch", {name: r / 3 for name, r in some.items()})
    return audit_json(first, second | {"roc": [], "exposed": [], "classes": [], "paired": []})


def confounded() -> dict[str, Any]:
    """The same, but the texts alone tell members from non-members."""
    blind = {"of": "text", "auc": 0.83, "low": 0.79, "high": 0.86, "level": 0.95, "confounded": True}
    counts = {"members": 2342, "nonmembers": 2342, "runs": RUNS, "rule": "out-of-fold logistic regression"}
    return audit_json(*attacked()["analyses"], blind=blind | counts)


def audit_json(*analyses: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """An audit around some analyses, with its summary."""
    training = {"runs": RUNS, "epochs": STEPS, "optimizer": "adam", "lr": 1e-3}
    data = {"name": "b3db", "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
    versions = {"discreet": "0.1.0", "numpy": "2.3.1", "python": "3.11.7", "torch": "2.13.0"}
    counts = {"molecules": 7807, "not parsed": 2, "groups": 6245, "training": 4685, "evaluation": SAMPLES}
    raw: dict[str, Any] = {
        "schema": "discreet.audit/1",
        "title": "Blood-brain-barrier permeability, two-layer network",
        "summary": [],
        "settings": {"seed": 7, "level": 0.95, "training": training, "quantizers": list(SPECS)},
        "provenance": {
            "seed": 7,
            "versions": versions,
            "data": [data | {"licence": "CC0-1.0", "source": "qc-b3db 1.1.1"}],
        },
        "data": {"counts": counts},
        "notes": ["Runs come in complementary pairs: each half of the molecules trains one of two runs."],
        "analyses": list(analyses),
        **changes,
    }
    if not raw["summary"]:
        made = Audit.from_json(raw)
        raw["summary"] = list(summarize(made.analyses[0], made.blind))
    return raw


def realistic() -> dict[str, Any]:
    """Nine variants, sixteen runs, three analyses, the last one as ``discreet rank`` would give it."""
    low = {name: value / 12 for name, value in SPECS.items()}
    mixed = analysis_json(
        "scaled preset, every epoch", {**SPECS, "sign": 0.0004, "uniform(bits=2)": 0.006}, "Scale mean |w|."
    )
    return audit_json(
        analysis_json("paper preset, every epoch", SPECS, "Quantizers as printed in the paper, biases too."),
        mixed,
        {"name": "paper preset, every fourth epoch", "ranking": ranking_of(low)},
    )


HOSTILE: tuple[str, ...] = (
    "<script>document.title='owned'</script>",
    "line one\nline two\r\n\tthree",
    "x" * 10_000,
    "x" * 9_999 + "y",
    "$\\frac{1}{0}$ & \"quotes\" 'single' `ticks`",
    "\u202egnp.exe\u202c \u4e2d\u6587 \U0001f984",
    "--><!-- ]]> </style></title><img src=x onerror=alert(1)>",
    "",
    'url(#x) href="#y" id="z" #0b5d8c',
)


def hostile() -> dict[str, Any]:
    """Names that try to leave their place, in every field that takes text."""
    values = dict(zip(HOSTILE, SPECS.values(), strict=True))
    second = {"name": HOSTILE[6], "ranking": ranking_of(values)}
    raw = audit_json(analysis_json(HOSTILE[0], values, HOSTILE[1]), second)
    raw["title"], raw["notes"] = HOSTILE[6] + "t" * 5000, list(HOSTILE)
    raw["settings"] = {name: {"deep": [name, 1, None, True]} for name in HOSTILE}
    raw["provenance"]["versions"] = dict.fromkeys(HOSTILE, HOSTILE[0])
    raw["provenance"]["data"] = [{"name": n, "sha256": n, "licence": n, "source": n} for n in HOSTILE]
    raw["data"]["counts"] = dict.fromkeys(HOSTILE, 3)
    analysis = raw["analyses"][0]
    analysis["ranking"]["variants"][0]["diagnostics"] += [*HOSTILE[:2], "from-the-future"]
    for row in (*analysis["performance"], *analysis["attacks"]):
        row["metric"] = HOSTILE[0]
    for row in analysis["attacks"]:
        row["attack"], row["rule"] = HOSTILE[1], HOSTILE[2]
    for row in analysis["curves"]:
        row["signal"] = HOSTILE[0] + row["signal"]
    analysis["agreement"][0]["with"] = HOSTILE[0]
    names = [row["variant"] for row in analysis["ranking"]["variants"]]
    analysis["roc"] = [_curve(name, HOSTILE[i], 0.5) for name in names for i in (1, 4)]
    analysis["exposed"] = [
        row | {"sample": HOSTILE[i]} for i, row in enumerate(_exposed(names[0], HOSTILE[0])[:8])
    ]
    analysis["classes"] = [
        {"variant": name, "attack": HOSTILE[1], "label": HOSTILE[0], "metric": HOSTILE[2], "value": 0.5}
        for name in names
    ]
    analysis["paired"] = [
        row | {"against": names[1], "attack": HOSTILE[4], "metric": HOSTILE[6] + row["metric"]}
        for row in _paired(names[0], "", -0.2)
    ]
    return raw


def ranking_only() -> dict[str, Any]:
    """What ``discreet rank --report`` shows: a ranking and nothing else."""
    return Audit.of_ranking(ranking_of(SPECS), title="losses.csv").to_json()


def one_variant() -> dict[str, Any]:
    """A single variant, with nothing to compare it with."""
    return audit_json(analysis_json("only", {"sign": 0.004}))


def all_unranked() -> dict[str, Any]:
    """No variant has a rank."""
    rows = [unranked("sign", "undefined"), unranked("ternary(zeros=0.9)", "infinite")]
    nothing = analysis_json("nothing ranked", {"sign": 0.004, "ternary(zeros=0.9)": 0.003})
    return audit_json(nothing | {"ranking": rank_json(rows)})


def extremes() -> dict[str, Any]:
    """Zeros, huge values, open intervals, missing numbers, an infinite variant, a collapsed one."""
    rows = [
        ranked("collapsed", 4.0e6, 1, 6, diagnostics=["worse-than-constant", "not-converged"]),
        ranked("huge", 12.5, 2, 6, high=9.0e9),
        ranked("open", 0.5, 3, 6, high=None, low=None, few=True),
        ranked("middling", 0.02, 4, 6),
        ranked("tiny", 1.0e-12, 5, 6),
        ranked("zero", 0.0, 6, 6, low=0.0, high=0.0),
        unranked("flat", "infinite"),
    ]
    full = analysis_json("extremes", {row["variant"]: row["r"] or 0.01 for row in rows} | {"zero": 0.001})
    full["ranking"] = rank_json(rows)
    for row in full["performance"]:
        row |= {"low": None, "high": None, "share_of_full": None, "share_low": None, "share_high": None}
    full["curves"][0]["mean"] = [None] * STEPS
    full["curves"][2]["mean"] = [30 * value for value in full["curves"][2]["mean"]]
    full["lambda"][0]["median"] = [0.0, None] + [1e-9] * (STEPS - 3)
    full["stability"] = {
        "subset_vs_all": [{"runs": 2, "spearman": None}],
        "disjoint_halves": [],
        "runs_needed": {"0.9": None},
    }
    full["agreement"] = [{"with": "loss attack AUC", "spearman": None}]
    return audit_json(full, notes=[])


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "realistic": realistic,
    "attacked": attacked,
    "confounded": confounded,
    "hostile": hostile,
    "ranking-only": ranking_only,
    "one-variant": one_variant,
    "all-unranked": all_unranked,
    "extremes": extremes,
}


@pytest.fixture(scope="session")
def audits() -> dict[str, Audit]:
    """Every synthetic audit by name."""
    return {name: Audit.from_json(make()) for name, make in CASES.items()}


@pytest.fixture(scope="session")
def pages(audits: dict[str, Audit]) -> dict[str, str]:
    """Every synthetic audit as a page."""
    from discreet.report import render

    return {name: render(audit) for name, audit in audits.items()}
