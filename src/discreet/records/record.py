"""The record: measurements of many models on the same samples, the noun that every analysis starts from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from discreet._types import Bool, Int
from discreet.records import laws
from discreet.records.cuts import as_slice, numbers, tokens_of
from discreet.records.laws import OFFSETS, RecordError, quoted, row_name

__all__ = ["Record"]

_USUAL_AXES = {1: ("sample",), 2: ("row", "sample")}


@dataclass(frozen=True, eq=False)
class Record:
    """Measurements of many models: a row is a model, a column is a sample.

    Every law is checked when a record is made. Only values of memory-mapped signals are checked later,
    when :meth:`chunks` or :meth:`validate` reads them, so that opening a large file costs nothing.

    Attributes:
        run: Label of the training run of each row. A full-precision model and its compressed children
            are rows of one run: they were trained on the same samples.
        step: Checkpoint number or epoch of each row, float64.
        variant: What each row's model is, such as ``"full"`` or ``"sign"``; (run, step, variant) is unique.
        sample: Sample ids, int64 or text, each once; 0..n-1 if the source has none.
        signals: Named arrays: ``loss`` [row, sample] in nats (lower fits better), ``margin`` [row, sample]
            (true-label logit minus the largest other), ``label`` [sample], … They may be memory-mapped.
        axes: The axes of each signal, ``row`` (if any) first and exactly one of ``sample`` and ``token`` (or
            ``row`` alone: one figure a model, as ``params_hash`` is);
            signals of one or two dimensions need no entry. Tokens are cut by the signal ``offsets``
            [bound]: sample i has the tokens ``offsets[i]:offsets[i + 1]`` in every row.
        member: Which samples trained which run; one line a run, in the order of :attr:`member_runs`.
        calibration: Which samples calibrated which variant of which run (same order of runs).
        about: Plain JSON: hashes, seeds, settings, ``n_train``, versions.
        hidden: Runs whose membership a blind record withholds.
        source: Where the record was read, for messages only.

    Raises:
        RecordError: A law is broken; the message names the file, row, run, step and variant.

    Example:
        >>> record = Record(
        ...     run=("0", "0"), step=np.array([1.0, 2.0]), variant=("full", "full"),
        ...     sample=np.arange(3), signals={"loss": np.array([[3.0, 2.0, 1.0], [2.0, 1.0, 0.5]])},
        ... )
        >>> record.runs, record.n_samples, record.trajectory("full", "0").tolist()
        (('0',), 3, [0, 1])
    """

    run: tuple[str, ...]
    step: np.ndarray
    variant: tuple[str, ...]
    sample: np.ndarray
    signals: Mapping[str, np.ndarray]
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    member: Bool[np.ndarray, "run sample"] | None = None
    calibration: Bool[np.ndarray, "run variant sample"] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        try:
            self._settle()
        except RecordError as error:
            raise self.error(str(error)) from None
        self._check_finite(name for name, values in self.signals.items() if not isinstance(values, np.memmap))

    def _settle(self) -> None:
        """Replace every field by its canonical, read-only form."""
        put = self.__dict__.__setitem__  # the one moment before the record is frozen
        put("run", laws.labels("run", self.run))
        put("variant", laws.labels("variant", self.variant))
        put("step", _read_only(laws.steps(self.step, len(self.run))))
        laws.unique_rows(self.run, self.step, self.variant)
        put("sample", _read_only(laws.ids(self.sample)))
        put("axes", MappingProxyType(_all_axes(self.signals, self.axes)))
        checked = {name: laws.check_axes(name, self.signals[name], self.axes[name]) for name in self.axes}
        laws.check_sizes(checked, self.axes, len(self.run), self.n_samples)
        laws.check_offsets(checked, self.axes)
        put("signals", MappingProxyType({name: _read_only(values) for name, values in checked.items()}))
        unknown = [run for run in self.hidden if run not in self.runs]
        if unknown:
            raise RecordError(f"hidden names the run {quoted(unknown[0])}, which has no rows")
        shape = (len(self.member_runs), self.n_samples)
        put("member", _read_only(laws.table_of_flags("member", self.member, shape)))
        shape = (len(self.member_runs), len(self.variants), self.n_samples)
        put("calibration", _read_only(laws.table_of_flags("calibration", self.calibration, shape)))
        put("about", MappingProxyType(laws.plain_json(self.about)))

    def __eq__(self, other: object) -> bool:
        """Same rows, samples, signals and dtypes, in the same order; ``source`` aside."""
        if not isinstance(other, Record):
            return NotImplemented
        names = ("run", "variant", "axes", "about", "hidden")
        arrays = ("step", "sample", "member", "calibration")
        return (
            all(getattr(self, name) == getattr(other, name) for name in names)
            and all(_same(getattr(self, name), getattr(other, name)) for name in arrays)
            and all(_same(values, other.signals[name]) for name, values in self.signals.items())
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # arrays have no hash

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain = {name: dict(fields[name]) for name in ("signals", "axes", "about")}
        return _remake, (fields | plain,)

    def error(self, message: str) -> RecordError:
        """Make an error that names the file this record came from."""
        return RecordError(f"{self.source}: {message}" if self.source else message)

    @cached_property
    def runs(self) -> tuple[str, ...]:
        """The runs, in order of first appearance."""
        return tuple(dict.fromkeys(self.run))

    @cached_property
    def variants(self) -> tuple[str, ...]:
        """The variants, in order of first appearance."""
        return tuple(dict.fromkeys(self.variant))

    @property
    def member_runs(self) -> tuple[str, ...]:
        """The runs of the lines of ``member``: all but the hidden ones."""
        return tuple(run for run in self.runs if run not in self.hidden)

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return int(self.sample.size)

    @cached_property
    def _codes(self) -> dict[str, tuple[tuple[Any, ...], np.ndarray]]:
        """For each label column: its distinct values, and their positions row by row."""
        columns = {"variant": self.variant, "run": self.run, "step": tuple(self.step.tolist())}
        places = {name: {v: i for i, v in enumerate(dict.fromkeys(col))} for name, col in columns.items()}
        return {n: (tuple(at), np.array([at[v] for v in columns[n]])) for n, at in places.items()}

    def rows(
        self, variant: str | None = None, run: str | None = None, step: float | int | None = None
    ) -> Int[np.ndarray, " row"]:
        """Return the numbers of the rows that match, in order; none if the combination does not occur.

        Raises:
            RecordError: The record has no such variant, run or step at all.
        """
        keep = np.ones(len(self.run), bool)
        for name, wanted in (("variant", variant), ("run", run), ("step", step)):
            if wanted is None:
                continue
            known, codes = self._codes[name]
            if wanted not in known:
                shown = ", ".join(map(quoted, known[:8])) + (", …" if len(known) > 8 else "")
                raise self.error(f"no {name} {quoted(wanted)}; there are {shown}")
            keep &= codes == known.index(wanted)
        return np.flatnonzero(keep)

    def trajectory(self, variant: str, run: str) -> Int[np.ndarray, " row"]:
        """Return the rows of one variant of one run, by ascending step.

        Raises:
            RecordError: There is no such variant or run, or they do not occur together.
        """
        rows = self.rows(variant, run)
        if not rows.size:
            raise self.error(f"run {quoted(run)} has no rows of variant {quoted(variant)}")
        return rows[np.argsort(self.step[rows], kind="stable")]

    def membership(self, run: str) -> Bool[np.ndarray, " sample"]:
        """Return which samples trained ``run``.

        Raises:
            RecordError: The run is unknown or hidden, or the record knows no membership.
        """
        self.rows(run=run)
        if run in self.hidden:
            raise self.error(f"the membership of run {quoted(run)} is hidden: this record is blind to it")
        if self.member is None:
            raise self.error("no membership: the record does not say which samples trained which run")
        return self.member[self.member_runs.index(run)]

    def partners(self, run: str) -> tuple[str, ...]:
        """Return the other runs whose membership gives that of ``run`` away: its opposites and its twins.

        Opposites agree with ``run`` on no sample but those that trained every run or none (of two runs
        alone: none). Twins were trained on the very same samples.
        """
        mine = self.membership(run)
        table = np.asarray(self.member)
        settled = ~table.any(axis=0) | (table.all(axis=0) if len(table) > 2 else False)
        found = []
        for other, theirs in zip(self.member_runs, table, strict=True):
            same = theirs == mine
            if other != run and (same.all() or (not settled.all() and not same[~settled].any())):
                found.append(other)
        return tuple(found)

    def blind(self, run: str) -> Record:
        """Return what an attack on ``run`` may see.

        The membership (and calibration) of the whole run is left out, since a full-precision model and
        its compressed children share it. Its :meth:`partners` go entirely, losses and all: where each
        sample is in exactly one run of a pair, counting the memberships of the other runs gives the
        answer to every sample (AUC 1.0). What is left are independent draws, or complete pairs whose
        counts are constant. Other designs that fix the number of runs a sample is in (such as "exactly
        half of the runs, not in pairs") leak through that number: an attack must not count.

        Args:
            run: The run to be attacked.

        Returns:
            A record with ``run`` in :attr:`hidden`; ``member`` has no line for it.
        """
        self.rows(run=run)
        if run in self.hidden:
            return self
        gone = set(self.partners(run)) if self.member is not None else set()
        seen = self.take_rows(np.flatnonzero([label not in gone for label in self.run])) if gone else self
        line = seen.member_runs.index(run)
        return replace(
            seen,
            member=None if seen.member is None else np.delete(seen.member, line, axis=0),
            calibration=None if seen.calibration is None else np.delete(seen.calibration, line, axis=0),
            hidden=(*seen.hidden, run),
        )

    def take_rows(self, index: Sequence[int] | np.ndarray) -> Record:
        """Return the rows ``index`` (numbers or a mask), in that order."""
        rows = self._numbers(index, len(self.run), "row")
        run, variant = ([labels[row] for row in rows] for labels in (self.run, self.variant))
        runs = [r for r in dict.fromkeys(run) if r not in self.hidden]
        lines = [self.member_runs.index(r) for r in runs]
        columns = [self.variants.index(v) for v in dict.fromkeys(variant)]
        cut = as_slice(rows)
        return replace(
            self,
            run=tuple(run),
            step=self.step[rows],
            variant=tuple(variant),
            signals={n: s[cut] if "row" in self.axes[n] else s for n, s in self.signals.items()},
            member=None if self.member is None else self.member[lines],
            calibration=None if self.calibration is None else self.calibration[lines][:, columns],
            hidden=tuple(r for r in self.hidden if r in run),
        )

    def take_samples(self, index: Sequence[int] | np.ndarray) -> Record:
        """Return the samples ``index`` (numbers or a mask), in that order, with their tokens."""
        columns = self._numbers(index, self.n_samples, "sample")
        cut: dict[str, Any] = {"sample": as_slice(columns)}
        signals = dict(self.signals)
        if OFFSETS in signals:
            cut["token"], signals[OFFSETS] = tokens_of(signals[OFFSETS], columns)
        for name in set(signals) - {OFFSETS}:
            signals[name] = signals[name][tuple(cut.get(axis, slice(None)) for axis in self.axes[name])]
        return replace(
            self,
            sample=self.sample[columns],
            signals=signals,
            member=None if self.member is None else self.member[:, columns],
            calibration=None if self.calibration is None else self.calibration[:, :, columns],
        )

    def chunks(
        self, signal: str = "loss", rows: Sequence[int] | np.ndarray | None = None, size: int = 1 << 16
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Read a signal in chunks of samples, checking every value.

        Args:
            signal: The name of a signal.
            rows: Row numbers, all by default.
            size: Samples in a chunk.

        Yields:
            A slice of the samples, and the values of the rows there in the signal's dtype and axes
            (for signals by token: the tokens of these samples).

        Raises:
            RecordError: There is no such signal, or a value is NaN or infinite.
        """
        values = self.signal(signal)
        if size < 1:
            raise self.error(f"size: expected at least one sample in a chunk, got {size}")
        wanted = range(len(self.run)) if rows is None else rows
        chosen = as_slice(self._numbers(wanted, len(self.run), "row"))
        for start in range(0, self.n_samples, size):
            part = slice(start, min(start + size, self.n_samples))
            cut: dict[str, Any] = {"row": chosen, "sample": part}
            if "token" in self.axes[signal]:
                bounds = self.signals[OFFSETS]
                cut["token"] = slice(int(bounds[part.start]), int(bounds[part.stop]))
            block = values[tuple(cut.get(axis, slice(None)) for axis in self.axes[signal])]
            if not laws.all_finite(block):
                self._check_finite([signal])
            yield part, block

    def signal(self, name: str) -> np.ndarray:
        """Return a signal by name, with the names there are in the error."""
        if name not in self.signals:
            raise self.error(f"no signal {quoted(name)}; there are {', '.join(map(quoted, self.signals))}")
        return self.signals[name]

    def validate(self) -> Record:
        """Read every value once, memory-mapped ones too, and return the record.

        Raises:
            RecordError: A value is NaN or infinite: which signal, run, step, variant, and how many.
        """
        self._check_finite(self.signals)
        return self

    def _check_finite(self, names: Iterable[str]) -> None:
        for name in names:
            by_row = "row" in self.axes[name]
            counts = laws.bad_rows(self.signals[name] if by_row else self.signals[name][None])
            if counts.any():
                raise self.error(self._complaint(name, counts, by_row))

    def _complaint(self, name: str, counts: Int[np.ndarray, " row"], by_row: bool) -> str:
        bad = np.flatnonzero(counts)
        row, count = int(bad[0]), int(counts[bad[0]])
        where = f" of {row_name(self.run[row], float(self.step[row]), self.variant[row])}" if by_row else ""
        amount = "1 value that is" if count == 1 else f"{count} values that are"
        more = "" if bad.size == 1 else f"; {bad.size} of {counts.size} rows have such values"
        return f"{name}{where} has {amount} NaN or infinite{more}"

    def _numbers(self, index: Any, count: int, what: str) -> Int[np.ndarray, " n"]:
        try:
            return numbers(index, count, what)
        except RecordError as error:
            raise self.error(str(error)) from None

    def save(self, path: str | Path) -> Path:
        """Write the record as one safetensors file: aside, then renamed, so never half of it.

        Raises:
            RecordError: The folder is missing, read-only or full.
        """
        from discreet.records.files import save

        return save(self, Path(path))

    @classmethod
    def open(cls, path: str | Path) -> Record:
        """Open a record's file, its arrays memory-mapped.

        Raises:
            RecordError: The file is missing, empty, truncated, or no record this version can read.
        """
        from discreet.records.files import open_record

        return open_record(Path(path))


def _remake(fields: dict[str, Any]) -> Record:
    return Record(**fields)


def _read_only(array: Any) -> Any:
    if array is None:
        return None
    view = array.view()
    view.flags.writeable = False
    return view


def _all_axes(
    signals: Mapping[str, np.ndarray], axes: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    if not signals:
        raise RecordError("no signals: expected at least one, such as loss")
    extra = [name for name in axes if name not in signals]
    if extra:
        raise RecordError(f"axes names {quoted(extra[0])}, which is no signal")
    found = {}
    for name in sorted(signals):  # one order, whatever the caller's
        usual = ("bound",) if name == OFFSETS else _USUAL_AXES.get(signals[name].ndim)
        chosen = axes.get(name, usual)
        if chosen is None:
            raise RecordError(f"{name} has {signals[name].ndim} dimensions: say in axes what they are")
        found[name] = tuple(map(str, chosen))
    return found


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    kinds = (one.dtype.kind, other.dtype.kind)
    return (kinds == ("U", "U") or one.dtype == other.dtype) and np.array_equal(one, other)
