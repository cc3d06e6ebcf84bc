"""Membership-inference security of compressed models: measure it, rank by it, ship what passes.

>>> import numpy as np, discreet
>>> rng = np.random.default_rng(0)
>>> losses = rng.exponential(size=(8, 10, 500))  # [run, checkpoint, sample], in nats
>>> discreet.indicator(losses).samples
500
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# bound here, not on demand: the function must win over the module of the same name
from discreet.indicator import indicator
from discreet.ranking import rank
from discreet.records import Record, read

if TYPE_CHECKING:
    from discreet.attacks import attack
    from discreet.recorder import Recorder

__all__ = ["Record", "Recorder", "attack", "indicator", "rank", "read"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Recorder":  # runs models, so it needs torch
        from discreet.recorder import Recorder

        return Recorder
    if name == "attack":
        from discreet.attacks import attack

        return attack
    raise AttributeError(f"module 'discreet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
