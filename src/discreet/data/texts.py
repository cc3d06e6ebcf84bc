"""Texts of a data set, with where they came from: a prompt, the answer to it, and which texts belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from discreet._types import Int

__all__ = ["TextSet"]


@dataclass(frozen=True, eq=False)
class TextSet:
    """Distinct texts.

    Attributes:
        prompt: What comes before each answer; empty where the whole text counts.
        answer: The texts.
        family: Texts of one number depend on each other (two names of a molecule, a mail and its reply).
        name: Of the data set.
        sha256: Hash of each file that was read, by its name.
        licence: Its licence.
        source: Where it was read from.
        counts: How many there were, and why some are not here.
    """

    prompt: tuple[str, ...]
    answer: tuple[str, ...]
    family: Int[np.ndarray, " text"]
    name: str
    sha256: Mapping[str, str]
    licence: str
    source: str
    counts: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.answer)
