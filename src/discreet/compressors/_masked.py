"""Which weights of the big model can be taken away."""

from __future__ import annotations

from discreet.phase import Setting
from discreet.sparse import Maskable, Plan, counts, maskable

__all__ = ["check_masks", "of_setting"]


def of_setting(setting: Setting) -> Maskable:
    """What of the big model is masked."""
    wishes = setting.plan
    return maskable(setting.model, *((wishes.include, wishes.exclude) if wishes else (None, ())))


def check_masks(setting: Setting) -> None:
    """Refuse a model that cannot be masked at the setting's density.

    Raises:
        SparseError: Nothing to mask, or a density that leaves a layer nothing.
    """
    plan = setting.plan or Plan(setting.density)
    counts(of_setting(setting).shapes, setting.density, plan.allocation)
