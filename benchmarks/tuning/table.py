"""Write ``src/discreet/measured.json``: which way of training is faster on this machine, and how many models at once.

Run it alone on a quiet machine: ``python benchmarks/tuning/table.py`` (some minutes). Each figure is the least
processor time of three runs on one core.
"""

from __future__ import annotations

import itertools
import json
import math
import platform
from collections.abc import Callable
from pathlib import Path

import torch
from rates import timed
from torch import Tensor, nn

from discreet.initial import initialise
from discreet.losses import LOSSES
from discreet.mlp import MLP
from discreet.optimizers import step_of
from discreet.recipe import Recipe
from discreet.sparse_inputs import SparseRows
from discreet.training_paths import Epoch
from discreet.training_paths import Path as Way
from discreet.training_paths.func import Func
from discreet.training_paths.loop import Loop
from discreet.training_paths.written import Written

TARGET = Path(__file__).parents[2] / "src/discreet/measured.json"
SAMPLES = 2048
BATCHES = (16, 64, 256)
NETWORKS = ((16, 32, 1), (128, 128, 1), (512, 256, 1), (2048, 128, 1))
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def data(width: int, density: float = 1.0) -> tuple[Tensor, Tensor]:
    """Inputs and labels."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, width, generator=generator)
    if density < 1:
        x = (torch.rand(SAMPLES, width, generator=generator) < density).float()
    return x, (torch.rand(SAMPLES, generator=generator) < 0.5).float()


def cost(way: Way, stack: dict[str, Tensor], batch_size: int, steps: int = 8) -> float:
    """Core seconds of one model for one step."""
    params = {
        name: (value.mT if name in way.transposed else value).clone(memory_format=torch.contiguous_format)
        for name, value in stack.items()
    }
    models = len(next(iter(params.values())))
    moments = {
        slot: {name: torch.zeros_like(value) for name, value in params.items()}
        for slot in ("exp_avg", "exp_avg_sq")
    }
    samples = torch.randint(
        SAMPLES // 8, (models, steps * batch_size), generator=torch.Generator().manual_seed(1)
    )
    epoch, step = Epoch(1, tuple(range(models)), samples, batch_size, 0), step_of(Recipe())

    def work() -> None:
        with torch.no_grad():
            for count, gradients in enumerate(way.steps(params, epoch), 1):
                step(params, gradients, moments, count)

    work()
    return timed(work, 3).core / (models * steps)


def best_count(way: Callable[[], Way], network: MLP, batch_size: int) -> int:
    """The smallest number of models at once that costs at most 3 % more than the best one."""
    costs: dict[int, float] = {}
    for count in COUNTS:
        if count * (network.parameters * 16 + batch_size * sum(network.widths) * 8) > 1 << 28:
            break
        costs[count] = cost(way(), network.init(range(count)), batch_size)
    return next(count for count, each in costs.items() if each <= 1.03 * min(costs.values()))


def chunks() -> dict[str, list[dict[str, int]]]:
    """How many models to train at once, for each path, size and batch."""
    found: dict[str, list[dict[str, int]]] = {"written": [], "sparse": [], "func": []}
    for widths, batch_size in itertools.product(NETWORKS, BATCHES):
        network = MLP(widths)
        x, y = data(widths[0])
        ways: dict[str, Callable[[], Way]] = {
            "written": lambda network=network, x=x, y=y: Written(network, x, y, LOSSES["bce"]),
            "func": lambda network=network, x=x, y=y: Func(network.module(), x, y, LOSSES["bce"]),
        }
        if widths[0] >= 512:
            rows = SparseRows.of(data(widths[0], 0.025)[0])
            ways["sparse"] = lambda network=network, x=rows, y=y: Written(network, x, y, LOSSES["bce"])
        for path, way in ways.items():
            models = best_count(way, network, batch_size)
            found[path].append({"parameters": network.parameters, "batch_size": batch_size, "models": models})
            print(path, widths, batch_size, models, flush=True)
    return found


def sparse() -> dict[str, float]:
    """From which width on, and up to which density, sums of weight rows beat the dense product."""
    gains: dict[tuple[int, float], float] = {}
    for width, density in itertools.product((128, 256, 512, 2048), (0.01, 0.025, 0.05, 0.1, 0.2)):
        network = MLP((width, 128, 1))
        x, y = data(width, density)
        stack = network.init(range(4))
        dense, summed = (
            cost(Written(network, rows, y, LOSSES["bce"]), stack, 64) for rows in (x, SparseRows.of(x))
        )
        gains[width, density] = dense / summed
        print("sparse", width, density, round(dense / summed, 2), flush=True)
    width = min(width for width, density in gains if density == 0.025 and gains[width, density] > 1.1)
    density = max(density for wide, density in gains if wide == 2048 and gains[wide, density] > 1.1)
    return {"width": width, "density": density}


def convolutions() -> dict[str, float]:
    """Up to how many products in a step convolutions are trained faster together than one by one."""
    cases = [
        (shape, layer, batch_size)
        for shape, layer in (
            ((8, 64), nn.Conv1d(8, 16, 5)),
            ((64, 128), nn.Conv1d(64, 64, 5)),
            ((3, 16, 16), nn.Conv2d(3, 16, 3)),
            ((16, 16, 16), nn.Conv2d(16, 32, 3)),
            ((3, 32, 32), nn.Conv2d(3, 32, 3)),
            ((32, 16, 16), nn.Conv2d(32, 64, 3)),
        )
        for batch_size in (16, 64)
    ]
    gains: dict[float, float] = {}
    for shape, layer, batch_size in cases:
        x, y = torch.randn(SAMPLES // 8, *shape), torch.zeros(SAMPLES // 8)
        module = nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.Linear(layer(x[:1]).numel(), 1))
        stack = initialise(module, range(8))
        batched = cost(Func(module, x, y, LOSSES["bce"]), stack, batch_size, 2)
        single = cost(Loop(module, x, y, LOSSES["bce"], False), stack, batch_size, 2)
        products = layer.weight.numel() * layer(x[:1])[0, 0].numel() * batch_size
        gains[products] = math.log(single / batched)
        print(
            "convolution", shape, batch_size, products, f"loop / batched: {single / batched:.2f}", flush=True
        )
    # The bound that loses least over these cases.
    gained = {bound: sum(gain for products, gain in gains.items() if products <= bound) for bound in gains}
    best = max(gained, key=lambda bound: gained[bound])
    return {"products": best if gained[best] > 0 else 0}


def main() -> None:
    """Measure and write."""
    torch.set_num_threads(1)
    about = {
        "by": "benchmarks/tuning/table.py: least core time of three runs, one thread",
        "processor": processor(),
        "torch": torch.__version__,
    }
    table = {"about": about, "chunk": chunks(), "sparse": sparse(), "convolutions": convolutions()}
    TARGET.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", "utf-8")


def processor() -> str:
    """Its name, where the system tells."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.exists() else []
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.processor(),
    )


if __name__ == "__main__":
    main()
