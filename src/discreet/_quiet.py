"""Importing libraries that write notes and warnings as they load."""

from __future__ import annotations

import importlib
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

__all__ = ["imported", "quiet_transformers"]

# A second thread would get a submodule while the package around it is still setting itself up.
_LOADING = threading.Lock()


def imported(module: str) -> ModuleType:
    """Import a module, and let nobody hear of it.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    level = logging.root.manager.disable
    with _LOADING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            return importlib.import_module(module)
        finally:
            logging.disable(level)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without progress bars, which it turns off for the whole process or not at all, and without what torchao says
    when ``transformers`` imports it along with a model."""
    for module in ("torchao.quantization", "torchao.prototype.mx_formats"):
        with suppress(ImportError):
            imported(module)
    told: Any = imported("transformers.utils.logging")
    shown = told.is_progress_bar_enabled()
    told.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            told.enable_progress_bar()
