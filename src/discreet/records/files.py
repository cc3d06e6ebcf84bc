"""A record as one safetensors file: small facts as JSON in its header, everything long as tensors.

Tensors lie by falling width of their items, then by name, so that each is aligned for a memory map and the
same record gives the same bytes. Names: ``run``, ``variant`` (numbers into the header's lists), ``step``,
``sample``, ``member``, ``calibration``, ``signal/NAME``; text is ``text/NAME`` (UTF-8) cut by ``ends/NAME``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from discreet._draft import draft
from discreet.records.laws import RecordError
from discreet.records.record import Record

__all__ = ["SCHEMA", "Canvas", "Outline", "Placed", "canvas", "open_record", "pieces", "save"]

SCHEMA = "discreet.record/1"
_KEY = "discreet.record"
_DTYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "u2", "I16": "i2", "U32": "u4", "I32": "i4",
    "U64": "u8", "I64": "i8", "F16": "f2", "F32": "f4", "F64": "f8",
}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}


@dataclass(frozen=True)
class Outline:
    """A record before its long arrays are there.

    Attributes:
        fields: The fields of a :class:`Record` but ``signals``, ``member`` and ``calibration``.
        text: Signals of text.
        arrays: dtype and shape of each long array: ``member``, ``calibration``, ``signal/NAME``.
    """

    fields: Mapping[str, Any]
    text: Mapping[str, np.ndarray] = field(default_factory=dict)
    arrays: Mapping[str, tuple[np.dtype, tuple[int, ...]]] = field(default_factory=dict)


class Placed(NamedTuple):
    """A block of values, and the array and position it belongs to."""

    name: str
    at: tuple[int, ...]
    block: np.ndarray


@dataclass
class Canvas:
    """An open file with room for every array of an outline."""

    file: BinaryIO
    arrays: Mapping[str, tuple[np.dtype, tuple[int, ...]]]
    starts: Mapping[str, int]

    def place(self, name: str, at: tuple[int, ...], block: np.ndarray) -> None:
        """Write ``block`` into the array ``name``, its first corner at the position ``at``."""
        dtype, shape = self.arrays[name]
        if not block.size:
            return
        block = np.ascontiguousarray(block, dtype.newbyteorder("<"))
        axis = max((i for i, size in enumerate(shape) if block.shape[i] != size), default=0)
        for lead in np.ndindex(*block.shape[:axis]):
            corner = (*(a + b for a, b in zip(at, lead, strict=False)), *at[axis:])
            self.file.seek(self.starts[name] + int(np.ravel_multi_index(corner, shape)) * dtype.itemsize)
            self.file.write(block[lead].reshape(-1).view(np.uint8).data)


@contextmanager
def canvas(path: Path, outline: Outline) -> Iterator[Canvas]:
    """Open a file for the arrays of ``outline``; it appears at ``path`` when the block ends well.

    Raises:
        RecordError: The folder is missing, read-only or full.
    """
    small = _small_tensors(outline)
    arrays = {name: (values.dtype, values.shape) for name, values in small.items()} | dict(outline.arrays)
    head, starts, size = _layout(outline, arrays)
    try:
        with draft(path) as aside, open(aside, "wb") as file:
            file.write(head)
            file.truncate(size)
            painted = Canvas(file, arrays, starts)
            for name, values in small.items():
                painted.place(name, (0,) * values.ndim, values)
            yield painted
    except OSError as error:
        raise RecordError(f"{path}: cannot write the record: {error.strerror or error}") from error


def save(record: Record, path: Path) -> Path:
    """Write a record; see :meth:`Record.save`."""
    names = [name for name, values in record.signals.items() if values.dtype.kind == "U"]
    arrays = {f"signal/{name}": values for name, values in record.signals.items() if name not in names}
    for name in ("member", "calibration"):
        if getattr(record, name) is not None:
            arrays[name] = getattr(record, name)
    outline = Outline(
        fields={
            name: getattr(record, name)
            for name in ("run", "step", "variant", "sample", "axes", "about", "hidden")
        },
        text={name: record.signals[name] for name in names},
        arrays={name: (values.dtype, values.shape) for name, values in arrays.items()},
    )
    with canvas(path, outline) as painted:
        for name, values in arrays.items():
            for at, block in pieces(values):
                painted.place(name, at, block)
    return path


def pieces(values: np.ndarray, limit: int = 8 << 20) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Cut an array into views of at most ``limit`` bytes, each with the position of its first corner."""
    if values.nbytes <= limit or values.ndim == 0:
        yield (0,) * values.ndim, values
        return
    line = values.nbytes // len(values)
    if line > limit:
        for row, part in enumerate(values):
            yield from (((row, *at), block[None]) for at, block in pieces(part, limit))
        return
    step = limit // line
    for start in range(0, len(values), step):
        yield (start, *(0,) * (values.ndim - 1)), values[start : start + step]


def _small_tensors(outline: Outline) -> dict[str, np.ndarray]:
    fields = outline.fields
    found = {"step": fields["step"]}
    for name in ("run", "variant"):
        places = {label: i for i, label in enumerate(dict.fromkeys(fields[name]))}
        found[name] = np.array([places[label] for label in fields[name]], np.int32)
    texts = {f"/{name}": values for name, values in outline.text.items()}
    if fields["sample"].dtype.kind == "U":
        texts[""] = fields["sample"]
    else:
        found["sample"] = fields["sample"]
    for name, values in texts.items():
        encoded = [item.encode("utf-8", "surrogatepass") for item in values.tolist()]
        found[f"text{name}"] = np.frombuffer(b"".join(encoded), np.uint8)
        found[f"ends{name}"] = np.cumsum([len(item) for item in encoded], dtype=np.int64)
    return found


