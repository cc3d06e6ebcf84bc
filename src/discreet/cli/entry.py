"""Run a command line and turn whatever happens into one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer
from typer.main import get_command

from discreet._words import visible
from discreet.cli.app import app

__all__ = ["main", "run"]

# Part of Click, which newer releases of Typer carry inside: found through a public subclass.
_ClickError = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_EXTRAS = {"torch": "torch", "rdkit": "molecules", "B3DB": "molecules"} | dict.fromkeys(
    ("onnx", "onnxscript", "onnxruntime"), "onnx"
)
_EXTRAS |= {name: name for name in ("lightning", "mlflow", "ray")} | {"transformers": "llm"}


def main() -> None:
    """Entry point of the command ``discreet``."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Args:
        arguments: What follows the command's name. ``--debug`` counts wherever it stands.

    Returns:
        0 done or passed, 1 judged and failed, 2 everything else.
    """
    debug = "--debug" in arguments
    asked = tuple(argument for argument in arguments if argument != "--debug")
    try:
        code = _invoke(list(asked) or ["--help"])
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # Rich leaves by itself when the pipe it writes to is closed
        _silence()
        return 2
    except KeyboardInterrupt:
        _complain("stopped; what was finished is kept", debug)
        return 2
    except Exception as error:
        _complain(_words_for(error), debug)
        return 2
    return code if asked else 2


def _invoke(arguments: list[str]) -> int:
    """Call the command as Click does, but let every exception through."""
    command = get_command(app)
    try:
        with command.make_context("discreet", arguments) as context:
            command.invoke(context)
    except typer.Exit as wanted:
        return wanted.exit_code if wanted.exit_code in (0, 1) else 2
    return 0


def _words_for(error: Exception) -> str:
    if isinstance(error, _ClickError):
        context = getattr(error, "ctx", None)
        path = getattr(context, "command_path", "discreet")
        return f"{error.format_message()} (see {path} --help)"  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in _EXTRAS:
            return f'this needs {package}: pip install "discreet[{_EXTRAS[package]}]"'
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return f"{error.filename}: {reason}" if error.filename is not None else reason
    from discreet.backends import BackendError
    from discreet.store import StoreError

    if isinstance(error, (ValueError, ArithmeticError, StoreError, BackendError)):
        return str(error) or type(error).__name__
    return f"unexpected {type(error).__name__}: {error} (a fault of discreet; --debug shows where)"


def _complain(message: str, debug: bool) -> None:
    """Say what went wrong on one line of stderr, after the traceback if it is wanted."""
    if debug and sys.exc_info()[0] is not None:
        import traceback

        traceback.print_exc()
    line = " ".join(visible(part.strip()) for part in message.splitlines() if part.strip())
    try:
        print(f"discreet: {line}", file=sys.stderr)
    except OSError:
        _silence()


def _silence() -> None:
    """Point the streams nowhere, so that the interpreter does not complain about a closed pipe on exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
