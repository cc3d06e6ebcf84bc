"""Units of work on language models: one checkpoint of one run in one variant, kept in a store when it is measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from discreet._types import Bool
from discreet.backends._cores import available
from discreet.llm._variants import Variant, parse_variants
from discreet.llm.adapters import AdapterCheckpoint
from discreet.llm.encoding import Encoded
from discreet.llm.model import LanguageModel, LanguageModelError, load
from discreet.llm.tokens import losses, token_signals
from discreet.llm.working import Working
from discreet.records import Record
from discreet.records.merge import join
from discreet.runs.units import do_units
from discreet.store import Store

__all__ = ["Signals", "Units", "measured"]

Runs = Mapping[str, Sequence[AdapterCheckpoint]]
Signals = Mapping[str, tuple[np.ndarray, tuple[str, ...]]]
"""Values and axes by the name of the signal."""
Group = tuple[str, str, tuple[tuple[AdapterCheckpoint, str], ...]]
"""A variant, a run, and checkpoints with the keys that they are kept under."""


@dataclass(frozen=True, eq=False)
class Units:
    """What all units have in common. It can be sent to another process, which reads the base from its folder.

    Attributes:
        folder: Of the store.
        base: The model before fine-tuning.
        variants: What is measured, see ``Working``.
        texts: On which.
        calibration: For quantizers that look at inputs.
        calibration_tokens: At most so many tokens of them.
        batch_tokens: See ``token_signals``.
        kind: ``trajectory`` (losses) or ``release`` (every token).
        shared: Signals that are the same in every row.
        member: By run, which texts trained it.
    """

    folder: Path
    base: LanguageModel
    variants: tuple[str, ...]
    texts: Encoded
    calibration: Encoded | None
    calibration_tokens: int
    batch_tokens: int
    kind: str = "trajectory"
    shared: Signals = field(default_factory=dict)
    member: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """All but the model's weights and what was computed from them."""
        names = (
            "folder",
            "variants",
            "texts",
            "calibration",
            "calibration_tokens",
            "batch_tokens",
            "kind",
            "shared",
        )
        base = (
            self.base.folder,
            self.base.name,
            self.base.revision,
            str(self.base.module.dtype),
            self.base.sha,
        )
        return {name: getattr(self, name) for name in (*names, "member")} | {"_place": base}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read the base from its folder.

        Raises:
            LanguageModelError: It is another one by now.
        """
        folder, name, revision, dtype, sha = state.pop("_place")
        base = load(folder, name=name, revision=revision, dtype=dtype.removeprefix("torch."))
        if base.sha != sha:
            raise LanguageModelError(f"{folder}: the model changed while it was measured")
        self.__dict__.update(state, base=base)

    @property
    def portable(self) -> bool:
        """Whether another process can have the same base: its files are there, and no code comes with it."""
        own = type(self.base.module).__module__.startswith("transformers.")
        return self.base.folder is not None and own and self.base.device.type == "cpu"

    @cached_property
    def known(self) -> Mapping[str, Variant]:
        """The variants."""
        return parse_variants(self.variants)

    def working(self) -> Working:
        """A working copy of the base."""
        return Working(self.base, self.variants, self.calibration, rows=self.calibration_tokens)

    def key(self, run: str, adapter: AdapterCheckpoint, name: str) -> str:
        """Where a unit is kept."""
        variant = self.known[name]
        calibrated = variant.needs_inputs and self.calibration is not None
        return Store(self.folder).key(
            f"{self.kind}/{run}/step-{adapter.step}-{variant.name}.safetensors",
            run=run,
            step=adapter.step,
            adapter=adapter.sha,
            variant=variant.name,
            quantizer=variant.content,
            calibration=[self.calibration.sha, self.calibration_tokens]
            if calibrated and self.calibration
            else None,
            member=self.member.get(run),
            **({} if self.calibration is None else {"marked": self.calibration.sha}),
            **self._common,
        )

    def do(self, group: Group, working: Working) -> Iterator[None]:
        """Measure and keep the units of a group, one at a time."""
        name, run, units = group
        for adapter, key in units:
            working.checkpoint(adapter)
            Store(self.folder).make(key, self._row(working, run, adapter, name).save)
            yield

    def _measure(self, module: nn.Module) -> Signals:
        if self.kind == "trajectory":
            return {
                "loss": (losses(module, self.texts, batch_tokens=self.batch_tokens)[None], ("row", "sample"))
            }
        found = token_signals(module, self.texts, batch_tokens=self.batch_tokens)
        by_token = {"logp": found.logp, "logp_mean": found.mean, "logp_std": found.std, "rank": found.rank}
        return {"loss": (found.loss[None], ("row", "sample"))} | {
            name: (values[None], ("row", "token")) for name, values in by_token.items()
        }

    def _row(self, working: Working, run: str, adapter: AdapterCheckpoint, name: str) -> Record:
        """One row of the record."""
        module = working.variant(name)
        try:
            found = {**self._measure(module), **self.shared}
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
            sample=self.texts.sample,
            signals={key: values for key, (values, _) in found.items()},
            axes={key: axes for key, (_, axes) in found.items()},
            member=np.asarray(self.member[run], bool)[None] if run in self.member else None,
            calibration=self._calibrated(working.variants[name]),
            about=self._about,
        )

    def _calibrated(self, variant: Variant) -> Bool[np.ndarray, "1 1 sample"] | None:
        """Which texts the variant's quantizer looked at; None where none are given to any."""
        if self.calibration is None:
            return None
        return (self.texts.also_in(self.calibration) & variant.needs_inputs)[None, None]

    @cached_property
    def _common(self) -> dict[str, Any]:
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
    def _about(self) -> dict[str, Any]:
        """What the record says of how it was made."""
        return {**self._common, "base_name": self.base.name, "encoding": dict(self.texts.about)} | {
            "counts": dict(self.texts.counts)
        }


