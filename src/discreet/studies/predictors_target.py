"""The ranking that the study of predictors predicts: the MIS against the strongest of the package's attacks.

It is read from runs that no predictor sees. They train on random halves of one pool, in complementary pairs, so that
attacks that compare a sample under models with and without it can be run as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from discreet.baseline import threshold
from discreet.data.splits import complementary_halves
from discreet.exposure import expose
from discreet.measure import measure_stack
from discreet.records import Record
from discreet.store import Store
from discreet.studies.synthetic_setting import FULL, Setting
from discreet.studies.synthetic_unit import quantized
from discreet.training import train

__all__ = ["ATTACKS", "halves", "mis_by_attack", "strongest"]

ATTACKS = ("loss", "reference", "lira", "lira(mode='offline')", "rmia", "rmia(mode='online')")
"""What the strongest attack is picked from; all but the first compare with the other runs' models."""
_POOL = 1  # the stream of samples that the synthetic study's runs leave free
_AT_ONCE = 8


def halves(store: Store, setting: Setting, runs: Sequence[int]) -> dict[str, Record]:
    """Train runs on halves of one pool of twice their size, and measure the last checkpoint of each variant on it.

    Args:
        store: Keeps the losses.
        setting: What to train.
        runs: Numbers of the runs, an even number of them; those at 2i and 2i + 1 are partners.

    Returns:
        By variant a record of all runs; full precision is left out.
    """
    names = [name for name in setting.specs if name != FULL]
    content = {
        "setting": setting.to_json(),
        "entropy": str(setting.mixture.entropy),
        "runs": list(runs),
        "variants": setting.specs,
        "versions": {name: metadata.version(name) for name in ("discreet", "torch")},
    }
    key = store.key(f"judged/{setting.name} runs {runs[0]}-{runs[-1]}.safetensors", **content)
    found = load_file(store.make(key, lambda aside: _save(setting, list(runs), names, aside)))
    member = found["member"].astype(bool)
    return {
        name: Record(
            run=tuple(map(str, runs)),
            step=np.full(len(runs), float(setting.epochs)),
            variant=(name,) * len(runs),
            sample=np.arange(2 * setting.n),
            signals={"loss": found["loss"][at]},
            member=member,
        )
        for at, name in enumerate(names)
    }


def _save(setting: Setting, runs: list[int], names: Sequence[str], path: Path) -> None:
    x, y = setting.mixture.draw(2 * setting.n, stream=_POOL)
    member = complementary_halves(np.arange(len(x)), len(runs) // 2, seed=setting.training_seed)
    losses = np.empty((len(names), len(runs), len(x)))
    for at in range(0, len(runs), _AT_ONCE):
        part = slice(at, at + _AT_ONCE)
        subsets = np.array([np.flatnonzero(row) for row in member[part]])
        last = train(
            setting.network,
            x,
            y,
            subsets,
            setting.recipe,
            seed=setting.training_seed,
            model_ids=runs[part],
            workers=1,
        )
        stacks = {name: stack for name, stack in quantized(setting, last).items() if name != FULL}
        told = measure_stack(setting.network, stacks, x, y, "bce", which=["loss"], workers=1)["loss"]
        losses[:, part] = told.swapaxes(0, 1)
    save_file({"loss": losses, "member": member.astype(np.uint8)}, path)


def mis_by_attack(
    records: Mapping[str, Record], attacks: Sequence[str] = ATTACKS, seed: int = 0
) -> dict[str, dict[str, float]]:
    """The MIS of each variant against each attack: its best threshold, chosen on some runs and judged on others.

    Args:
        records: By variant.
        attacks: Spec strings.
        seed: Deals out the runs.

    Returns:
        By attack and variant; a little above 1 where an attack is worse than a guess.
    """
    found: dict[str, dict[str, float]] = {attack: {} for attack in attacks}
    for name, record in records.items():
        for attack in attacks:
            told = expose(record, attack, name)
            security = threshold(-told.scores, told.member, folds=min(5, len(told.runs)), seed=seed)
            found[attack][name] = security.raw
    return found


def strongest(mis: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[str, float]]:
    """For each variant the attack with the lowest MIS, and that MIS; the first of several.

    It is picked by what judges it: the lowest of several noisy numbers is a little below the MIS against that attack,
    and an attack's correlation with it is one with a minimum that contains the attack itself.

    Example:
        >>> strongest({"loss": {"a": 0.5, "b": 0.6}, "lira": {"a": 0.4, "b": 0.7}})
        {'a': ('lira', 0.4), 'b': ('loss', 0.6)}
    """
    names = next(iter(mis.values()))
    least = {name: min(mis, key=lambda attack, name=name: mis[attack][name]) for name in names}
    return {name: (attack, mis[attack][name]) for name, attack in least.items()}
