"""An attack network on log-odds and labels, one for each model, all trained at once.

The attack of Zhu et al., "Safety and Performance, Why not Both?" (2022), section 4.3.2, Branch 2, as one small
perceptron instead of three streams, so that the networks of all runs train as one stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float
from discreet.learners._streams import label_stream, posterior_stream
from discreet.measure import logits
from discreet.mlp import MLP
from discreet.recipe import Recipe
from discreet.safety._evidence import evidence
from discreet.safety._judge import check_metric, judge
from discreet.safety._protocol import Answers, Case, Found
from discreet.training import train

__all__ = ["Odds"]

_IDS = 2**31  # ids of models that train together lie below


@dataclass(frozen=True)
class Odds:
    """Perceptron on the log-odds of the classes, the true class first and the others in falling order, and the label.

    Attributes:
        hidden: Widths.
        epochs: Passes over the known samples.
        tune: Passes when it starts from the attacker of a model that differs little.
        lr: Adam's rate.
        batch_size: Samples a step.
        weight_decay: Of AdamW; so few samples are soon learnt by heart.
        metric: ``accuracy``, ``auc`` or ``tpr@RATE``.
    """

    hidden: tuple[int, ...] = (32,)
    epochs: int = 20
    tune: int = 4
    lr: float = 1e-2
    batch_size: int = 256
    weight_decay: float = 0.1
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        check_metric(self.metric)
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"hidden: expected positive widths, got {self.hidden}")
        if self.tune < 1:
            raise ValueError(f"tune: expected at least 1, got {self.tune}")
        self._recipe(self.epochs)

    @property
    def needs(self) -> frozenset[str]:
        """Nothing more."""
        return frozenset()

    def __call__(
        self, cases: Sequence[Case], *, seeds: Sequence[int], init: Sequence[Found] | None = None
    ) -> list[Found]:
        """See ``SafetyTest``."""
        found: list[Found | None] = [None] * len(cases)
        for places in _stacks(cases, seeds):
            own = [cases[at] for at in places], [seeds[at] for at in places]
            start = None if init is None else [init[at] for at in places]
            for at, each in zip(places, self._together(*own, start), strict=True):
                found[at] = each
        return [each for each in found if each is not None]

    def _together(
        self, cases: Sequence[Case], seeds: Sequence[int], init: Sequence[Found] | None
    ) -> list[Found]:
        """As one stack: equally many samples each, and different seeds."""
        scales = [_scale(case.known) if init is None else init[i].attacker[1] for i, case in enumerate(cases)]
        known = [_read(case.known, scale) for case, scale in zip(cases, scales, strict=True)]
        network = MLP((known[0].shape[1], *self.hidden, 1))
        own = known[0].shape[0]
        orders = np.stack([np.argsort(case.known.sample, kind="stable") for case in cases])
        params = train(
            network,
            torch.cat(known),
            torch.from_numpy(np.concatenate([case.known_member for case in cases]).astype(np.int64)),
            orders + own * np.arange(len(cases))[:, None],
            self._recipe(self.epochs if init is None else self.tune),
            init=_start(network, seeds) if init is None else _stack([each.attacker[0] for each in init]),
            model_ids=[seed % _IDS for seed in seeds],
            workers=1,
        )
        found = []
        for row, (case, scale) in enumerate(zip(cases, scales, strict=True)):
            one = {name: value[row] for name, value in params.items()}
            alone = {name: value[None] for name, value in one.items()}
            scores = logits(network, alone, _read(case.judged, scale), workers=1)[0].double().numpy()
            found.append(judge(scores, case.judged_member, self.metric, attacker=(one, scale)))
        return found

    def _recipe(self, epochs: int) -> Recipe:
        return Recipe(
            "bce",
            "adamw",
            lr=self.lr,
            epochs=epochs,
            batch_size=self.batch_size,
            weight_decay=self.weight_decay,
        )


def _read(answers: Answers, scale: tuple[np.ndarray, np.ndarray]) -> Float[Tensor, "sample column"]:
    odds = (_odds(answers) - scale[0]) / scale[1]
    return torch.from_numpy(np.hstack([odds, label_stream(evidence(answers)).numpy()])).float()


def _odds(answers: Answers) -> Float[np.ndarray, "sample column"]:
    """Log-odds of every version of the model that the attacker holds."""
    versions = [answers, *(replace(answers, outputs=outputs, also=()) for outputs in answers.also)]
    return np.hstack([posterior_stream(evidence(each), "odds").numpy() for each in versions])


def _scale(answers: Answers) -> tuple[np.ndarray, np.ndarray]:
    odds = _odds(answers)
    return odds.mean(axis=0), odds.std(axis=0) + 1e-6


def _start(network: MLP, seeds: Sequence[int]) -> dict[str, Tensor]:
    """Networks that say nothing yet: their last layer is 0."""
    stack = network.init([seed % 2**62 for seed in seeds])
    for name in network.layers[-1]:
        stack[name].zero_()
    return stack


def _stack(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([part[name] for part in parts]) for name in parts[0]}


def _stacks(cases: Sequence[Case], seeds: Sequence[int]) -> list[list[int]]:
    """Places of cases that train together: equally many samples each, and no seed twice, as it gives the order."""
    found: dict[tuple[int, int], list[int]] = {}
    met: Counter[int] = Counter()
    for at, (case, seed) in enumerate(zip(cases, seeds, strict=True)):
        found.setdefault((len(case.known), met[seed % _IDS]), []).append(at)
        met[seed % _IDS] += 1
    return list(found.values())
