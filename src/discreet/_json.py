"""Strict JSON in and out of frozen dataclasses: every refusal names its place, the same object gives the same bytes.

A dataclass is read by its annotations. Keys it does not know are kept in its field ``more`` where it has
one, so a file written by a newer release survives a round trip.
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from discreet._draft import draft

__all__ = ["dumps", "key_of", "loads", "plain", "read_as", "save", "words_for"]

T = TypeVar("T")


def loads(text: str | bytes) -> Any:
    """Parse strict JSON.

    Raises:
        ValueError: if it is not UTF-8, not JSON, holds NaN or Infinity, repeats a key or nests too deeply.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"not UTF-8 text (byte {error.start})") from None
    if not text.strip():
        raise ValueError("the file is empty")
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise ValueError("not usable JSON: nested too deeply") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"not JSON: {name} is not a JSON number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {words_for(twice)} appears twice in one object")
    return found


def dumps(value: Any) -> str:
    """Write JSON with two-space indents, a final newline, and never a NaN."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def save(path: str | Path, data: str | bytes) -> Path:
    """Write a file in one step: a reader sees the old one or the new one, never half of one.

    Args:
        path: where; its folder must exist.
        data: bytes, or text that is written as UTF-8.

    Raises:
        OSError: naming ``path``, if the folder is missing, read-only or full.
    """
    target = Path(path)
    try:
        with draft(target) as aside:
            aside.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    except OSError as error:
        raise OSError(error.errno, f"cannot write: {error.strerror}", str(target)) from error
    return target


def key_of(name: str) -> str:
    """The JSON key of a field: Python's reserved words carry a trailing underscore."""
    return name.rstrip("_")


def plain(value: Any) -> Any:
    """Turn dataclasses, tuples and mappings into what :func:`dumps` writes, fields in their order."""
    if is_dataclass(value) and not isinstance(value, type):
        out = {key_of(f.name): plain(getattr(value, f.name)) for f in fields(value) if f.name != "more"}
        return out | plain(getattr(value, "more", {}))
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def read_as(kind: Callable[..., T], value: Any, where: str) -> T:
    """Read JSON ``value`` as ``kind``, a dataclass or an annotation built of JSON types.

    Args:
        kind: what to build.
        value: parsed JSON.
        where: the place in the file, for messages, such as ``analyses[0].ranking``.

    Raises:
        ValueError: naming the place, what was expected and what came.

    Example:
        >>> read_as(tuple[int, ...], [1, 2], "counts")
        (1, 2)
        >>> read_as(tuple[int, ...], [1, "two"], "counts")
        Traceback (most recent call last):
        ValueError: counts[1]: expected a whole number, got "two"
    """
    return _read(kind, value, where)


def _read(kind: Any, value: Any, where: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return _read_any(value, where)
    if is_dataclass(kind):
        return _read_dataclass(typing.cast(type, kind), value, where)
    if origin in (Union, types.UnionType):
        return (
            None
            if value is None
            else _read(next(k for k in get_args(kind) if k is not type(None)), value, where)
        )
    if origin is Literal:
        if value not in get_args(kind) or isinstance(value, bool):
            raise _unexpected(where, "one of " + ", ".join(map(words_for, get_args(kind))), value)
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise _unexpected(where, "a list", value)
        return tuple(_read(get_args(kind)[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        keyed = _object(value, where)
        return {_read_text(k, where): _read(get_args(kind)[1], v, f"{where}.{k}") for k, v in keyed.items()}
    return _SCALARS[kind](value, where)


def _read_dataclass(kind: type, value: Any, where: str) -> Any:
    keyed = dict(_object(value, where))
    found: dict[str, Any] = {}
    hints = _hints(kind)
    for field in fields(kind):
        key = key_of(field.name)
        if field.name == "more":
            continue
        if key in keyed:
            found[field.name] = _read(hints[field.name], keyed.pop(key), f"{where}.{key}".lstrip("."))
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where or 'the file'}: the key {words_for(key)} is missing")
    if "more" in hints:
        found["more"] = _read_any(keyed, where)
    elif keyed:
        raise ValueError(f"{where or 'the file'}: unknown key {words_for(next(iter(keyed)))}")
    return kind(**found)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _unexpected(where, "an object", value)
    return value


def _read_any(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _read_text(value, where)
    if isinstance(value, Mapping):
        return {_read_text(k, where): _read_any(v, f"{where}.{k}") for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_read_any(item, f"{where}[{i}]") for i, item in enumerate(value)]
    return _read_whole(value, where) if isinstance(value, Integral) else _read_number(value, where)


def _read_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _unexpected(where, "text", value)
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{where}: the text holds half a surrogate pair, which no UTF-8 file can carry")
    return str(value)


def _read_flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _unexpected(where, "true or false", value)
    return value


def _read_whole(value: Any, where: str) -> int:
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    if isinstance(value, bool) or not whole:
        raise _unexpected(where, "a whole number", value)
    return int(typing.cast(Any, value))


def _read_number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _unexpected(where, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _unexpected(where, "a finite number", value)
    return number


_SCALARS = {str: _read_text, bool: _read_flag, int: _read_whole, float: _read_number}


def words_for(value: Any) -> str:
    """Show a value in a message: short, on one line.

    Example:
        >>> words_for([1, 2])
        'a list'
        >>> words_for("x" * 100)
        '"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'
    """
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    shown = json.dumps(value) if isinstance(value, (bool, str)) else str(value)
    return shown if len(shown) <= 60 else shown[:40] + "…"


def _unexpected(where: str, expected: str, got: Any) -> ValueError:
    return ValueError(f"{where or 'the file'}: expected {expected}, got {words_for(got)}")
