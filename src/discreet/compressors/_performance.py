"""How well each run's model does its task on the run's validation samples; what compressors choose by."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float, Int
from discreet.estimate import Estimate
from discreet.forward import dtype_of, inputs_at
from discreet.initial import Architecture, as_model
from discreet.losses import LOSSES
from discreet.measure import logits
from discreet.performance import performance as measured
from discreet.phase import Setting, fresh_phase
from discreet.seen import outputs_on

__all__ = ["losses", "performance", "performances"]


def performances(
    setting: Setting, model: Architecture, stacks: Mapping[str, Mapping[str, Tensor]]
) -> dict[str, list[Estimate]]:
    """The setting's metric of each run's models, by name: higher is better; see ``discreet.performance``."""
    places, label = setting.roles.validation, setting.y.numpy()
    return {
        name: [
            measured(answers["outputs"], label[rows], setting.kind, setting.metric)
            for answers, rows in zip(told, places, strict=True)
        ]
        for name, told in outputs_on(setting, model, stacks, places).items()
    }


def performance(
    setting: Setting, model: Architecture, params: Mapping[str, Tensor]
) -> Float[np.ndarray, " run"]:
    """The values of ``performances`` of one stack."""
    return np.array([each.value for each in performances(setting, model, {"": params})[""]])


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
        outputs = logits(built, own, inputs_at(built, data.x, places, dtype_of(own)))[0].double()
        y = data.y[places]
        found.append(
            (outputs[:, None] if outputs.ndim == 1 else outputs, y.double() if y.is_floating_point() else y)
        )
    return found
