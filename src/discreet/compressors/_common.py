"""What compressors share: outcomes, and the part of a phase that a teacher has trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet import _find
from discreet.phase import Compressor, Outcome, Phase, Trained

__all__ = ["outcome", "spec_of"]


def spec_of(compressor: Compressor) -> str:
    """The compressor's spec string."""
    return _find.spec(compressor, "discreet.compressors")


def outcome(
    compressor: Compressor,
    phase: Phase,
    trained: Trained,
    *,
    spent: float = 0.0,
    epochs: float = 0.0,
    notes: tuple[str, ...] = (),
    history: Mapping[str, Any] | None = None,
) -> Outcome:
    """The outcome of a last training.

    Args:
        compressor: Who made it.
        phase: The training.
        trained: What it gave.
        spent: Training passes before it.
        epochs: Passes in which these very models were trained before it.
        notes: Beside those of the phase and of the last training.
        history: See the compressor.
    """
    return Outcome(
        spec_of(compressor),
        trained.model,
        trained.params,
        trained.masks,
        epochs + trained.spent,
        spent + trained.spent,
        (*notes, *phase.remarks, *trained.notes),
        phase.epsilon,
        history or {},
    )
