"""A training in which a model whose weights stop being finite stays at its last good epoch, and the others go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from discreet.ensemble import Diverged
from discreet.training_state import TrainingState

__all__ = ["outlast"]

T = TypeVar("T")
Step = Callable[[TrainingState | None, Callable[[TrainingState], None]], T]


def outlast(
    step: Step[T], resume: TrainingState | None = None
) -> tuple[T, TrainingState | None, tuple[str, ...]]:
    """Call a training until it ends.

    Args:
        step: The training of models with the ids 0, 1, 2, …: takes ``resume`` and ``on_state`` of ``train``.
        resume: Where it goes on; None: at its start.

    Returns:
        What it returned, its last state, and a sentence for each time that a model stopped.

    Raises:
        Diverged: In the very first epoch, before which there is no good model.
    """
    state, lost = resume, []

    def keep(after: TrainingState) -> None:
        nonlocal state
        state = after

    while True:
        try:
            done = step(state, keep)
        except Diverged as error:
            if state is None:
                raise
            lost.append(f"stopped after epoch {state.epoch}, the last good one: {error}")
            stopped = state.stopped.clone()
            stopped[list(error.models)] = state.epoch
            state = replace(state, stopped=stopped)
        else:
            return done, state, tuple(lost)
