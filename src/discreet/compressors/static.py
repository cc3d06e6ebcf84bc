"""Random masks that never move; their layers' densities are the setting's plan's, by default Erdős–Rényi ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discreet.compressors._masked import check_masks
from discreet.compressors._sparse import train_preset
from discreet.phase import Defence, Outcome, Progress, Setting

__all__ = ["Static"]


@dataclass(frozen=True)
class Static:
    """Train with the masks that are drawn at the start. They depend on no data."""

    def check(self, setting: Setting) -> None:
        """Refuse a model that cannot be masked; see ``check_masks``."""
        check_masks(setting)

    def __call__(self, setting: Setting, defences: Sequence[Defence], progress: Progress) -> Outcome:
        """See ``Compressor``."""
        return train_preset(self, setting, defences, progress, None, None)
