"""Records: what was measured, in memory and in files.

``record`` holds the noun and ``laws`` what it promises; ``files``, ``npz`` and ``tables`` are the kinds of
files, ``reading`` picks one; ``merge`` puts records together.
"""

from __future__ import annotations

from discreet.records.laws import RecordError
from discreet.records.merge import join, merge_runs, merge_samples
from discreet.records.reading import read, read_all
from discreet.records.record import Record

__all__ = ["Record", "RecordError", "join", "merge_runs", "merge_samples", "read", "read_all"]