def _layout(
    outline: Outline, arrays: Mapping[str, tuple[np.dtype, tuple[int, ...]]]
) -> tuple[bytes, dict[str, int], int]:
    """Return the head of the file, where each array starts in the file, and the file's size."""
    fields = outline.fields
    facts = {
        "schema": SCHEMA,
        "runs": list(dict.fromkeys(fields["run"])),
        "variants": list(dict.fromkeys(fields["variant"])),
        "axes": {name: list(axes) for name, axes in fields["axes"].items()},
        "hidden": list(fields["hidden"]),
        "about": dict(fields["about"]),
    }
    header: dict[str, Any] = {"__metadata__": {_KEY: _compact(facts)}}
    starts, end = {}, 0
    for name, (dtype, shape) in sorted(arrays.items(), key=lambda item: (-item[1][0].itemsize, item[0])):
        starts[name], end = end, end + math.prod(shape) * dtype.itemsize
        header[name] = {
            "dtype": _NAMES[dtype.newbyteorder("=")],
            "shape": list(shape),
            "data_offsets": [starts[name], end],
        }
    text = _compact(header).encode("ascii")
    text += b" " * (-(8 + len(text)) % 64)  # safetensors allows spaces; 64 aligns every array
    base = 8 + len(text)
    return (
        len(text).to_bytes(8, "little") + text,
        {name: base + at for name, at in starts.items()},
        base + end,
    )


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def open_record(path: Path) -> Record:
    """Open a record's file; see :meth:`Record.open`."""
    facts, tensors = _read(path)
    try:
        return _assemble(facts, tensors, str(path))
    except RecordError:
        raise
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise RecordError(
            f"{path}: the record's header and its tensors do not fit together: {error!r}"
        ) from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from safetensors import SafetensorError, safe_open

    try:
        if path.stat().st_size == 0:
            raise RecordError(f"{path}: the file is empty")
        with safe_open(path, framework="numpy") as checked:
            metadata = checked.metadata() or {}
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
        flat = np.memmap(path, np.uint8, mode="r")
    except SafetensorError as error:
        raise RecordError(f"{path}: not a whole safetensors file: {error}") from error
    except OSError as error:
        raise RecordError(f"{path}: cannot read the record: {error.strerror or error}") from error
    if _KEY not in metadata:
        raise RecordError(f"{path}: a safetensors file, but no record: its metadata has no {_KEY!r}")
    facts = _facts(path, metadata[_KEY])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _DTYPES:
            raise RecordError(f"{path}: the tensor {name!r} is {entry['dtype']}, which no record holds")
        begin, end = (8 + length + at for at in entry["data_offsets"])
        dtype = np.dtype(_DTYPES[entry["dtype"]]).newbyteorder("<")
        if dtype == np.bool_ and end > begin and flat[begin:end].max() > 1:
            raise RecordError(f"{path}: the tensor {name!r} holds bytes that are neither true nor false")
        tensors[name] = flat[begin:end].view(dtype).reshape(entry["shape"])
    return facts, tensors


def _facts(path: Path, text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise RecordError(f"{path}: the record's header is not JSON: {error}") from None
    schema = facts.get("schema") if isinstance(facts, dict) else None
    if schema != SCHEMA:
        raise RecordError(f"{path}: schema {schema!r}; this version of discreet reads {SCHEMA!r}")
    return facts


def _assemble(facts: dict[str, Any], tensors: dict[str, np.ndarray], source: str) -> Record:
    signals = {name.removeprefix("signal/"): s for name, s in tensors.items() if name.startswith("signal/")}
    for name in tensors:
        if name.startswith("text/"):
            signals[name.removeprefix("text/")] = _text(tensors[name], tensors[f"ends/{name[5:]}"])
    return Record(
        run=_labels(facts["runs"], tensors["run"]),
        step=np.array(tensors["step"]),
        variant=_labels(facts["variants"], tensors["variant"]),
        sample=_text(tensors["text"], tensors["ends"]) if "text" in tensors else tensors["sample"],
        signals=signals,
        axes={name: tuple(axes) for name, axes in facts["axes"].items()},
        member=tensors.get("member"),
        calibration=tensors.get("calibration"),
        about=facts["about"],
        hidden=tuple(facts["hidden"]),
        source=source,
    )


def _labels(known: list[str], numbers: np.ndarray) -> tuple[str, ...]:
    if numbers.size and numbers.min() < 0:
        raise IndexError(f"label number {numbers.min()}")
    return tuple(known[number] for number in numbers.tolist())


def _text(data: np.ndarray, ends: np.ndarray) -> np.ndarray:
    whole, stops = data.tobytes(), ends.tolist()
    if stops != sorted(stops) or stops[-1:] != [len(whole)] or stops[0] < 0:
        raise ValueError("the ends of the texts")
    return np.array(
        [whole[a:b].decode("utf-8", "surrogatepass") for a, b in zip([0, *stops], stops, strict=False)]
    )
