"""Specs of what is not trained here, or is no torch module, made ready."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from discreet._code import code_of
from discreet._types import Bool
from discreet.auditing_spec.estimators import MODEL, EstimatorUnit, identity_of
from discreet.auditing_spec.existing import FilesUnit, sha_of
from discreet.auditing_spec.fitting import check_fit
from discreet.auditing_spec.members import members_of
from discreet.auditing_spec.onnx_files import ONNX, DeployedUnit, run_onnx, size_of
from discreet.auditing_spec.onnx_outputs import Told, told_by
from discreet.auditing_spec.panels import (
    contents_of,
    copies_of,
    counts_of,
    deal_parts,
    family_of,
    groups_of,
    panel_of,
    signals_of,
    variants_of,
)
from discreet.auditing_spec.state_files import find, read_state
from discreet.auditing_spec.work import Prepared, Unit, Work
from discreet.bank.identity import identity
from discreet.initial import Architecture, as_model
from discreet.runs.following import Panel
from discreet.spec import AuditSpec, Loaded, Named, Source, SpecFileError, named
from discreet.spec.trying import check_classes, check_steady
from discreet.store import Store

__all__ = ["prepare_estimator", "prepare_existing"]


def prepare_estimator(
    spec: AuditSpec, source: Source, store: Store, data: Loaded, build: Named, model: Any
) -> Prepared:
    """A classifier of another library, fitted on each run's half.

    Args:
        spec: What to do.
        source: Where it came from.
        store: The run directory.
        data: The samples.
        build: Makes a classifier.
        model: One of them.

    Raises:
        SpecFileError: It is no classifier for these labels, or the spec asks for what it cannot do.
    """
    if model is build("to make the model again", spec.model.options):
        raise build.wrong("a new classifier each time", "the same one")
    _no_device(spec, source, "a classifier of another library")
    if spec.train.kind == "mse":
        raise SpecFileError(f"{source.at('train', 'loss')}: expected bce or ce for a classifier, got mse")
    if spec.variants.onnxruntime:
        raise SpecFileError(
            f"{source.at('variants', 'onnxruntime')}: expected none for a classifier of this kind"
        )
    check_classes(
        data.y, source, spec.train.kind, max(2, int(data.y.max()) + 1) if spec.train.kind == "ce" else 1
    )
    fit = named(spec.train.fit, source, "train", "fit") if spec.train.fit else None
    if fit is not None:
        check_fit(fit, spec.train.options)
    own = spec.split  # one checkpoint needs no choice: those who would choose are evaluated
    split = replace(own, validation=0.0, evaluation=own.validation + own.evaluation)
    parts = deal_parts(replace(spec, split=split), source, data)
    content = store.key(
        "content",
        x=data.x.numpy(),
        y=data.y.numpy(),
        model=identity_of(model),
        build=code_of(build.function),
        options=spec.model.options,
        fit="" if fit is None else code_of(fit.function),
        fit_options=spec.train.options,
        seed=spec.split.seed,
        versions={"discreet": metadata.version("discreet")},
    )
    panel = panel_of(spec, data, None, parts, {MODEL: MODEL}, content)
    work = Work(spec, source, store, data, panel, content, parts)
    units = [EstimatorUnit(work, run, build, fit) for run in range(spec.budget.runs + spec.budget.shadows)]
    kind = type(model).__name__
    notes = [
        f"The model is a {kind}, no torch module: it is judged by attacks alone. It is not quantized, and it has one"
        " checkpoint, so that there is no r.",
        *copies_of(data, groups_of(data)),
        *data.notes,
        *(each.note for each in (build, fit) if each is not None and each.note),
    ]
    return Prepared(work, tuple(units), 1, tuple(notes), counts_of(data, parts), (MODEL,))


def prepare_existing(
    spec: AuditSpec,
    source: Source,
    store: Store,
    data: Loaded,
    architecture: Architecture | None,
    notes: Sequence[str],
) -> Prepared:
    """Checkpoints and deployed files that are there.

    Args:
        spec: What to do.
        source: Where it came from.
        store: The run directory.
        data: The samples.
        architecture: What the checkpoints are of; None for deployed files alone.
        notes: What is known of it.

    Raises:
        SpecFileError: No such files, checkpoints of another architecture, or membership that does not fit.
    """
    if architecture is None:
        _no_device(spec, source, "an ONNX file alone")
    files = [_found(entry, source, "checkpoints", "files") for entry in spec.checkpoints.files]
    deployed = _found(spec.model.onnx, source, "model", "onnx") if spec.model.onnx else []
    if files and deployed and len(deployed) != len(files):
        raise SpecFileError(
            f"{source.at('model', 'onnx')}: expected one file for each of {len(files)} runs, got {len(deployed)}"
        )
    runs = len(files) or len(deployed)
    member = members_of(spec, source, runs, len(data.y))
    model = None if architecture is None else as_model(architecture)
    hashes = [[sha_of(path) for path in paths] for paths in (*files, deployed)]
    _check_apart(files, hashes[: len(files)], source.at("checkpoints", "files"))
    _check_apart([[path] for path in deployed], [[each] for each in hashes[-1]], source.at("model", "onnx"))
    panel = _panel(spec, source, store, data, model, member, hashes)
    work = Work(spec, source, store, data, panel, panel.about["settings"]["content"])
    told = np.zeros((runs, len(panel.released)), bool) if member is None else member[:, panel.released]
    units: list[Unit] = []
    for run, paths in enumerate(files):
        _try(paths[0], panel, source)
        units.append(FilesUnit(work, run, paths, told[run]))
    returned, how = _told(deployed, panel, source)
    for run, (path, returns) in enumerate(zip(deployed, returned, strict=True)):
        _ask(path, returns, panel, source)
        step = float(len(files[run])) if files else 1.0
        units.append(DeployedUnit(work, run, path, step, told[run], returns.are_probabilities))
    variants = (*(panel.variants if files else ()), *((ONNX,) if deployed else ()))
    return Prepared(
        work,
        tuple(units),
        1,
        (*_notes(panel, files, deployed, member), *how, *_copies(data, member), *data.notes, *notes),
        _counts(data, panel, member),
        variants,
        {ONNX: size_of(deployed[0])} if deployed else {},
    )


def _panel(
    spec: AuditSpec,
    source: Source,
    store: Store,
    data: Loaded,
    model: Any,
    member: Bool[np.ndarray, "run sample"] | None,
    hashes: Sequence[Sequence[str]],
) -> Panel:
    everyone, none = np.arange(len(data.y)), np.empty(0, np.int64)
    evaluation = everyone if member is None else np.flatnonzero(~member.any(axis=0))
    if len(evaluation) < 2:
        raise SpecFileError(
            f"{source.at('checkpoints', 'members')}: every sample but {len(evaluation)} was trained on by some run;"
            f" r and task performance need at least 2 that none was trained on"
        )
    variants = variants_of(spec)
    content = store.key(
        "content",
        x=data.x.numpy(),
        y=data.y.numpy(),
        model=None if model is None else identity(model),
        member=member,
        files=hashes,
        variants=contents_of(variants),
        versions={name: metadata.version(name) for name in ("discreet", "torch")},
        **spec.device.to_json(),
    )
    task = spec.train.kind
    told: dict[str, Any] = {"task": task, "settings": {"content": content, **spec.device.to_json()}}
    if member is not None:
        told["n_train"] = round(float(member.sum(axis=1).mean()))
    return Panel(
        model,
        task,
        variants,
        data.x,
        data.y,
        everyone,
        family_of(data),
        everyone,
        none,
        evaluation,
        told,
        signals_of(spec),
        workers=None,
        on=spec.device,
    )


def _no_device(spec: AuditSpec, source: Source, what: str) -> None:
    """Refuse a device for what PyTorch does not run."""
    if told := spec.device.to_json():
        raise SpecFileError(
            f"{source.at('device')}: expected no device and precision for {what}, which PyTorch does not run, got"
            f" {', '.join(f'{name} {value!r}' for name, value in told.items())}"
        )


def _found(pattern: str, source: Source, *key: str) -> list[Path]:
    try:
        return find(pattern, source.folder)
    except ValueError as error:
        raise SpecFileError(f"{source.at(*key)}: {error}") from error


def _check_apart(files: Sequence[Sequence[Path]], hashes: Sequence[Sequence[str]], where: str) -> None:
    """Refuse runs that ship one model: it has one training set, and would be a reference for itself."""
    shipped: dict[str, int] = {}
    for run, (paths, told) in enumerate(zip(files, hashes, strict=True)):
        first = shipped.setdefault(told[-1], run)
        if first != run:
            raise SpecFileError(
                f"{where}: expected another model in each run, but runs {first} and {run} ship the same one:"
                f" {files[first][-1]} and {paths[-1]}"
            )


def _try(path: Path, panel: Panel, source: Source) -> None:
    try:
        read_state(path, panel.network)
    except ValueError as error:
        raise SpecFileError(f"{source.at('checkpoints', 'files')}: {error}") from error


def _told(paths: Sequence[Path], panel: Panel, source: Source) -> tuple[list[Told], list[str]]:
    try:
        return told_by(paths, panel.task, panel.x) if paths else ([], [])
    except ValueError as error:
        raise SpecFileError(f"{source.at('model', 'onnx')}: {error}") from error


def _ask(path: Path, returns: Told, panel: Panel, source: Source) -> None:
    where = source.at("model", "onnx")
    try:
        outputs = run_onnx(path, panel.task, are_probabilities=returns.are_probabilities)
        width = outputs(panel.x[:2]).shape[1]
    except ValueError as error:
        raise SpecFileError(f"{where}: {error}") from error
    check_classes(panel.y, source, panel.task, width)
    check_steady(Named(outputs, path.name, where), panel.x[:8])


def _notes(
    panel: Panel,
    files: Sequence[Sequence[Path]],
    deployed: Sequence[Path],
    member: Bool[np.ndarray, "run sample"] | None,
) -> list[str]:
    told = []
    if files:
        counts = sorted({len(paths) for paths in files})
        span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        told.append(
            f"Nothing was trained: {len(files)} runs of {span} checkpoints were read, in the natural order of their"
            " names, and the last one of each is what ships."
        )
    if deployed:
        told.append(
            f"Deployed is {deployed[0].name}"
            + (f" and {len(deployed) - 1} more" if len(deployed) > 1 else "")
            + ", run as it is by ONNX Runtime. It has no checkpoints before it, so that there is no r of it."
        )
    if member is None:
        told.append("Nobody told who was trained on, so nothing was attacked: [checkpoints] members says it.")
    else:
        told.append(
            f"r and task performance are measured on {len(panel.evaluation)} samples that no run was trained on."
        )
    return told


def _copies(data: Loaded, member: Bool[np.ndarray, "run sample"] | None) -> tuple[str, ...]:
    if member is None:
        return ()
    return copies_of(data, np.unique(member, axis=1, return_inverse=True)[1].ravel())


def _counts(data: Loaded, panel: Panel, member: Bool[np.ndarray, "run sample"] | None) -> dict[str, int]:
    counts = {"samples": len(data.y), "evaluation samples": len(panel.evaluation)}
    if member is not None:
        counts["members of the first run"] = int(member[0].sum())
    return counts
