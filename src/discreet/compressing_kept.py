"""Units of a compress run: what was trained is kept, and found again by what it depends on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from discreet import methods
from discreet._content import content_of
from discreet._find import bare
from discreet.artefacts import ArtefactError
from discreet.artefacts._file import dump, read
from discreet.compressors._narrow import narrowed
from discreet.initial import Architecture
from discreet.mlp import MLP
from discreet.phase import Outcome, Progress, Setting
from discreet.spec import CompressSpec, Source
from discreet.store import Store

__all__ = ["Job", "Work", "audit_key", "key_of", "trained"]

UNIT = "discreet.compress-unit/1"


@dataclass(frozen=True)
class Job:
    """One method at one density.

    Attributes:
        part: ``"method"``, ``"random"`` (its control with candidates picked at random), ``"control"`` or ``"ladder"``
            (the method at another density).
        method: Spec string.
        density: Share of the weights that is kept, where the method keeps a share.
    """

    part: str
    method: str
    density: float


@dataclass(frozen=True, eq=False)
class Work:
    """What all units have in common.

    Attributes:
        spec: What to do.
        source: Where it came from.
        store: The run directory.
        model: The big model.
        setting: The task at a density.
        content: All that a unit's models depend on, but for method and density; and ``sizes``, for the page.
        notes: What a reader must know of how samples are dealt out.
        keys: Keys of units that were asked for.
    """

    spec: CompressSpec
    source: Source
    store: Store
    model: Architecture
    setting: Callable[[float], Setting]
    content: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    keys: dict[Job, str] = field(default_factory=dict)


def key_of(work: Work, job: Job) -> str:
    """Where the models of a unit are kept."""
    if job not in work.keys:  # all data are hashed for it
        work.keys[job] = work.store.key(
            f"models/{bare(job.method)}-{job.density:g}.safetensors",
            method=content_of(job.method),
            density=job.density,
            **{name: value for name, value in work.content.items() if name != "sizes"},
        )
    return work.keys[job]


def audit_key(work: Work, job: Job) -> str:
    """Where the audit of a unit's models is kept."""
    tests = [content_of(test) for test in work.spec.safety.audit]
    return work.store.key("audits/unit.json", model=key_of(work, job), tests=tests)


def trained(work: Work, setting: Setting, job: Job, progress: Progress) -> Outcome:
    """The outcome of a unit, kept or made now."""
    key = key_of(work, job)
    if work.store.has(key):
        found = _loaded(work, setting, work.store.path(key))
        if found is not None:
            return found
    scratch = work.store.folder / ".scratch" / key.rpartition("-")[2].partition(".")[0]
    outcome = methods.fit(job.method, replace(setting, scratch=scratch), progress=progress)
    data = _dumped(work, setting, outcome)
    work.store.make(key, lambda aside: aside.write_bytes(data))
    shutil.rmtree(scratch, ignore_errors=True)
    return outcome


def _dumped(work: Work, setting: Setting, outcome: Outcome) -> bytes:
    tensors: dict[str, Tensor] = {f"params.{name}": value for name, value in outcome.params.items()}
    tensors |= {f"masks.{name}": value for name, value in outcome.masks.items()}
    model: Any = "other" if setting.narrow is None else "narrow"
    if outcome.model is work.model or outcome.model == work.model:
        model = "own"
    elif isinstance(outcome.model, MLP):
        model = {"widths": list(outcome.model.widths), "activation": outcome.model.activation}
    about = {
        "schema": UNIT,
        "method": outcome.method,
        "model": model,
        "epochs": outcome.epochs,
        "spent": outcome.spent,
        "notes": list(outcome.notes),
        "epsilon": outcome.epsilon,
        "history": outcome.history,
        "order": {"params": list(outcome.params), "masks": list(outcome.masks)},
    }
    return dump(tensors, json.loads(json.dumps(about, allow_nan=False)))


def _loaded(work: Work, setting: Setting, path: Path) -> Outcome | None:
    """A kept outcome; None if its model is of a kind that only training makes."""
    try:
        file = read(path, UNIT)
    except ArtefactError:
        return None  # of another release: made anew
    about = file.about
    if about["model"] == "other":
        return None
    model = work.model
    if about["model"] == "narrow":
        model = narrowed(setting)
    elif about["model"] != "own":
        model = MLP(tuple(about["model"]["widths"]), about["model"]["activation"])
    parts = {
        kind: {name: file.tensors[f"{kind}.{name}"].clone() for name in names}
        for kind, names in about["order"].items()
    }
    return Outcome(
        about["method"],
        model,
        parts["params"],
        parts["masks"],
        about["epochs"],
        about["spent"],
        tuple(about["notes"]),
        None if about["epsilon"] is None else tuple(about["epsilon"]),
        about["history"],
    )
