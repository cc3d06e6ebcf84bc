"""The attack protocol behind published figures of SafeCompress, beside a clean one; its own figure is confounded.

In the code that was released with Zhu et al., "Safety and Performance, Why not Both?" (2022), members reach the
attacker through the random crops and flips of training, non-members as they are. An attacker can then tell crops from
pictures, whatever the model has memorised; and a model that knows its members as they are is asked about others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet.defences.augment import Augment
from discreet.estimate import Estimate
from discreet.initial import Architecture
from discreet.model_seeds import stream
from discreet.phase import Setting
from discreet.release_audit import AUDIT, mean_of_runs
from discreet.safety import parse
from discreet.seen import cases
from discreet.training_paths import Batch, Epoch

__all__ = ["ATTACK", "Protocols", "paper_protocol"]

ATTACK = (
    "blackbox(learner=\"neural_blackbox(view='plain', weight_std=0.01, held_out=0, patience=0, epochs=100)\")"
)
"""The paper's attack network: weights of deviation 0.01, no held-out samples, 100 epochs."""


@dataclass(frozen=True)
class Protocols:
    """One attack under two protocols, means over runs.

    Attributes:
        confounded: Accuracy when members are shown augmented and non-members are not.
        clean: Accuracy when everybody is shown as they are.
        difference: The former less the latter, run by run.
        flag: What is wrong with the former.
    """

    confounded: Estimate
    clean: Estimate
    difference: Estimate
    flag: str = (
        "confounded: members were augmented and non-members were not, so this is no measure of memorisation"
    )

    def to_json(self) -> dict[str, Any]:
        """All figures as plain data, with the flag."""
        told = {name: getattr(self, name).to_json() for name in ("confounded", "clean", "difference")}
        return told | {"flag": self.flag}


def paper_protocol(
    setting: Setting,
    model: Architecture,
    params: Mapping[str, Tensor],
    augment: Augment,
    *,
    attack: str = ATTACK,
) -> Protocols:
    """Attack models as the released code does, and cleanly.

    Args:
        setting: The task.
        model: The models' architecture.
        params: The stack, one model a run.
        augment: How training would show its samples.
        attack: Safety test, by spec string.

    Raises:
        ValueError: Inputs that cannot be augmented so.
    """
    test = parse(attack)
    found: dict[str, list[Estimate]] = {"confounded": [], "clean": []}
    for run in range(setting.runs):
        alone = replace(setting, roles=setting.roles.of(run))
        own = {name: value[run : run + 1] for name, value in params.items()}
        seeds = [int(stream(setting.seed, run, AUDIT, 1).integers(2**62))]
        for name, given in (("confounded", _augmented(alone, run, augment)), ("clean", alone)):
            shown = cases(given, model, {"": own}, given.roles.audit, test.needs)[""]
            found[name].append(test(shown, seeds=seeds)[0].value)
    differences = [
        replace(one, value=gap, low=gap, high=gap)
        for one, other in zip(found["confounded"], found["clean"], strict=True)
        for gap in [one.value - other.value]
    ]
    return Protocols(
        mean_of_runs(found["confounded"]), mean_of_runs(found["clean"]), mean_of_runs(differences)
    )


def _augmented(setting: Setting, run: int, augment: Augment) -> Setting:
    """The setting with the attacked members seen through one augmentation each."""
    panel = setting.roles.audit
    places = torch.from_numpy(np.concatenate([panel.known_in[0], panel.judged_in[0]]))
    epoch = Epoch(1, (run,), places[None], len(places), setting.seed)
    seen = augment.view(Batch(setting.x[places][None], setting.y[places][None], places[None], epoch, 0))
    x = setting.x.clone()
    x[places] = seen.x[0].to(x.dtype)
    return replace(setting, x=x)
