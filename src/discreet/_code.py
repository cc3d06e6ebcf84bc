"""What a function, a class or an object computes, as a hash: its compiled code, settings and helpers.

Two that share a name and differ in anything of these are told apart; the same code gives the same hash in every
process. Code of installed packages counts by its name. Without torch.
"""

from __future__ import annotations

import functools
import hashlib
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from discreet._imports import imported

__all__ = ["code_of", "is_own"]

_INSTALLED = tuple(
    str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def code_of(thing: Any) -> str:
    """Hash what something computes.

    Args:
        thing: A function, a class, an object that is called, or plain content.

    Example:
        >>> power = functools.partial(pow, 2)
        >>> code_of(power) == code_of(functools.partial(pow, 2)), code_of(power) == code_of(functools.partial(pow, 3))
        (True, False)
    """
    reader = _Reader()
    reader.read(thing)
    return reader.digest.hexdigest()


class _Reader:
    """Feeds a digest with everything that can be reached, each thing once."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.seen: list[Any] = []

    def put(self, *texts: Any) -> None:
        for text in texts:
            data = str(text).encode("utf-8", "surrogatepass")
            self.digest.update(f"{len(data)}:".encode() + data)

    def read(self, thing: Any) -> None:
        if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes)):
            self.put(type(thing).__name__, repr(thing))
            return
        known = next((place for place, each in enumerate(self.seen) if each is thing), None)
        if known is not None:
            self.put("again", known)
            return
        self.seen.append(thing)
        kind = type(thing)
        self.put(f"{kind.__module__}.{kind.__qualname__}")
        tensor: Any = getattr(sys.modules.get("torch"), "Tensor", ())  # without torch there are none
        if isinstance(thing, (tensor, np.ndarray)):
            values = np.ascontiguousarray(
                thing.detach().cpu().numpy() if isinstance(thing, tensor) else thing
            )
            self.put(values.dtype, values.shape, hashlib.sha256(values.tobytes()).hexdigest())
        elif isinstance(thing, Mapping):
            self._all(part for pair in thing.items() for part in pair)
        elif isinstance(thing, (list, tuple)):
            self._all(thing)
        elif isinstance(thing, (set, frozenset)):
            self._all(sorted(thing, key=repr))
        elif isinstance(thing, functools.partial):
            self._all((thing.func, thing.args, thing.keywords))
        elif isinstance(getattr(thing, "__wrapped__", None), FunctionType) and not isinstance(
            thing, FunctionType
        ):
            self.read(thing.__wrapped__)
        elif isinstance(thing, MethodType):
            self._all((thing.__func__, thing.__self__))
        elif isinstance(thing, FunctionType):
            self._function(thing)
        elif isinstance(thing, type):
            self._class(thing)
        elif not is_own(kind) or not hasattr(thing, "__dict__"):
            self.put(_ADDRESS.sub("", repr(thing)))
        else:
            self._all((kind, vars(thing)))

    def _all(self, things: Iterable[Any]) -> None:
        things = list(things)
        self.put(len(things))
        for each in things:
            self.read(each)

    def _function(self, function: FunctionType) -> None:
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)]
        self._all((function.__defaults__, function.__kwdefaults__, cells))
        if is_own(function):
            self._code(function.__code__, function.__globals__)
        else:
            self.put(function.__module__, function.__qualname__)

    def _class(self, kind: type) -> None:
        self.put(kind.__module__, kind.__qualname__)
        for base in (each for each in kind.__mro__ if is_own(each)):
            for name, value in sorted(vars(base).items()):
                if name.startswith("__") and not callable(value):
                    continue
                self.put(name)
                parts = (value.fget, value.fset) if isinstance(value, property) else (value,)
                self._all(getattr(part, "__func__", getattr(part, "func", part)) for part in parts)

    def _code(self, code: CodeType, globals_: Mapping[str, Any]) -> None:
        self.put(code.co_name, code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars)
        if modules := imported(code, str(globals_.get("__package__") or ""), _INSTALLED):
            self._all(part for pair in modules.items() for part in pair)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant, globals_)
            else:
                self.read(constant)
        for name in code.co_names:
            value = globals_.get(name)
            if isinstance(value, ModuleType):
                self._all(
                    vars(value)[each] for each in code.co_names if is_own(value) and each in vars(value)
                )
            elif name in globals_:
                self.read(value)


def is_own(thing: Any) -> bool:
    """Whether code is the user's: neither of Python, nor installed, nor of this package."""
    name = (
        thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None) or "builtins"
    )
    if name in sys.builtin_module_names or name.partition(".")[0] == "discreet":
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or not str(Path(file).resolve()).startswith(_INSTALLED)


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
