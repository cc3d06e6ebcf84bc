"""Cores of this machine, and one thread for each piece of work; torch is not imported for it."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext

__all__ = ["available", "one_thread"]


def available() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_thread() -> AbstractContextManager[None]:
    """Keep PyTorch, if it is there, on one thread: more round differently."""
    if "torch" not in sys.modules:
        return nullcontext()
    from discreet._spread import one_torch_thread

    return one_torch_thread()
