"""A spec made ready: the data read, the model tried, the parts dealt out; nothing long has begun."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Any

import numpy as np

from discreet.auditing_spec.fitting import check_fit
from discreet.auditing_spec.training import built_in, by_fit, units_of
from discreet.auditing_spec.work import Prepared, Work
from discreet.bank.code import code_of
from discreet.bank.identity import identity
from discreet.initial import Architecture, as_model
from discreet.quantizers import parse as parse_quantizer
from discreet.runs.dealing import Parts, deal
from discreet.runs.following import FULL, Panel
from discreet.spec import (
    AuditSpec,
    Loaded,
    Named,
    Source,
    SpecFileError,
    load_data,
    load_model,
    named,
    recipe_of,
)
from discreet.store import Store

__all__ = ["SIGNALS", "digest_of", "prepare", "variants_of"]

SIGNALS = {"bce": ("loss", "margin", "confidence"), "ce": ("loss", "margin", "confidence"), "mse": ("loss",)}
"""What is measured of the checkpoints that ship."""


def prepare(spec: AuditSpec, source: Source, store: Store, workers: int | None) -> Prepared:
    """Read the data and try the model.

    Args:
        spec: What to do.
        source: Where it came from.
        store: The run directory.
        workers: How many units at a time, where several can be.

    Raises:
        SpecFileError, CalledError: The spec does not fit the data, or code that it names failed.
    """
    data = load_data(spec.data, source, seed=spec.split.seed)
    architecture, _, notes = load_model(spec.model, source, data, spec.train.kind)
    return _torch(spec, source, store, data, architecture, notes, workers)


def _torch(
    spec: AuditSpec,
    source: Source,
    store: Store,
    data: Loaded,
    architecture: Architecture,
    notes: tuple[str, ...],
    workers: int | None,
) -> Prepared:
    fit = named(spec.train.fit, source, "train", "fit") if spec.train.fit else None
    if fit is not None:
        check_fit(fit, spec.train.options)
        recipe, more = None, (fit.note,) if fit.note else ()
    else:
        few = {"x": data.x[:4], "y": data.y[:4]}
        recipe, more = recipe_of(spec.train, source, architecture, few)
    parts = _deal(spec, source, data)
    how: Any = {"fit": _code(fit), "options": spec.train.options}
    if recipe is not None:
        how = {"recipe": recipe.to_json(), "loss": code_of(recipe.loss)}
    content = store.key(
        "content",
        x=data.x.numpy(),
        y=data.y.numpy(),
        model=identity(architecture),
        train=how,
        seed=spec.split.seed,
        versions={name: metadata.version(name) for name in ("discreet", "torch")},
    )
    panel = panel_of(spec, data, as_model(architecture), parts, variants_of(spec), content)
    work = Work(spec, source, store, data, panel, content, parts)
    if recipe is not None:
        units = units_of(work, built_in(work, architecture, recipe), 2, recipe.epochs)
    else:
        units = units_of(
            work, by_fit(work, architecture, named(spec.train.fit, source, "train", "fit")), 1, None
        )
    return Prepared(
        work,
        tuple(units),
        workers if fit is None else 1,
        (*data.notes, *notes, *more),
        counts_of(data, parts),
        tuple(panel.variants),
    )


def panel_of(
    spec: AuditSpec,
    data: Loaded,
    model: Any,
    parts: Parts,
    variants: Mapping[str, str],
    content: str,
) -> Panel:
    """What is measured of models that are trained here."""
    task = spec.train.kind
    family = None
    if data.group is not None and len(np.unique(data.group)) < len(data.group):
        family = np.unique(data.group, return_inverse=True)[1].astype(np.int64)
    about = {
        "task": task,
        "n_train": parts.n_train,
        "settings": {"content": digest_of(content, parts, variants)},
    }
    return Panel(
        model,
        task,
        variants,
        data.x,
        data.y,
        np.arange(len(data.y)),
        family,
        parts.training,
        parts.validation,
        parts.evaluation,
        about,
        SIGNALS[task],
    )


def variants_of(spec: AuditSpec) -> dict[str, str]:
    """Full precision and the quantizers, by the name that each goes by."""
    return {FULL: FULL} | {str(parse_quantizer(each)): each for each in spec.variants.quantizers}


def digest_of(content: str, parts: Parts, variants: Mapping[str, str]) -> str:
    """Tells records of this spec from others in the same folder, however many runs there are."""
    from discreet.store.content import content_hash

    return content_hash([content, parts.training, parts.validation, parts.evaluation, dict(variants)])


def counts_of(data: Loaded, parts: Parts) -> dict[str, int]:
    """How many samples went where."""
    return {
        "samples": len(data.y),
        "training samples": len(parts.training),
        "training samples of each run": parts.n_train,
        "validation samples": len(parts.validation),
        "evaluation samples": len(parts.evaluation),
    }


def _deal(spec: AuditSpec, source: Source, data: Loaded) -> Parts:
    group = np.arange(len(data.y))
    if data.group is not None:
        group = np.unique(data.group, return_inverse=True)[1].astype(np.int64)
    pairs = (spec.budget.runs + spec.budget.shadows) // 2
    try:
        parts = deal(group, spec.split.shares, pairs, seed=spec.split.seed)
    except ValueError as error:
        raise SpecFileError(f"{source.at('split')}: {error}") from error
    if len(parts.evaluation) < 2:
        raise SpecFileError(
            f"{source.at('split')}: expected at least 2 evaluation samples, got {len(parts.evaluation)}"
        )
    return parts


def _code(fit: Named | None) -> str:
    return "" if fit is None else code_of(fit.function)
