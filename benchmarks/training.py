"""Many small networks at once, against the fastest plain PyTorch loop on the same cores."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from discreet._spread import available
from discreet.mlp import MLP
from discreet.recipe import Recipe
from discreet.training import train
from tuning.rates import Took, matmul_rate, timed


@dataclass(frozen=True)
class Case:
    """What is trained: ``models`` networks on ``n`` samples each, in batches."""

    widths: tuple[int, ...]
    models: int
    n: int
    batch_size: int
    density: float = 1.0

    def data(self, pool: int = 4096) -> tuple[Tensor, Tensor, np.ndarray]:
        """Inputs (standard normal, or ones at ``density``), labels, and a subset for each model."""
        rng = np.random.default_rng(0)
        shape = (pool, self.widths[0])
        x = rng.normal(size=shape) if self.density == 1 else rng.random(shape) < self.density
        subsets = np.stack([rng.permutation(pool)[: self.n] for _ in range(self.models)])
        return torch.from_numpy(x).float(), torch.from_numpy(rng.integers(0, 2, pool)).float(), subsets

    @property
    def operations(self) -> float:
        """Additions and multiplications of one epoch of one model: forward, weight and hidden gradients."""
        layers = list(zip(self.widths, self.widths[1:], strict=False))
        return 2 * self.n * (2 * sum(a * b for a, b in layers) + sum(a * b for a, b in layers[1:]))


def loop(case: Case, models: int, epochs: int, threads: int, fused: bool) -> Took:
    """What a plain loop takes for a model epoch, in this process."""
    torch.set_num_threads(threads)
    x, y, subsets = case.data()
    criterion = nn.BCEWithLogitsLoss()

    def work() -> None:
        for subset in subsets[:models]:
            module = MLP(case.widths).module()
            optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, fused=fused, foreach=not fused)
            own, labels = x[subset], y[subset, None]
            for _ in range(epochs):
                for rows in torch.randperm(case.n).split(case.batch_size):
                    loss = criterion(module(own[rows]), labels[rows])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()

    return timed(work, 2) / (models * epochs)


def fastest_loop(case: Case, models: int, epochs: int) -> tuple[Took, str]:
    """What the machine takes for a model epoch with the fastest way to spread a loop over it, and which that is."""
    cores = available()
    found: dict[str, Took] = {}
    for fused, processes, threads in [(True, 1, cores), (True, cores, 1), (False, cores, 1)]:
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
            list(pool.map(abs, range(processes)))  # starts them
            jobs = [pool.submit(loop, case, models, epochs, threads, fused) for _ in range(processes)]
            took = [job.result() for job in jobs]
        name = f"{'fused' if fused else 'foreach'} Adam, {processes} processes of {threads} threads"
        wall, core = max(each.wall for each in took), sum(each.core for each in took)
        found[name] = Took(wall / processes, core / processes)
    best = min(found, key=lambda name: found[name].wall)
    return found[best], best


def ours(case: Case, epochs: int, path: str) -> Took:
    """What the machine takes for a model epoch."""
    x, y, subsets = case.data()
    recipe = Recipe(epochs=epochs, batch_size=case.batch_size, lr=1e-3)
    train(MLP(case.widths), x, y, subsets[:2], Recipe(batch_size=case.batch_size, epochs=1), path=path)
    return timed(lambda: train(MLP(case.widths), x, y, subsets, recipe, path=path), 2) / (
        case.models * epochs
    )


def report(name: str, case: Case, epochs: int, loop_models: int, loop_epochs: int) -> None:
    """Print the ratios for one case."""
    rate, core_rate = matmul_rate()
    plain, way = fastest_loop(case, loop_models, loop_epochs)
    print(f"{name} (times are of a model epoch)")
    print(f"  plain loop ({way}): {1e3 * plain.wall:.2f} ms, {1e3 * plain.core:.2f} ms of one core")
    for path in ("written", "func"):
        took = ours(case, epochs, path)
        print(
            f"  {path}: {1e3 * took.wall:.2f} ms, {1e3 * took.core:.2f} ms of one core;"
            f" {plain.wall / took.wall:.1f} times faster ({plain.core / took.core:.1f} by core time);"
            f" {took.wall * rate / case.operations:.1f} ({took.core * core_rate / case.operations:.1f}) times the"
            f" products alone at {rate / 1e9:.0f} GFLOP/s"
        )


def main() -> None:
    """Print the ratios."""
    small = Case((128, 128, 1), 256, 128, 16)
    report("256 networks 128-128-1 on 128 samples, batches of 16", small, 3, 4, 3)
    wide = Case((2048, 128, 1), 16, 1700, 64, 0.025)
    report("16 networks 2048-128-1 on 1,700 fingerprints with 2.5 % ones, batches of 64", wide, 1, 1, 1)


if __name__ == "__main__":
    main()
