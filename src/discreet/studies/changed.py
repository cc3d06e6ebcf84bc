"""Settings of a study given as text: ``FIELD=VALUE``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["read"]


def read(changed: Sequence[str], fields: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """Values by field.

    Args:
        changed: Texts such as ``"width=512"``; of a field that is given twice the last counts.
        fields: How each field's value is read: a type, or a function that raises ValueError and whose name says
            what it expects.

    Raises:
        ValueError: An unknown field, or a value that cannot be read.

    Example:
        >>> read(["width=512", "lr=1e-3"], {"width": int, "lr": float})
        {'width': 512, 'lr': 0.001}
    """
    found = {}
    for text in changed:
        name, equals, value = text.partition("=")
        if name not in fields or not equals:
            raise ValueError(f"--set: expected FIELD=VALUE with one of {', '.join(fields)}, got {text!r}")
        try:
            found[name] = fields[name](value)
        except ValueError:
            kind = fields[name].__name__.replace("_", " ").strip()
            raise ValueError(f"--set: expected {kind} for {name}, got {value!r}") from None
    return found
