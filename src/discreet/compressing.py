"""A compress spec carried out: the method, its controls and its densities, each trained once and kept.

A unit is one method at one density, all runs side by side. What is kept is found again by content, so a killed or
cut-short call goes on where it stopped; SafeCompress goes on within its training.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from discreet import __version__, methods, shipping
from discreet._find import bare
from discreet._json import dumps, save
from discreet.bank.code import code_of
from discreet.bank.identity import identity
from discreet.compressing_checks import check_audit, check_folder, check_jobs, check_reference, located
from discreet.compressing_kept import Job, Work, key_of, trained
from discreet.compressors.safecompress import Safecompress
from discreet.initial import Architecture
from discreet.phase import Outcome, Progress, Setting
from discreet.recipe import Recipe
from discreet.release_audit import assess, less
from discreet.roles import Roles, Sizes, deal
from discreet.sparse import Plan
from discreet.spec import CompressSpec, Loaded, Source, SpecFileError, load_data, load_model, recipe_of
from discreet.spec import sections as spec_sections
from discreet.store import Store

__all__ = ["SCHEMA", "Job", "compress", "jobs_of", "sizes_of"]

SCHEMA = "discreet.compress/1"


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
        written = (
            spec.compress.method
        )  # what it says goes before the sections, also where it says the default
        unset = {name: each for name, each in given.items() if not re.search(rf"\b{name}\s*=", written)}
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


def sizes_of(roles: spec_sections.Roles, samples: int, unit: int = 1) -> Sizes:
    """How many samples play each part; shares of all samples where the spec gives no number.

    Args:
        roles: Numbers that the spec gives.
        samples: How many there are.
        unit: What comes in so many at a time, as all groups are of multiples of it.

    Raises:
        ValueError: Too few samples, or sizes that do not fit.

    Example:
        >>> sizes_of(spec_sections.Roles(), 1000)
        Sizes(fit=400, loop=100, audit=250, validation=100, test=150, reference=0)
    """
    shares = {"fit": 0.4, "loop": 0.1, "audit": 0.25, "validation": 0.1, "test": 0.15}
    left = samples - roles.reference
    found = {name: getattr(roles, name) or int(share * left + 1e-9) for name, share in shares.items()}
    for name in shares:
        if not getattr(roles, name):
            found[name] -= found[name] % (2 * unit if name in ("loop", "audit") else unit)
    return Sizes(**found, reference=roles.reference)


def compress(
    spec: CompressSpec,
    source: Source,
    folder: Path,
    *,
    progress: Progress | None = None,
    started: float | None = None,
) -> dict[str, Any]:
    """Do what a spec says, and write the model that ships, ``compress.json`` and ``speed.json`` into a folder.

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
    recipe, of_loss = recipe_of(spec.train, source, model, {"x": data.x[:4], "y": data.y[:4]})
    store = Store(folder)
    with store.lock():
        work = _prepare(spec, source, store, data, model, narrow, recipe)
        units, left, failed, shipped = _units(work, show, until)
        told = {
            "schema": SCHEMA,
            "spec": _plain(spec),
            "data": dict(data.about) | {"samples": len(data.y)},
            "roles": dict(work.content["sizes"]),
            "audit": list(spec.safety.audit),
            "units": units,
            "left": [asdict(job) for job in left],
            "failed": [asdict(job) | {"reason": reason} for job, reason in failed],
            "shipped": None if shipped is None else shipped.to_json(),
            "notes": [*data.notes, *notes, *of_loss, *_cut(left), *_failed(failed)],
        }
        save(folder / "compress.json", dumps(told))
        if shipped is not None:
            save(folder / "speed.json", dumps(shipped.speed))
    return told


