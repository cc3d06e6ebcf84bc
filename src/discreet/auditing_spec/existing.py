"""Runs that were trained elsewhere: their checkpoints, measured as they are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from discreet._types import Bool
from discreet.auditing_spec.state_files import read_state
from discreet.auditing_spec.work import Work
from discreet.runs.following import Note, follow, measure_release
from discreet.runs.keeping import RunKeys, keep_runs
from discreet.runs.units import Tick

__all__ = ["FilesUnit", "sha_of"]


@dataclass(frozen=True, eq=False)
class FilesUnit:
    """One run that is there. See ``Unit``.

    Attributes:
        work: What all units share.
        number: Of the run.
        files: Its checkpoints, in order.
        member: Which of the released samples it was trained on.
    """

    work: Work
    number: int
    files: Sequence[Path]
    member: Bool[np.ndarray, " released"]

    @property
    def name(self) -> str:
        """See ``Unit``."""
        return f"run {self.number}"

    @property
    def runs(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return (str(self.number),)

    @property
    def ticks(self) -> int:
        """See ``Unit``."""
        return len(self.files) + 1

    @cached_property
    def _hashes(self) -> list[str]:
        return [sha_of(path) for path in self.files]

    @cached_property
    def _kept(self) -> RunKeys:
        store, panel = self.work.store, self.work.panel
        content = {
            "content": self.work.content,
            "checkpoints": self._hashes,
            "variants": panel.variants,
            "about": panel.about,
            "run": self.number,
        }
        return RunKeys(
            store.key(f"trajectory/run-{self.number}.safetensors", evaluation=panel.evaluation, **content),
            (store.key(f"weights/run-{self.number}.safetensors", validation=panel.validation, **content),),
            store.key(
                f"release/run-{self.number}.safetensors",
                released=panel.released,
                member=self.member,
                which=panel.which,
                **content,
            ),
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return self._kept.all

    @property
    def weights(self) -> tuple[str, ...]:
        """Key of the shipped weights."""
        return self._kept.weights

    @property
    def trajectory(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return self._kept.trained[1:]

    @property
    def release(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return (self._kept.release,)

    def do(self, tick: Tick) -> None:
        """See ``Unit``."""
        panel, runs, member = self.work.panel, self.runs, self.member[None]
        ticked = 0

        def note_all(note: Note) -> None:
            nonlocal ticked
            for step, path in enumerate(self.files, start=1):
                note(float(step), read_state(path, panel.network))
                tick()
                ticked += 1

        keep_runs(
            self.work.store,
            self._kept,
            lambda: follow(panel, runs, note_all),
            lambda shipped, steps: measure_release(panel, runs, shipped, steps, member),
        )
        tick(self.ticks - ticked)


def sha_of(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
