"""What is measured of models of one's own, and who plays which part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet._content import content_of
from discreet._types import Int
from discreet._words import whole
from discreet.copies import told_apart
from discreet.quantizers import parse
from discreet.runs.dealing import Parts, deal
from discreet.runs.following import FULL, Panel
from discreet.spec import AuditSpec, Loaded, Source, SpecFileError
from discreet.store.content import content_hash

__all__ = [
    "contents_of",
    "copies_of",
    "counts_of",
    "deal_parts",
    "family_of",
    "groups_of",
    "panel_of",
    "signals_of",
    "variants_of",
]

_CLASSES = ("loss", "margin", "confidence", "entropy", "modified_entropy")
_LEARN = ("neural", "all")  # attacks that read raw outputs


def signals_of(spec: AuditSpec) -> tuple[str, ...]:
    """What is measured of the checkpoints that ship: what its attacks read.

    Args:
        spec: What to do.
    """
    if spec.train.kind == "mse":
        return ("loss",)
    reads = any(name.partition("(")[0].strip() in _LEARN for name in spec.attacks.names)
    return (*_CLASSES, "outputs") if reads else _CLASSES


def panel_of(
    spec: AuditSpec, data: Loaded, model: Any, parts: Parts, variants: Mapping[str, str], content: str
) -> Panel:
    """What is measured of models that are trained here.

    Args:
        spec: What to do.
        data: The samples.
        model: The architecture, or None.
        parts: Who plays which part.
        variants: Specs of quantizers by variant.
        content: Key of all that training depends on. What is kept with records tells them from those of other specs
            in the same folder, however many runs there are.
    """
    on = spec.device.to_json()
    told = [
        content,
        parts.training,
        parts.validation,
        parts.evaluation,
        dict(variants) if model is None else contents_of(variants),
        *([on] if on else []),
    ]
    task = spec.train.kind
    return Panel(
        model,
        task,
        variants,
        data.x,
        data.y,
        np.arange(len(data.y)),
        family_of(data),
        parts.training,
        parts.validation,
        parts.evaluation,
        {"task": task, "n_train": parts.n_train, "settings": {"content": content_hash(told), **on}},
        signals_of(spec),
        on=spec.device,
    )


def family_of(data: Loaded) -> Int[np.ndarray, " sample"] | None:
    """Numbers of groups, if any has several samples."""
    if data.group is None or len(np.unique(data.group)) == len(data.group):
        return None
    return np.unique(data.group, return_inverse=True)[1].astype(np.int64)


def variants_of(spec: AuditSpec) -> dict[str, str]:
    """Full precision and the quantizers, by the name that each goes by."""
    return {FULL: FULL} | spec.variants.named


def contents_of(variants: Mapping[str, str]) -> dict[str, str]:
    """What each variant's weights depend on besides those that are quantized, for keys.

    Raises:
        QuantizerError: The library of a quantizer is not installed.
    """
    return {name: content_of(parse(spec)) for name, spec in variants.items()}


def copies_of(data: Loaded, played: Int[np.ndarray, " sample"]) -> tuple[str, ...]:
    """What a reader must know of samples with the same inputs.

    Args:
        data: The samples.
        played: A number for the part of each.
    """
    found = told_apart(data.x, played)
    if not found:
        return ()
    return (
        f"{whole(found)} of {whole(len(data.y))} samples have the same inputs as one that may play another part. A"
        " non-member that is a copy of a member looks like one: attacks look weaker than they are, and r and task"
        " performance are measured on some samples that were trained on. Give copies one group, or leave them out.",
    )


def counts_of(data: Loaded, parts: Parts) -> dict[str, int]:
    """How many samples went where."""
    return {
        "samples": len(data.y),
        "training samples": len(parts.training),
        "training samples of each run": parts.n_train,
        "validation samples": len(parts.validation),
        "evaluation samples": len(parts.evaluation),
    }


def groups_of(data: Loaded) -> Int[np.ndarray, " sample"]:
    """The number of the group of each sample; where there are none, each is alone."""
    family = family_of(data)
    return np.arange(len(data.y)) if family is None else family


def deal_parts(spec: AuditSpec, source: Source, data: Loaded) -> Parts:
    """Deal the samples out to their parts.

    Raises:
        SpecFileError: Too few of them.
    """
    family = family_of(data)
    group = groups_of(data)
    pairs = (spec.budget.runs + spec.budget.shadows) // 2
    try:
        parts = deal(group, spec.split.shares, pairs, seed=spec.split.seed)
    except ValueError as error:
        many = f"{len(group)} samples" if family is None else f"{len(np.unique(group))} groups of samples"
        raise SpecFileError(f"{source.at('split')}: {many} cannot be dealt out so: {error}") from error
    if len(parts.evaluation) < 2:
        got = len(parts.evaluation)
        raise SpecFileError(f"{source.at('split')}: expected at least 2 evaluation samples, got {got}")
    return parts
