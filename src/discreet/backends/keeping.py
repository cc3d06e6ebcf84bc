"""Artefacts made elsewhere, written through the store of the process that asked for them, and by no other."""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from discreet.backends._protocol import Backend, BackendError
from discreet.store import Store

__all__ = ["Maker", "make_elsewhere", "moved"]

Maker = Callable[[Any, Any, Store], None]
"""``(shared, item, store)``: makes artefacts in the store that it is given."""

_PACKAGES = ("discreet", "torch", "numpy", "scipy", "safetensors")


Moved = TypeVar("Moved")


def moved(thing: Moved, store: Store) -> Moved:
    """A dataclass with a field ``store``, at another store; what it has worked out of its content is kept."""
    fresh = replace(thing, store=store)  # pyright: ignore[reportType, reportArgumentType]
    vars(fresh).update({name: value for name, value in vars(thing).items() if name not in vars(fresh)})
    return fresh


@dataclass(frozen=True)
class _Made:
    """What a worker sends back: new artefacts by key, in the order they were made, and what made them."""

    files: Mapping[str, bytes]
    versions: Mapping[str, str]
    host: str
    seconds: float


def make_elsewhere(
    backend: Backend,
    store: Store,
    make: Maker,
    shared: Any,
    items: Sequence[Any],
    *,
    keys: Callable[[Any], Sequence[str]],
    done: Callable[[int, float], None] = lambda number, seconds: None,
    until: float = float("inf"),
) -> list[int]:
    """Make the artefacts of every item.

    Each worker makes them in a folder of its own; what comes back is written here, one item after the other. A kill
    at any moment loses the items that were under way, and of the one that is written what was not.

    Args:
        backend: Where they are made.
        store: Where they are kept.
        make: Makes those of one item; it may find some of them there.
        shared: What all items need.
        items: What each needs besides.
        keys: What an item leaves, as far as that is known: those that are kept already are sent to its worker.
        done: Called with the position of each item that is done, and the seconds it took.
        until: See ``Backend.each``.

    Returns:
        Positions of the items that were not begun.

    Raises:
        BackendError: A worker has other versions than this process: its bytes could be others.
    """
    versions = _versions()
    asked = [(item, {key: store.path(key) for key in keys(item) if store.has(key)}) for item in items]
    sent = [(item, {key: path.read_bytes() for key, path in kept.items()}) for item, kept in asked]
    left = set(range(len(items)))
    for number, made in backend.each(_make, (make, shared), sent, until=until):
        apart = [
            f"{name} {made.versions.get(name)} instead of {version}"
            for name, version in versions.items()
            if made.versions.get(name) != version
        ]
        if apart:
            raise BackendError(
                f"backend: the worker on {made.host} has {', '.join(apart)}; install what is here"
            )
        for key, data in made.files.items():
            store.make(key, lambda aside, data=data: aside.write_bytes(data))
        left.discard(number)
        done(number, made.seconds)
    return sorted(left)


def _make(told: tuple[Maker, Any], item: tuple[Any, Mapping[str, bytes]]) -> _Made:
    """Make one item's artefacts, in a worker."""
    (make, shared), (own, kept) = told, item
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
        store = Store(Path(folder) / "run")
        for key, data in kept.items():
            store.make(key, lambda aside, data=data: aside.write_bytes(data))
        make(shared, own, store)
        found = [
            path for path in store.folder.rglob("*") if path.is_file() and not _hidden(path, store.folder)
        ]
        found.sort(key=lambda path: (path.stat().st_mtime_ns, path))
        files = {path.relative_to(store.folder).as_posix(): path.read_bytes() for path in found}
    fresh = {key: data for key, data in files.items() if key not in kept}
    return _Made(fresh, _versions(), platform.node(), time.monotonic() - begun)


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _versions() -> dict[str, str]:
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found
