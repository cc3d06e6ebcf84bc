"""What an audit of one's own model says of itself: title, settings, where the data came from, notes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from discreet._words import listing, whole
from discreet.attack_specs import chosen
from discreet.attacked import FPRS
from discreet.audit import Analysis, Attack, Dataset, Performance, Provenance, Ranked, RankTable
from discreet.auditing_release import FILES
from discreet.auditing_spec.work import Prepared, Unit
from discreet.records import Record
from discreet.requirement import OF_ATTACKS, OF_RANKING, OF_STORAGE, Requirement
from discreet.requirement import parse as parse_requirement
from discreet.runs.worth import metric_of
from discreet.spec import Source, SpecFileError

__all__ = ["about", "check_gate", "notes_of", "title_of"]

_PACKAGES = ("discreet", "numpy", "scipy", "torch")


def title_of(prepared: Prepared) -> str:
    """What is audited, in words."""
    model = prepared.work.spec.model
    own = (
        model.build.replace(":", ".")
        or f"a perceptron of {listing([str(each) for each in model.hidden])} units"
    )
    files = Path(model.onnx).name
    what = f"{own} and its small forms give" if len(prepared.variants) > 1 else f"{own} gives"
    return f"What {what if model.has_weights else f'{files} gives'} away"


def about(prepared: Prepared, done: Sequence[Unit], release: Record) -> dict[str, Any]:
    """Settings and provenance.

    Args:
        prepared: The audit.
        done: Units that it is of.
        release: Their release record.
    """
    work = prepared.work
    spec = json.loads(json.dumps(asdict(work.spec), default=str))
    shipped = {run: float(release.step[release.rows(run=run)[0]]) for run in release.runs}
    return {
        "settings": {
            "spec": spec,
            **work.panel.about["settings"],
            "shipped checkpoint by run": shipped,
            FILES: [key for unit in done for key in unit.release],
        },
        "provenance": Provenance(
            work.spec.split.seed,
            {name: metadata.version(name) for name in _PACKAGES},
            (_dataset(prepared),),
        ),
    }


def _dataset(prepared: Prepared) -> Dataset:
    data, spec = prepared.work.data, prepared.work.spec
    whole_ = hashlib.sha256()
    for values in (data.x.numpy(), data.y.numpy()):
        whole_.update(f"{values.dtype}{values.shape}".encode())
        whole_.update(np.ascontiguousarray(values).data)
    told = data.about
    return Dataset(
        spec.data.load,
        whole_.hexdigest(),
        str(told.get("licence", "")),
        str(told.get("source", "")),
    )


def notes_of(prepared: Prepared, release: Record, left: Sequence[Unit]) -> Iterator[str]:
    """How it was done, what it does not say, and what is left."""
    work = prepared.work
    if left:
        yield (
            f"The time budget ended before: {listing([unit.name for unit in left], 8)}; the next call goes on with"
            " them, and all numbers here are of the others"
        )
    if work.parts is not None:
        yield from _of_training(prepared, release)
    yield from prepared.notes


def _of_training(prepared: Prepared, release: Record) -> Iterator[str]:
    work, parts = prepared.work, prepared.work.dealt
    runs = len(release.runs)
    alone = sorted({int(run) ^ 1 for run in release.runs} - {int(run) for run in release.runs})
    each = (
        f"; {listing([f'run {run}' for run in alone])} of them {'is' if len(alone) == 1 else 'are'} not there yet."
        if alone
        else ", so each sample is a member of half of the runs."
    )
    subject = "The one run" if runs == 1 else f"Each of {runs} runs"
    yield (
        f"{subject} trains on half of {whole(len(parts.training))} samples, {whole(parts.n_train)} of them; runs come"
        f" in pairs with complementary halves{each}"
    )
    steps = sorted(set(release.step.tolist()))
    span = f"checkpoint {steps[0]:g}" if len(steps) == 1 else f"checkpoints {steps[0]:g} to {steps[-1]:g}"
    if len(steps) == 1 and steps[0] == 1 and work.panel.model is None:
        yield (
            f"Task performance is measured on {whole(len(parts.evaluation))} samples that no run trained on, attacks "
            "are judged on the training samples."
        )
        return
    alone = "" if work.spec.variants.onnxruntime else " that nothing else uses"
    chosen_by = (
        f"the one of lowest loss on {whole(len(parts.validation))} validation samples{alone}"
        if len(parts.validation)
        else "the last one"
    )
    yield (
        f"Shipped is of each run's checkpoints {chosen_by} ({span}). Task performance, sizes and attacks are of it; "
        f"r is taken over all checkpoints. Both r and performance are measured on {whole(len(parts.evaluation))} "
        "samples that no run trained on."
    )


def check_gate(prepared: Prepared, source: Source) -> None:
    """Refuse requirements that no audit of this spec could answer, before anything long begins.

    Raises:
        SpecFileError: Naming the requirement and what is wrong with it.
    """
    spec = prepared.work.spec
    methods, _ = chosen([*spec.attacks.names, "loss"])
    where = source.at("gate", "require")
    rows = tuple(
        Ranked(
            name, "undefined", None, None, None, None, 1, 1, 0, 1.0, None, 2, None, None, None, None, None, ()
        )
        for name in prepared.variants
    )
    skeleton = Analysis(
        "planned",
        RankTable("discreet.rank/1", 0.95, "mean", rows, ()),
        performance=(Performance(prepared.variants[0], metric_of(prepared.work.panel.task), 0.5),),
        attacks=tuple(Attack(prepared.variants[0], name, "auc", 0.5) for name in methods),
    )
    for text in spec.gate.require:
        try:
            wanted = parse_requirement(text, skeleton)
        except ValueError as error:
            raise SpecFileError(f"{where}: {error}") from error
        if why := _never(prepared, wanted):
            raise SpecFileError(f"{where}: requirement {text!r}: {why}")


def _never(prepared: Prepared, wanted: Requirement) -> str:
    """Why no audit of this spec can judge a requirement; empty if one may."""
    work = prepared.work
    if wanted.fpr is not None and not any(math.isclose(wanted.fpr, each) for each in FPRS):
        rates = ", ".join(f"{100 * each:g}%" for each in FPRS)
        return f"expected one of the rates that are measured ({rates}), got {100 * wanted.fpr:g}%"
    told = not work.spec.is_existing or bool(work.spec.checkpoints.members)
    if not told and wanted.metric in (*OF_ATTACKS, "n_train_r"):
        return "nothing is attacked and n is not known, as no [checkpoints] members say who was trained on"
    spoken = [name for name in prepared.variants if wanted.variant in (None, name)]
    followed = [] if work.panel.model is None else list(work.panel.variants)
    alone = [name for name in spoken if name not in followed]
    if wanted.metric in OF_RANKING and alone:
        rest = f"; name one of {listing(followed)}" if followed else ""
        return f"there is no r of {listing(alone)}, of which one checkpoint alone is measured{rest}"
    if wanted.metric in OF_STORAGE and work.panel.model is None and not prepared.storage:
        return f"the size of {listing(spoken)}, which is no torch module, is not known"
    return ""
