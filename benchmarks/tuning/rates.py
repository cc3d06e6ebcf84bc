"""Times and matrix-product rates that the benchmarks share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from discreet._spread import available, spread


@dataclass(frozen=True)
class Took:
    """Least times of several runs, in seconds.

    Attributes:
        wall: By the clock.
        core: Of processor time, all threads together; other programs on the machine hardly matter to it.
    """

    wall: float
    core: float

    def __truediv__(self, parts: float) -> Took:
        return Took(self.wall / parts, self.core / parts)


def timed(work: Callable[[], object], repeats: int = 3) -> Took:
    """Time some work."""
    walls, cores = [], []
    for _ in range(repeats):
        wall, core = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        cores.append(time.process_time() - core)
    return Took(min(walls), min(cores))


def matmul_rate(size: int = 1024, products: int = 4) -> tuple[float, float]:
    """Float32 operations a second of all cores together and in a second of one core's time.

    Each core multiplies square matrices of its own.
    """
    a, b = torch.randn(size, size), torch.randn(size, size)
    outs = [torch.empty(size, size) for _ in range(available())]

    def work(out: torch.Tensor) -> None:
        for _ in range(products):
            torch.mm(a, b, out=out)

    took = timed(lambda: spread(work, outs), repeats=6)
    operations = 2 * size**3 * products * len(outs)
    return operations / took.wall, operations / took.core
