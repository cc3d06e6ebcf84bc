"""Checkpoints of fine-tunings, quantized and measured: the trajectory of losses, and the signals of what is released.

A unit of work is one checkpoint of one run in one variant. It is kept in a store by the content of adapter, base and
texts, by the quantizer and by versions, so that a killed computation goes on with the unit it was at.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
from torch import nn

from discreet._types import Bool
from discreet.llm._packed import Packed
from discreet.llm._variants import OVER, Variant, parse_variants
from discreet.llm.adapters import AdapterCheckpoint
from discreet.llm.encoding import Encoded
from discreet.llm.model import LanguageModel, LanguageModelError
from discreet.llm.tokens import BATCH_TOKENS, losses, token_signals
from discreet.llm.working import ROWS, Working
from discreet.records import Record
from discreet.records.laws import OFFSETS, quoted
from discreet.records.merge import join
from discreet.runs.units import do_units
from discreet.store import Store

__all__ = ["release", "trajectory"]

Runs = Mapping[str, Sequence[AdapterCheckpoint]]
Signals = dict[str, tuple[np.ndarray, tuple[str, ...]]]
"""Values and axes by the name of the signal."""


def trajectory(
    store: Store,
    base: LanguageModel,
    runs: Runs,
    variants: Sequence[str],
    evaluation: Encoded,
    *,
    calibration: Encoded | None = None,
    calibration_tokens: int = ROWS,
    batch_tokens: int = BATCH_TOKENS,
    packed: Packed | None = None,
    workers: int | None = 1,
    progress: Callable[[float], None] = lambda share: None,
) -> Record:
    """Measure the loss of every checkpoint of every run in every variant.

    Args:
        store: Where finished units are kept; hold its lock meanwhile.
        base: The model before fine-tuning.
        runs: Checkpoints by the label of the run.
        variants: See ``Working``.
        evaluation: Texts that no run was trained on.
        calibration: Texts for quantizers that look at inputs. Those that are also measured are marked in the record's
            ``calibration``, and not judged.
        calibration_tokens: At most so many tokens of them.
        batch_tokens: See ``token_signals``.
        packed: See ``Working``; for calls with few checkpoints of many.
        workers: Threads, each with a working copy of the quantized layers and one core; None: one a core. Results do
            not depend on it.
        progress: Called with the share that is done.

    Returns:
        ``loss`` [row, sample] in nats (mean over the scored tokens), and of each row ``params_hash``,
        ``bits_per_weight`` and ``stored_bytes`` of its variant. Memory-mapped from the store.

    Raises:
        ValueError: Variants, runs or steps that do not fit.
        LanguageModelError: An adapter of another base, or losses that are not finite.
        QuantizerError: A quantizer fails; variant and layer are named.
    """
    work = _Work(store, base, evaluation, calibration, calibration_tokens, batch_tokens, "trajectory")

    def measure(module: nn.Module) -> Signals:
        return {"loss": (losses(module, evaluation, batch_tokens=batch_tokens)[None], ("row", "sample"))}

    return _measured(work, runs, variants, measure, {}, {}, workers, progress, packed)


def release(
    store: Store,
    base: LanguageModel,
    runs: Runs,
    variants: Sequence[str],
    released: Encoded,
    member: Bool[np.ndarray, "run sample"],
    *,
    steps: Mapping[str, int] | None = None,
    calibration: Encoded | None = None,
    calibration_tokens: int = ROWS,
    batch_tokens: int = BATCH_TOKENS,
    workers: int | None = 1,
    progress: Callable[[float], None] = lambda share: None,
) -> Record:
    """Measure every token of members and others under one checkpoint of each run, in every variant.

    Args:
        store: As for ``trajectory``.
        base: As for ``trajectory``.
        runs: As for ``trajectory``.
        variants: As for ``trajectory``.
        released: The texts that attacks judge.
        member: Which of them trained which run, runs in the order of ``runs``.
        steps: The step that is released, by run; None: the last one.
        calibration: As for ``trajectory``.
        calibration_tokens: As for ``trajectory``.
        batch_tokens: As for ``trajectory``.
        workers: As for ``trajectory``.
        progress: As for ``trajectory``.

    Returns:
        ``loss`` [row, sample]; ``logp``, ``logp_mean``, ``logp_std``, ``rank`` [row, token] of the scored tokens with
        their ``offsets``; ``text`` and ``zlib_bytes`` [sample] (bytes of the compressed UTF-8); and of each row what
        ``trajectory`` gives. Memory-mapped from the store.

    Raises:
        ValueError: As for ``trajectory``, or there is no such step.
    """
    chosen = {label: [_released(label, each, steps)] for label, each in runs.items()}
    if member.shape != (len(runs), len(released)):
        raise ValueError(
            f"member: expected true or false for each of {len(runs)} runs and {len(released)} texts, got shape"
            f" {member.shape}"
        )
    work = _Work(store, base, released, calibration, calibration_tokens, batch_tokens, "release")

    def measure(module: nn.Module) -> Signals:
        found = token_signals(module, released, batch_tokens=batch_tokens)
        by_token = {"logp": found.logp, "logp_mean": found.mean, "logp_std": found.std, "rank": found.rank}
        return {"loss": (found.loss[None], ("row", "sample"))} | {
            name: (values[None], ("row", "token")) for name, values in by_token.items()
        }

    shared: Signals = {
        OFFSETS: (released.offsets, ("bound",)),
        "text": (np.array(released.text, dtype=object), ("sample",)),
        "zlib_bytes": (np.array([zlib_bytes(text) for text in released.text]), ("sample",)),
    }
    lines = dict(zip(runs, member, strict=True))
    return _measured(work, chosen, variants, measure, shared, lines, workers, progress)


def zlib_bytes(text: str) -> int:
    """Length of a text after compression.

    Example:
        >>> zlib_bytes("aaaaaaaaaaaaaaaaaaaa") < zlib_bytes("the quick brown foxes")
        True
    """
    return len(zlib.compress(text.encode("utf-8", "surrogatepass")))


@dataclass(frozen=True, eq=False)
class _Work:
    """What all units have in common."""

    store: Store
    base: LanguageModel
    texts: Encoded
    calibration: Encoded | None
    calibration_tokens: int
    batch_tokens: int
    kind: str

    def key(self, run: str, adapter: AdapterCheckpoint, variant: Variant, member: Any) -> str:
        """Where a unit is kept."""
        calibrated = variant.needs_inputs and self.calibration is not None
        return self.store.key(
            f"{self.kind}/{run}/step-{adapter.step}-{variant.name}.safetensors",
            run=run,
            step=adapter.step,
            adapter=adapter.sha,
            variant=variant.name,
            quantizer=variant.content,
            calibration=[self.calibration.sha, self.calibration_tokens]
            if calibrated and self.calibration
            else None,
            member=member,
            **({} if self.calibration is None else {"marked": self.calibration.sha}),
            **self.common,
        )

    def calibrated(self, variant: Variant) -> Bool[np.ndarray, "1 1 sample"] | None:
        """Which texts the variant's quantizer looked at; None where none are given to any."""
        if self.calibration is None:
            return None
        return (self.texts.also_in(self.calibration) & variant.needs_inputs)[None, None]

    @property
    def common(self) -> dict[str, Any]:
        """What every unit depends on."""
        module: Any = self.base.module
        return {
            "base": self.base.sha,
            "dtype": str(module.dtype).removeprefix("torch."),
            "device": self.base.device.type,
            "texts": self.texts.sha,
            "batch_tokens": self.batch_tokens,
            "versions": {name: metadata.version(name) for name in ("discreet", "torch", "transformers")},
        }

    @property
    def about(self) -> dict[str, Any]:
        """What the record says of how it was made."""
        return {**self.common, "base_name": self.base.name, "encoding": dict(self.texts.about)} | {
            "counts": dict(self.texts.counts)
        }


