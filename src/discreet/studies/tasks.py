"""Data, network and recipe of the attack studies: small networks that memorise a few thousand records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from discreet._types import Float, Int
from discreet.data import adult, b3db, fashion
from discreet.data.samples import Samples
from discreet.mlp import MLP
from discreet.recipe import Recipe

__all__ = ["TASKS", "Task", "task"]


@dataclass(frozen=True, eq=False)
class Task:
    """What a bank is trained on.

    Attributes:
        name: Name of the data.
        x: Inputs.
        y: Labels.
        public: Positions of samples that train no model; an attacker may learn from them.
        group: Samples of one group stay together.
        network: The network.
        recipe: How it is trained.
        about: Where the data came from, and how much of it is used.
    """

    name: str
    x: Float[np.ndarray, "sample feature"]
    y: Int[np.ndarray, " sample"]
    public: Int[np.ndarray, " public"]
    group: Int[np.ndarray, " sample"]
    network: MLP
    recipe: Recipe
    about: Mapping[str, Any]


def task(name: str, *, private: int, public: int, seed: int = 0) -> Task:
    """Draw private and public samples of a data set.

    Args:
        name: ``"fashion"``, ``"b3db"`` or ``"adult"``.
        private: Samples of which each model trains on half.
        public: Samples that no model trains on.
        seed: Seed of the draw.

    Raises:
        ValueError: No such data, or it has fewer samples.
        DataError, MoleculesError: The data is not installed.
    """
    if name not in TASKS:
        raise ValueError(f"data: expected one of {', '.join(TASKS)}, got {name!r}")
    return TASKS[name](private, public, seed)


@cache
def _read(name: str) -> Samples:
    return fashion.load() if name == "fashion" else adult.load()


def _fashion(private: int, public: int, seed: int) -> Task:
    return _plain("fashion", _read("fashion"), MLP((784, 256, 10)), _recipe("ce", 60), private, public, seed)


def _adult(private: int, public: int, seed: int) -> Task:
    return _plain("adult", _read("adult"), MLP((107, 256, 1)), _recipe("bce", 100), private, public, seed)


def _b3db(private: int, public: int, seed: int) -> Task:
    molecules = b3db.load()
    first = np.unique(molecules.family, return_index=True)[
        1
    ]  # one of each family: the others are near repeats
    x, y = molecules.fingerprint[first].astype(np.float32), molecules.permeable[first].astype(np.int64)
    about = {"source": b3db.SOURCE, "licence": b3db.LICENCE, "sha256": b3db.SHA256}
    return _drawn("b3db", x, y, MLP((2048, 128, 1)), _recipe("bce", 60), about, private, public, seed)


def _plain(
    name: str, data: Samples, network: MLP, recipe: Recipe, private: int, public: int, seed: int
) -> Task:
    about = {"source": data.source, "licence": data.licence, "sha256": dict(data.sha256)}
    return _drawn(name, data.x, data.y, network, recipe, about, private, public, seed)


def _drawn(
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    network: MLP,
    recipe: Recipe,
    about: Mapping[str, Any],
    private: int,
    public: int,
    seed: int,
) -> Task:
    if private + public > len(y):
        raise ValueError(f"{name}: expected at most {len(y)} samples in all, got {private} + {public}")
    rows = np.random.default_rng([seed, 1]).permutation(len(y))[: private + public]
    counts = {"private": private, "public": public, "of": len(y)}
    return Task(
        name,
        x[rows],
        y[rows],
        np.arange(private, private + public),
        np.arange(len(rows)),
        network,
        recipe,
        {**about, "counts": counts},
    )


def _recipe(loss: str, epochs: int) -> Recipe:
    return Recipe(loss, "adam", lr=1e-3, epochs=epochs, batch_size=32)


TASKS: Mapping[str, Callable[[int, int, int], Task]] = {"fashion": _fashion, "b3db": _b3db, "adult": _adult}
