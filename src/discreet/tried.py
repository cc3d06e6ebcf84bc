"""A safety test run once on models with fresh weights: what it refuses shows there, before anything is trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from torch import Tensor

from discreet.initial import initialise
from discreet.model_seeds import init_seed
from discreet.phase import Setting, fresh_phase
from discreet.roles import Panel
from discreet.safety import Found, SafetyTest
from discreet.seen import cases, check_needs

__all__ = ["fresh_weights", "tried"]


def tried(setting: Setting, panel: Literal["loop", "audit"], test: SafetyTest) -> Found:
    """What a test finds of the big model of the first run as it is before training.

    Args:
        setting: The task.
        panel: Whose answers teach and judge, of the setting's roles.
        test: It draws from a seed of its own, so that nothing that comes later depends on it.

    Raises:
        ValueError: As ``check_needs``, and what the test refuses of the model, the data or this installation.
    """
    check_needs(setting, test.needs)
    if "references" not in test.needs:  # else the models of the other runs are read too
        setting = replace(setting, roles=setting.roles.of(0))
    seen: Panel = getattr(setting.roles, panel)
    shown = cases(setting, setting.model, {"": fresh_weights(setting)}, seen, test.needs)[""]
    return test(shown[:1], seeds=[0])[0]


def fresh_weights(setting: Setting) -> dict[str, Tensor]:
    """The big model of every run as its training would begin."""
    x = fresh_phase(setting).x
    seeds = [init_seed(setting.seed, run) for run in range(setting.runs)]
    return initialise(setting.model, seeds, *([x.dtype] if x.is_floating_point() else []))
