"""A commented spec to start from: it runs as it is, and every key stands there with what it means."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from discreet.spec.fields import first_line, told

__all__ = ["template"]

_WIDTH = 100


def template(kind: type, head: str = "", examples: Mapping[tuple[str, str], Any] | None = None) -> str:
    """The text of a spec. Keys that may be left out are commented out, at their defaults.

    Args:
        kind: The spec's dataclass.
        head: Sentences at the top.
        examples: Values to show, by section and key, in place of the defaults; they are not commented out.
    """
    examples = examples or {}
    parts = [_comment(line) for line in head.splitlines()]
    for section in told(kind):
        keys = list(told(section.kind))
        lines = ["", *([_comment(first_line(section.kind))]), f"[{section.name}]"]
        for each in keys:
            if isinstance(each.default, Mapping):
                continue
            on = (section.name, each.name) in examples
            shown = examples.get((section.name, each.name), each.default)
            lines.append(_comment(each.words or each.name))
            lines.append(f"{'' if on else '# '}{each.name} = {_toml(shown)}")
        for each in keys:
            if isinstance(each.default, Mapping):
                lines += ["", _comment(each.words), f"# [{section.name}.{each.name}]"]
        parts += lines
    return "\n".join(parts).strip("\n") + "\n"


def _comment(text: str) -> str:
    if text.startswith("#"):
        return text  # a directive for editors
    lines = textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="#   ")
    return "\n".join(lines) or "#"


def _toml(value: Any) -> str:
    if value is None:
        return "    (not set)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
