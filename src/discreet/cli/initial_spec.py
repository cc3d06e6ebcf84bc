"""A first spec that runs as it is, and the schema by which editors complete it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["check_name", "write_initial"]


def check_name(path: Path) -> None:
    """Refuse a file that is no spec by its name; whatever else is there is not judged.

    Raises:
        ValueError: It is a regular file, and its name does not end in ``.toml``.
    """
    if path.is_file() and path.suffix != ".toml":
        raise ValueError(f"{path}: expected a spec, whose name ends in .toml, got another file")


def write_initial(
    path: Path, kind: type, command: str, head: str, shown: Mapping[tuple[str, str], Any]
) -> None:
    """Write a commented spec, and its schema beside it.

    Args:
        path: The spec, SPEC.toml; there must be no such file yet, nor another schema beside it.
        kind: The spec's dataclass.
        command: Which command reads it.
        head: Sentences at its top; ``{schema}`` stands for the schema's file.
        shown: Values to show, by section and key.

    Raises:
        ValueError: It does not end in ``.toml``, or something would be overwritten.
        OSError: It cannot be written.
    """
    from discreet._json import dumps, save
    from discreet.cli import output
    from discreet.spec import schema, template

    if path.suffix != ".toml":
        raise ValueError(
            f"{path}: a spec's name ends in .toml; write {command} --init {shlex.quote(f'{path}.toml')}"
        )
    if path.exists():
        raise ValueError(f"{path}: there is a file already; name another one")
    output.check_file(path)
    beside, held = path.with_suffix(".schema.json"), dumps(schema(kind, command))
    if beside.exists() and not (beside.is_file() and beside.read_bytes() == held.encode()):
        raise ValueError(f"{beside}: there is a file already, where the schema goes; name another spec")
    save(beside, held)
    save(path, template(kind, head.format(schema=f"./{beside.name}"), shown))
    output.say(f"spec: {path}", f"schema for editors: {beside}", f"now: {command} {shlex.quote(str(path))}")
