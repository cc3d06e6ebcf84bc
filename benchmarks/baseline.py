"""Seconds to a stable ranking: r against the discriminator baseline, on one of the paper's data sets.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", section 12.2: about 1 hour against
about 10: 15 runs against 150 of 4 minutes each. Our runs take a second, so both are given: seconds as measured,
and their ratio if training were all that counts, as it is for models that take minutes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from discreet._spread import one_torch_thread
from discreet.ranking import rank_runs
from discreet.store import Store
from discreet.studies.synthetic_attack import Attack, attack
from discreet.studies.synthetic_found import needed
from discreet.studies.synthetic_setting import FULL, Setting
from discreet.studies.synthetic_unit import make

SIZES = (8, 12, 16, 25, 35, 50, 75, 100, 150, 200)
CHUNK = 8


def main() -> None:
    """Print seconds and their ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=24, help="runs of which r is measured")
    parser.add_argument("--attacked", type=int, default=80, help="runs that the baseline may use")
    parser.add_argument("--evaluation", type=int, default=4096)
    options = parser.parse_args()
    setting = Setting(evaluation=options.evaluation)
    took: dict[str, float] = {}

    def note(what: str, much: float) -> None:
        took[what] = took.get(what, 0.0) + much

    with tempfile.TemporaryDirectory() as folder, one_torch_thread():
        store = Store(Path(folder))
        parts = [range(at, min(at + CHUNK, options.runs)) for at in range(0, options.runs, CHUNK)]
        made = [make(store, setting, part, True, seconds=note) for part in parts]
        each = {name: seconds / options.runs for name, seconds in took.items()}
        more = range(options.runs, options.attacked)
        made += [make(store, setting, more[at : at + CHUNK], False) for at in range(0, len(more), CHUNK)]
        took.clear()
        started = time.perf_counter()
        how = Attack(seeds=1, sizes=SIZES, draws=2)
        _, curve = attack(store, setting, made, how, note)
        whole = time.perf_counter() - started
    per = {v: {r: i for m in made if m.indicators for r, i in m.indicators[v].items()} for v in setting.specs}
    ranking = rank_runs({v: runs for v, runs in per.items() if v != FULL})
    r_runs, mis_runs = needed(ranking.stability().subset_vs_all), needed(curve)
    one = sum(each.values())
    print(
        f"{setting.name}: one run takes {each['training']:.3f} s to train, {each['quantizing']:.3f} s to quantize,"
        f" {each['measuring losses']:.2f} s to measure at {options.evaluation:,} samples and {setting.epochs}"
        f" checkpoints, {each['computing r']:.3f} s for r; four kinds of discriminator on {options.attacked} runs"
        f" {took['discriminators']:.0f} s ({whole:.0f} s with the stability curve)"
    )
    told = [
        f"{name}: {runs if runs else f'more than {limit}'} runs of {limit}"
        for name, runs, limit in (("r", r_runs, options.runs), ("baseline", mis_runs, options.attacked))
    ]
    print("Spearman 0.9 with the ranking by all runs:", "; ".join(told))
    if r_runs is None:
        print("r did not settle: add runs")
        return
    least = mis_runs or options.attacked
    share = took["discriminators"] / 4 * least / options.attacked
    seconds = r_runs * one, least * each["training"] + share
    sign = "" if mis_runs else "at least "
    print(
        f"to a stable ranking: r {seconds[0]:.1f} s, baseline {sign}{seconds[1]:.1f} s, ratio {sign}"
        f"{seconds[1] / seconds[0]:.2f}; by training runs alone {sign}{least / r_runs:.1f}"
    )
    print("Spearman by runs:", dict(zip(curve.runs, np.round(curve.spearman, 2).tolist(), strict=True)))


if __name__ == "__main__":
    main()
