"""What dataclasses say of their fields: words, types and defaults, for templates and schemas."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Told", "first_line", "told"]

_ATTRIBUTES = re.compile(r"^Attributes:\n((?:[ \t]+.*\n?|\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Told:
    """One field.

    Attributes:
        name: Its name.
        kind: Its type.
        words: What its docstring says of it, on one line.
        default: Its default; ``dataclasses.MISSING`` if it has none.
    """

    name: str
    kind: Any
    words: str
    default: Any

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is dataclasses.MISSING


def told(kind: type) -> Iterator[Told]:
    """The fields of a dataclass that can be given, in their order."""
    hints, words = typing.get_type_hints(kind), _words(kind)
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        yield Told(field.name, hints[field.name], words.get(field.name, ""), default)


def first_line(kind: type) -> str:
    """The summary of a class."""
    return (inspect.getdoc(kind) or "").partition("\n")[0].replace("``", "")


def _words(kind: type) -> dict[str, str]:
    """Of its own docstring, and of its bases' for what that does not say."""
    bases = (base for base in reversed(kind.__mro__) if dataclasses.is_dataclass(base))
    return {name: text for base in bases for name, text in _own_words(base).items()}


def _own_words(kind: type) -> dict[str, str]:
    found = _ATTRIBUTES.search((inspect.cleandoc(kind.__doc__ or "")) + "\n")
    if found is None:
        return {}
    words: dict[str, str] = {}
    for line in inspect.cleandoc(found.group(1)).splitlines():
        start = re.match(r"([\w, ]+):\s+(.*)", line)
        if start and not line.startswith(" "):
            last = [name.strip() for name in start.group(1).split(",")]
            words |= dict.fromkeys(last, start.group(2).strip())
        elif line.strip() and words:
            name = list(words)[-1]
            words[name] += " " + line.strip()
    return {name: text.replace("``", "") for name, text in words.items()}
