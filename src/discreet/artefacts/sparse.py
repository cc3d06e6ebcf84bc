"""One file for a sparse model: the values of the weights in use, where they are, and a checksum.

A masked model saved as it is takes as many bytes as a dense one. Here only weights in use take any: 5 bytes each in
float32 at densities below 1/8 (4 for the value, about 1 for its place), and a reload is the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet._spread import spread
from discreet._types import Bool
from discreet.artefacts._errors import ArtefactError
from discreet.artefacts._file import File, dump, read, write
from discreet.artefacts._index import decode, encode

__all__ = ["SCHEMA", "Saved", "load_masks", "load_sparse", "save_sparse"]

SCHEMA = "discreet.sparse/1"
NARROW = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Saved:
    """What a container takes, in bytes and weights.

    Attributes:
        bytes: Size of the file.
        values, index, kept, header: What it is made of: values of the weights in use, their places, tensors kept
            dense, and the header with its padding.
        dense: What the tensors alone would take without masks, each in its own type.
        used: Weights in use of the sparse tensors.
        weights: All weights of the sparse tensors.
        changed: Weights that will read back as other numbers, because they were narrowed.
        forms: How each tensor is kept.
        sha256: Digest of the content, for those who load it.
    """

    bytes: int
    values: int
    index: int
    kept: int
    header: int
    dense: int
    used: int
    weights: int
    changed: int
    forms: Mapping[str, str]
    sha256: str

    @property
    def density(self) -> float:
        """Weights in use over all weights of the sparse tensors; 1 where there are none."""
        return self.used / self.weights if self.weights else 1.0

    def sentences(self) -> list[str]:
        """The sizes in words, and whether outputs change."""
        told = [
            f"{self.bytes:,} bytes on disk, {self.dense:,} as dense tensors ({self.dense / self.bytes:.1f} times"
            f" smaller): {self.values:,} of values, {self.index:,} of places, {self.kept:,} of tensors kept dense,"
            f" {self.header:,} of header",
            f"{self.used:,} of {self.weights:,} maskable weights are in use (density {self.density:.4g})",
        ]
        if self.changed:
            told.append(
                f"{self.changed:,} weights were rounded to fewer bits: outputs change; audit what is reloaded from"
                " this file, not the model it was made from"
            )
        return told


def save_sparse(
    path: str | Path,
    state: Mapping[str, Tensor],
    masks: Mapping[str, Tensor] | None = None,
    *,
    values: str | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Saved:
    """Write a sparse model.

    Args:
        path: Where; the file appears whole or not at all.
        state: Tensors of one model, as of ``state_dict``. Names of one tensor (tied weights) are kept once.
        masks: For tensors that are sparse, bools of their shape: which weights are in use. Those that are 0 and in
            use stay in use. None: weights are in use that are not 0, in each floating tensor that shrinks by it.
        values: Type to store values of sparse tensors in (``"float16"``, ``"bfloat16"``, ``"float32"``), if that is
            narrower than their own; they are read back in their own type, as other numbers. None: as they are.
        notes: What else the header is to say, in JSON types.

    Raises:
        ArtefactError: A NaN, a weight outside its mask that is not 0, a mask without its tensor or of another shape,
            a value that the narrower type cannot hold, or a file that cannot be written. Nothing is written then.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "model.safetensors"
        >>> saved = save_sparse(file, {"w": torch.eye(100), "b": torch.ones(3)})
        >>> saved.used, saved.forms, torch.equal(load_sparse(file)["w"], torch.eye(100))
        (100, {'w': 'gaps8', 'b': 'dense'}, True)
    """
    tensors = _checked(state)
    tied = _tied(tensors)
    found = _masks(tensors, masks, tied)
    narrow = _narrow(values)
    stored: dict[str, Tensor] = {}
    entries: dict[str, dict[str, Any]] = {}
    changed = 0
    for name, tensor in tensors.items():
        if name in tied:
            continue
        entry: dict[str, Any] = {"dtype": _name(tensor.dtype), "shape": list(tensor.shape), "form": "dense"}
        mask = found.get(name)
        if mask is None:
            stored[f"dense.{name}"] = tensor
        else:
            form, index = encode(mask)
            used = tensor.reshape(-1)[torch.from_numpy(mask)]
            kept, differ = _narrowed(name, used, narrow)
            changed += differ
            stored[f"values.{name}"] = kept
            if form != "all":
                stored[f"index.{name}"] = torch.from_numpy(index)
            entry |= {"form": form, "used": len(used), "density": len(used) / max(1, tensor.numel())}
        entries[name] = entry
    about = {"schema": SCHEMA, "tensors": entries, "tied": tied, "order": list(tensors)}
    data = dump(stored, about if notes is None else about | {"notes": dict(notes)})
    if narrow is None:
        _check_exact(data, tensors)
    write(path, data)
    return _saved(data, stored, entries, tensors, changed)


def load_sparse(path: str | Path, *, sha256: str | None = None) -> dict[str, Tensor]:
    """The dense tensors of a container, bit for bit those that were saved, in their order.

    Args:
        path: The container.
        sha256: Digest that its content must have, as ``Saved`` tells it. Damage is found without it.

    Raises:
        ArtefactError: Missing, truncated, altered, or no container.
    """
    return _state(read(path, SCHEMA), sha256)


def load_masks(path: str | Path) -> dict[str, Bool[Tensor, " *shape"]]:
    """Which weights of the sparse tensors are in use.

    Raises:
        ArtefactError: As ``load_sparse``.
    """
    file = read(path, SCHEMA)
    file.check()
    masks = {}
    for name, entry in file.about["tensors"].items():
        if entry["form"] != "dense":
            mask = np.zeros(math.prod(entry["shape"]), np.bool_)
            mask[_places(file, name, entry)] = True
            masks[name] = torch.from_numpy(mask).reshape(entry["shape"])
    return masks


def _state(file: File, sha256: str | None = None) -> dict[str, Tensor]:
    def check() -> ArtefactError | None:
        try:
            return file.check(sha256)
        except ArtefactError as error:
            return error

    def rebuild(name: str) -> Tensor | ArtefactError:
        try:
            return _rebuilt(file, name, file.about["tensors"][name])
        except (KeyError, TypeError, IndexError, ValueError, RuntimeError, AttributeError) as error:
            return ArtefactError(f"{file.path}: inconsistent in {name!r}: {error}")

    names = list(file.about["tensors"])
    work = [check, *(partial(rebuild, name) for name in names)]
    wrong, *tensors = spread(lambda each: each(), work)
    for each in (wrong, *tensors):  # the checksum first: it explains the others
        if isinstance(each, ArtefactError):
            raise each
    found = {name: each for name, each in zip(names, tensors, strict=True) if isinstance(each, Tensor)}
    return {name: found[file.about["tied"].get(name, name)] for name in file.about["order"]}


def _rebuilt(file: File, name: str, entry: Mapping[str, Any]) -> Tensor:
    if entry["form"] == "dense":
        return file.tensors[f"dense.{name}"].clone()
    dtype = getattr(torch, entry["dtype"])
    bits = _BITS[dtype.itemsize]
    values = file.tensors[f"values.{name}"].to(dtype).view(bits)
    # NumPy asks for large pages, which halves the time of filling the memory for the first time.
    full = torch.from_numpy(np.zeros(math.prod(entry["shape"]), str(bits).removeprefix("torch.")))
    places = _places(file, name, entry)
    if isinstance(places, slice):
        full[places] = values
    else:
        full.scatter_(0, torch.from_numpy(places), values)
    return full.view(dtype).reshape(entry["shape"])


def _places(file: File, name: str, entry: Mapping[str, Any]) -> slice | np.ndarray:
    index = file.tensors.get(f"index.{name}")
    data = np.empty(0, np.uint8) if index is None else index.numpy()
    return decode(entry["form"], data, math.prod(entry["shape"]))


def _checked(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if not state:
        raise ArtefactError("state: expected at least one tensor, got none")
    tensors = {}
    for name, tensor in state.items():
        if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.is_meta:
            got = (
                f"{tensor.layout} on {tensor.device}" if isinstance(tensor, Tensor) else type(tensor).__name__
            )
            raise ArtefactError(f"state: expected a dense tensor under {name!r}, got {got}")
        tensors[name] = tensor.detach().cpu()
        if tensor.is_floating_point() and bool(tensor.isnan().any()):
            raise ArtefactError(
                f"state: {name!r} holds {int(tensor.isnan().sum())} NaN; a model with NaN is not saved"
            )
    return tensors


def _tied(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Names that are one view of one storage, each with the first of them."""
    first: dict[object, str] = {}
    tied = {}
    for name, tensor in tensors.items():
        view = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        same = first.setdefault(view if tensor.numel() else name, name)
        if same != name:
            tied[name] = same
    return tied


