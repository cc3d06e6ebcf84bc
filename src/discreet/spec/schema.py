"""JSON Schema of a spec, made from the same dataclasses: editors complete keys and explain them while one types."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from discreet.spec.fields import first_line, told

__all__ = ["schema"]

_SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number"}


def schema(kind: type, title: str) -> dict[str, Any]:
    """The schema of a dataclass of sections.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Budget:
        ...     minutes: float = 5.0
        >>> schema(Budget, "A budget")["properties"]["minutes"]
        {'type': 'number', 'default': 5.0}
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **_object(kind),
    }


def _object(kind: type) -> dict[str, Any]:
    properties = {}
    for each in told(kind):
        found = _type(each.kind)
        if each.words:
            found["description"] = each.words
        if not each.required and each.default is not None and not dataclasses.is_dataclass(each.default):
            found["default"] = list(each.default) if isinstance(each.default, tuple) else each.default
        properties[each.name] = found
    return {
        "type": "object",
        "description": first_line(kind),
        "properties": properties,
        "required": [each.name for each in told(kind) if each.required],
        "additionalProperties": False,
    }


def _type(kind: Any) -> dict[str, Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _object(_as_type(kind))
    if origin in (Union, types.UnionType):
        able = [each for each in inner if each is not type(None) and get_origin(each) is not Callable]
        return _type(float if set(able) == {int, float} else able[0])
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is tuple:
        items = {"type": "array", "items": _type(inner[0])}
        fixed = inner[-1] is not Ellipsis
        return items | ({"minItems": len(inner), "maxItems": len(inner)} if fixed else {})
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object"}
    return {"type": _SCALARS[kind]}


def _as_type(kind: Any) -> type:
    return kind
