"""A spec made ready: the data read, the model tried, the parts dealt out; nothing long has begun."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata
from typing import Any

from torch import nn

from discreet._code import code_of
from discreet.auditing_spec.estimators import is_estimator
from discreet.auditing_spec.fitting import check_fit
from discreet.auditing_spec.onnx_quantized import NAMES, QuantizedUnit
from discreet.auditing_spec.panels import copies_of, counts_of, deal_parts, groups_of, panel_of, variants_of
from discreet.auditing_spec.preparing_others import prepare_estimator, prepare_existing
from discreet.auditing_spec.training import built_in, by_fit, units_of
from discreet.auditing_spec.work import Prepared, Work
from discreet.bank.identity import identity
from discreet.initial import Architecture, as_model
from discreet.spec import AuditSpec, Loaded, Source, SpecFileError, load_data, load_model, named, recipe_of
from discreet.store import Store

__all__ = ["prepare"]

_OF_ONNX = (
    "The int8 variants of ONNX Runtime are made of the shipped checkpoints alone, so that there is no r of them."
    " Static ones are calibrated on validation samples, which no run trained on."
)


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
    if not spec.model.has_weights:
        return prepare_existing(spec, source, store, data, None, ())
    if spec.model.build and not spec.is_existing:
        build = named(spec.model.build, source, "model", "build")
        model = build("to make the model", spec.model.options)
        if not isinstance(model, nn.Module) and is_estimator(model):
            return prepare_estimator(spec, source, store, data, build, model)
    architecture, _, notes = load_model(spec.model, source, data, spec.train.kind)
    if spec.is_existing:
        return prepare_existing(spec, source, store, data, architecture, notes)
    return _trained(spec, source, store, data, architecture, notes, workers)


def _trained(
    spec: AuditSpec,
    source: Source,
    store: Store,
    data: Loaded,
    architecture: Architecture,
    notes: tuple[str, ...],
    workers: int | None,
) -> Prepared:
    """A torch module, trained here."""
    recipe, fit = None, None
    if spec.train.fit:
        fit = named(spec.train.fit, source, "train", "fit")
        check_fit(fit, spec.train.options)
        how: dict[str, Any] = {"fit": code_of(fit.function), "options": spec.train.options}
        notes = (*notes, *((fit.note,) if fit.note else ()))
    else:
        recipe, more = recipe_of(spec.train, source, architecture, {"x": data.x[:4], "y": data.y[:4]})
        how = {"recipe": recipe.to_json(), "loss": code_of(recipe.loss)}
        notes = (*notes, *more)
    parts = deal_parts(spec, source, data)
    if spec.train.patience is not None and not len(parts.validation):
        raise SpecFileError(
            f"{source.at('train', 'patience')}: expected validation samples, whose loss stops a run; set [split]"
            " validation, or leave patience out"
        )
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
    if fit is not None:
        panel = replace(panel, workers=None)  # one run at a time: all cores are free to measure it
    work = Work(spec, source, store, data, panel, content, parts)
    if recipe is not None:
        # Of two that train together, the one that stops first would repeat its last state.
        together = 2 if recipe.patience is None else 1
        units = tuple(units_of(work, built_in(work, architecture, recipe), together, recipe.epochs))
    elif fit is not None:
        units = tuple(units_of(work, by_fit(work, architecture, fit), 1, None))
    else:
        units = ()
    kinds = tuple(dict.fromkeys(spec.variants.onnxruntime))
    if kinds:
        if len(parts.validation) < 2:
            where = source.at("variants", "onnxruntime")
            raise SpecFileError(
                f"{where}: expected validation samples to calibrate on, got {len(parts.validation)}"
            )
        notes = (*notes, _OF_ONNX)
        units = tuple(QuantizedUnit(unit, kinds) for unit in units)
    return Prepared(
        work,
        units,
        1 if recipe is None else workers,
        (*copies_of(data, groups_of(data)), *data.notes, *notes),
        counts_of(data, parts),
        (*panel.variants, *(NAMES[kind] for kind in kinds)),
    )
