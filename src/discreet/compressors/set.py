"""SET: Mocanu et al., "Scalable Training of Artificial Neural Networks with Adaptive Sparse Connectivity Inspired by
Network Science" (2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discreet.compressors._masked import check_masks
from discreet.compressors._sparse import train_preset
from discreet.phase import Defence, Outcome, Progress, Setting
from discreet.sparse import grow_rules, prune_rules

__all__ = ["SET"]


@dataclass(frozen=True)
class SET:
    """Drop the smallest weights now and then, and grow as many at random.

    Attributes:
        prune: Which weights go.
        grow: Which come.
    """

    prune: str = "magnitude"
    grow: str = "random"

    def __post_init__(self) -> None:
        prune_rules.parse(self.prune)
        grow_rules.parse(self.grow)

    def check(self, setting: Setting) -> None:
        """Refuse a model that cannot be masked; see ``check_masks``."""
        check_masks(setting)

    def __call__(self, setting: Setting, defences: Sequence[Defence], progress: Progress) -> Outcome:
        """See ``Compressor``."""
        return train_preset(self, setting, defences, progress, self.prune, self.grow)
