"""The last training of a method as it would begin, but with fresh weights in place of those that are trained before.

What defences refuse, alone or together, shows there: before anything is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from discreet.compressors._masked import of_setting
from discreet.compressors._narrow import narrowed
from discreet.compressors.kd import KD
from discreet.compressors.mia_prune import MIAPrune
from discreet.compressors.prune import Prune
from discreet.compressors.rigl import RigL
from discreet.compressors.safecompress import Safecompress
from discreet.compressors.set import SET
from discreet.compressors.static import Static
from discreet.defences.distil import Distil
from discreet.phase import Compressor, Defence, Phase, Setting, Teacher, defended, fresh_phase
from discreet.sparse import Plan, close, counts, draw_masks, grow_rules
from discreet.tried import fresh_weights

__all__ = ["check_defences"]


def check_defences(compressor: Compressor, defences: Sequence[Defence], setting: Setting) -> None:
    """Refuse defences that cannot be in the training of a compressor.

    A compressor of one's own is taken for one that trains the big model.

    Args:
        compressor: It has been checked by itself.
        defences: In their order, checked too.
        setting: The task.

    Raises:
        ValueError: As a defence's ``apply``, and the phase's ``gradients`` and ``remarks``.
    """
    every = tuple(defences)
    if isinstance(compressor, KD) and compressor.weight:
        every = (Distil(compressor.weight, compressor.temperature), *every)
    if not every:
        return
    phase = _begun(compressor, setting)
    if phase.teacher is None and any(defence.needs_teacher for defence in every):
        phase = replace(phase, teacher=Teacher(setting.model, fresh_weights(setting)))
    phase, _ = defended(phase, every, lambda what, share: None)
    _ = phase.gradients, phase.remarks  # made, and refused, when they are read
    if isinstance(compressor, Safecompress):
        _check_growth(compressor, phase)


def _begun(compressor: Compressor, setting: Setting) -> Phase:
    match compressor:
        case KD():
            return fresh_phase(setting, model=narrowed(setting))
        case Prune() | MIAPrune():
            fresh, plan = fresh_weights(setting), setting.plan or Plan(setting.density)
            shapes = of_setting(setting).shapes
            kept = counts(shapes, setting.density, plan.allocation)
            masks = draw_masks(shapes, kept, range(setting.runs), seed=setting.seed)
            teacher = Teacher(setting.model, fresh)
            return fresh_phase(setting, init=close(fresh, masks), masks=masks, teacher=teacher)
        case SET() | RigL():
            return _sparse(setting, compressor.prune, compressor.grow)
        case Safecompress():
            return _sparse(setting, compressor.prune[0], compressor.grow[0])
        case Static():
            return _sparse(setting, None, None)
        case _:
            return fresh_phase(setting)


def _sparse(setting: Setting, prune: str | None, grow: str | None) -> Phase:
    plan = setting.plan or Plan(setting.density)
    return fresh_phase(setting, plan=replace(plan, density=setting.density, prune=prune, grow=grow))


def _check_growth(compressor: Safecompress, phase: Phase) -> None:
    """Refuse growth by samples of the setting where a defence trains on others."""
    reads = any(grow_rules.parse(rule).needs_gradient for rule in compressor.grow)
    if reads and compressor.growth != "fit" and phase.subsets is not phase.setting.roles.fit:
        raise ValueError(
            "growth: expected fit, as a defence trains on other samples than the setting's, got"
            f" {compressor.growth!r}"
        )
