"""Sparse from the first step to the last, by a preset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from discreet.compressors._common import outcome
from discreet.phase import Compressor, Defence, Outcome, Progress, Setting, defended, fresh_phase, run
from discreet.sparse import Plan

__all__ = ["train_preset"]


def train_preset(
    compressor: Compressor,
    setting: Setting,
    defences: Sequence[Defence],
    progress: Progress,
    prune: str | None,
    grow: str | None,
) -> Outcome:
    """Train by the setting's plan at its density, with these rules."""
    wishes = setting.plan or Plan(setting.density)
    plan = replace(wishes, density=setting.density, prune=prune, grow=grow)
    phase, spent = defended(fresh_phase(setting, plan=plan), defences, progress)
    trained = run(phase, progress=lambda done, of: progress("training", done / of))
    return outcome(compressor, phase, trained, spent=spent)
