"""Methods by file name: list a package, read a spec string, suggest near misses. Standard library only.

A method is one frozen dataclass in one file of a package, named alone in the file's ``__all__``; the file
name is the method's name. Adding a file adds a method: there is no list to edit. Files that begin with an
underscore are helpers. A method from elsewhere goes by its dotted path, ``my_pkg.mine:Mine``.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["SpecError", "about", "bare", "load", "names", "near", "parse", "spec", "written"]

_LONGEST = 1000
_FORM = re.compile(r"\s*([A-Za-z_][\w.]*(?::[A-Za-z_]\w*)?)\s*(\(.*\))?\s*", re.DOTALL)


class SpecError(ValueError):
    """A spec string that names no method, or gives one arguments that it cannot take."""


def names(package: str) -> tuple[str, ...]:
    """Methods of a package in alphabetical order, found without importing any of them.

    Example:
        >>> names("discreet.quantizers")
        ('bnb4', 'bnb8', 'full', 'gptq', 'hqq', 'int4', 'int8', 'intx', 'sign', 'ternary', 'uniform', 'vector')
    """
    return tuple(sorted(info.name for info in _modules(package)))


def about(package: str) -> dict[str, str]:
    """First docstring line of every method file, read from its source and not imported."""
    lines = {}
    for info in _modules(package):
        found = info.module_finder.find_spec(info.name, None)
        source = found.loader.get_source(info.name) if found and found.loader else ""  # type: ignore[attr-defined]
        text = ast.get_docstring(ast.parse(source or "")) or ""
        lines[info.name] = text.partition("\n")[0]
    return dict(sorted(lines.items()))


def parse(spec: str, package: str) -> Any:
    """Build the method that a spec string describes.

    The arguments are literals (numbers, quoted strings, true and false as Python writes them); nothing is
    evaluated. They go by name, or by position for the fields that are not keyword-only.

    Args:
        spec: ``name``, ``name(a=1, b='x')``, or either with ``module.path:Class`` for the name.
        package: Dotted name of the package that holds the methods.

    Raises:
        SpecError: Unknown name or field (with a near miss), a missing or repeated field, a value that is
            no literal, or a value that the method refuses.

    Example:
        >>> parse("ternary(zeros=0.9)", "discreet.quantizers").zeros
        0.9
    """
    method, values = _read(spec, package)
    try:
        return method(**values)
    except (TypeError, ValueError) as error:
        raise SpecError(f"{_short(spec)}: {error}") from error


def written(spec: str, package: str) -> frozenset[str]:
    """Fields that a spec string itself gives a value, by name or by position, be it their default.

    Args:
        spec: As ``parse`` takes it.
        package: Dotted name of the package that holds the methods.

    Raises:
        SpecError: As ``parse``, but for values that the method refuses.

    Example:
        >>> sorted(written("uniform(4, scope='weights')", "discreet.quantizers"))
        ['bits', 'scope']
    """
    return frozenset(_read(spec, package)[1])


def load(name: str, package: str) -> type:
    """The class behind a method's name or dotted path.

    Raises:
        SpecError: No such method, module or class; a package it needs is missing; not one frozen dataclass.
    """
    kind = _kind(package)
    path, _, attribute = name.partition(":")
    if not attribute:
        known = names(package)
        if name not in known:
            raise SpecError(f"unknown {kind} {_short(name)}{near(name, known)}; known: {', '.join(known)}")
        path = f"{package}.{name}"
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        raise SpecError(
            f"{kind} {_short(name)} needs the module {error.name!r}, which is not installed"
        ) from error
    exported = [attribute] if attribute else list(getattr(module, "__all__", ()))
    found = [getattr(module, each, None) for each in exported]
    if len(found) != 1 or not isinstance(found[0], type) or not _is_frozen(found[0]):
        raise SpecError(
            f"{kind} {_short(name)}: {path} must export one frozen dataclass, it exports {exported}"
        )
    return found[0]


def spec(instance: object, package: str) -> str:
    """The spec string of a method: ``parse(spec(x, p), p) == x``.

    Positional fields are always written, keyword-only ones where they differ from their default.
    """
    method = type(instance)
    parent, _, name = method.__module__.rpartition(".")
    name = name if parent == package else f"{method.__module__}:{method.__qualname__}"
    written = [
        f"{field.name}={getattr(instance, field.name)!r}"
        for field in sorted(_fields(method).values(), key=lambda field: bool(field.kw_only))
        if not field.kw_only or getattr(instance, field.name) != _default(field)
    ]
    return f"{name}({', '.join(written)})" if written else name


def bare(spec: str) -> str:
    """A spec string without arguments.

    Example:
        >>> bare("kd(epochs=(30, 40))+dmp(keep=0.5)")
        'kd+dmp'
    """
    kept, depth = "", 0
    for letter in spec:
        depth += letter == "("
        kept += letter if depth == 0 else ""
        depth -= letter == ")"
    return kept


def near(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for a misspelt word, or nothing."""
    close = difflib.get_close_matches(word[:100], list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _modules(package: str) -> Iterator[Any]:
    loaded = sys.modules.get(package)
    if loaded is None:
        # The search path of a package is known without running its __init__, which may import torch.
        found = importlib.util.find_spec(package)
        path = found.submodule_search_locations if found else None
    else:
        path = loaded.__path__
    return (info for info in pkgutil.iter_modules(path) if not info.name.startswith("_"))


def _read(spec: str, package: str) -> tuple[type, dict[str, Any]]:
    """The class of a spec string, and the values that it gives to fields."""
    kind = _kind(package)
    matched = _FORM.fullmatch(spec) if len(spec) <= _LONGEST else None
    if matched is None:
        raise SpecError(f"{kind} spec must read name or name(field=value, …), got {_short(spec)}")
    name, arguments = matched.groups()
    method = load(name, package)
    positional, named = _arguments(spec, arguments or "()", kind)
    return method, _bind(method, name, positional, named)


def _arguments(spec: str, text: str, kind: str) -> tuple[list[Any], dict[str, Any]]:
    try:
        call = ast.parse(f"f{text}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise SpecError(f"cannot read {kind} spec {_short(spec)}: {why}") from error
    words = [word.arg for word in call.keywords] if isinstance(call, ast.Call) else [None]
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or None in words:
        raise SpecError(f"{kind} spec must read name(field=value, …), got {_short(spec)}")
    if len(set(words)) < len(words):
        raise SpecError(f"{kind} spec {_short(spec)} gives a field twice")
    positional = [_literal(spec, node) for node in call.args]
    return positional, {str(word.arg): _literal(spec, word.value) for word in call.keywords}


def _literal(spec: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        text = ast.unparse(node)
        raise SpecError(
            f"{_short(spec)}: {_short(text, quote=False)} is no literal; write text in quotes"
        ) from error


def _bind(method: type, name: str, positional: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    fields = _fields(method)
    places = [field.name for field in fields.values() if not field.kw_only]
    if len(positional) > len(places):
        raise SpecError(
            f"{name} takes {len(places)} values by position ({', '.join(places)}), got {len(positional)}"
        )
    values = dict(zip(places, positional, strict=False))
    for word, value in named.items():
        if word not in fields:
            known = ", ".join(fields) or "none"
            raise SpecError(f"{name} has no field {_short(word)}{near(word, fields)}; its fields: {known}")
        if word in values:
            raise SpecError(f"{name} got {word!r} twice, by position and by name")
        values[word] = value
    missing = [field.name for field in fields.values() if field.name not in values and _is_required(field)]
    if missing:
        raise SpecError(f"{name} needs a value for {', '.join(missing)}")
    return values


def _fields(method: type) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(method) if field.init}


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _is_frozen(method: type) -> bool:
    return dataclasses.is_dataclass(method) and method.__dataclass_params__.frozen  # type: ignore[attr-defined]


def _kind(package: str) -> str:
    return package.rpartition(".")[2].removesuffix("s")


def _short(text: str, *, quote: bool = True) -> str:
    cut = text if len(text) <= 60 else f"{text[:57]}…"
    return repr(cut) if quote else cut
