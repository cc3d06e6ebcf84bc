"""Small synthetic release records: complementary pairs of runs whose members fit better where a leak is planted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from discreet.records import Record

LEAKS = {"full": 1.5, "sign": 0.0}


def bank(
    leaks: Mapping[str, float] = LEAKS, *, runs: int = 6, samples: int = 120, seed: int = 0, **parts: object
) -> Record:
    """Losses exp(normal) whose logarithm is lower by the leak for members; labels 0 and 1, two by two."""
    rng = np.random.default_rng(seed)
    member = np.zeros((runs, samples), bool)
    for pair in range(0, runs, 2):
        member[pair, rng.permutation(samples)[: samples // 2]] = True
        member[pair + 1] = ~member[pair]
    hard = rng.standard_normal(samples)
    rows = [(variant, run) for variant in leaks for run in range(runs)]
    loss = np.stack([np.exp(hard / 4 + rng.standard_normal(samples) - leaks[v] * member[r]) for v, r in rows])
    fields = {
        "run": tuple(str(run) for _, run in rows),
        "step": np.ones(len(rows)),
        "variant": tuple(variant for variant, _ in rows),
        "sample": np.arange(samples) + 100,
        "signals": {"loss": loss, "margin": -np.log(loss), "label": np.arange(samples) // 2 % 2},
        "member": member,
    }
    return Record(**(fields | parts))  # pyright: ignore[reportArgumentType]
