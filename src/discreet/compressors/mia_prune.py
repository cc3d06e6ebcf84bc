"""After MIA-Pr: Wang et al., "Against Membership Inference Attack: Pruning is All You Need" (2021). An approximation:
the paper's algorithm is not public to us.

What is known of it is that it prunes for safety: among ways to prune, the one whose model resists an attack best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float
from discreet.compressors._common import outcome
from discreet.compressors._magnitude import keep, largest
from discreet.compressors._masked import check_masks, of_setting
from discreet.compressors._performance import performance
from discreet.initial import Architecture
from discreet.phase import (
    Defence,
    Outcome,
    Phase,
    Progress,
    Setting,
    Teacher,
    Trained,
    defended,
    fresh_phase,
    run,
)
from discreet.roles import Panel
from discreet.safety.loss import Loss
from discreet.seen import cases
from discreet.sparse import close, counts

__all__ = ["MIAPrune"]

NOTE = "mia_prune approximates MIA-Pr, whose algorithm is not public: it prunes in rounds and keeps what is safest"
RULES = ("global", "erk", "uniform")


@dataclass(frozen=True)
class MIAPrune:
    """Prune a trained model in rounds, each in three ways, and go on with the way whose model resists best.

    The ways keep the largest weights of all layers together, or of each layer as many as an Erdős–Rényi or a uniform
    share of the budget gives it. Each is fine-tuned, then attacked by a threshold on the loss: learnt on the known
    half of the ``loop`` panel, judged on the other. Of the ways whose validation performance is near the best, each
    run takes the one that is attacked with least accuracy. All ways count as spent. ``history`` has for each round
    the density, and for each run the way that was taken, and attack and performance of every way.

    Attributes:
        rounds: The density falls by the same factor in each.
        epochs: Of each fine-tuning; None: the recipe's, shared out over the rounds.
        tolerance: How far below the best way's validation performance a way may be.
    """

    rounds: int = 3
    epochs: int | None = None
    tolerance: float | int = 0.02

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds: expected at least 1, got {self.rounds}")
        if self.epochs is not None and self.epochs < 1:
            raise ValueError(f"epochs: expected at least 1, or None, got {self.epochs}")
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance: expected 0 or more, got {self.tolerance}")

    def check(self, setting: Setting) -> None:
        """Refuse a model that cannot be masked; see ``check_masks``."""
        check_masks(setting)

    def __call__(self, setting: Setting, defences: Sequence[Defence], progress: Progress) -> Outcome:
        """See ``Compressor``.

        Raises:
            SparseError: Nothing to prune, or a density that leaves a layer nothing.
        """
        dense = run(
            fresh_phase(setting), progress=lambda done, of: progress("training the big model", done / of)
        )
        teacher = Teacher(setting.model, dense.params)
        epochs = self.epochs or max(1, setting.recipe.epochs // self.rounds)
        recipe = replace(setting.recipe, epochs=epochs)
        taken, spent, own, rounds = dense, dense.spent, dense.spent, []
        lost = list(dense.notes)
        phase = fresh_phase(setting)
        for number in range(1, self.rounds + 1):
            density = setting.density ** (number / self.rounds) if number < self.rounds else setting.density
            ways: list[tuple[Phase, Trained]] = []
            for place, rule in enumerate(RULES):
                masks = _masks(setting, taken.params, density, rule)
                start = fresh_phase(
                    setting, recipe=recipe, init=close(taken.params, masks), masks=masks, teacher=teacher
                )
                phase, _ = defended(start, defences, progress)
                ways.append((phase, run(phase)))
                spent += ways[-1][1].spent
                lost += ways[-1][1].notes
                progress("pruning", ((number - 1) * len(RULES) + place + 1) / (self.rounds * len(RULES)))
            own += ways[-1][1].spent
            taken, round_ = self._safest(setting, [way for _, way in ways])
            rounds.append({"density": density, **round_})
        done = outcome(self, phase, taken, notes=(NOTE, *lost), history={"rounds": rounds})
        return replace(done, epochs=own, spent=spent)

    def _safest(self, setting: Setting, ways: list[Trained]) -> tuple[Trained, dict[str, Any]]:
        model = ways[0].model
        good = np.stack([performance(setting, model, way.params) for way in ways])
        leaks = np.stack([attacked(setting, model, way.params, setting.roles.loop) for way in ways])
        allowed = good >= good.max(axis=0) - self.tolerance
        chosen = np.where(allowed, leaks, np.inf).argmin(axis=0)
        seen = {
            "rule": [RULES[way] for way in chosen.tolist()],
            "attack": leaks.tolist(),
            "worth": good.tolist(),
        }
        return replace(
            ways[0],
            params=_rows([way.params for way in ways], chosen.tolist()),
            masks=_rows([way.masks for way in ways], chosen.tolist()),
            notes=(),
        ), seen


def attacked(
    setting: Setting, model: Architecture, params: Mapping[str, Tensor], panel: Panel
) -> Float[np.ndarray, " run"]:
    """Balanced accuracy of the safety test ``loss`` on each run's model, at least 0.5."""
    shown = cases(setting, model, {"": params}, panel)[""]
    return np.array([found.leak for found in Loss()(shown, seeds=range(setting.runs))])


def _masks(setting: Setting, params: Mapping[str, Tensor], density: float, rule: str) -> dict[str, Tensor]:
    shapes = of_setting(setting).shapes
    if rule == "global":
        return largest(params, shapes, density)
    kept = counts(shapes, density, rule)
    masks = {}
    for name, shape in shapes.items():
        flat = params[name].abs().flatten(1).double().numpy(force=True)
        rows = np.stack([keep(each, [flat.shape[1]], kept[name]) for each in flat])
        masks[name] = torch.from_numpy(rows).reshape(-1, *shape)
    return masks


def _rows(stacks: list[Mapping[str, Tensor]], chosen: list[int]) -> dict[str, Tensor]:
    return {
        name: torch.stack([stacks[way][name][run] for run, way in enumerate(chosen)]) for name in stacks[0]
    }
