"""What results depend on besides their input, for keys: a method's spec, library and code, and versions of packages.

A spec string names a method and does not say what it does: one of the user's may be rewritten under its name, and a
library be another release. Without torch.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from typing import Any

from discreet._code import code_of, is_own

__all__ = ["content_of", "versions_of"]

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PATH = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*):([A-Za-z_]\w*)")


def content_of(method: object) -> str:
    """Text for the key of what a method makes.

    Args:
        method: An attack, a quantizer, a compressor, …: spec string or object. One of this package is told by its
            spec and by the library that does its work (``made_by``); one from elsewhere by its code and settings too,
            and so are methods that its spec names by their dotted paths.

    Raises:
        QuantizerError: The library that a quantizer needs is not installed.

    Example:
        >>> content_of("lira(mode='offline')")
        "lira(mode='offline')"
    """
    spec = _ADDRESS.sub("", str(getattr(method, "content", method)))
    made_by = getattr(method, "made_by", None)
    parts = [spec, *([f"made by {made_by}"] if made_by else [])]
    if not isinstance(method, str) and not _is_ours(type(method)):
        parts.append(f"code {_code(type(method))} {code_of(_settings(method))}{_release(type(method))}")
    parts += [f"{path} {_code(thing)}{_release(thing)}" for path, thing in _named(spec)]
    return "; ".join(parts)


def versions_of(*packages: str) -> Mapping[str, str | None]:
    """Installed versions by name; None of what is not installed."""
    return {name: _version(name) for name in packages}


@cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def _code(thing: Any) -> str:
    """Read once, when it is first asked for: what a class keeps while it works must not change its key."""
    return code_of(thing)


def _is_ours(thing: Any) -> bool:
    return _package(thing) in ("discreet", "builtins")


def _package(thing: Any) -> str:
    return str(getattr(thing, "__module__", None) or "builtins").partition(".")[0]


def _settings(method: object) -> dict[str, Any]:
    """Fields alone: what an object keeps besides for later must not change its key."""
    if not dataclasses.is_dataclass(method):
        return {}
    return {each.name: getattr(method, each.name) for each in dataclasses.fields(method)}


def _named(spec: str) -> Iterator[tuple[str, Any]]:
    """What a spec names by dotted paths, as far as it can be imported."""
    for path, name in sorted(set(_PATH.findall(spec))):
        try:
            thing = getattr(importlib.import_module(path), name)
        except Exception:  # a module of the user may raise anything; it does so again where it is needed
            continue
        if not _is_ours(thing):
            yield f"{path}:{name}", thing


def _release(thing: Any) -> str:
    """The release of an installed package, of whose code only names are hashed; nothing for code of the user's."""
    found = () if is_own(thing) else _distributions().get(_package(thing), ())
    return "".join(f" {name} {_version(name)}" for name in sorted(set(found)))


_distributions = cache(metadata.packages_distributions)
