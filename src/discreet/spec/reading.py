"""A TOML file read into frozen dataclasses by their annotations; every refusal names the file, the line and the key.

A section is a field of the spec's dataclass that is a dataclass itself; its keys are that one's fields.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from discreet._find import near
from discreet._json import words_for
from discreet.spec._errors import SpecFileError
from discreet.spec._lines import lines_of

__all__ = ["Source", "importable", "read"]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a spec came from, for messages about it.

    Attributes:
        path: The file.
        lines: The line of each key.
    """

    path: Path
    lines: Mapping[tuple[str, ...], int]

    @property
    def folder(self) -> Path:
        """Where the file lies; dotted paths are looked for here first."""
        return self.path.resolve().parent

    def at(self, *key: str) -> str:
        """The place of a key in words, or of what it is in where the key is not written.

        Example:
            >>> Source(Path("spec.toml"), {("train",): 4}).at("train", "epochs")
            'spec.toml, line 4, [train] epochs'
        """
        line = next((self.lines[key[:n]] for n in range(len(key), 0, -1) if key[:n] in self.lines), None)
        table, last = key[:-1], key[-1:]
        where = f"[{'.'.join(table)}] {last[0]}" if table else f"[{last[0]}]" if last else ""
        return ", ".join(part for part in (str(self.path), line and f"line {line}", where) if part)


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """A folder as the first place of modules, for what functions import while they run."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def read(path: str | Path, kind: Callable[..., T]) -> tuple[T, Source]:
    """Read a spec. Methods of one's own that it names are looked for in its folder first.

    Args:
        path: A TOML file.
        kind: The frozen dataclass to build; its fields are the sections.

    Raises:
        SpecFileError: No such file, no TOML, an unknown section or key, a missing one, another type, or a value that
            the dataclass refuses.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8").removeprefix("\ufeff")  # which editors on Windows put first
    except UnicodeDecodeError as error:
        raise SpecFileError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise SpecFileError(f"{path}: cannot read the spec: {error.strerror}") from None
    try:
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecFileError(f"{path}: no TOML: {error}") from None
    source = Source(path, lines_of(text))
    with importable(source.folder):
        return typing.cast(T, _dataclass(typing.cast(type, kind), told, source, ())), source


def _dataclass(kind: type, told: Mapping[str, Any], source: Source, at: tuple[str, ...]) -> Any:
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for key in told:
        if key not in fields:
            what = "key" if at else "section"
            raise SpecFileError(
                f"{source.at(*at, key)}: unknown {what}{near(key, fields)} (known: {', '.join(fields)})"
            )
    values = {}
    for name, field in fields.items():
        if name in told:
            values[name] = _value(hints[name], told[name], source, (*at, name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            what = f"the key {name!r}" if at else f"the section [{name}]"
            raise SpecFileError(f"{source.at(*at) or source.path}: {what} is missing")
    try:
        return kind(**values)
    except ValueError as error:
        name = str(error).partition(":")[0]
        key = (*at, name) if name in fields else at
        message = str(error).removeprefix(f"{name}: ") if name in fields else str(error)
        raise SpecFileError(f"{source.at(*key)}: {message}") from error


def _value(kind: Any, value: Any, source: Source, at: tuple[str, ...]) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise _unexpected("a section", value, source, at)
        return _dataclass(typing.cast(type, kind), value, source, at)
    if origin in (Union, types.UnionType):
        able = [each for each in inner if each is not type(None) and get_origin(each) is not Callable]
        return _value(float if set(able) == {int, float} else able[0], value, source, at)
    if origin is Literal:
        if isinstance(value, bool) or value not in inner:
            close = near(value, inner) if isinstance(value, str) else ""
            raise _unexpected(f"one of {', '.join(inner)}", value, source, at, close)
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise _unexpected("a list", value, source, at)
        if inner[-1] is not Ellipsis and len(value) != len(inner):
            raise _unexpected(f"a list of {len(inner)}", f"{len(value)} items", source, at)
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_value(each, item, source, at) for each, item in zip(kinds, value, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise _unexpected("a table of options", value, source, at)
        return dict(value)
    return _scalar(kind, value, source, at)


def _scalar(kind: Any, value: Any, source: Source, at: tuple[str, ...]) -> Any:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise _unexpected("a finite number", value, source, at)
        return float(value)
    if isinstance(value, bool) and kind is not bool:
        raise _unexpected(_WORDS[kind], value, source, at)
    if not isinstance(value, kind):
        raise _unexpected(_WORDS[kind], value, source, at)
    return value


_WORDS = {str: "text in quotes", bool: "true or false", int: "a whole number", float: "a number"}


def _unexpected(
    expected: str, got: Any, source: Source, at: tuple[str, ...], more: str = ""
) -> SpecFileError:
    words = got if isinstance(got, str) and got.endswith(" items") else words_for(got)
    return SpecFileError(f"{source.at(*at)}: expected {expected}, got {words}{more}")
