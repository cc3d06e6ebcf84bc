"""Tasks of the compression study: a table, pictures, molecules, texts, each with a network that memorises it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

import torch
from torch import Tensor, nn

from discreet._types import Float, Int
from discreet.data import b3db, cifar, fashion, glosses, tab20
from discreet.data.samples import DataError
from discreet.defences.augment import Augment
from discreet.initial import Architecture
from discreet.mlp import MLP
from discreet.phase import Setting
from discreet.recipe import Recipe
from discreet.roles import Sizes, deal
from discreet.studies.paper_models import alexnet, vgg16

__all__ = ["FOLDER", "TASKS", "CompressionTask", "Encoder", "setting"]

FOLDER = "DISCREET_DATA"
"""Environment variable: the folder with data sets that no package ships."""

_SGD = Recipe("ce", "sgd", lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4, epochs=60, batch_size=128)


@dataclass(frozen=True)
class CompressionTask:
    """A task and how it is trained.

    Attributes:
        title: For tables.
        read: Inputs, labels and groups of all samples.
        sizes: Samples of each part in one run.
        model: Makes the big network.
        recipe: How it is trained.
        large: Makes a network twice as wide, for the question which of two networks leaks more; None: there is none.
        densities: Shares of weights that are kept; most methods are run at the first only.
        augment: How the paper's protocol shows members to the attacker, if the task is one of the paper's.
    """

    title: str
    read: Callable[[], tuple[Tensor, Tensor, Int[Tensor, " sample"] | None]]
    sizes: Sizes
    model: Callable[[], Architecture]
    large: Callable[[], Architecture] | None
    recipe: Recipe
    densities: tuple[float, ...]
    augment: Augment | None = None


def setting(
    name: str, *, runs: int, density: float, seed: int = 0, large: bool = False, **recipe: object
) -> Setting:
    """The setting of a task.

    Args:
        name: Of ``TASKS``.
        runs: How many runs.
        density: Share of the weights that is kept.
        seed: Of everything.
        large: Take the network that is twice as wide.
        recipe: Other fields of the recipe.

    Raises:
        ValueError: No such task.
        DataError, MoleculesError: The data is not installed.
    """
    if name not in TASKS:
        raise ValueError(f"task: expected one of {', '.join(TASKS)}, got {name!r}")
    task = TASKS[name]
    x, y, group = _read(name)
    roles = deal(len(x), runs, task.sizes, seed=seed, group=None if group is None else group.numpy())
    if large and task.large is None:
        raise ValueError(f"large: {name} has no wider network")
    model = task.large() if large and task.large is not None else task.model()
    return Setting(model, x, y, roles, replace(task.recipe, **recipe), density, seed)  # pyright: ignore[reportArgumentType]


@cache
def _read(name: str) -> tuple[Tensor, Tensor, Int[Tensor, " sample"] | None]:
    return TASKS[name].read()


def _tab20() -> tuple[Tensor, Tensor, None]:
    data = tab20.load()
    return torch.from_numpy(data.x), torch.from_numpy(data.y), None


def _fashion() -> tuple[Tensor, Tensor, None]:
    data = fashion.load()
    return torch.from_numpy(data.x[:20_000]), torch.from_numpy(data.y[:20_000]), None


def _b3db() -> tuple[Tensor, Tensor, Int[Tensor, " sample"]]:
    data = b3db.load()
    return (
        torch.from_numpy(data.fingerprint).float(),
        torch.from_numpy(data.permeable).long(),
        torch.from_numpy(data.family),
    )


def _glosses() -> tuple[Tensor, Tensor, None]:
    data = glosses.load()
    return torch.from_numpy(data.x), torch.from_numpy(data.y), None


class Encoder(nn.Module):
    """A small transformer encoder that sorts texts.

    Args:
        words: Numbers that a word may have; 0 is no word.
        length: Words of a text.
        width: Of the representation.
        layers: Blocks.
        classes: Of the answer.
    """

    def __init__(
        self, words: int = 4096, length: int = 16, width: int = 64, layers: int = 2, classes: int = 26
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(_Block(width) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, classes)

    def forward(self, x: Int[Tensor, "sample place"]) -> Float[Tensor, "sample class"]:
        """Logits of each text; places where it has ended count for nothing in the mean."""
        there = (x > 0).unsqueeze(-1)
        seen = self.blocks(self.words(x) + self.places.weight)
        mean = (seen * there).sum(1) / there.sum(1).clamp_min(1)
        return self.last(self.norm(mean))


class _Block(nn.Module):
    """Attention of one head and a perceptron, each after a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Float[Tensor, "sample place width"]) -> Float[Tensor, "sample place width"]:
        own = self.before(x)
        scores = self.query(own) @ self.key(own).transpose(-1, -2) / own.shape[-1] ** 0.5
        x = x + scores.softmax(-1) @ self.value(own)
        return x + self.narrow(torch.relu(self.wide(self.between(x))))


