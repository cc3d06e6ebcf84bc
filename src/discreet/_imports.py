"""Modules of one's own that code imports while it runs, by what is in their files."""

from __future__ import annotations

import dis
import hashlib
from collections.abc import Iterator
from importlib import util
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType

__all__ = ["imported"]


def imported(code: CodeType, package: str, installed: tuple[str, ...]) -> dict[str, str]:
    """SHA-256 of the file of each module that code imports, and of those that they import.

    Args:
        code: Of a function; functions inside it are not looked into.
        package: What relative imports are relative to.
        installed: Beginnings of the paths of files that are no one's own.
    """
    found: dict[str, str] = {}
    _read(code, package, installed, found)
    return dict(sorted(found.items()))


def _read(code: CodeType, package: str, installed: tuple[str, ...], found: dict[str, str]) -> None:
    for name, taken in _names(code, package):
        top = _own(name.partition(".")[0], installed)
        spec = _own(name, installed) if top is not None else None
        for each in (spec, *_inside(spec, taken, installed)):
            if each is None or each.name in found or each.origin is None:
                continue
            text = Path(each.origin).read_bytes()
            found[each.name] = hashlib.sha256(text).hexdigest()
            within = (
                each.name if each.submodule_search_locations is not None else each.name.rpartition(".")[0]
            )
            for part in _codes(compile(text, each.origin, "exec")):
                _read(part, within, installed, found)


def _inside(
    spec: ModuleSpec | None, taken: tuple[str, ...], installed: tuple[str, ...]
) -> Iterator[ModuleSpec | None]:
    """What is taken from a package may be modules too."""
    if spec is not None and spec.submodule_search_locations is not None:
        yield from (_own(f"{spec.name}.{each}", installed) for each in taken if each != "*")


def _own(name: str, installed: tuple[str, ...]) -> ModuleSpec | None:
    """Where a module of one's own is; None of others, and where there is none."""
    if name.partition(".")[0] == "discreet":
        return None
    try:
        spec = util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None  # it says so itself as it runs
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    own = not str(Path(spec.origin).resolve()).startswith(installed) and Path(spec.origin).is_file()
    return spec if own else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _names(code: CodeType, package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Modules that are imported, and what is taken from each."""
    last: list[object] = [0, None]
    for step in dis.get_instructions(code):
        if step.opname != "IMPORT_NAME":
            last = [*last, step.argval][-2:]
            continue
        level, taken = last
        name = str(step.argval)
        if isinstance(level, int) and level:
            try:
                name = util.resolve_name("." * level + name, package)
            except ImportError:
                continue
        yield name, tuple(map(str, taken)) if isinstance(taken, tuple) else ()
