"""Tasks of the compression study: a table, pictures, molecules, texts, each with a network that memorises it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from discreet._types import Float, Int
from discreet.copies import together
from discreet.data import b3db, cifar, fashion, glosses, labelled_texts, tab20, tinyimagenet
from discreet.data.samples import DataError
from discreet.defences.augment import Augment
from discreet.initial import Architecture
from discreet.mlp import MLP
from discreet.phase import Setting
from discreet.recipe import Recipe
from discreet.roles import Sizes, deal
from discreet.studies.paper_encoders import Pretrained, numbered
from discreet.studies.paper_models import ResNet18, alexnet, vgg16

__all__ = ["FOLDER", "TASKS", "CompressionTask", "Encoder", "setting"]

BERT, ROBERTA, PLACES = "bert-base-uncased", "roberta-base", 128
"""Folders with pretrained encoders, and tokens of a text that are kept (the paper leaves that out)."""
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
        narrow: Makes smaller networks of the kind, for students of distillation; perceptrons need none.
        augment: How the paper's protocol shows members to the attacker, if the task is one of the paper's.
    """

    title: str
    read: Callable[[], tuple[Tensor, Tensor, Int[Tensor, " sample"] | None]]
    sizes: Sizes
    model: Callable[[], Architecture]
    large: Callable[[], Architecture] | None
    recipe: Recipe
    densities: tuple[float, ...]
    narrow: Callable[[float], Architecture] | None = None
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
    apart, _ = together(x, None if group is None else group.numpy())
    roles = deal(len(x), runs, task.sizes, seed=seed, group=apart)
    if large and task.large is None:
        raise ValueError(f"large: {name} has no wider network")
    model = task.large() if large and task.large is not None else task.model()
    return Setting(
        model,
        x,
        y,
        roles,
        replace(task.recipe, **recipe),  # pyright: ignore[reportArgumentType]
        density,
        seed,
        narrow=task.narrow,
    )


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
    data = cifar.load(_folder(f"the archive of CIFAR-{classes}"), classes)
    return torch.from_numpy(data.x), torch.from_numpy(data.y), None


def _folder(what: str) -> Path:
    folder = os.environ.get(FOLDER, "")
    if not folder:
        raise DataError(f"set {FOLDER} to the folder that holds {what}")
    return Path(folder)


def _cifar10() -> tuple[Tensor, Tensor, None]:
    return _pictures(10)


def _cifar100() -> tuple[Tensor, Tensor, None]:
    return _pictures(100)


def _tiny() -> tuple[Tensor, Tensor, None]:
    data = tinyimagenet.load(_folder("the archive of Tiny ImageNet"))
    return torch.from_numpy(data.x), torch.from_numpy(data.y), None


def _yelp5() -> tuple[Tensor, Tensor, None]:
    return _numbers(labelled_texts.yelp5(_folder("Yelp-5's archive and the folder bert-base-uncased")), BERT)


def _ag_news() -> tuple[Tensor, Tensor, None]:
    return _numbers(labelled_texts.ag_news(_folder("ag_news_csv and the folder roberta-base")), ROBERTA)


def _numbers(data: labelled_texts.LabelledTexts, name: str) -> tuple[Tensor, Tensor, None]:
    """Rows of tokens; texts that agree in all that is kept of them are one."""
    rows = numbered(_folder(name) / name, data.texts, PLACES)
    _, first = np.unique(rows, axis=0, return_index=True)
    first.sort()
    return torch.from_numpy(rows[first]), torch.from_numpy(data.y[first]), None


def _encoder_of(name: str, classes: int) -> Callable[[float], Architecture]:
    return lambda share: partial(Pretrained, _folder(name) / name, classes, share)


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


def _narrow_encoder(share: float) -> Architecture:
    return lambda: Encoder(width=max(1, int(64 * share)))


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
_TEXT = Recipe("ce", "adamw", lr=2e-5, weight_decay=0.01, epochs=10, batch_size=256)
"""Passes and batch as in section 5.2; the paper leaves out the rest."""
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
        _narrow_encoder,
    ),
    "cifar100": CompressionTask(
        "CIFAR-100 (VGG16)",
        _cifar100,
        _LARGE,
        _vgg16,
        None,
        _STEPS,
        (0.05, 0.1, 0.2),
        lambda share: partial(vgg16, share=share),
        _SHIFTED,
    ),
    "cifar10": CompressionTask(
        "CIFAR-10 (AlexNet)",
        _cifar10,
        _LARGE,
        _alexnet,
        _wide_alexnet,
        _STEPS,
        (0.05, 0.1),
        lambda share: partial(alexnet, share=share),
        _SHIFTED,
    ),
    "tinyimagenet": CompressionTask(
        "TinyImageNet (ResNet18)",
        _tiny,
        Sizes(fit=50_000, loop=4_000, audit=6_000, validation=2_000, test=5_000, reference=30_000),
        lambda: ResNet18,
        None,
        _STEPS,
        (0.05, 0.1),
        lambda share: partial(ResNet18, share=share),
        _SHIFTED,
    ),
    "yelp5": CompressionTask(
        "Yelp-5 (BERT)",
        _yelp5,
        Sizes(fit=325_000, loop=10_000, audit=20_000, validation=10_000, test=50_000, reference=100_000),
        lambda: _encoder_of(BERT, 5)(1.0),
        None,
        _TEXT,
        (0.5,),
        _encoder_of(BERT, 5),
    ),
    "ag_news": CompressionTask(
        "AG-News (RoBERTa)",
        _ag_news,
        Sizes(fit=60_000, loop=4_000, audit=6_000, validation=4_000, test=7_600, reference=20_000),
        lambda: _encoder_of(ROBERTA, 4)(1.0),
        None,
        _TEXT,
        (0.5,),
        _encoder_of(ROBERTA, 4),
    ),
}
