"""What each attack costs on one target: models it needs trained, and seconds, training of those models included."""

from __future__ import annotations

import dataclasses
import tempfile
import time

import numpy as np

from discreet.attacks import attack, parse
from discreet.bank import BankSettings, bank
from discreet.knowledge import know_half
from discreet.mlp import MLP
from discreet.recipe import Recipe
from discreet.records import Record

MODELS, PRIVATE, PUBLIC, FEATURES, CLASSES = 16, 2000, 4000, 200, 10
REFERENCES = (
    "attack_p",
    "reference",
    "base",
    "rmia",
    "lira(mode='offline')",
    "lira",
    "joint(variants=('full', 'sign'))",
    "neural",
)
ALONE = (
    "loss",
    "metric(kind='modified')",
    "marginal",
    "quantile(learner='ridge')",
    "quantile",
    "quantile(learner='lightgbm(trees=20)')",
    "quantile(learner='catboost')",
)


def release() -> tuple[Record, float]:
    """A bank on noisy classes, and what training one of its models took."""
    rng = np.random.default_rng(0)
    samples = PRIVATE + PUBLIC
    y = rng.integers(0, CLASSES, samples)
    x = (rng.standard_normal((CLASSES, FEATURES))[y] + 3 * rng.standard_normal((samples, FEATURES))).astype(
        np.float32
    )
    settings = BankSettings(
        MLP((FEATURES, 256, CLASSES)),
        Recipe("ce", epochs=40, batch_size=32),
        models=MODELS,
        variants=("full", "sign"),
        which=("loss", "margin", "confidence", "modified_entropy", "outputs"),
    )
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        record = bank(folder, settings, x, y, public=np.arange(PRIVATE, samples))
        took = time.perf_counter() - start
        record = dataclasses.replace(
            record,
            signals={name: np.array(values) for name, values in record.signals.items()} | {"features": x},
            axes={**record.axes, "features": ("sample", "feature")},
        )
    return record, took / MODELS


def main() -> None:
    """Print a line an attack."""
    record, each = release()
    network = f"{FEATURES}-256-{CLASSES}"
    print(f"{MODELS} networks {network} on {PRIVATE // 2:,} samples: {each:.2f} s to train and measure one")
    half = know_half(record, 0)
    jobs = [(spec, spec, 0, record) for spec in ALONE] + [
        ("neural, half of the answers known", "neural", 0, half)
    ]
    jobs += [(spec, spec, MODELS - 2, record) for spec in REFERENCES]
    attack(record, "loss", run="0", variant="full")
    for name, spec, models, data in jobs:
        start = time.perf_counter()
        attack(data, parse(spec), run="0", variant="full")
        took = time.perf_counter() - start
        whole = took + models * each
        print(f"{name}: {models} other models, {took:.2f} s, with their training {whole:.1f} s")


if __name__ == "__main__":
    main()
