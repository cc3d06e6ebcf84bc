"""Leave all random streams as they were: a training goes on as if nobody had looked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["untouched"]


@contextmanager
def untouched() -> Iterator[None]:
    """Put the global random states of Python, NumPy and PyTorch back afterwards, on every device in use.

    Example:
        >>> before = torch.get_rng_state()
        >>> with untouched():
        ...     _ = torch.rand(3)
        >>> torch.equal(torch.get_rng_state(), before)
        True
    """
    plain, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002 (that of the user's own code)
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(plain)
            np.random.set_state(numpys)  # noqa: NPY002
