"""The baseline on the synthetic study's runs, kept in the store; and how many runs its ranking needs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet._json import dumps
from discreet.baseline import (
    BEST,
    CANONICAL,
    KINDS,
    Discriminator,
    Prior,
    Runs,
    Security,
    baseline,
    canonical,
    flat,
    split_runs,
)
from discreet.correlation import ranks
from discreet.estimate import Estimate
from discreet.quantizers import quantize_stack
from discreet.stability import Curve
from discreet.store import Store
from discreet.studies.synthetic_setting import FULL, Setting
from discreet.studies.synthetic_unit import Made, samples

__all__ = ["GRID", "Attack", "attack", "chosen"]

GRID = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Numbers of runs of which every curve of stability is drawn, as far as they go."""


@dataclass(frozen=True)
class Attack:
    """How the baseline is trained, and how its stability is drawn.

    Attributes:
        seeds: Discriminators of each kind.
        folds: See ``split_runs``.
        sizes: Numbers of runs, some of ``GRID``, at which the discriminator is trained anew and its ranking compared
            with that of all.
        draws: Random subsets of each size; 0: the discriminator is not trained on any.
        discriminator: Its network and training.
    """

    seeds: int = 1
    folds: int = 2
    sizes: tuple[int, ...] = GRID
    draws: int = 2
    discriminator: Discriminator = field(default_factory=Discriminator)

    def curve(self, runs: int, rank_by: Callable[[np.ndarray], np.ndarray], seed: int) -> Curve:
        """Spearman correlation of the ranking by subsets with that by all runs.

        Args:
            runs: How many there are.
            rank_by: Gives a number for each variant from the runs at some positions.
            seed: Of the subsets.
        """
        from discreet.stats import spearman

        whole, found = rank_by(np.arange(runs)), {}
        for size in [size for size in self.sizes if size < runs and self.draws]:
            rng = np.random.default_rng([seed, 0x5AB, size])
            values = []
            for _ in range(self.draws):
                part = rank_by(np.sort(rng.permutation(runs)[:size]))
                alike = len(set(ranks(part))) == 1 or len(set(ranks(whole))) == 1
                values.append(0.0 if alike else spearman(part, whole).value)
            found[size] = values
        found[runs] = [1.0]
        return Curve(
            tuple(found),
            tuple(float(np.mean(values)) for values in found.values()),
            tuple(float(min(values)) for values in found.values()),
            tuple(float(max(values)) for values in found.values()),
        )


def attack(
    store: Store,
    setting: Setting,
    made: Sequence[Made],
    how: Attack,
    seconds: Callable[[str, float], None],
) -> tuple[dict[tuple[str, str], Security], Curve]:
    """MIS of every variant against every kind of attack and the best, and how it settles with the number of runs.

    The curve is of the full attack, as in the paper: trained anew on each subset, one kind is what it can afford.

    Args:
        store: Keeps both.
        setting: What was trained.
        made: The runs, in order.
        how: See ``Attack``.
        seconds: Told what core time went on.
    """
    content = {
        "setting": setting.to_json(),
        "variants": setting.specs,
        "runs": sum(len(each.runs) for each in made),
        "attack": [how.seeds, how.folds, asdict(how.discriminator)],
        "seed": setting.training_seed,
        "versions": {name: metadata.version(name) for name in ("discreet", "torch")},
    }
    options: dict[str, Any] = {
        "discriminator": how.discriminator,
        "seeds": how.seeds,
        "folds": how.folds,
        "seed": setting.training_seed,
        "workers": 1,
    }

    def write(aside: Path) -> None:
        started = time.thread_time()
        kinds = [*KINDS, CANONICAL] if setting.depth else KINDS
        found = baseline(_runs(setting, made), kinds=kinds, **options).found
        seconds("discriminators", time.thread_time() - started)
        entries = [
            {"kind": kind, "variant": v}
            | each.to_json()
            | {"runs": each.runs, "accuracy": each.accuracy.tolist()}
            for (kind, v), each in found.items()
        ]
        aside.write_text(dumps(entries), "utf-8")

    key = store.key(f"attack/{setting.name}.json", **content, accuracy="of each seed")
    path = store.make(key, write)
    found = {(each["kind"], each["variant"]): _security(each) for each in json.loads(path.read_text("utf-8"))}
    names = [name for name in setting.specs if name != FULL]

    def settle(aside: Path) -> None:
        whole = sum(len(each.runs) for each in made)
        data = _runs(setting, made) if how.draws else None

        def rank_by(runs: np.ndarray) -> np.ndarray:
            if data is None or len(runs) == whole:
                return np.array([found["full", name].raw for name in names])
            part = baseline(data.take(runs), kinds=["full"], **options)
            return np.array([part.found["full", name].raw for name in names])

        aside.write_text(dumps(asdict(how.curve(whole, rank_by, setting.seed))), "utf-8")

    drawn = {"sizes": list(how.sizes), "draws": how.draws}
    path = store.make(store.key(f"stability/{setting.name}.json", **content, **drawn), settle)
    told = json.loads(path.read_text("utf-8"))
    return found, Curve(**{name: tuple(values) for name, values in told.items()})