def _measured(
    work: _Work,
    runs: Runs,
    variants: Sequence[str],
    measure: Callable[[nn.Module], Signals],
    shared: Signals,
    member: Mapping[str, np.ndarray],
    workers: int | None,
    progress: Callable[[float], None],
    packed: Packed | None = None,
) -> Record:
    """Make every unit that is not in the store yet, and join all."""
    known = parse_variants(variants)
    _check(runs, known)
    keys = {
        (name, run, adapter.step): work.key(run, adapter, variant, member.get(run))
        for name, variant in known.items()
        for run, adapters in runs.items()
        for adapter in adapters
    }
    missing = {place for place, key in keys.items() if not work.store.has(key)}
    groups = [(name, run) for name in known for run in runs if any(m[:2] == (name, run) for m in missing)]
    own = threading.local()  # a working copy a thread

    def group(unit: tuple[str, str], tick: Callable[..., None]) -> None:
        name, run = unit
        if not hasattr(own, "working"):
            rows = work.calibration_tokens
            own.working = Working(work.base, variants, work.calibration, rows=rows, packed=packed)
        for adapter in runs[run]:
            if (name, run, adapter.step) not in missing:
                continue
            tick(0)
            own.working.checkpoint(adapter)
            record = _row(work, own.working, (run, adapter, name), measure, shared, member)
            work.store.make(keys[name, run, adapter.step], record.save)
            tick()

    before = 1 - len(missing) / len(keys)
    if missing:
        do_units(
            groups,
            group,
            len(missing),
            workers=workers,
            progress=lambda share: progress(before + share * (1 - before)),
        )
    whole = work.store.key(f"{work.kind}/all.safetensors", parts=list(keys.values()))
    paths = [work.store.path(key) for key in keys.values()]
    return Record.open(work.store.make(whole, lambda aside: join(paths, aside)))


