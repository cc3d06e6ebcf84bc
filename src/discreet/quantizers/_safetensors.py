"""Safetensors files with the same bytes every time, written aside and renamed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from discreet.quantizers._fields import QuantizerError

__all__ = ["dump", "load", "write"]


def dump(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a safetensors file; metadata in alphabetical order, which the library leaves to chance."""
    data = safetensors.torch.save(dict(tensors), dict(metadata))
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    if metadata:
        header["__metadata__"] = dict(sorted(metadata.items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def write(data: bytes, path: Path) -> None:
    """Put a whole file in place or none: written beside its place, flushed to disk, renamed.

    Raises:
        QuantizerError: The folder does not exist or cannot be written.
    """
    part = path.with_name(f".{path.name[:100]}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise QuantizerError(f"cannot write {path}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file.

    Raises:
        QuantizerError: Missing, truncated, or no safetensors file.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            return tensors, dict(file.metadata() or {})
    except OSError as error:
        raise QuantizerError(f"cannot read {path}: {error.strerror or error}") from error
    except safetensors.SafetensorError as error:
        raise QuantizerError(f"{path} is no sound safetensors file: {error}") from error
