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
    state = resume
    lost: list[tuple[int, tuple[int, ...], str]] = []

    def keep(after: TrainingState) -> None:
        nonlocal state
        state = after

    while True:
        try:
            done = step(state, keep)
        except Diverged as error:
            if state is None:
                raise
            lost.append((state.epoch, error.models, f"{error}{_others(error.models)}"))
            stopped = state.stopped.clone()
            stopped[list(error.models)] = state.epoch
            state = replace(state, stopped=stopped)
        else:
            told = (
                f"stopped after epoch {epoch}, the last good one: {why}" for epoch, _, why in sorted(lost)
            )
            return done, state, tuple(told)  # sorted: of models that diverge together, any may be the first


def _others(models: tuple[int, ...]) -> str:
    return f" (and so model {', '.join(map(str, models[1:]))})" if models[1:] else ""
