"""A small dense student that learns from the big model: Hinton et al., "Distilling the Knowledge in a Neural Network"
(2015), as in Zhu et al., "Safety and Performance, Why not Both?", section 5.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from discreet.compressors._common import outcome
from discreet.compressors._narrow import narrowed
from discreet.defences.distil import Distil
from discreet.phase import Defence, Outcome, Progress, Setting, defended, fresh_phase, run

__all__ = ["KD"]


@dataclass(frozen=True)
class KD:
    """Train the big model, then a narrow one on labels and on the big one's answers.

    Defences act in the student's training, after the distillation; ``dmp`` takes its place.

    Attributes:
        weight: Of the teacher's part of the loss; 0: a small dense model that learns from labels alone, without a
            teacher.
        temperature: See ``Distil``.
        epochs: Of the student; None: as many as the recipe has.
    """

    weight: float | int = 0.5
    temperature: float | int = 1.0
    epochs: int | None = None

    def __post_init__(self) -> None:
        Distil(self.weight, self.temperature)
        if self.epochs is not None and self.epochs < 1:
            raise ValueError(f"epochs: expected at least 1, or None, got {self.epochs}")

    def check(self, setting: Setting) -> None:
        """Refuse a model that cannot be narrowed so far.

        Raises:
            ValueError: As ``narrowed``.
        """
        narrowed(setting)

    def __call__(self, setting: Setting, defences: Sequence[Defence], progress: Progress) -> Outcome:
        """See ``Compressor``.

        Raises:
            ValueError: The model cannot be narrowed so far.
        """
        recipe = replace(setting.recipe, epochs=self.epochs or setting.recipe.epochs)
        phase = fresh_phase(setting, model=narrowed(setting), recipe=recipe)
        own = (Distil(self.weight, self.temperature),) if self.weight else ()
        phase, spent = defended(phase, (*own, *defences), progress)
        trained = run(phase, progress=lambda done, of: progress("training the student", done / of))
        return outcome(self, phase, trained, spent=spent)
