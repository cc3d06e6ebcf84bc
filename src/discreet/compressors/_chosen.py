"""Dense training of which one epoch is kept, each run its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from discreet._types import Bool, Float, Int
from discreet.phase import Defence, Phase, Progress, Setting, Trained, defended, finished, fresh_phase, run

__all__ = ["Chosen", "train_and_choose"]


@dataclass
class Chosen:
    """The weights of each run at the epoch that was kept.

    Attributes:
        worth: What they were kept for: higher is better.
        epoch: Of each run.
        params: The stack.
        trace: Worth of each run after each epoch.
    """

    worth: Float[np.ndarray, " run"]
    epoch: Int[np.ndarray, " run"]
    params: dict[str, Tensor]
    trace: list[list[float]] = field(default_factory=list)

    def offer(
        self,
        epoch: int,
        params: Mapping[str, Tensor],
        worth: Float[np.ndarray, " run"],
        better: Bool[np.ndarray, " run"],
    ) -> None:
        """Keep an epoch for the runs in which it is better."""
        rows = torch.from_numpy(np.flatnonzero(better))
        for name, value in params.items():
            self.params.setdefault(name, value.clone())[rows] = value[rows]
        self.worth[better], self.epoch[better] = worth[better], epoch
        self.trace.append(worth.tolist())


def train_and_choose(
    setting: Setting,
    defences: Sequence[Defence],
    progress: Progress,
    judge: Callable[[Phase, Mapping[str, Tensor]], Float[np.ndarray, " run"]],
    enough: Float[np.ndarray, " run"] | None = None,
) -> tuple[Phase, Trained, Chosen, float]:
    """Train the big model to the end of the recipe and keep the best epoch of each run, of equal ones the first.

    Args:
        setting: The task.
        defences: In the training.
        progress: Called on the way.
        judge: Gives each run's worth of released models.
        enough: A worth for each run; the first epoch that reaches it is kept. None: the best.

    Returns:
        The phase, its outcome with the weights that were kept, what was kept, and what the teacher took.
    """
    phase, spent = defended(fresh_phase(setting), defences, progress)
    runs = setting.runs
    kept = Chosen(np.full(runs, -np.inf), np.zeros(runs, np.int64), {})
    model = phase.released or phase.model

    def look(epoch: int, params: dict[str, Tensor]) -> None:
        out = finished(phase, params)
        worth = judge(replace(phase, model=model), out)
        better = worth > kept.worth
        if enough is not None:
            better &= kept.worth < enough
        kept.offer(epoch, out, worth, better)

    trained = run(phase, on_checkpoint=look, progress=lambda done, of: progress("training", done / of))
    return phase, replace(trained, params=kept.params), kept, spent
