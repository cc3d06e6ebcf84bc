"""Safetensors files that say in their header what they hold, with checksums over all of it.

CRC-32 is checked at every load: it finds any damage. SHA-256 names the content: whoever fears a forger compares it
with a digest that came another way, since a forger would rewrite both. Without instructions for it in the processor,
it takes longer than all the rest of a load.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from discreet import _json
from discreet.artefacts._errors import ArtefactError

__all__ = ["File", "dump", "plain", "read", "write"]

ABOUT, CRC, SHA = "discreet", "crc32", "sha256"
_LONGEST = 100_000_000  # bytes of a header, as safetensors itself has it
_DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "U16": torch.uint16,
    "I32": torch.int32, "U32": torch.uint32, "I64": torch.int64, "U64": torch.uint64, "F16": torch.float16,
    "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2, "C64": torch.complex64,
}  # fmt: skip


def plain(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a file without checksums, as any reader of safetensors expects it, the same every time.

    Raises:
        ArtefactError: A tensor of a type that safetensors does not hold.
    """
    header, body = _parts(tensors)
    header["__metadata__"] = dict(metadata)
    return _join(header, body)


def dump(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    """The bytes of a file with checksums, the same every time.

    Raises:
        ArtefactError: A tensor of a type that safetensors does not hold.
    """
    header, body = _parts(tensors)
    header["__metadata__"] = {ABOUT: _text(about)}
    sums = {CRC: _crc(header, body), SHA: _sha(header, body)}
    header["__metadata__"] |= sums
    return _join(header, body)


def write(path: str | Path, data: bytes) -> None:
    """Put a whole file in place, or none.

    Raises:
        ArtefactError: The folder does not exist or cannot be written.
    """
    try:
        _json.save(path, data)
    except OSError as error:
        raise ArtefactError(f"{path}: {error.strerror}") from error


@dataclass(frozen=True, eq=False)
class File:
    """A file as read, its structure checked but not yet its content.

    Attributes:
        path: For messages.
        tensors: They share the memory that the file was read into.
        about: What the header says.
        checksums: As noted in the header.
        header: All of it but the checksums.
        body: The bytes of the tensors.
    """

    path: str
    tensors: Mapping[str, Tensor]
    about: Mapping[str, Any]
    checksums: Mapping[str, Any]
    header: Mapping[str, Any]
    body: memoryview

    def check(self, sha256: str | None = None) -> None:
        """Refuse damaged content, and content of another digest than the one expected.

        Raises:
            ArtefactError: Saying which.
        """
        if self.checksums.get(CRC) != _crc(self.header, self.body):
            raise ArtefactError(f"{self.path}: the checksum does not match: the file was altered or damaged")
        if sha256 is not None and sha256 != (found := _sha(self.header, self.body)):
            raise ArtefactError(f"{self.path}: expected content with the SHA-256 {sha256}, got {found}")


def read(source: str | Path | bytes, schema: str) -> File:
    """Read a file, or take the bytes of one.

    Raises:
        ArtefactError: Missing, truncated, no safetensors file, or of another schema.
    """
    path = "the file" if isinstance(source, bytes) else str(source)
    try:
        data = _bytes(source)
    except OSError as error:
        raise ArtefactError(f"{path}: cannot read: {error.strerror or error}") from error
    header, start = _header(data, path)
    metadata = header.get("__metadata__")
    metadata = metadata if isinstance(metadata, dict) else {}
    about = _about(metadata, schema, path)
    try:
        spans = {name: each for name, each in header.items() if name != "__metadata__"}
        end = max((each["data_offsets"][1] for each in spans.values()), default=0)
        if len(data) != start + end:
            raise ArtefactError(
                f"{path}: truncated or overlong: expected {start + end} bytes, got {len(data)}"
            )
        body = torch.from_numpy(data)[start:]
        tensors = {name: _tensor(body, each) for name, each in spans.items()}
    except (KeyError, TypeError, IndexError, RuntimeError, ValueError) as error:
        if isinstance(error, ArtefactError):
            raise
        raise ArtefactError(f"{path}: no sound safetensors file: {error}") from error
    checksums = {name: metadata.pop(name, None) for name in (CRC, SHA)}
    return File(path, tensors, about, checksums, header, data[start:].data)


def _parts(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Any], memoryview]:
    try:
        data = safetensors.torch.save({name: tensor.contiguous() for name, tensor in tensors.items()})
    except (safetensors.SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise ArtefactError(f"state: safetensors cannot hold it: {error}") from error
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), memoryview(data)[8 + size :]


def _join(header: Mapping[str, Any], body: memoryview) -> bytes:
    text = _text(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, body])


def _bytes(source: str | Path | bytes) -> np.ndarray:
    if isinstance(source, bytes):
        return np.frombuffer(bytearray(source), np.uint8)
    if not Path(source).is_file():
        raise FileNotFoundError(2, "no such file")
    return np.fromfile(source, np.uint8)


def _header(data: np.ndarray, path: str) -> tuple[dict[str, Any], int]:
    size = int.from_bytes(data[:8].tobytes(), "little")
    if len(data) < 8 or size > min(_LONGEST, len(data) - 8):
        raise ArtefactError(f"{path}: no safetensors file, or one cut off in its header ({len(data)} bytes)")
    try:
        header = json.loads(data[8 : 8 + size].tobytes().decode())
    except (ValueError, RecursionError) as error:
        raise ArtefactError(f"{path}: no sound safetensors file: the header is no JSON") from error
    if not isinstance(header, dict):
        raise ArtefactError(f"{path}: no sound safetensors file: the header is no JSON object")
    return header, 8 + size


def _about(metadata: Mapping[str, Any], schema: str, path: str) -> dict[str, Any]:
    try:
        about = json.loads(metadata.get(ABOUT, "null"))
    except (ValueError, TypeError, RecursionError):
        about = None
    if not isinstance(about, dict) or about.get("schema") != schema:
        found = about.get("schema") if isinstance(about, dict) else None
        was = "a file without one" if found is None else repr(found)
        raise ArtefactError(f"{path}: expected the schema {schema!r}, got {was}")
    return about


def _tensor(body: Tensor, entry: Mapping[str, Any]) -> Tensor:
    first, last = entry["data_offsets"]
    return body[first:last].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])


def _crc(header: Mapping[str, Any], body: memoryview) -> str:
    return f"{zlib.crc32(body, zlib.crc32(_text(header).encode())):08x}"


def _sha(header: Mapping[str, Any], body: memoryview) -> str:
    digest = hashlib.sha256(_text(header).encode())
    digest.update(body)
    return digest.hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
