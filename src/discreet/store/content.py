"""A hash of content: the same values give the same hash on every machine, whatever the order of keys."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["content_hash"]

_ARRAY_KINDS = "biufcUS"


def content_hash(value: Any) -> str:
    """Return 32 hexadecimal digits for nested dicts, lists, arrays, text, bytes, numbers, booleans and None.

    Dicts do not care for the order of their keys; lists and tuples are alike. Numbers care for their type
    (1, 1.0 and True differ), arrays for dtype and shape, not for byte order or strides.

    Raises:
        TypeError: A value of another type, or a key that is not text; the message says where.

    Example:
        >>> content_hash({"a": 1, "b": [2.0, None]}) == content_hash({"b": (2.0, None), "a": 1})
        True
        >>> content_hash(1) == content_hash(1.0)
        False
    """
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest, value, "content")
    return digest.hexdigest()


def _feed(digest: Any, value: Any, where: str) -> None:
    """Feed a tag, a length and the bytes of a value, so that no two values feed the same."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        _feed_array(digest, value, where)
    elif isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{where}: expected text as the key of a mapping, got {key!r}")
        _put(digest, b"d", len(value))
        for key in sorted(value):
            _feed(digest, key, where)
            _feed(digest, value[key], f"{where}.{key}")
    elif isinstance(value, (list, tuple)):
        _put(digest, b"l", len(value))
        for number, item in enumerate(value):
            _feed(digest, item, f"{where}[{number}]")
    else:
        tag, data = _scalar(value, where)
        _put(digest, tag, len(data))
        digest.update(data)


def _put(digest: Any, tag: bytes, length: int) -> None:
    digest.update(tag + length.to_bytes(8, "little"))


def _scalar(value: Any, where: str) -> tuple[bytes, bytes]:
    if value is None:
        return b"n", b""
    if isinstance(value, bool):
        return b"b", bytes([value])
    if isinstance(value, int):
        return b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    if isinstance(value, float):
        return b"f", struct.pack("<d", math.nan if math.isnan(value) else value)
    if isinstance(value, str):
        return b"s", value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"y", value
    raise TypeError(
        f"{where}: cannot hash {type(value).__name__}; expected dicts, lists, NumPy arrays, text, bytes,"
        " numbers, booleans or None"
    )


def _feed_array(digest: Any, array: np.ndarray, where: str) -> None:
    if array.dtype.kind not in _ARRAY_KINDS:
        raise TypeError(f"{where}: cannot hash an array of {array.dtype}")
    little = array.dtype.newbyteorder("<")
    head = f"{little.str}{array.shape}".encode()
    _put(digest, b"a", len(head))
    digest.update(head)
    flat = np.ascontiguousarray(array, little).reshape(-1)
    if flat.size and little.itemsize:
        digest.update(flat.view(np.uint8).data)
