"""Where a recorder keeps the steps it has measured: in memory, or in a run directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from discreet.records import Record
from discreet.store import Store

__all__ = ["InFolder", "InMemory", "Parts"]


@runtime_checkable
class Parts(Protocol):
    """One record a step."""

    def get(self, step: float) -> Record | None:
        """The record of a step, None if there is none."""
        ...

    def put(self, step: float, part: Record) -> None:
        """Keep the record of a step."""
        ...

    def all(self) -> list[tuple[float, Record | Path]]:
        """Every step with its record or the record's file, by ascending step."""
        ...


class InMemory:
    """Steps that end with the process."""

    def __init__(self) -> None:
        self._records: dict[float, Record] = {}

    def get(self, step: float) -> Record | None:
        """See ``Parts.get``."""
        return self._records.get(step)

    def put(self, step: float, part: Record) -> None:
        """See ``Parts.put``."""
        self._records[step] = part

    def all(self) -> list[tuple[float, Record | Path]]:
        """See ``Parts.all``."""
        return sorted(self._records.items())


class InFolder:
    """Steps that outlive the process, each one file of a store.

    Args:
        folder: The run directory.
        content: All that the figures depend on besides the weights; other content, other files.
    """

    def __init__(self, folder: str | Path, content: Mapping[str, Any]) -> None:
        self._store = Store(folder)
        self._content = dict(content)
        self._base = self._store.key("trajectory", **self._content)

    def get(self, step: float) -> Record | None:
        """See ``Parts.get``; a file that is damaged does not count."""
        key = self._key(step)
        return Record.open(self._store.path(key)) if self._store.has(key) else None

    def put(self, step: float, part: Record) -> None:
        """See ``Parts.put``."""
        self._store.make(self._key(step), part.save)

    def all(self) -> list[tuple[float, Record | Path]]:
        """See ``Parts.all``."""
        files = sorted(self._store.path(self._key(0.0)).parent.glob("step-*.safetensors"))
        sound = [path for path in files if self._store.has(path.relative_to(self._store.folder).as_posix())]
        return sorted((float(Record.open(path).step[0]), path) for path in sound)

    def _key(self, step: float) -> str:
        return self._store.key(f"{self._base}/step-{step:.17g}.safetensors", **self._content)