def _units(
    work: Work, show: Progress, until: float
) -> tuple[list[dict[str, Any]], list[Job], list[tuple[Job, str]], shipping.Shipped | None]:
    jobs = jobs_of(work.spec)
    units: list[dict[str, Any]] = []
    left: list[Job] = []
    failed: list[tuple[Job, str]] = []
    shipped = None
    for number, job in enumerate(jobs):

        def within(what: str, share: float, job: Job = job, number: int = number) -> None:
            show(f"{bare(job.method)} at {job.density:g}: {what}", (number + share) / len(jobs))
            if units and what.startswith("round ") and time.monotonic() > until:
                raise _TimeUp  # what the rounds before it did is kept

        if units and time.monotonic() > until and not work.store.has(key_of(work, job)):
            left.append(job)
            continue
        setting = work.setting(job.density)
        try:
            outcome = trained(work, setting, job, within)
            unit = _told(work, setting, job, outcome, within)
        except _TimeUp:
            left.append(job)
            continue
        except (ValueError, ArithmeticError, ModuleNotFoundError) as error:
            if job.part == "method":
                raise located(work.source, error, "compress", "method") from error
            failed.append((job, str(error)))  # what it is compared with does not stop the model that ships
            continue
        units.append(unit | {"beside": _beside(units[0], unit) if units else {}})
        if job.part == "method":
            within("exporting", 1.0)
            shipped = shipping.ship(
                work.store.folder, setting, outcome, work.spec.export, tests=work.spec.safety.audit
            )
    return units, left, failed, shipped


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
    sizes, roles = _dealt(spec, source, data)
    x, y, attribute = data.x, data.y, data.attribute
    if data.reference is not None:  # behind all others, with labels that nothing reads
        many = len(data.reference)
        places = np.tile(np.arange(len(x), len(x) + many), (own.runs, 1))
        roles = Roles(roles.fit, roles.loop, roles.audit, roles.validation, roles.test, places)
        x = torch.cat([x, data.reference.to(x.dtype)])
        y = torch.cat([y, y[:1].expand(many, *y.shape[1:])])
        attribute = None if attribute is None else np.concatenate([attribute, attribute[:1].repeat(many)])
    include, exclude = own.include or None, own.exclude

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
    content = {
        "data": {"x": x.numpy(), "y": y.numpy(), "attribute": attribute},
        "roles": {"fit": roles.fit} | dict(roles.parts()),
        "sizes": asdict(sizes),
        "model": identity(model),
        "recipe": spec.train.to_json(),
        "loss": code_of(recipe.loss) if spec.train.own else "",
        "seed": own.seed,
        "metric": own.metric,
        "patterns": [None if include is None else list(include), list(exclude)],
        "versions": {"discreet": __version__, "torch": torch.__version__},
    }
    return Work(spec, source, store, model, setting, content)


def _dealt(spec: CompressSpec, source: Source, data: Loaded) -> tuple[Sizes, Roles]:
    """Sizes of the parts, and who plays them; whole groups need not fill parts that leave nothing over.

    Raises:
        SpecFileError: Too few samples, or groups that do not fit.
    """
    own, samples, unit, slack = spec.compress, len(data.y), 1, [1.0]
    if data.group is not None:
        unit, slack = int(np.gcd.reduce(np.unique(data.group, return_counts=True)[1])), [1.0, 0.98, 0.95, 0.9]
    while True:
        share = slack.pop(0)
        try:
            sizes = sizes_of(spec.roles, int(share * samples), unit)
            return sizes, deal(samples, own.runs, sizes, seed=own.seed, group=data.group)
        except ValueError as error:
            if not slack:
                raise SpecFileError(f"{source.at('roles')}: {error}") from error


def _told(work: Work, setting: Setting, job: Job, outcome: Outcome, progress: Progress) -> dict[str, Any]:
    """A unit as plain data, audited."""
    progress("attacking", 1.0)
    tests = list(work.spec.safety.audit)
    key = work.store.key("audits/unit.json", model=key_of(work, job), tests=tests)

    def write(aside: Path) -> None:
        found = assess(setting, outcome.model, outcome.params, tests=tests)
        aside.write_text(dumps(found.to_json()), "utf-8")

    audit = json.loads(work.store.make(key, write).read_text("utf-8"))
    weights = sum(value[0].numel() for value in outcome.params.values())
    used = weights - sum(int((~mask[0]).sum()) for mask in outcome.masks.values())
    return {
        **asdict(job),
        "epochs": outcome.epochs,
        "spent": outcome.spent,
        "parameters": weights,
        "used": used,
        "notes": list(outcome.notes),
        "epsilon": None if outcome.epsilon is None else list(outcome.epsilon),
        "audit": audit,
        "history": json.loads(
            json.dumps({n: outcome.history[n] for n in HISTORY if n in outcome.history}, sort_keys=True)
        ),
    }


HISTORY = ("points", "rounds", "extra", "epoch")


def _beside(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The first unit less another, run by run: runs share their records and seeds. Empty for one run."""
    one, two = first["audit"]["by_run"], other["audit"]["by_run"]
    if len(one) < 2:
        return {}
    return {name: less(one, two, name).to_json() for name in ("task", "mia", "tm")}


def _until(spec: CompressSpec, started: float | None) -> float:
    begun = time.monotonic() if started is None else started
    return begun + 60 * spec.budget.minutes if spec.budget.minutes else float("inf")


def _cut(left: Sequence[Job]) -> list[str]:
    if not left:
        return []
    names = ", ".join(f"{bare(job.method)} at {job.density:g}" for job in left)
    return [f"The time budget ended before: {names}; the next call goes on with them"]


def _failed(failed: Sequence[tuple[Job, str]]) -> list[str]:
    return [f"{bare(job.method)} at {job.density:g} failed: {reason}" for job, reason in failed]


def _plain(spec: CompressSpec) -> dict[str, Any]:
    told = asdict(spec) | {"train": spec.train.to_json()}
    return json.loads(json.dumps(told))
