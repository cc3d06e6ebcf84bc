"""A first spec that runs as it is, and the schema by which editors complete it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["write_initial"]


def write_initial(
    path: Path, kind: type, command: str, head: str, shown: Mapping[tuple[str, str], Any]
) -> None:
    """Write a commented spec, and its schema beside it.

    Args:
        path: The spec; there must be no such file yet.
        kind: The spec's dataclass.
        command: Which command reads it.
        head: Sentences at its top; ``{schema}`` stands for the schema's file.
        shown: Values to show, by section and key.
    """
    from discreet._json import dumps, save
    from discreet.cli import output
    from discreet.spec import schema, template

    if path.exists():
        raise ValueError(f"{path}: there is a file already; name another one")
    output.check_file(path)
    beside = path.with_suffix(".schema.json")
    save(beside, dumps(schema(kind, command)))
    save(path, template(kind, head.format(schema=f"./{beside.name}"), shown))
    output.say(f"spec: {path}", f"schema for editors: {beside}", f"now: {command} {path}")
