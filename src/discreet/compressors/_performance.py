"""How well each run's model does its task on the run's validation samples; what compressors choose by."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float, Int
from discreet.initial import Architecture, as_model
from discreet.losses import LOSSES
from discreet.measure import logits
from discreet.performance import performance as measured
from discreet.phase import Setting, fresh_phase

__all__ = ["losses", "performance"]


def performance(
    setting: Setting, model: Architecture, params: Mapping[str, Tensor]
) -> Float[np.ndarray, " run"]:
    """The setting's metric: higher is better; see ``discreet.performance``."""
    answers = _answers(setting, model, params, setting.roles.validation)
    return np.array(
        [measured(outputs.numpy(), y.numpy(), setting.kind, setting.metric).value for outputs, y in answers]
    )


def losses(
    setting: Setting,
    model: Architecture,
    params: Mapping[str, Tensor],
    positions: Int[np.ndarray, "run n"],
) -> Float[np.ndarray, "run n"]:
    """The task's loss of some samples of each run."""
    answers = _answers(setting, model, params, positions)
    return np.stack([LOSSES[setting.kind].per_sample(outputs, y).numpy() for outputs, y in answers])


def _answers(
    setting: Setting,
    model: Architecture,
    params: Mapping[str, Tensor],
    positions: Int[np.ndarray, "run n"],
) -> list[tuple[Float[Tensor, "n out"], Tensor]]:
    data, built = fresh_phase(setting), as_model(model)
    found = []
    for run, places in enumerate(torch.from_numpy(np.ascontiguousarray(positions))):
        own = {name: value[run : run + 1] for name, value in params.items()}
        outputs = logits(built, own, data.x[places])[0].double()
        y = data.y[places]
        found.append(
            (outputs[:, None] if outputs.ndim == 1 else outputs, y.double() if y.is_floating_point() else y)
        )
    return found
