"""Each run's samples as its own teacher sees them."""

from __future__ import annotations

import os

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float, Int, Num
from discreet.initial import as_model
from discreet.measure import logits
from discreet.phase import Phase, fresh_phase

__all__ = ["lesson"]


def lesson(
    name: str, phase: Phase, positions: Int[np.ndarray, "run n"]
) -> tuple[Num[Tensor, " row *features"], Float[Tensor, "row out"], Int[np.ndarray, "run n"]]:
    """Inputs and the teacher's outputs, repeated for each run, as each has a teacher of its own.

    Args:
        name: Of the defence, for messages.
        phase: With a teacher.
        positions: Samples of the setting.

    Returns:
        Inputs [run · n, …], raw outputs [run · n, out], and each run's rows in them.

    Raises:
        ValueError: No teacher, or copies that take more than half of this machine's memory.
    """
    if phase.teacher is None:
        raise ValueError(f"{name}: expected a phase with a teacher, got none")
    setting, teacher = phase.setting, phase.teacher
    x = fresh_phase(setting).x
    size = positions.size * x[0].numel() * x.element_size()
    if size > _memory() / 2:
        raise ValueError(
            f"{name}: samples are repeated for each of {len(positions)} runs, which takes {size / 2**30:.1f} GiB,"
            " more than half of this machine's memory; do fewer runs at once"
        )
    rows, outputs = [], []
    for run, places in enumerate(torch.from_numpy(np.ascontiguousarray(positions))):
        params = {key: value[run : run + 1] for key, value in teacher.params.items()}
        rows.append(x[places])
        outputs.append(logits(as_model(teacher.model), params, rows[-1])[0])
    own = np.arange(positions.size).reshape(positions.shape)
    joined = torch.cat(outputs)
    return torch.cat(rows), joined[:, None] if joined.ndim == 1 else joined, own


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
