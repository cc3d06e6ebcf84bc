"""A quantized model: its dense weights, and what would be shipped in their place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from discreet.quantizers._codes import restore
from discreet.quantizers._fields import QuantizerError
from discreet.quantizers._groups import cut
from discreet.quantizers._safetensors import dump, load, write

__all__ = ["SCHEMA", "Quantized"]

SCHEMA = "discreet.quantized/1"


@dataclass(frozen=True, eq=False)
class Quantized:
    """One model after quantization.

    Attributes:
        dense: Every tensor of the state under its name, quantized or kept, in its own type: what
            ``module.load_state_dict`` takes.
        packed: What is stored: codes packed into bytes, scales, codebooks, kept tensors.
        about: How to read ``packed``, as JSON in the file's header.
    """

    dense: Mapping[str, Tensor]
    packed: Mapping[str, Tensor]
    about: Mapping[str, Any]

    @property
    def spec(self) -> str:
        """Spec string of the quantizer."""
        return self.about["quantizer"]

    @property
    def levels(self) -> int | None:
        """Promised number of values (for a codebook: of blocks) in a group; None if nothing is promised."""
        return self.about["levels"]

    @cached_property
    def quantized(self) -> tuple[str, ...]:
        """Names of the tensors that were quantized, tied names included, in the order of the state."""
        return tuple(name for name in self.dense if name not in self.about["kept"])

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """Names of the tensors that were kept, in the order of the state."""
        return tuple(name for name in self.dense if name in self.about["kept"])

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why each kept tensor was kept."""
        return MappingProxyType(self.about["kept"])

    @cached_property
    def weights(self) -> int:
        """Number of quantized weights; tied ones count once."""
        return sum(self.dense[name].numel() for name in self.about["quantized"])

    @cached_property
    def bits_per_weight(self) -> float:
        """Stored bits per quantized weight: codes with their padding, scales and codebooks, nothing else."""
        stored = sum(each.nbytes for name, each in self.packed.items() if not name.startswith("kept."))
        return 8 * stored / self.weights

    @cached_property
    def bytes(self) -> int:
        """Size of the packed file on disk, header and kept tensors included."""
        return len(self._file())

    def save(self, path: str | Path) -> None:
        """Write the packed form as a safetensors file; the same model gives the same bytes.

        Raises:
            QuantizerError: The file cannot be written.
        """
        write(self._file(), Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Quantized:
        """Read a packed file; the dense weights are those it was made with, bit for bit.

        Nothing but numbers is read: the quantizer named in the file is neither imported nor run.

        Raises:
            QuantizerError: Missing, truncated, foreign, or inconsistent.
        """
        path = Path(path)
        packed, metadata = load(path)
        try:
            about = json.loads(metadata.get("discreet", "{}"))
        except json.JSONDecodeError as error:
            raise QuantizerError(f"{path}: the header is no JSON: {error}") from error
        if not isinstance(about, dict) or about.get("schema") != SCHEMA:
            raise QuantizerError(f"{path} is no packed model of schema {SCHEMA!r}")
        return cls.of(packed, about, str(path))

    @classmethod
    def of(cls, packed: Mapping[str, Tensor], about: Mapping[str, Any], where: str = "packed") -> Quantized:
        """The model that is stored as ``packed``; ``where`` is for messages.

        Raises:
            QuantizerError: Tensors and description do not fit.
        """
        try:
            return cls(_unpack(packed, about), packed, about)
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError) as error:
            raise QuantizerError(f"{where} is inconsistent: {type(error).__name__}: {error}") from error

    def _file(self) -> bytes:
        return dump(self.packed, {"discreet": json.dumps(self.about, separators=(",", ":"))})


def _unpack(packed: Mapping[str, Tensor], about: Mapping[str, Any]) -> dict[str, Tensor]:
    shapes = {name: tuple(shape) for name, (_, shape) in about["tensors"].items()}
    dtypes = {name: getattr(torch, dtype) for name, (dtype, _) in about["tensors"].items()}
    chosen = about["quantized"]
    found = {name: torch.empty(shapes[name], dtype=dtypes[name]) for name in chosen}
    stack = {name: tensor.unsqueeze(0) for name, tensor in found.items()}
    parts = cut({name: shapes[name] for name in chosen}, about["granularity"])
    for number, (part, how) in enumerate(zip(parts, about["parts"], strict=True)):
        prefix = f"{number}."
        stored = {name[len(prefix) :]: each for name, each in packed.items() if name.startswith(prefix)}
        codes = restore(how, stored, part.groups, part.size)
        codes.check()
        values = codes.dense()
        if not bool(values.isfinite().all()):
            raise QuantizerError(f"weights of {', '.join(part.names)} are NaN or infinite")
        part.put(values, stack)
    tied = about["tied"]
    found |= {name: packed[f"kept.{name}"].clone() for name in about["kept"] if name not in tied}
    return {name: found[tied.get(name, name)] for name in shapes}
