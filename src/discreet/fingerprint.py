"""Tell configurations of weights apart: equal parameters, equal fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from discreet._spread import spread
from discreet._types import Num

__all__ = ["fingerprints"]


def fingerprints(stack: Mapping[str, Tensor], workers: int | None = None) -> Num[np.ndarray, " model"]:
    """The first 64 bits of SHA-256 over all parameters of each model, names included.

    Args:
        stack: Tensors with a leading model axis. The two zeros count as one.
        workers: Threads; None: one a core.

    Example:
        >>> one, other, again = fingerprints({"w": torch.tensor([[0.0], [1.0], [-0.0]])})
        >>> bool(one == again), bool(one == other)
        (True, False)
    """
    names = sorted(stack)
    models = len(stack[names[0]])

    def digest(model: int) -> int:
        whole = hashlib.sha256()
        for name in names:
            value = stack[name][model].detach()
            value = (value + 0 if value.is_floating_point() else value).cpu().contiguous()  # -0 + 0 is 0
            whole.update(f"{name}{tuple(value.shape)}{value.dtype};".encode())
            whole.update(value.reshape(-1).view(torch.uint8).numpy().data)
        return int.from_bytes(whole.digest()[:8], "little")

    return np.array(spread(digest, range(models), workers), dtype=np.uint64)
