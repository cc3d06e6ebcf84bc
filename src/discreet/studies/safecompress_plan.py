"""What the compression study trains: methods, tasks, densities, and how many runs of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from discreet.studies.compression_tasks import TASKS

__all__ = ["METHODS", "SAFE", "SCALES", "WHITE", "Row", "SafeScale", "rows"]

SAFE = "safecompress(rule='tm')"
"""The paper's rule, with the study's safety test."""

_SCALED = "granularity='channel', scope='weights', scale='absmean'"
TWO, ONE = f"uniform(bits=2, {_SCALED})", f"sign({_SCALED})"

METHODS: Mapping[str, str] = {
    "dense": "dense",
    "dense, stopped early": "early",
    "Pr": "prune",
    "Pr-DP": "prune+dpsgd",
    "Pr-AdvReg": "prune+advreg",
    "Pr-DMP": "prune+dmp",
    "KD": "kd",
    "KD-DP": "kd+dpsgd",
    "KD-AdvReg": "kd+advreg",
    "KD-DMP": "kd+dmp",
    "MIA-Pr (approximation)": "mia_prune",
    "Pr-PPB": "prune+ppb",
    "static mask": "static",
    "static mask, DP-SGD": "static+dpsgd(noise=0.6)",
    "SET": "set",
    "RigL": "rigl",
    "SET, least gradient": "set(grow='least_gradient')",
    "SET + RelaxLoss": "set+relaxloss",
    "SET + HAMP": "set+hamp",
    "SafeCompress": SAFE,
    "SafeCompress + re1": f"{SAFE}+re1",
    "SafeCompress + re2": f"{SAFE}+re2",
    "SafeCompress + L2": f"{SAFE}+l2",
    "SafeCompress + dropout": f"{SAFE}+dropout",
    "SafeCompress + augmentation": f"{SAFE}+augment",
    "SafeCompress + AdvReg": f"{SAFE}+advreg",
    "SafeCompress + BigPara": f"{SAFE}+bigpara",
    "SafeCompress + KD": f"{SAFE}+distil",
    "pick: random": "safecompress(rule='random')",
    "pick: least leak": "safecompress(rule='least')",
    "pick: constrained": "safecompress(rule='constrained')",
    "pick: indicator": "safecompress(rule='indicator')",
    "pick: TPR at 1 % FPR": "safecompress(rule='constrained', test=\"modified(metric='tpr@0.01')\")",
    "long: TM-score": "safecompress(rule='tm', interval=6, tune=4)",
    "long: random": "safecompress(rule='random', interval=6, tune=4)",
    "growth: held-out": "safecompress(rule='random', growth='held-out')",
    "growth: gap": "safecompress(rule='random', growth='gap')",
    "white-box loop": "safecompress(rule='tm', test='whitebox')",
    "2 bits": f"quantize(quantizer={TWO!r})",
    "2 bits, aware": f"quantize(quantizer={TWO!r}, aware=True)",
    "2 bits, aware, even losses": f"quantize(quantizer={TWO!r}, aware=True)+even",
    "1 bit": f"quantize(quantizer={ONE!r})",
    "1 bit, aware": f"quantize(quantizer={ONE!r}, aware=True)",
    "1 bit, aware, even losses": f"quantize(quantizer={ONE!r}, aware=True)+even",
}
"""By the name in the tables: the paper's methods and their controls, then our experiments."""

SIX = ("Pr", "Pr-DMP", "KD-DMP", "SET", "SafeCompress", "SafeCompress + re2")
"""Run at every density; the others at the task's first."""
QUICK = ("dense", "dense, stopped early", "Pr", "static mask", "SET", "RigL", "SafeCompress", "pick: random")
PICKS = (
    "SET",
    "SafeCompress",
    *(name for name in METHODS if name.startswith(("pick", "long", "growth"))),
)
TEXT = (
    "dense",
    "dense, stopped early",
    "Pr",
    "Pr-DMP",
    "KD-DMP",
    "SET",
    "SafeCompress",
    "SafeCompress + re2",
    "pick: random",
)
WHITE = (
    "dense",
    *(f"{small}-{how}" for small in ("Pr", "KD") for how in ("DP", "AdvReg", "DMP")),
    "MIA-Pr (approximation)",
    "white-box loop",
)
"""Rows of Table 11, which are attacked by the white-box attack as well."""
PAPER_TEXT = (
    *TEXT,
    "Pr-DP",
    "Pr-AdvReg",
    "KD-DP",
    "KD-AdvReg",
    "MIA-Pr (approximation)",
)
TEXTS = {"glosses": TEXT, "yelp5": PAPER_TEXT, "ag_news": PAPER_TEXT}
"""Methods for tasks with texts: those of Tables 9 and 10, and the controls."""


@dataclass(frozen=True)
class SafeScale:
    """How much of the study is run.

    Attributes:
        tasks: Which, with the runs of each.
        every: Whether all methods are run, or the quick ones.
        picks: Runs of the experiments on how candidates are picked; 0: as many as the others.
    """

    tasks: Mapping[str, int]
    every: bool
    picks: int = 0


SCALES: Mapping[str, SafeScale] = {
    "quick": SafeScale({"tab20": 3}, False),
    "small": SafeScale({"tab20": 3, "fashion": 3, "b3db": 3, "glosses": 2}, True, 10),
    "paper": SafeScale({"cifar100": 1, "cifar10": 1, "tinyimagenet": 1, "yelp5": 1, "ag_news": 1}, True),
}


@dataclass(frozen=True)
class Row:
    """One cell of the study.

    Attributes:
        task: Of ``TASKS``.
        name: Of ``METHODS``.
        density: Share of the weights that is kept.
        runs: How many.
        large: Of the network that is twice as wide.
    """

    task: str
    name: str
    density: float
    runs: int
    large: bool = False

    @property
    def method(self) -> str:
        """Its spec string."""
        return METHODS[self.name]


def rows(scale: SafeScale) -> Sequence[Row]:
    """All cells of a scale, in the order in which they are run: what is asked first comes first."""
    found: list[Row] = []
    for task, runs in scale.tasks.items():
        first, *others = TASKS[task].densities
        names = QUICK if not scale.every else TEXTS.get(task, tuple(METHODS))
        found += [Row(task, name, first, runs) for name in names]
        wide = SIX if scale.every else ("SET",)
        found += [Row(task, name, density, runs) for density in others for name in wide]
        if scale.every and TASKS[task].large is not None:
            found += [Row(task, name, first, runs, large=True) for name in ("dense", "SET", "SafeCompress")]
    if scale.picks:
        found += [
            Row(task, name, TASKS[task].densities[0], scale.picks)
            for task in ("tab20", "fashion")
            for name in PICKS
        ]
    return tuple(dict.fromkeys(found))
