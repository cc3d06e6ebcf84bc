"""Train, prune, fine-tune: Han et al., "Deep Compression" (2016), as in Zhu et al., "Safety and Performance, Why not
Both?", section 5.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from discreet.compressors._common import outcome
from discreet.compressors._magnitude import largest
from discreet.compressors._masked import check_masks, of_setting
from discreet.phase import Defence, Outcome, Progress, Setting, Teacher, defended, fresh_phase, run
from discreet.sparse import close

__all__ = ["Prune"]


@dataclass(frozen=True)
class Prune:
    """Train all weights, keep the largest of all layers together, and train on with those.

    Defences act in the fine-tuning; the dense model is their teacher.

    Attributes:
        epochs: Of the fine-tuning; None: a third of the recipe's.
        lr: Of the fine-tuning; None: a fifth of the recipe's.
    """

    epochs: int | None = None
    lr: float | int | None = None

    def __post_init__(self) -> None:
        if self.epochs is not None and self.epochs < 1:
            raise ValueError(f"epochs: expected at least 1, or None, got {self.epochs}")
        if self.lr is not None and not self.lr > 0:
            raise ValueError(f"lr: expected above 0, or None, got {self.lr}")

    def check(self, setting: Setting) -> None:
        """Refuse a model that cannot be masked; see ``check_masks``."""
        check_masks(setting)

    def __call__(self, setting: Setting, defences: Sequence[Defence], progress: Progress) -> Outcome:
        """See ``Compressor``.

        Raises:
            SparseError: Nothing to prune, or a density that leaves a layer nothing.
        """
        shapes = of_setting(setting).shapes
        dense = run(
            fresh_phase(setting), progress=lambda done, of: progress("training the big model", done / of)
        )
        masks = largest(dense.params, shapes, setting.density)
        recipe = setting.recipe
        epochs, lr = self.epochs or max(1, recipe.epochs // 3), self.lr or recipe.lr / 5
        recipe = replace(recipe, epochs=epochs, lr=lr)
        phase = fresh_phase(
            setting,
            recipe=recipe,
            init=close(dense.params, masks),
            masks=masks,
            teacher=Teacher(setting.model, dense.params),
        )
        phase, spent = defended(phase, defences, progress)
        trained = run(phase, progress=lambda done, of: progress("fine-tuning", done / of))
        return outcome(self, phase, trained, spent=dense.spent + spent, epochs=dense.spent, notes=dense.notes)
