"""How far the rounds of SafeCompress have come, in memory and on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from discreet._json import dumps, loads, save
from discreet._types import Float
from discreet.training_state import TrainingState

__all__ = ["Course", "keep", "kept"]


@dataclass(eq=False)
class Course:
    """How far the rounds have come: all that is needed to go on.

    Attributes:
        state: Weights, moments, masks.
        tracks: For each run the losses of its checkpoints so far on validation samples, for the indicator.
        points: What was measured of the models that went on, round by round, as plain data.
        rounds: What was measured of the candidates, and which was chosen.
        extra: Epochs that were trained for candidates that did not go on, for each run.
        scores: For each run the selection score of each round.
        lost: A sentence for each run whose weights stopped being finite.
    """

    state: TrainingState
    tracks: list[list[Float[np.ndarray, " sample"]]]
    points: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)
    scores: list[list[tuple[float, float]]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @classmethod
    def start(cls, runs: int) -> Course:
        """Before the first step."""
        empty = torch.zeros(0)
        state = TrainingState(0, {}, {}, empty.double(), empty.long(), empty.long(), "")
        return cls(state, [[] for _ in range(runs)], extra=[0] * runs, scores=[[] for _ in range(runs)])


def keep(folder: Path | None, course: Course, key: str) -> None:
    """Write what the rounds need to go on: the state first, then the file that speaks of it.

    Args:
        folder: Where; None: nowhere.
        course: How far they have come.
        key: Hash of all that the rounds depend on.
    """
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    epoch = course.state.epoch
    course.state.save(folder / f"state-{epoch}.safetensors")
    told = {
        "key": key,
        "epoch": epoch,
        "tracks": [[losses.tolist() for losses in track] for track in course.tracks],
        **{name: getattr(course, name) for name in ("points", "rounds", "extra", "scores", "lost")},
    }
    save(folder / "course.json", dumps(told))
    for old in folder.glob("state-*.safetensors"):
        if old.name != f"state-{epoch}.safetensors":
            os.unlink(old)


def kept(folder: Path | None, key: str) -> Course | None:
    """What was kept of the same rounds; None if that is nothing, or damaged."""
    try:
        told = {} if folder is None else loads((folder / "course.json").read_bytes())
        if folder is None or told["key"] != key:
            return None
        state = TrainingState.load(folder / f"state-{told['epoch']}.safetensors")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Course(
        state,
        [[np.array(losses) for losses in track] for track in told["tracks"]],
        told["points"],
        told["rounds"],
        told["extra"],
        [[(score, error) for score, error in each] for each in told["scores"]],
        told["lost"],
    )
