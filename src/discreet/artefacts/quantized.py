"""Sparse times bits: a quantizer on the weights in use alone; weights that are not in use stay 0 and take no code.

Scales and codebooks are fitted to the weights in use: zeros that stand for nothing would pull them towards 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet._types import Bool
from discreet.artefacts._errors import ArtefactError
from discreet.artefacts._file import dump, read, write
from discreet.artefacts._index import decode, encode
from discreet.quantizers import Quantized, Quantizer, QuantizerError, parse, quantize, quantize_stack

__all__ = ["SCHEMA", "SparseQuantized", "load_quantized", "quantize_sparse", "quantize_sparse_stack"]

SCHEMA = "discreet.sparse-quantized/1"


@dataclass(frozen=True, eq=False)
class SparseQuantized:
    """A sparse model after quantization.

    Attributes:
        dense: Every tensor, weights that are not in use 0: what ``module.load_state_dict`` takes.
        masks: Which weights of the sparse tensors are in use.
        quantized: The weights in use as tensors of their own, and the other tensors, as they are stored.
    """

    dense: Mapping[str, Tensor]
    masks: Mapping[str, Bool[Tensor, " *shape"]]
    quantized: Quantized

    @property
    def used(self) -> int:
        """Weights in use of the sparse tensors."""
        return sum(int(mask.sum()) for mask in self.masks.values())

    @cached_property
    def bits_per_weight(self) -> float:
        """Stored bits per weight in use: codes, scales and codebooks; places are not among them."""
        return self.quantized.bits_per_weight

    @cached_property
    def bytes(self) -> int:
        """Size of the file on disk: codes, scales, places, tensors that are neither, header."""
        return len(self._file())

    @cached_property
    def index_bytes(self) -> int:
        """What the places of the weights in use take."""
        return sum(encode(mask.reshape(-1).numpy())[1].nbytes for mask in self.masks.values())

    def save(self, path: str | Path) -> None:
        """Write it; ``load_quantized`` reads back the same bits, without the quantizer.

        Raises:
            ArtefactError: The file cannot be written.
        """
        write(path, self._file())

    def _file(self) -> bytes:
        tensors = {f"packed.{name}": each for name, each in self.quantized.packed.items()}
        places: dict[str, Any] = {}
        for name, mask in self.masks.items():
            form, index = encode(mask.reshape(-1).numpy())
            tensors |= {} if form == "all" else {f"index.{name}": torch.from_numpy(index)}
            places[name] = {"form": form, "shape": list(mask.shape)}
        about = {
            "schema": SCHEMA,
            "places": places,
            "order": list(self.dense),
            "quantized": dict(self.quantized.about),
        }
        return dump(tensors, about)


def quantize_sparse(
    state: Mapping[str, Tensor], masks: Mapping[str, Tensor], quantizer: Quantizer | str
) -> SparseQuantized:
    """Quantize one sparse model.

    The weights in use of a tensor are one group, those of a channel or of a part of it are where the quantizer asks
    for that. Other tensors are quantized if they are in the quantizer's scope.

    Args:
        state: Tensors of one model.
        masks: Which weights are in use; the others are 0.
        quantizer: A quantizer or its spec string.

    Raises:
        ArtefactError: A mask without its tensor, of another shape, or with a weight outside that is not 0.
        QuantizerError: As ``quantize``.

    Example:
        >>> mask = torch.tensor([[True, False, True], [False, False, True]])
        >>> done = quantize_sparse({"w": torch.randn(2, 3) * mask}, {"w": mask}, "sign(scale='absmean')")
        >>> done.dense["w"] != 0
        tensor([[ True, False,  True],
                [False, False,  True]])
    """
    quantizer = parse(quantizer) if isinstance(quantizer, str) else quantizer
    masks = _checked(state, masks)
    done = quantize(_apart(state, masks, quantizer.granularity), quantizer)
    dense = _together(done.dense, masks, list(state))
    return SparseQuantized(dense, masks, done)


def quantize_sparse_stack(
    params: Mapping[str, Tensor], masks: Mapping[str, Tensor], quantizer: Quantizer | str
) -> dict[str, Tensor]:
    """Quantize many sparse models, for their dense weights only; each gets the bits that it gets alone.

    Args:
        params: Tensors with a leading model axis.
        masks: Bools of the shapes of the sparse ones.
        quantizer: A quantizer or its spec string.

    Raises:
        ArtefactError, QuantizerError: As ``quantize_sparse``.
    """
    quantizer = parse(quantizer) if isinstance(quantizer, str) else quantizer
    done = []
    for row in range(len(next(iter(params.values())))):
        state = {name: value[row] for name, value in params.items()}
        own = _checked(state, {name: mask[row] for name, mask in masks.items()})
        apart = _apart(state, own, quantizer.granularity)
        made = quantize_stack({name: value[None] for name, value in apart.items()}, quantizer)
        done.append(_together({name: value[0] for name, value in made.items()}, own, list(state)))
    return {name: torch.stack([each[name] for each in done]) for name in params}


def load_quantized(path: str | Path) -> SparseQuantized:
    """Read back what ``SparseQuantized.save`` wrote, bit for bit.

    Raises:
        ArtefactError: Missing, truncated, altered, or of another schema.
    """
    file = read(path, SCHEMA)
    file.check()
    try:
        packed = {
            name.removeprefix("packed."): value.clone()
            for name, value in file.tensors.items()
            if name.startswith("packed.")
        }
        masks = {}
        for name, entry in file.about["places"].items():
            index = file.tensors.get(f"index.{name}")
            data = np.empty(0, np.uint8) if index is None else index.numpy()
            mask = torch.zeros(math.prod(entry["shape"]), dtype=torch.bool)
            mask.numpy()[decode(entry["form"], data, len(mask))] = True
            masks[name] = mask.reshape(entry["shape"])
        done = Quantized.of(packed, file.about["quantized"], str(path))
        return SparseQuantized(_together(done.dense, masks, file.about["order"]), masks, done)
    except (KeyError, TypeError, AttributeError, QuantizerError) as error:
        raise ArtefactError(f"{path}: inconsistent: {error}") from error


def _checked(state: Mapping[str, Tensor], masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if not masks:
        raise ArtefactError("masks: expected at least one, got none; quantize a dense model with quantize")
    for name, mask in masks.items():
        weight = state.get(name)
        if weight is None or mask.dtype != torch.bool or mask.shape != weight.shape:
            had = "none" if weight is None else f"{mask.dtype} of shape {list(mask.shape)}"
            wanted = "a tensor of that name" if weight is None else f"bools of shape {list(weight.shape)}"
            raise ArtefactError(f"masks: expected {wanted} for {name!r}, got {had}")
        wrong = int(((weight != 0) & ~mask).sum())
        if wrong:
            raise ArtefactError(f"masks: {wrong} weights of {name!r} outside the mask are not 0")
        if not bool(mask.any()):
            raise ArtefactError(f"masks: no weight of {name!r} is in use")
    return {name: mask.detach().cpu() for name, mask in masks.items()}


def _apart(state: Mapping[str, Tensor], masks: Mapping[str, Tensor], granularity: str) -> dict[str, Tensor]:
    """Weights in use as tensors [channel, weight], channels with as many of them in one; and the rest."""
    rows = granularity not in ("tensor", "model")
    apart = {f"rest.{name}": value for name, value in state.items() if name not in masks}
    for name, mask in masks.items():
        for label, where in _pieces(mask, rows).items():
            apart[f"used.{name}{label}"] = state[name].detach().cpu()[where].reshape(_form(where, rows))
    return apart


def _together(
    apart: Mapping[str, Tensor], masks: Mapping[str, Tensor], order: list[str]
) -> dict[str, Tensor]:
    whole = {}
    for name in order:
        if name not in masks:
            whole[name] = apart[f"rest.{name}"]
            continue
        rows = f"used.{name}" not in apart
        pieces = _pieces(masks[name], rows)
        first = apart[f"used.{name}{next(iter(pieces))}"]
        whole[name] = torch.zeros(masks[name].shape, dtype=first.dtype)
        for label, where in pieces.items():
            whole[name][where] = apart[f"used.{name}{label}"].reshape(-1)
    return whole


def _pieces(mask: Bool[Tensor, " *shape"], rows: bool) -> dict[str, Bool[Tensor, " *shape"]]:
    """The mask itself, or for each number of weights in use the mask of the channels that have as many."""
    if not rows:
        return {"": mask}
    many = mask.flatten(1).sum(1)
    shape = [-1] + [1] * (mask.ndim - 1)
    return {f".{count}": mask & (many == count).reshape(shape) for count in many.unique().tolist() if count}


def _form(where: Bool[Tensor, " *shape"], rows: bool) -> tuple[int, int]:
    return (int(where.flatten(1).any(1).sum()) if rows else 1, -1)
