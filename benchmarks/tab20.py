"""Every baseline on tab20: ``python benchmarks/tab20.py --runs 3 --rows dense "prune+dmp" --out rows.json``.

Each row is a mean over runs with its standard error, beside a figure measured before with other code, and whether the
two agree within three standard errors of their difference. A row that is in the file already is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from discreet.data import tab20
from discreet.methods import fit
from discreet.mlp import MLP
from discreet.phase import Setting
from discreet.recipe import Recipe
from discreet.release_audit import assess
from discreet.roles import Sizes, deal
from discreet.sparse import Plan

# Method, density: accuracy on members and on others, attack accuracy, TM-score. Another draw of like data.
EARLIER: dict[tuple[str, float], tuple[float, float, float, float]] = {
    ("dense", 0.1): (0.972, 0.611, 0.701, 0.872),
    ("dense+re1", 0.1): (0.971, 0.613, 0.697, 0.879),
    ("dense+re2", 0.1): (0.982, 0.609, 0.704, 0.865),
    ("early(epochs=10)", 0.1): (0.690, 0.630, 0.531, 1.187),
    ("prune", 0.2): (0.909, 0.620, 0.652, 0.951),
    ("prune", 0.1): (0.793, 0.632, 0.582, 1.086),
    ("prune+advreg", 0.1): (0.785, 0.622, 0.578, 1.075),
    ("prune+dmp", 0.1): (0.752, 0.635, 0.557, 1.141),
    ("prune+dpsgd(noise=0.5)", 0.1): (0.696, 0.582, 0.555, 1.048),
    ("kd(weight=0)", 0.1): (0.779, 0.632, 0.578, 1.093),
    ("kd", 0.1): (0.770, 0.636, 0.564, 1.128),
    ("kd+dmp", 0.1): (0.694, 0.622, 0.534, 1.165),
    ("static", 0.1): (0.713, 0.642, 0.537, 1.196),
    ("set", 0.2): (0.787, 0.643, 0.576, 1.116),
    ("set", 0.1): (0.722, 0.648, 0.536, 1.208),
    ("set", 0.05): (0.617, 0.575, 0.522, 1.101),
    ("rigl", 0.1): (0.753, 0.649, 0.552, 1.174),
    ("set(grow='least_gradient')", 0.1): (0.689, 0.628, 0.525, 1.196),
    ("set+hamp(gamma=0.65,alpha=0.01)", 0.1): (0.672, 0.621, 0.523, 1.188),
    ("set+relaxloss(alpha=1.2)", 0.1): (0.693, 0.633, 0.528, 1.198),
    ("static+dpsgd(noise=0.6,clip=0.5)", 0.1): (0.476, 0.461, 0.515, 0.896),
    ("safecompress(rule='tm')", 0.1): (0.746, 0.648, 0.550, 1.180),
    ("safecompress(rule='random')", 0.1): (0.742, 0.647, 0.551, 1.175),
    ("safecompress(rule='least')", 0.1): (0.751, 0.648, 0.556, 1.166),
}
NAMES = ("train", "task", "mia", "tm")


def setting(runs: int, density: float, epochs: int = 60, seed: int = 0) -> Setting:
    """3,000 members, and a perceptron of 73,000 weights.

    Of the earlier figures the batch size, the parameters of ``make_classification`` and the first weights of sparse
    models are not known: batches of 256 and weights that are not rescaled agree best with its dense rows.
    """
    data = tab20.load()
    sizes = Sizes(fit=3000, loop=500, audit=2500, validation=1000, test=4000, reference=3000)
    recipe = Recipe(
        "ce",
        "sgd",
        lr=0.05,
        momentum=0.9,
        nesterov=True,
        weight_decay=5e-4,
        epochs=epochs,
        batch_size=256,
    )
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    roles, plan = deal(len(x), runs, sizes, seed=seed), Plan(density, rescale=False)
    return Setting(MLP((20, 256, 256, 10)), x, y, roles, recipe, density, seed, plan=plan)


def measure(method: str, density: float, runs: int, seed: int = 0) -> dict[str, Any]:
    """One row."""
    task = setting(runs, density, seed=seed)
    start = time.process_time()
    done = fit(method, task)
    spent = time.process_time() - start
    found = assess(task, done.model, done.params)
    row = {
        "method": done.method,
        "density": density,
        "runs": runs,
        "passes": done.spent,
        "cpu_s": round(spent, 1),
    }
    for name in NAMES:
        value = getattr(found, name)
        row[name] = value.value
        row[f"{name}_se"] = standard_error(value.low, value.high, runs)
    return row | {"epsilon": done.epsilon, "notes": list(done.notes)}


def standard_error(low: float, high: float, runs: int) -> float:
    """Of a mean over runs, from its t interval."""
    from scipy import special

    return (high - low) / 2 / float(special.stdtrit(runs - 1, 0.975))


def agrees(row: dict[str, Any], earlier: tuple[float, ...]) -> dict[str, bool]:
    """Within three standard errors of the difference; both tables are means of as many runs, so that is root two."""
    return {
        name: abs(row[name] - value) <= 3 * 2**0.5 * row[f"{name}_se"]
        for name, value in zip(NAMES, earlier, strict=True)
    }


def line(key: str, row: dict[str, Any]) -> str:
    """A row as text."""
    method, _, density = key.rpartition("@")
    earlier = EARLIER.get((method, float(density)))
    said = agrees(row, earlier) if earlier else {}
    cells = [
        f"{name} {row[name]:.3f} ± {row[f'{name}_se']:.3f}"
        + (f" ({earlier[i]:.3f} {'yes' if said[name] else 'NO'})" if earlier else "")
        for i, name in enumerate(NAMES)
    ]
    return f"{key:34} {'  '.join(cells)}  {row['passes']:.0f} passes, {row['cpu_s']:.0f} s"


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", nargs="*", help="methods, or method@density; all of the table if none")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    keys = given.rows or [f"{method}@{density}" for method, density in EARLIER]
    torch.set_num_threads(1)
    rows = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    for each in keys:
        key = each if "@" in each else f"{each}@0.1"
        method, _, density = key.rpartition("@")
        if key not in rows:
            rows[key] = measure(method, float(density), given.runs)
            if given.out:
                given.out.write_text(json.dumps(rows, indent=1))
        print(line(key, rows[key]), flush=True)


if __name__ == "__main__":
    main()
