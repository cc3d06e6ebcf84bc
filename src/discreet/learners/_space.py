"""Where to look for hyper-parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Choice", "Range"]


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included; whole ones if both ends are; ``log``: by their logarithm."""

    low: int | float
    high: int | float
    log: bool = False


@dataclass(frozen=True)
class Choice:
    """One of these values."""

    options: tuple[Any, ...]
