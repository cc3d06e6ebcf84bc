"""BigPara: begin from the big model's weights; a trick of Zhu et al., "Safety and Performance, Why not Both?",
Table 8."""

from __future__ import annotations

from dataclasses import dataclass, replace

from discreet.defences._modules import released
from discreet.forward import check_names
from discreet.initial import as_model
from discreet.phase import Phase

__all__ = ["BigPara"]


@dataclass(frozen=True)
class BigPara:
    """Start from the teacher's weights, as far as masks let them be."""

    @property
    def needs_teacher(self) -> bool:
        """Yes."""
        return True

    def apply(self, phase: Phase) -> Phase:
        """See ``Defence``.

        Raises:
            ValueError: No teacher, or one of another architecture.
        """
        if phase.teacher is None:
            raise ValueError("bigpara: expected a phase with a teacher, got none")
        try:
            check_names(as_model(released(phase)), phase.teacher.params)
        except ValueError as error:
            raise ValueError(f"bigpara: the big model's weights do not fit the model: {error}") from error
        return replace(phase, init=phase.teacher.params)
