"""What the callbacks share: a recorder that is fed while a library trains, and what it says at the end."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discreet._words import interval, label, number, percent, whole
from discreet.batches import Batches
from discreet.callbacks._members import Members
from discreet.callbacks._untouched import untouched
from discreet.ranking import Ranking, rank
from discreet.recorder import Quantizers, Recorder
from discreet.records import Record

__all__ = ["Measuring", "Settings", "check_whole"]

_SHARDED = ("DTensor", "FlatParameter")


@dataclass(frozen=True)
class Settings:
    """What a user asks of a callback; see ``huggingface.RecorderCallback``."""

    quantizers: Quantizers
    task: str
    every: int | None
    run: str
    folder: str | Path | None
    share: int | float | None
    about: Mapping[str, Any]
    quiet: bool

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise ValueError(f"every: expected at least 1 step, or None for each epoch, got {self.every}")
        if self.share is not None and not self.share > 0:
            raise ValueError(f"share: expected a share of the training's time above 0, got {self.share}")


class Measuring:
    """One training being measured, in the one process that writes.

    Args:
        settings: What was asked for.
        model: The model as it starts; every variant of it is asked once about the first batch, so that what does
            not fit is said before the training.
        x: Evaluation samples.
        y: Their labels.
        found: Which of them the training has seen.

    Raises:
        ValueError: Labels, outputs or quantizers that do not fit, or fewer than two samples that are no members.
    """

    def __init__(self, settings: Settings, model: nn.Module, x: Batches, y: Tensor, found: Members) -> None:
        self._begun = time.perf_counter()
        self._settings, self._found = settings, found
        if (left := int((~found.member).sum())) < 2:
            raise ValueError(
                f"evaluation: {left} of {len(found.member)} samples are not in the training data; at least 2 are "
                "needed, since r_Q is taken on samples that the model was not trained on"
            )
        about = {"n_train": found.training} if found.training else {}
        self.recorder = Recorder(
            x,
            y,
            settings.quantizers,
            run=settings.run,
            task=settings.task,
            folder=settings.folder,
            member=found.member[None] if found.member.any() else None,
            about=about | dict(settings.about),
        )
        self._seen: set[int] = set()
        self.skipped = 0
        with untouched():
            self._try(model, x, y)
        self._setting_up = time.perf_counter() - self._begun

    def step(self, model: nn.Module, step: int) -> None:
        """Measure the model after so many optimizer steps, once, unless that would take more than its share."""
        if step in self._seen:
            return
        self._seen.add(step)
        spent, share = self.overhead, self._settings.share
        each = self.recorder.overhead / max(1, len(self._seen) - 1 - self.skipped)
        if share is not None and spent + each > share * (time.perf_counter() - self._begun - spent):
            self.skipped += 1
            return
        with untouched():
            self.recorder.step(model, step)

    @property
    def overhead(self) -> float:
        """Seconds spent so far, setting up included."""
        return self._setting_up + self.recorder.overhead

    def end(self) -> tuple[Record | None, Ranking | None]:
        """Put the steps together, keep and rank them, and say what was found; None where there is too little."""
        training = time.perf_counter() - self._begun - self.overhead
        if not self.recorder.steps:
            why = (
                f"all {self.skipped} checkpoints were skipped" if self.skipped else "there was no checkpoint"
            )
            self._say([f"nothing was measured: {why}"])
            return None, None
        out = None
        if self._settings.folder is not None:
            out = Path(self._settings.folder) / f"run-{_in_file_names(self._settings.run)}.safetensors"
        record = self.recorder.record(out)
        if len(self.recorder.steps) < 2:
            self._say(["no r_Q from one checkpoint: at least 2 are needed", self._cost(training)])
            return record, None
        ranking = rank(record)
        self._say([*self._lines(ranking), self._cost(training), *self._advice(ranking, out)])
        return record, ranking

    def _try(self, model: nn.Module, x: Batches, y: Tensor) -> None:
        first = Batches(x.parts[:1], x.ask)
        trial = Recorder(first, y[: len(first)], self._settings.quantizers, task=self._settings.task)
        trial.step(model)

    def _lines(self, ranking: Ranking) -> list[str]:
        rows = ranking.to_json()["variants"]
        steps, samples = len(self.recorder.steps), max((row["samples"] for row in rows), default=0)
        lines = [
            f"r_Q of run {self._settings.run} from {steps} checkpoints and {whole(samples)} evaluation samples"
            " (higher is safer):"
        ]
        for row in rows:
            told = f"r {number(row['r'])} ({interval(row['low'], row['high'])})"
            names = ", ".join(row["diagnostics"])
            shown = told if row["status"] == "ok" else f"r is {row['status']}"
            lines.append(f"  {label(row['variant'])}: {shown}{f'; {names}' if names else ''}")
        return lines

    def _cost(self, training: float) -> str:
        skipped = f"; {self.skipped} checkpoints were skipped to keep to that" if self.skipped else ""
        share = percent(self.overhead / training) if training > 0 else "–"
        return f"measuring took {number(self.overhead)} s, {share} of the training's {number(training)} s{skipped}"

    def _advice(self, ranking: Ranking, out: Path | None) -> list[str]:
        found, lines = self._found, list(ranking.notes)
        if found.looked == 0:
            lines.append(
                "evaluation samples could not be compared with the training data: no member may be among them"
            )
        elif found.training is not None and found.looked < found.training:
            lines.append(
                f"only {whole(found.looked)} of {whole(found.training)} training samples were compared with them"
            )
        where = f"{out.parent}/run-*.safetensors" if out else "their records"
        lines.append(f"one run tells no variants apart: train several with other seeds, then rank {where}")
        return lines

    def _say(self, lines: Sequence[str]) -> None:
        if not self._settings.quiet:
            print("\n".join(f"discreet: {line}" for line in lines), flush=True)


def _in_file_names(run: str) -> str:
    """A label as any file system takes it; one that is altered for that ends in a hash of what it was.

    Example:
        >>> _in_file_names("seed-3"), _in_file_names("a/b"), _in_file_names("a b")
        ('seed-3', 'a_b-c14cddc0', 'a_b-c8687a08')
    """
    name = re.sub(r"[^A-Za-z0-9._-]", "_", run)[:60]
    return name if name == run else f"{name}-{hashlib.sha256(run.encode()).hexdigest()[:8]}"


def check_whole(model: nn.Module) -> None:
    """Refuse a model whose parameters are spread over processes: this one does not hold the whole of them.

    Raises:
        ValueError: Naming the first such parameter.
    """
    for name, value in model.named_parameters():
        kinds = {kind.__name__ for kind in type(value).__mro__}
        if kinds.intersection(_SHARDED) or hasattr(value, "ds_id") or value.device == torch.device("meta"):
            raise ValueError(
                f"model: parameter {name!r} is sharded over processes; save checkpoints, and measure those afterwards"
            )
