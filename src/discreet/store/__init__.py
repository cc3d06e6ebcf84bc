"""Stores: the resumable run directory."""

from __future__ import annotations

from discreet.store.content import content_hash
from discreet.store.store import Store, StoreError

__all__ = ["Store", "StoreError", "content_hash"]
