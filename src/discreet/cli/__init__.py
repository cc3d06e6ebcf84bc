"""The command ``discreet``. Commands are thin: they read, call one function, and write.

Exit code 0: done, or passed. 1: judged, and failed (only ``gate`` judges). 2: everything else.
"""

from __future__ import annotations

from discreet.cli.app import app
from discreet.cli.entry import main

__all__ = ["app", "main"]