def measured(
    units: Units,
    store: Store,
    runs: Runs,
    workers: int | None,
    processes: bool,
    progress: Callable[[float], None],
) -> Record:
    """Make every unit that is not in the store yet, and join all.

    Args:
        units: What they have in common.
        store: Where they are kept; its lock is held.
        runs: Checkpoints by the label of the run.
        workers: How many at a time; None: one a core.
        processes: Whether workers are processes where the base allows it.
        progress: Called with the share that is done.
    """
    keys = {
        (name, run, adapter.step): units.key(run, adapter, name)
        for name in units.known
        for run, adapters in runs.items()
        for adapter in adapters
    }
    missing = {place for place, key in keys.items() if not store.has(key)}
    groups: list[Group] = []
    for name in units.known:
        for run, adapters in runs.items():
            places = [(each, (name, run, each.step)) for each in adapters]
            left = tuple((each, keys[place]) for each, place in places if place in missing)
            groups += [(name, run, left)] if left else []
    before = 1 - len(missing) / len(keys)

    def told(share: float) -> None:
        progress(before + share * (1 - before))

    if groups and processes and units.portable and min(workers or available(), len(groups)) > 1:
        _in_processes(units, groups, workers, told)
    elif groups:
        _in_threads(units, groups, workers, told)
    whole = store.key(f"{units.kind}/all.safetensors", parts=list(keys.values()))
    paths = [store.path(key) for key in keys.values()]
    return Record.open(store.make(whole, lambda aside: join(paths, aside)))


def _in_threads(
    units: Units, groups: Sequence[Group], workers: int | None, told: Callable[[float], None]
) -> None:
    own = threading.local()  # a working copy a thread

    def work(group: Group, tick: Callable[..., None]) -> None:
        tick(0)
        if not hasattr(own, "working"):
            own.working = units.working()
        for _ in units.do(group, own.working):
            tick()

    total = sum(len(each) for _, _, each in groups)
    do_units(groups, work, total, workers=workers, progress=told)


def _in_processes(
    units: Units, groups: Sequence[Group], workers: int | None, told: Callable[[float], None]
) -> None:
    from discreet.backends.processes import Processes

    done, total = 0, sum(len(each) for _, _, each in groups)
    for number, _ in Processes(workers).each(_do_there, units, groups):
        done += len(groups[number][2])
        told(done / total)


_working: dict[int, Working] = {}
"""Of a process that measures, its one working copy."""


def _do_there(units: Units, group: Group) -> None:
    if id(units) not in _working:
        _working.clear()
        _working[id(units)] = units.working()
    for _ in units.do(group, _working[id(units)]):
        pass