def _masks(
    tensors: Mapping[str, Tensor], masks: Mapping[str, Tensor] | None, tied: Mapping[str, str]
) -> dict[str, Bool[np.ndarray, " weight"]]:
    if masks is None:
        alike = {
            name: _nonzero(tensor)
            for name, tensor in tensors.items()
            if tensor.is_floating_point() and name not in tied
        }
        return {name: mask for name, mask in alike.items() if _pays(mask, tensors[name].element_size())}
    found: dict[str, np.ndarray] = {}
    for name, mask in masks.items():
        tensor = tensors.get(name)
        if tensor is None or not tensor.is_floating_point():
            got = "none" if tensor is None else f"one of {_name(tensor.dtype)}"
            raise ArtefactError(f"masks: expected a floating tensor {name!r} in the state, got {got}")
        if mask.dtype != torch.bool or mask.shape != tensor.shape:
            raise ArtefactError(
                f"masks: expected bools of shape {list(tensor.shape)} for {name!r}, got {_name(mask.dtype)} of"
                f" {list(mask.shape)}"
            )
        flat = mask.detach().cpu().reshape(-1).numpy()
        wrong = int((_nonzero(tensor) & ~flat).sum())
        if wrong:
            raise ArtefactError(
                f"masks: {wrong} weights of {name!r} outside the mask are not 0 (-0.0 counts as not 0);"
                " close the masks first"
            )
        first = tied.get(name, name)
        if first in found and not np.array_equal(found[first], flat):
            raise ArtefactError(f"masks: {name!r} is tied to {first!r}, whose mask differs")
        found[first] = flat
    return found


