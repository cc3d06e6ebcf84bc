"""A compressor and the defences in its training, by one string: ``"prune+dmp"``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from discreet import _find, compressors, defences
from discreet._find import SpecError
from discreet._once import unchanged
from discreet.phase import Compressor, Defence, Outcome, Progress, Setting
from discreet.untrained import check_defences

__all__ = ["Method", "SpecError", "check", "fit", "parse", "written"]


@dataclass(frozen=True)
class Method:
    """How a small model is made.

    Attributes:
        compressor: What makes it small.
        defences: What makes its training leak less, in this order.

    Example:
        >>> str(parse("kd(epochs=30) + dpsgd(noise=0.5)"))
        'kd(weight=0.5, temperature=1.0, epochs=30)+dpsgd(noise=0.5, clip=1.0, delta=1e-05)'
    """

    compressor: Compressor
    defences: tuple[Defence, ...] = ()

    def __str__(self) -> str:
        """The spec string with all fields; ``parse`` reads it."""
        parts = [_find.spec(self.compressor, compressors.__name__)]
        return "+".join([*parts, *(_find.spec(each, defences.__name__) for each in self.defences)])


def parse(spec: str | Method) -> Method:
    """The method that a string such as ``"set"``, ``"prune+dmp"`` or ``"kd(epochs=30)+dpsgd(noise=0.5)"`` describes.

    Raises:
        SpecError: No such compressor or defence, a field that it does not have, a part in the wrong place, or twice.
    """
    if isinstance(spec, Method):
        return spec
    first, *others = _parts(spec)
    compressor = compressors.parse(_place(spec, first, compressors.__name__))
    chosen = tuple(defences.parse(_place(spec, each, defences.__name__)) for each in others)
    kinds = [type(each) for each in chosen]
    for each in chosen:
        if kinds.count(type(each)) > 1:
            name = _find.spec(each, defences.__name__).partition("(")[0]
            raise SpecError(f"{spec!r}: the defence {name!r} is named twice")
    return Method(compressor, chosen)


def written(spec: str) -> frozenset[str]:
    """Fields of its compressor that a method's string itself gives a value, by name or by position.

    Raises:
        SpecError: As ``parse``.

    Example:
        >>> sorted(written("safecompress('tm', test='odds') + re1(beta=0.2)"))
        ['rule', 'test']
    """
    first = _parts(spec)[0]
    return _find.written(_place(spec, first, compressors.__name__), compressors.__name__)


def check(method: str | Method, setting: Setting) -> None:
    """Before anything is trained, refuse a setting without what a method needs, or defences that exclude each other.

    Args:
        method: A method or its string.
        setting: The task.

    Raises:
        SpecError: As ``parse``.
        ValueError: Naming what is missing, or the defence.
    """
    found = parse(method)
    for part in (found.compressor, *found.defences):
        own = getattr(part, "check", None)
        if own is not None:
            own(setting)
    check_defences(found.compressor, found.defences, setting)


def fit(method: str | Method, setting: Setting, *, progress: Progress | None = None) -> Outcome:
    """Make the small models of a setting.

    Args:
        method: A method or its string.
        setting: The task.
        progress: Called with what is being done and the share that is done.

    Raises:
        SpecError: As ``parse``.
        ValueError: The setting lacks what the method needs.
        Diverged: A training's parameters stopped being finite.
    """
    found = parse(method)
    check(found, setting)
    with unchanged(setting.x):
        done = found.compressor(setting, found.defences, progress or (lambda what, share: None))
    return replace(done, method=str(found))


def _parts(spec: str) -> list[str]:
    """Pieces between plus signs that are in no bracket and no quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in spec:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
        if letter == "+" and not quote and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    if not all(part.strip() for part in parts):
        raise SpecError(f"method must read compressor or compressor+defence+…, got {spec[:100]!r}")
    return [part.strip() for part in parts]


def _place(spec: str, part: str, room: str) -> str:
    """A piece, if it is not of the other room.

    Raises:
        SpecError: It is.
    """
    name = re.split(r"\W", part)[0]
    if ":" in part or name in _find.names(room):
        return part
    if room == compressors.__name__ and name in _find.names(defences.__name__):
        raise SpecError(
            f"{spec!r}: {name!r} is a defence; a method begins with a compressor, for example 'dense+{name}'"
        )
    if room == defences.__name__ and name in _find.names(compressors.__name__):
        raise SpecError(f"{spec!r}: {name!r} is a compressor; only the first part may be one")
    return part
