"""Code of one's own that a spec names: found, called, and framed by what was called and why when it raises.

A spec runs code, with all that its reader may do. Modules are looked for in the spec's folder first; what comes from
elsewhere is told.
"""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet._find import near
from discreet.spec._errors import CalledError, SpecFileError
from discreet.spec.reading import Source, importable

__all__ = ["Named", "named"]

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True, eq=False)
class Named:
    """A function that a spec names.

    Attributes:
        function: The function.
        path: Its dotted path.
        where: The place in the spec.
        note: What a reader must know of where it comes from; empty if it lies in the spec's folder.
    """

    function: Callable[..., Any]
    path: str
    where: str
    note: str = ""

    def __call__(self, why: str, options: Mapping[str, Any] | None = None) -> Any:
        """Call it.

        Args:
            why: What for, such as ``"to load the data"``.
            options: Arguments by name.

        Raises:
            CalledError: It raised; the traceback begins in the function.
        """
        try:
            return self.function(**(options or {}))
        except CalledError:
            raise  # what it called back says all
        except (Exception, SystemExit) as error:
            shown = _shown(error)
            given = ", ".join(f"{name}={value!r}" for name, value in (options or {}).items())
            raise CalledError(
                f"{self.where}: {self.path}({given}) was called {why} and raised {type(error).__name__}: {error}",
                shown,
            ) from error

    def wrong(self, expected: str, got: str) -> CalledError:
        """The error that says what it should have returned."""
        return CalledError(f"{self.where}: expected {self.path} to return {expected}, got {got}")


def named(path: str, source: Source, *key: str) -> Named:
    """Find the function behind a dotted path.

    Args:
        path: ``package.module:function``.
        source: The spec; its folder is searched first.
        key: Where in the spec it stands.

    Raises:
        SpecFileError: No dotted path, no such module or function.
        CalledError: The module raised while it was imported.
    """
    where = source.at(*key)
    if not _PATH.fullmatch(path):
        outside = "/" in path or "\\" in path or path.endswith(".py")
        hint = (
            f" (a module in {source.folder} or an installed package, not a path to a file: a spec runs code, and"
            " what it may run is what Python can import from there)"
            if outside
            else ""
        )
        raise SpecFileError(f"{where}: expected package.module:function, got {path!r}{hint}")
    module_name, _, name = path.partition(":")
    module = _module(module_name, source, where)
    found = getattr(module, name, None)
    if found is None:
        raise SpecFileError(
            f"{where}: {module_name} has no {name!r}{near(name, [each for each in dir(module) if each[0] != '_'])}"
        )
    if not callable(found):
        raise SpecFileError(f"{where}: expected a function, {path} is {type(found).__name__}")
    return Named(found, path, where, _note(module, path, source))


def _module(name: str, source: Source, where: str) -> Any:
    folder = str(source.folder)
    try:
        with importable(source.folder):
            importlib.invalidate_caches()
            module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise SpecFileError(
                f"{where}: no module {error.name!r} in {folder} or among the installed packages"
            ) from None
        raise CalledError(
            f"{where}: the module {name!r} needs {error.name!r}, which is not installed", _shown(error)
        ) from error
    except (Exception, SystemExit) as error:
        script = isinstance(error, SystemExit)
        hint = "; put what runs the script under if __name__ == '__main__':" if script else ""
        raise CalledError(
            f"{where}: importing {name!r} raised {type(error).__name__}: {error}{hint}", _shown(error)
        ) from error
    own = source.folder.joinpath(*name.split("."))
    mine = next((each for each in (own.with_suffix(".py"), own / "__init__.py") if each.is_file()), None)
    file = getattr(module, "__file__", None)
    if mine is not None and (file is None or Path(file).resolve() != mine):
        raise SpecFileError(
            f"{where}: {mine} is not what Python imports as {name!r} (that is {file}); give the module another name"
        )
    return module


def _note(module: Any, path: str, source: Source) -> str:
    file = getattr(module, "__file__", None)
    if file is not None and Path(file).resolve().is_relative_to(source.folder):
        return ""
    return (
        f"{path} comes from {file or 'Python itself'}, outside the spec's folder: a spec runs code with all that you"
        " may do; run only specs that you trust"
    )


def _shown(error: BaseException) -> str:
    """The traceback without the frames of the tool."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((at for at, frame in enumerate(frames) if not _is_ours(frame.filename)), 0)
    while first < len(frames) - 1 and "importlib" in frames[first].filename:
        first += 1
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[first:])]
    return "".join([*lines, *traceback.format_exception_only(error)])


def _is_ours(file: str) -> bool:
    """Whether a frame is the tool's, or of what checks its types."""
    return file.startswith((str(Path(__file__).parents[1]), "<")) or "jaxtyping" in file