def _nonzero(tensor: Tensor) -> Bool[np.ndarray, " weight"]:
    """Whose bits are not all 0: -0.0 is told from 0."""
    flat = tensor.contiguous().reshape(-1)
    return flat.view(_BITS[flat.element_size()]).numpy() != 0


def _pays(mask: Bool[np.ndarray, " weight"], width: int) -> bool:
    # at least a bit for each weight is what an index could cost; headers cost about 100 bytes a tensor
    used = int(mask.sum())
    return used * width + min(used * 2, len(mask) / 8) + 200 < len(mask) * width


def _narrow(values: str | None) -> torch.dtype | None:
    if values is not None and values not in NARROW:
        raise ArtefactError(f"values: expected None or one of {', '.join(NARROW)}, got {values!r}")
    return None if values is None else NARROW[values]


def _narrowed(name: str, used: Tensor, narrow: torch.dtype | None) -> tuple[Tensor, int]:
    if narrow is None or narrow.itemsize >= used.element_size():
        return used, 0
    kept = used.to(narrow)
    lost = int((kept.isinf() & ~used.isinf()).sum())
    if lost:
        raise ArtefactError(f"values: {lost} weights of {name!r} are too large for {_name(narrow)}")
    return kept, int((kept.to(used.dtype) != used).sum())


def _check_exact(data: bytes, tensors: Mapping[str, Tensor]) -> None:
    again = _state(read(data, SCHEMA))
    for name, tensor in tensors.items():
        one, other = (each.contiguous().reshape(-1).view(torch.uint8) for each in (again[name], tensor))
        if again[name].shape != tensor.shape or not torch.equal(one, other):
            raise ArtefactError(f"state: {name!r} would not read back as it is; this is a fault of discreet")


def _saved(
    data: bytes,
    stored: Mapping[str, Tensor],
    entries: Mapping[str, Mapping[str, Any]],
    tensors: Mapping[str, Tensor],
    changed: int,
) -> Saved:
    parts = {
        kind: sum(each.nbytes for name, each in stored.items() if name.startswith(f"{kind}."))
        for kind in ("values", "index", "dense")
    }
    sparse = {name: entry for name, entry in entries.items() if entry["form"] != "dense"}
    return Saved(
        bytes=len(data),
        values=parts["values"],
        index=parts["index"],
        kept=parts["dense"],
        header=len(data) - sum(parts.values()),
        dense=sum(tensors[name].nbytes for name in entries),
        used=sum(entry["used"] for entry in sparse.values()),
        weights=sum(tensors[name].numel() for name in sparse),
        changed=changed,
        sha256=read(data, SCHEMA).checksums["sha256"],
        forms={name: entry["form"] for name, entry in entries.items()},
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
