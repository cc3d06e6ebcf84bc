"""Nine variants on a large sample, against the machine's matrix products; fingerprints; the screened mode."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from discreet.indicator import measure_run
from discreet.measure import inputs, logits, measure_stack
from discreet.mlp import MLP
from discreet.quantizers import PRESETS
from discreet.recipe import Recipe
from discreet.recorder import Recorder
from discreet.screening import screened
from discreet.training import train
from discreet.trajectory import Trajectory
from tuning.rates import Took, matmul_rate, timed

VARIANTS = 9


def measured(network: MLP, models: int, x: Tensor) -> Took:
    """What measuring all variants takes."""
    y, task = torch.arange(len(x)) % 2, "bce" if network.widths[-1] == 1 else "ce"
    variants = {f"{v}": network.init(range(v * models, (v + 1) * models)) for v in range(VARIANTS)}
    ready = inputs(network, x)
    return timed(lambda: measure_stack(network, variants, ready, y, task, dtype=np.float32), 3)


def report(widths: tuple[int, ...], models: int, samples: int, density: float = 1.0) -> None:
    """Print the share of the machine's product rate."""
    network = MLP(widths)
    x = (
        torch.randn(samples, widths[0])
        if density == 1
        else (torch.rand(samples, widths[0]) < density).float()
    )
    took = measured(network, models, x)
    rate, core_rate = matmul_rate()
    products = 2 * samples * models * VARIANTS * sum(a * b for a, b in pairwise(widths))
    print(
        f"{models} models {'-'.join(map(str, widths))}, {VARIANTS} variants, {samples:,} samples,"
        f" {density:.1%} of inputs not 0: {1e3 * took.wall:.0f} ms,"
        f" {products / took.wall / rate:.0%} of the rate of matrix products"
        f" ({products / took.core / core_rate:.0%} by core time; {rate / 1e9:.0f} GFLOP/s)"
    )


def trajectory(epochs: int, samples: int) -> tuple[MLP, list[dict[str, Tensor]], Tensor, Tensor]:
    """Checkpoints of a network that overfits, and an evaluation sample."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(samples, 64, generator=generator)
    y = (x[:, :8].sum(1) + 2 * torch.randn(samples, generator=generator) > 0).long()
    network, kept = MLP((64, 64, 1)), []
    recipe = Recipe(lr=1e-3, epochs=epochs, batch_size=16)
    own = np.arange(256)[None]
    train(network, x[:256], y[:256], own, recipe, on_checkpoint=lambda epoch, params: kept.append(params))
    return network, kept, x[256:], y[256:]


def screening(epochs: int = 40, samples: int = 100_000) -> None:
    """Print how much less the screened mode computes, and whether r is the same."""
    network, kept, x, y = trajectory(epochs, samples + 256)
    stack = {name: torch.cat([params[name] for params in kept]) for name in kept[0]}

    def evaluate(checkpoints: np.ndarray, rows: np.ndarray) -> np.ndarray:
        part = {name: value[checkpoints] for name, value in stack.items()}
        return measure_stack(network, {"full": part}, x[rows], y[rows])["loss"][:, 0]

    everything = evaluate(np.arange(epochs), np.arange(samples))
    full = measure_run(Trajectory(everything))
    found = screened(evaluate, epochs, samples)
    same = (found.best, found.decider) == (full.best, full.decider)
    inside = full.low <= found.r <= full.high
    print(
        f"screened: {1 / found.work:.1f} times fewer losses computed ({epochs} checkpoints, {samples:,} samples):"
        f" r {found.r:.3g}, of all {full.r:.3g} [{full.low:.2g}, {full.high:.2g}],"
        f" {'inside' if inside else 'OUTSIDE'}; the same pair decides: {same}"
    )


def recording(models: int = 8) -> None:
    """Print what a recorder with nine quantizers adds to an epoch of fingerprint networks."""
    network = MLP()
    x, y = (torch.rand(4_000, 2048) < 0.025).float(), torch.arange(4_000) % 2
    subsets = np.stack([np.random.default_rng(model).permutation(3_000)[:1_700] for model in range(models)])
    recorder = Recorder(
        x[3_000:], y[3_000:], ("full", *PRESETS["paper"]), run=[str(m) for m in range(models)], model=network
    )

    def work() -> None:
        recorder.overhead = 0.0
        train(network, x, y, subsets, Recipe(epochs=1, batch_size=64), on_checkpoint=step)

    def step(epoch: int, params: dict[str, Tensor]) -> None:
        recorder.step_stack(len(recorder.steps) + 1, params)

    took = timed(work, 1)
    print(
        f"recorder: {models} networks 2048-128-1, {len(recorder.quantizers)} variants, 1,000 samples:"
        f" {recorder.overhead:.1f} s a step, beside {took.wall - recorder.overhead:.1f} s for the epoch"
    )


def main() -> None:
    """Print the ratios."""
    logits(MLP((8, 4, 1)), MLP((8, 4, 1)).init([0]), torch.zeros(4, 8))
    report((128, 128, 1), 4, 20_000)
    report((128, 128, 128, 10), 4, 8_000)
    report((2048, 128, 1), 4, 4_000)
    report((2048, 128, 1), 4, 4_000, 0.025)
    screening()
    recording()


if __name__ == "__main__":
    main()