def _pictures(classes: int) -> tuple[Tensor, Tensor, None]:
    """CIFAR from the folder that the environment names."""
    folder = os.environ.get(FOLDER, "")
    if not folder:
        raise DataError(f"set {FOLDER} to the folder that holds the archive of CIFAR-{classes}")
    data = cifar.load(folder, classes)
    return torch.from_numpy(data.x), torch.from_numpy(data.y), None


def _cifar10() -> tuple[Tensor, Tensor, None]:
    return _pictures(10)


def _cifar100() -> tuple[Tensor, Tensor, None]:
    return _pictures(100)


def _alexnet() -> Architecture:
    return alexnet


def _wide_alexnet() -> Architecture:
    return partial(alexnet, widen=2)


def _vgg16() -> Architecture:
    return vgg16


def _encoder() -> Architecture:
    return Encoder


def _wide_encoder() -> Architecture:
    return lambda: Encoder(width=128)


_LARGE = Sizes(fit=40_000, loop=4_000, audit=6_000, validation=2_000, test=4_900, reference=2_900)
_STEPS = Recipe(
    "ce",
    "sgd",
    lr=0.1,
    momentum=0.9,
    nesterov=True,
    weight_decay=5e-4,
    epochs=200,
    batch_size=128,
    milestones=(100, 150),
)
_SHIFTED = Augment(noise=0.0, pad=4, flip=True)

TASKS: Mapping[str, CompressionTask] = {
    "tab20": CompressionTask(
        "tab20 (perceptron)",
        _tab20,
        Sizes(fit=3000, loop=1000, audit=2000, validation=1000, test=4000, reference=3000),
        lambda: MLP((20, 256, 256, 10)),
        lambda: MLP((20, 512, 512, 10)),
        replace(_SGD, milestones=(30, 45)),
        (0.1, 0.05, 0.2),
    ),
    "fashion": CompressionTask(
        "Fashion-MNIST (perceptron)",
        _fashion,
        Sizes(fit=3000, loop=1000, audit=2000, validation=1000, test=4000, reference=3000),
        lambda: MLP((784, 256, 256, 10)),
        lambda: MLP((784, 512, 512, 10)),
        replace(_SGD, epochs=40, milestones=(20, 30)),
        (0.05, 0.1, 0.2),
    ),
    "b3db": CompressionTask(
        "B3DB (perceptron on ECFP4)",
        _b3db,
        Sizes(fit=2000, loop=600, audit=1400, validation=600, test=1000, reference=1500),
        lambda: MLP((2048, 128, 1)),
        lambda: MLP((2048, 256, 1)),
        replace(_SGD, loss="bce", epochs=40, milestones=(20, 30)),
        (0.05, 0.1, 0.2),
    ),
    "glosses": CompressionTask(
        "WordNet glosses (transformer encoder)",
        _glosses,
        Sizes(fit=3000, loop=1000, audit=2000, validation=1000, test=4000, reference=3000),
        _encoder,
        _wide_encoder,
        Recipe("ce", "adam", lr=1e-3, epochs=20, batch_size=64),
        (0.5, 0.1),
    ),
    "cifar100": CompressionTask(
        "CIFAR-100 (VGG16)", _cifar100, _LARGE, _vgg16, None, _STEPS, (0.05, 0.1, 0.2), _SHIFTED
    ),
    "cifar10": CompressionTask(
        "CIFAR-10 (AlexNet)", _cifar10, _LARGE, _alexnet, _wide_alexnet, _STEPS, (0.05, 0.1), _SHIFTED
    ),
}
