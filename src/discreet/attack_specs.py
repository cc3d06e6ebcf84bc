"""Lists of attacks as people write them: spec strings between commas, ``all``, and the shortest form of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from typing import Any

from discreet import attacks
from discreet._find import SpecError

__all__ = ["ALL", "brief", "chosen", "split_specs"]

ALL = "all"
"""Stands for every attack of this installation with its defaults."""


def split_specs(text: str, what: str = "attack") -> tuple[str, ...]:
    """Split a list of spec strings at its commas, but not at those within brackets or quotes.

    Args:
        text: The list.
        what: What they name, for messages.

    Raises:
        SpecError: A bracket or quote is left open, or a name is missing.

    Example:
        >>> split_specs("loss, lira(mode='offline', tail='both')")
        ('loss', "lira(mode='offline', tail='both')")
    """
    parts, depth, quote, start = [], 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and text[at - 1] != "\\" else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    if quote or depth:
        raise SpecError(f"{what}: a quote or bracket is not closed in {text[:60]!r}")
    found = tuple(part.strip() for part in (*parts, text[start:]))
    if not all(found):
        raise SpecError(f"{what}: expected names between commas, got {text[:60]!r}")
    return found


def chosen(specs: Sequence[str]) -> tuple[dict[str, bool], dict[str, str]]:
    """Settle what to run: brief spec strings, and whether each may be left out; and what cannot be run at all.

    Raises:
        SpecError: A named attack is unknown, or there is none.

    Example:
        >>> chosen(["loss", "lira(mode='offline', tail='upper')"])
        ({'loss': False, "lira(mode='offline')": False}, {})
    """
    named: dict[str, bool] = {}
    left: dict[str, str] = {}
    for spec in specs:
        if spec != ALL:
            named[brief(spec)] = False
            continue
        for name in attacks.names():
            try:
                method = attacks.parse(name)
            except (SpecError, ImportError) as error:
                left[name] = str(error)
                continue
            if hasattr(method, "variants"):
                left[name] = (
                    f"it judges variants released together: name them, as in {name}(variants=('a', 'b'))"
                )
            else:
                named.setdefault(name, True)
    if not named and not left:
        raise SpecError("attack: expected at least one name, got none")
    return named, left


def brief(spec: str) -> str:
    """A spec string without the fields that have their default.

    Raises:
        SpecError: Unknown attack or field.

    Example:
        >>> brief("lira(mode='online', tail='both')")
        "lira(tail='both')"
    """
    method = attacks.parse(spec)
    told = [
        f"{field.name}={getattr(method, field.name)!r}"
        for field in fields(method)  # pyright: ignore[reportArgumentType]
        if field.init and getattr(method, field.name) != _default(field)
    ]
    name = spec.partition("(")[0].strip()
    return f"{name}({', '.join(told)})" if told else name


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