def chosen(
    security: Mapping[tuple[str, str], Security], setting: Setting, runs: int, folds: int
) -> dict[str, list[str]]:
    """By variant, the kind of attack that ``"best"`` took in each fold.

    It is read from whom the attacks accuse: in the runs that a fold judges, the best one's accuracies are those of
    the kind that was taken, to the last digit. Kinds that cannot be told apart there are all named, joined by "or".

    Args:
        security: By kind of attack and variant.
        setting: What was trained.
        runs: How many the attacks were given.
        folds: See ``split_runs``.
    """
    tests = [split.test for split in split_runs(runs, folds=folds, seed=setting.training_seed)]
    found: dict[str, list[str]] = {}
    for variant in (v for kind, v in security if kind == BEST):
        best = security[BEST, variant]
        found[variant] = []
        for test in tests:
            rows = np.isin(best.runs, test)
            alike = [
                kind
                for kind in (*KINDS, CANONICAL)
                if (kind, variant) in security
                and np.array_equal(security[kind, variant].accuracy[:, rows], best.accuracy[:, rows])
            ]
            found[variant].append(" or ".join(alike))
    return found


def _security(told: Mapping[str, Any]) -> Security:
    return Security(
        Estimate(**told["mis"]),
        told["raw"],
        told["tpr"],
        told["tnr"],
        tuple(told["runs"]),
        np.array(told["accuracy"]),
        Prior(),
    )


def _runs(setting: Setting, made: Sequence[Made]) -> Runs:
    numbers = [run for each in made for run in each.runs]
    params = {name: torch.cat([each.params[name] for each in made]) for name in made[0].params}
    return Runs(
        np.stack([samples(setting, run)[0] for run in numbers]),
        np.tile(np.arange(2 * setting.n) < setting.n, (len(numbers), 1)),
        {name: np.concatenate([each.loss[name] for each in made]) for name in setting.specs},
        _Weights(setting, params, False),
        _Weights(setting, params, True) if setting.depth else {},
    )


class _Weights(Mapping[str, np.ndarray]):
    """Every variant's flattened weights, quantized when they are asked for."""

    def __init__(self, setting: Setting, params: Mapping[str, Tensor], order: bool) -> None:
        self._setting, self._params, self._order = setting, params, order

    def __getitem__(self, name: str) -> np.ndarray:
        spec = self._setting.specs[name]
        stack = self._params if name == FULL else quantize_stack(self._params, spec)
        return flat(canonical(self._setting.network, stack) if self._order else stack)

    def __iter__(self) -> Iterator[str]:
        return iter(self._setting.specs)

    def __len__(self) -> int:
        return len(self._setting.specs)
