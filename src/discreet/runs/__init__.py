"""The training runs of an audit: dealt out, followed as they train, measured, and put beside each other."""

from __future__ import annotations