def _row(
    work: _Work,
    working: Working,
    place: tuple[str, AdapterCheckpoint, str],
    measure: Callable[[nn.Module], Signals],
    shared: Signals,
    member: Mapping[str, np.ndarray],
) -> Record:
    """One row of the record."""
    run, adapter, name = place
    module = working.variant(name)
    try:
        found = measure(module) | shared
    except LanguageModelError as error:
        raise LanguageModelError(f"variant {name!r} of {adapter.path}: {error}") from error
    stored = working.stored(name)
    found |= {
        "params_hash": (np.array([working.fingerprint()], np.uint64), ("row",)),
        "bits_per_weight": (np.array([stored.bits_per_weight]), ("row",)),
        "stored_bytes": (np.array([stored.bytes]), ("row",)),
    }
    return Record(
        run=(run,),
        step=np.array([float(adapter.step)]),
        variant=(name,),
        sample=work.texts.sample,
        signals={key: values for key, (values, _) in found.items()},
        axes={key: axes for key, (_, axes) in found.items()},
        member=np.asarray(member[run], bool)[None] if run in member else None,
        calibration=work.calibrated(working.variants[name]),
        about=work.about,
    )


def _released(
    run: str, adapters: Sequence[AdapterCheckpoint], steps: Mapping[str, int] | None
) -> AdapterCheckpoint:
    if not adapters:
        raise ValueError(f"run {quoted(run)} has no checkpoints")
    if steps is None:
        return max(adapters, key=lambda each: each.step)
    there = {each.step: each for each in adapters}
    if run not in steps or steps[run] not in there:
        asked = f"step {steps[run]}" if run in steps else "no step is named"
        raise ValueError(f"run {quoted(run)}: {asked}; there are {', '.join(map(str, sorted(there)))}")
    return there[steps[run]]


def _check(runs: Runs, variants: Mapping[str, Variant]) -> None:
    over = [name for name, variant in variants.items() if variant.over]
    if not runs:
        raise ValueError("runs: expected at least one, got none")
    for run, adapters in runs.items():
        steps = [each.step for each in adapters]
        if not steps:
            raise ValueError(f"run {quoted(run)} has no checkpoints")
        if len(set(steps)) < len(steps):
            twice = next(step for step in steps if steps.count(step) > 1)
            raise ValueError(f"run {quoted(run)} has step {twice} twice")
        whole = [each for each in adapters if each.kind == "full"]
        if over and whole:
            raise LanguageModelError(
                f"variant {over[0]!r} is an adapter over a quantized base, but {whole[0].path} is a whole model;"
                f" quantized itself it would be {over[0].removeprefix(OVER)!r}"
            )
