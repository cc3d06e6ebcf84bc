"""Seconds to a stable ranking: r against the discriminator baseline, on some of the paper's data sets.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", section 12.2: about 1 hour against
about 10: 15 runs against 150 of 4 minutes each. Our runs take a second, so both are given: seconds as measured,
and their ratio if training were all that counts, as it is for models that take minutes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

from discreet._spread import one_torch_thread
from discreet.ranking import rank_runs
from discreet.stability import Curve
from discreet.store import Store
from discreet.studies.synthetic import r_stability
from discreet.studies.synthetic_attack import Attack, attack
from discreet.studies.synthetic_command import settings_of
from discreet.studies.synthetic_found import needed
from discreet.studies.synthetic_setting import Setting
from discreet.studies.synthetic_unit import Made, make
from tuning.rates import matmul_rate

CHUNK = 8
KINDS = 4  # of discriminator


def main() -> None:
    """Print seconds and their ratio for each data set."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=24, help="runs of which r is measured")
    parser.add_argument("--attacked", type=int, default=80, help="runs that the baseline may use")
    parser.add_argument("--evaluation", type=int, default=4096)
    parser.add_argument("--sets", default="8x2", help="data sets by modes and sigma, such as 8x2,16x3")
    options = parser.parse_args()
    scale, setting = settings_of("small", [f"sets={options.sets}"])
    rate = matmul_rate()[1]
    for modes, sigma in scale.sets:
        with one_torch_thread():
            each = setting.at(modes=modes, sigma=sigma, evaluation=options.evaluation)
            report(each, options.runs, options.attacked, rate)


def report(setting: Setting, runs: int, attacked: int, rate: float) -> None:
    """Print what one data set takes."""
    took: dict[str, float] = {}

    def note(what: str, much: float) -> None:
        took[what] = took.get(what, 0.0) + much

    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        made, whole = timed_runs(lambda part: make(store, setting, part, True, seconds=note), range(runs))
        per = {name: seconds / runs for name, seconds in took.items()}
        more, last = timed_runs(lambda part: make(store, setting, part, False), range(runs, attacked))
        took.clear()
        started = time.process_time()
        _, curve = attack(store, setting, made + more, Attack(seeds=1, draws=2), note)
        attacking = time.process_time() - started
    trajectory, last = whole / runs, last / (attacked - runs)
    print(
        f"{setting.name}: one run takes {per['training']:.3f} s to train, {per['quantizing']:.3f} s to quantize,"
        f" {per['measuring losses']:.2f} s to measure at {setting.evaluation:,} samples and {setting.epochs}"
        f" checkpoints, {per['computing r']:.3f} s for r; {KINDS} kinds of discriminator on {attacked} runs"
        f" {took['discriminators']:.0f} s ({attacking:.0f} s with the stability curve)"
    )
    share = 1 - products(setting) / rate / trajectory
    print(
        f"core time of a run with its trajectory {trajectory:.2f} s, of one of which only the last checkpoint is"
        f" measured {last:.3f} s: a trajectory costs {trajectory / last:.0f} of these"
    )
    variants = len(setting.specs)
    print(
        f"training and measuring: {1 / trajectory:.2f} runs a second of one core,"
        f" {setting.epochs * variants / trajectory:.0f} models (a variant of a checkpoint) a second;"
        f" {share:.0%} of the time outside matrix products, at the {rate / 1e9:.0f} GFLOP/s of large ones"
    )
    stable(setting, made, runs, attacked, (trajectory, last, took["discriminators"]), curve)


def stable(
    setting: Setting,
    made: list[Made],
    runs: int,
    attacked: int,
    cost: tuple[float, float, float],
    curve: Curve,
) -> None:
    """Print what a stable ranking takes either way."""
    trajectory, last, discriminators = cost
    r_curve = r_stability(
        rank_runs({v: {r: i for m in made for r, i in m.indicators[v].items()} for v in setting.specs})
    )
    r_runs, mis_runs = needed(r_curve), needed(curve)
    told = [
        f"{name}: {f'{count} of {limit} runs' if count else f'more than {limit} runs'}"
        f"{' (the fewest tried)' * (count == tried[0])}"
        for name, count, limit, tried in (
            ("r", r_runs, runs, r_curve.runs),
            ("baseline", mis_runs, attacked, curve.runs),
        )
    ]
    print("Spearman 0.9 with the ranking by all runs:", "; ".join(told))
    print(
        "Spearman of the baseline by runs:",
        dict(zip(curve.runs, np.round(curve.spearman, 2).tolist(), strict=True)),
    )
    if r_runs is None:
        print("r did not settle: add runs")
        return
    least = mis_runs or attacked
    seconds = r_runs * trajectory, least * (last + discriminators / KINDS / attacked)
    sign = "" if mis_runs else "at least "
    print(
        f"to a stable ranking: r {seconds[0]:.1f} s, baseline {sign}{seconds[1]:.1f} s, ratio {sign}"
        f"{seconds[1] / seconds[0]:.2f}; by training runs alone {sign}{least / r_runs:.1f}"
    )


def timed_runs(work: Callable[[range], Made], runs: range) -> tuple[list[Made], float]:
    """What some runs left behind, and the core time that they took."""
    started = time.process_time()
    made = [work(runs[at : at + CHUNK]) for at in range(0, len(runs), CHUNK)]
    return made, time.process_time() - started


def products(setting: Setting) -> float:
    """Additions and multiplications in the matrix products of a run, its trajectory measured."""
    layers = [before * after for before, after in pairwise(setting.network.widths)]
    training = 2 * setting.n * (2 * sum(layers) + sum(layers[1:]))  # forward, and the gradients of a step
    measuring = 2 * (setting.evaluation + 2 * setting.n) * len(setting.specs) * sum(layers)
    return setting.epochs * (training + measuring)


if __name__ == "__main__":
    main()
