"""Real data sets that ship inside installed packages, and splits that keep related samples together."""

from __future__ import annotations
