"""What shadows, variants and records cost: a model fitted on small banks, checked on a larger one, and carried on."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from discreet.attacks import attack
from discreet.backends import Backend, backend_named
from discreet.bank import BankSettings, bank
from discreet.mlp import MLP
from discreet.recipe import Recipe
from discreet.records import Record

FEATURES, EPOCHS = 32, 10
VARIANTS = ("full", "sign(scale='absmean')", "uniform(bits=4, scale='absmean')")
SMALL = ((8, 2_000), (8, 8_000), (16, 8_000))  # models, records
LARGER = (48, 24_000)
ATTACKS = ("loss", "rmia", "lira")


@dataclass(frozen=True)
class Cost:
    """Seconds and bytes of one bank."""

    models: int
    records: int
    seconds: float
    bytes: int


def made(
    models: int, records: int, variants: tuple[str, ...], folder: Path, backend: Backend | None = None
) -> Cost:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((records, FEATURES), dtype=np.float32)
    y = (x[:, 0] + rng.standard_normal(records) > 0).astype(np.int64)
    settings = BankSettings(
        MLP((FEATURES, 64, 1)), Recipe(epochs=EPOCHS, batch_size=64), models=models, variants=variants
    )
    begun = time.perf_counter()
    bank(folder / "run", settings, x, y, workers=1, backend=backend)
    seconds = time.perf_counter() - begun
    return Cost(
        models, records, seconds, sum(each.stat().st_size for each in (folder / "run").rglob("*.safetensors"))
    )


def in_folder(
    models: int, records: int, variants: tuple[str, ...] = VARIANTS, backend: Backend | None = None
) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        return made(models, records, variants, Path(folder), backend)


def fit() -> tuple[float, float]:
    """Microseconds to train one model on one record, and to measure it once: of one variant, and of three."""
    one, three = (in_folder(16, 8_000, variants).seconds for variants in (VARIANTS[:1], VARIANTS))
    measure = (three - one) / 2 / (16 * 8_000)
    train = (one / (16 * 8_000) - measure) * 2  # a model trains on a half of the records
    return 1e6 * train, 1e6 * measure


def attacks() -> None:
    """Seconds of an attack on one target, by record and reference."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for models, records in ((16, 20_000), (48, 20_000)):
            made(models, records, VARIANTS[:1], folder / f"{models}")
            (whole,) = (folder / f"{models}" / "run" / "release").glob("bank-*.safetensors")
            record = Record.open(whole)
            for attacker in ATTACKS:
                begun = time.perf_counter()
                attack(record, attacker, run="0", variant="full")
                took = time.perf_counter() - begun
                each = 1e9 * took / records / models
                print(f"  {attacker:5} {models:3} models {took:7.3f} s, {each:6.1f} ns a record and model")


def main() -> None:
    in_folder(2, 500)  # imports, warm
    train, measure = fit()
    print(
        f"training {train:.2f} us a model and record ({EPOCHS} epochs), measuring {measure:.2f} us a model, variant"
        " and record"
    )
    for models, records in (*SMALL, LARGER):
        cost = in_folder(models, records)
        guessed = 1e-6 * models * records * (train / 2 + len(VARIANTS) * measure)
        values = models * len(VARIANTS) * records
        print(
            f"{models} models, {records} records: {cost.seconds:.2f} s, {guessed:.2f} s by the model; "
            f"{cost.bytes / 1e6:.1f} MB, {cost.bytes / values:.1f} bytes a model, variant and record"
        )
    for cores in (1, 2):
        begun = time.perf_counter()
        with backend_named("ray", cores) as backend:
            opened = time.perf_counter() - begun
            in_folder(2, 500, backend=backend)
            cost = in_folder(*LARGER, backend=backend)
        print(f"Ray, {cores} workers: {opened:.1f} s to start, then {cost.seconds:.2f} s for the larger bank")
    attacks()


if __name__ == "__main__":
    main()
