"""Checkpoints of fine-tunings, quantized and measured: the trajectory of losses, and the signals of what is released.

A unit of work is one checkpoint of one run in one variant. It is kept in a store by the content of adapter, base and
texts, by the quantizer and by versions, so that a killed computation goes on with the unit it was at.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from discreet._types import Bool
from discreet.llm._units import Units, measured
from discreet.llm._variants import OVER, Variant
from discreet.llm.adapters import AdapterCheckpoint
from discreet.llm.encoding import Encoded
from discreet.llm.model import LanguageModel, LanguageModelError
from discreet.llm.tokens import BATCH_TOKENS
from discreet.llm.working import ROWS
from discreet.records import Record
from discreet.records.laws import OFFSETS, quoted
from discreet.store import Store

__all__ = ["release", "trajectory"]

Runs = Mapping[str, Sequence[AdapterCheckpoint]]


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
    workers: int | None = 1,
    processes: bool = False,
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
        workers: Threads, each with a working copy of the quantized layers and one core; None: one a core. Results do
            not depend on it.
        processes: Workers are processes, each of which reads the base from its folder: faster where the model is so
            small that threads wait for each other. A script then needs ``if __name__ == "__main__":``. Without
            effect on a base that is in memory alone, runs code of its own or lies on a device.
        progress: Called with the share that is done.

    Returns:
        ``loss`` [row, sample] in nats (mean over the scored tokens), and of each row ``params_hash``,
        ``bits_per_weight`` and ``stored_bytes`` of its variant. Memory-mapped from the store.

    Raises:
        ValueError: Variants, runs or steps that do not fit.
        LanguageModelError: An adapter of another base, or losses that are not finite.
        QuantizerError: A quantizer fails; variant and layer are named.
    """
    units = Units(
        store.folder, base, tuple(variants), evaluation, calibration, calibration_tokens, batch_tokens
    )
    _check(runs, units.known)
    return measured(units, store, runs, workers, processes, progress)


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
    processes: bool = False,
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
        processes: As for ``trajectory``.
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
    shared = {
        OFFSETS: (released.offsets, ("bound",)),
        "text": (np.array(released.text, dtype=object), ("sample",)),
        "zlib_bytes": (np.array([zlib_bytes(text) for text in released.text]), ("sample",)),
    }
    units = Units(
        store.folder,
        base,
        tuple(variants),
        released,
        calibration,
        calibration_tokens,
        batch_tokens,
        kind="release",
        shared=shared,
        member=dict(zip(runs, member, strict=True)),
    )
    _check(chosen, units.known)
    return measured(units, store, chosen, workers, processes, progress)


def zlib_bytes(text: str) -> int:
    """Length of a text after compression.

    Example:
        >>> zlib_bytes("aaaaaaaaaaaaaaaaaaaa") < zlib_bytes("the quick brown foxes")
        True
    """
    return len(zlib.compress(text.encode("utf-8", "surrogatepass")))


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
