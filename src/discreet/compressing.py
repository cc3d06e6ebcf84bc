"""A compress spec carried out: the method, its controls and its densities, each trained once and kept.

A unit is one method at one density, all runs side by side. What is kept is found again by content, so a killed or
cut-short call goes on where it stopped; SafeCompress goes on within its training.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from discreet import __version__, methods, shipping
from discreet._code import code_of
from discreet._content import content_of
from discreet._find import bare
from discreet.bank.identity import identity
from discreet.compressed_audit import names_of
from discreet.compressing_checks import (
    check_audit,
    check_folder,
    check_jobs,
    check_reference,
    located,
    try_audit,
    try_metric,
)
from discreet.compressing_kept import Job, Work, key_of, trained
from discreet.compressing_roles import dealt
from discreet.compressing_told import Results, covers, keep, plan, told_of, unit_of
from discreet.compressors.safecompress import Safecompress
from discreet.initial import Architecture
from discreet.mlp import MLP
from discreet.performance import check_metric
from discreet.phase import Progress, Setting
from discreet.recipe import Recipe
from discreet.sparse import Plan
from discreet.spec import CompressSpec, Loaded, Source, load_data, load_model, named, recipe_of
from discreet.store import Store

__all__ = ["Job", "compress", "jobs_of"]


class _TimeUp(Exception):
    """The time budget ended within a training that goes on where it stopped."""


def jobs_of(spec: CompressSpec) -> list[Job]:
    """What is to be done, in order: the method first, then what it is compared with, then other densities.

    Example:
        >>> from discreet.spec.sections import Compress, Data, Model
        >>> spec = CompressSpec(Data("tab20"), Model(hidden=(8,)), compress=Compress("set", controls=("dense",)))
        >>> [(job.part, bare(job.method)) for job in jobs_of(spec)]
        [('method', 'set'), ('control', 'dense')]
    """
    method = methods.parse(spec.compress.method)
    own = method.compressor
    jobs: dict[tuple[str, float], Job] = {}

    def add(part: str, name: str, density: float) -> None:
        jobs.setdefault((name, density), Job(part, name, density))

    first, *others = spec.compress.densities
    if isinstance(own, Safecompress):
        given = {"rule": spec.select.rule, "test": spec.safety.test, "patience": spec.select.patience or None}
        said = methods.written(spec.compress.method)  # goes before the sections, also where it is the default
        unset = {name: each for name, each in given.items() if name not in said}
        method = replace(method, compressor=replace(own, **unset))
    add("method", str(method), first)
    if isinstance(method.compressor, Safecompress) and spec.compress.random_control:
        at_random = replace(method, compressor=replace(method.compressor, rule="random"))
        add("random", str(at_random), first)
    for control in spec.compress.controls:
        add("control", str(methods.parse(control)), first)
    for density in others:
        add("ladder", str(method), density)
    return list(jobs.values())


def compress(
    spec: CompressSpec,
    source: Source,
    folder: Path,
    *,
    progress: Progress | None = None,
    started: float | None = None,
) -> dict[str, Any]:
    """Do what a spec says, and write the model that ships, its audit and a page into a folder.

    What is finished is told in ``compress.json``, ``speed.json``, ``report.html`` and ``audit.json`` as soon as there
    is a model that ships, and again at the end; ``plan.json`` says what there is to do.

    Args:
        spec: What to do.
        source: Where it came from.
        folder: The run directory; a second call goes on from what is there.
        progress: Called with what is being done and the share of all that is done.
        started: When the time budget began, by ``time.monotonic``; None: now.

    Returns:
        What ``compress.json`` holds.

    Raises:
        SpecFileError, CalledError: The spec does not fit the data, or code that it names failed.
        FileExistsError: The folder holds files of others that would be overwritten.
    """
    check_folder(folder)
    show = progress or (lambda what, share: None)
    until = _until(spec, started)
    show("reading the data", 0.0)
    data = load_data(spec.data, source, seed=spec.compress.seed)
    spec = _suited(spec, source, spec.train.kind)
    model, narrow, notes = load_model(spec.model, source, data, spec.train.kind)
    if isinstance(model, MLP):
        data = data.real()  # its layers take nothing else, neither here nor in the files
    recipe, of_loss = recipe_of(spec.train, source, model, {"x": data.x[:4], "y": data.y[:4]})
    store = Store(folder)
    with store.lock():
        work = _prepare(spec, source, store, data, model, narrow, recipe)
        about = dict(data.about) | {"samples": len(data.y)}
        metric = check_metric(spec.compress.metric, spec.train.kind)
        of_all = (*data.notes, *notes, *of_loss)

        def so_far(found: Results) -> None:
            plan(work, jobs, found.failed)
            told = told_of(work, about, metric, of_all, found)
            if not covers(folder, told):
                keep(folder, told, found.shipped)

        jobs = jobs_of(spec)
        plan(work, jobs)
        found = _units(work, jobs, show, until, so_far)
        plan(work, jobs, found.failed)
        told = told_of(work, about, metric, of_all, found)
        keep(folder, told, found.shipped)
    return told


def _units(
    work: Work,
    jobs: Sequence[Job],
    show: Progress,
    until: float,
    so_far: Callable[[Results], None],
) -> Results:
    """Do what there is to do; ``so_far`` is called with what is done before anything long begins after it."""
    found, names = Results(), names_of([asdict(job) for job in jobs])
    seconds: dict[str, float] = {}
    for number, job in enumerate(jobs):

        def within(what: str, share: float, job: Job = job, number: int = number) -> None:
            show(f"{bare(job.method)} at {job.density:g}: {what}", (number + share) / len(jobs))
            if found.units and what.startswith("round ") and time.monotonic() > until:
                raise _TimeUp  # what the rounds before it did is kept

        fresh = not work.store.has(key_of(work, job))
        if found.units and time.monotonic() > until and fresh:
            found.left.append(job)
            continue
        if found.units and fresh:
            so_far(replace(found, left=[*found.left, *jobs[number:]]))
        setting, begun = work.setting(job.density), time.monotonic()
        try:
            outcome = trained(work, setting, job, within)
            first = found.units[0] if found.units else None
            unit = unit_of(work, setting, job, outcome, first, within)
        except _TimeUp:
            found.left.append(job)
            continue
        except (ValueError, ArithmeticError, ModuleNotFoundError) as error:
            if job.part == "method":
                raise located(work.source, error, "compress", "method") from error
            found.failed.append((job, str(error)))  # does not stop the model that ships
            continue
        if fresh:
            seconds[names[number]] = round(time.monotonic() - begun, 3)
            work.store.note(seconds=dict(seconds))
        found.units.append(unit)
        if job.part == "method":
            within("exporting", 1.0)
            found.shipped = shipping.ship(
                work.store.folder, setting, outcome, work.spec.export, tests=work.spec.safety.audit
            )
    found.over = bool(found.left)
    return found


def _suited(spec: CompressSpec, source: Source, task: str) -> CompressSpec:
    """The spec with the attacks that its task allows, where it names none.

    Raises:
        SpecFileError: As ``check_audit``.
    """
    own = spec.safety
    if task == "mse":
        plain = {"test": "loss", "audit": ("loss",)}
        own = replace(
            own, **{key: each for key, each in plain.items() if ("safety", key) not in source.lines}
        )
    check_audit(own.audit, task, spec.compress.runs, source)
    return replace(spec, safety=own)


def _prepare(
    spec: CompressSpec,
    source: Source,
    store: Store,
    data: Loaded,
    model: Architecture,
    narrow: Callable[[float], Architecture] | None,
    recipe: Recipe,
) -> Work:
    own = spec.compress
    check_reference(spec, source, data)
    sizes, roles, notes = dealt(spec, source, data)
    x, y, attribute = data.x, data.y, data.attribute
    if data.reference is not None:  # behind all others, with labels that nothing may read
        many = len(data.reference)
        places = np.tile(np.arange(len(x), len(x) + many), (own.runs, 1))
        roles = replace(roles, reference=places, labelled=False)
        x = torch.cat([x, data.reference.to(x.dtype)])
        y = torch.cat([y, y[:1].expand(many, *y.shape[1:])])
        attribute = None if attribute is None else np.concatenate([attribute, attribute[:1].repeat(many)])
    include, exclude = own.include or None, own.exclude
    if ":" in own.metric and (note := named(own.metric, source, "compress", "metric").note):
        notes += (note,)

    def setting(density: float) -> Setting:
        try:
            return Setting(
                model,
                x,
                y,
                roles,
                recipe,
                density,
                seed=own.seed,
                task=spec.train.kind,
                plan=Plan(density, include=include, exclude=exclude),
                narrow=narrow,
                attribute=attribute,
                metric=own.metric,
            )
        except ValueError as error:
            raise located(source, error, "compress") from error

    check_jobs(source, jobs_of(spec), setting)
    try_audit(source, spec.safety.audit, setting(own.densities[0]))
    if ":" in own.metric:
        try_metric(source, setting(own.densities[0]))
    content = {
        "data": {"x": x.numpy(), "y": y.numpy(), "attribute": attribute},
        "roles": {"fit": roles.fit} | dict(roles.parts()),
        "sizes": asdict(sizes),
        "model": identity(model),
        "recipe": spec.train.to_json(),
        "loss": code_of(recipe.loss) if spec.train.own else "",
        "seed": own.seed,
        "metric": content_of(own.metric),
        "patterns": [None if include is None else list(include), list(exclude)],
        "versions": {"discreet": __version__, "torch": torch.__version__},
    }
    return Work(spec, source, store, model, setting, content, notes)


def _until(spec: CompressSpec, started: float | None) -> float:
    begun = time.monotonic() if started is None else started
    return begun + 60 * spec.budget.minutes if spec.budget.minutes else float("inf")
