"""r_Q at the end of a training by Lightning's ``Trainer``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import default_collate

from discreet.batches import Batches
from discreet.callbacks._measuring import Measuring, Settings, check_whole
from discreet.callbacks._members import members
from discreet.callbacks._untouched import untouched
from discreet.ranking import Ranking
from discreet.recorder import Quantizers
from discreet.records import Record

__all__ = ["RecorderCallback"]


class RecorderCallback(Callback):
    """Measures quantized checkpoints while Lightning trains, and prints r_Q and what it cost at the end.

    The module is copied, never changed; random streams are left as they were. Of several processes only the first
    measures and writes.

    Args:
        evaluation: A data set of samples ``(x, y)`` that the module is not trained on. Those that are found in the
            training data are left out, and counted.
        quantizers: Specs, each a variant.
        task: ``"ce"`` for classes, ``"bce"`` for one logit, ``"mse"``.
        every: Optimizer steps from one measurement to the next; None: at the end of each epoch.
        run: Label of the training run.
        folder: Run directory, where each step is kept as it is measured, and the whole at the end as
            ``run-LABEL.safetensors`` (with a hash of the label if that holds more than ASCII letters, digits and
            ``.-_``, or over 60 of them); a resumed training goes on with it. None: in memory.
        share: Skip measurements that would take more than this share of the training's time so far. Which those are
            depends on the machine.
        batch_size: Of the evaluation.
        collate: Makes a batch of a list of items; None: as PyTorch does.
        ask: ``(module, batch) -> logits`` [sample, class]; None: ``module(x)``.
        label: ``batch -> y``; None: the batch's second part.
        about: JSON to keep with the record.
        quiet: Print nothing.

    Attributes:
        record: What was measured, at the end of the training; None on other processes.
        ranking: Its ranking; None of fewer than two checkpoints.

    Raises:
        ValueError: Before the training starts: samples, labels, outputs or quantizers that do not fit.

    Source: Algorithm 2 of "An Indicator of Membership Inference Security in Post-Training Quantized Models".

    Example:
        >>> callback = RecorderCallback(held_out, ["full", "sign"])  # doctest: +SKIP
        >>> Trainer(callbacks=[callback]).fit(module, loader)  # doctest: +SKIP
        >>> callback.ranking.to_json()  # doctest: +SKIP
    """

    def __init__(
        self,
        evaluation: Any,
        quantizers: Quantizers = ("full",),
        *,
        task: str = "ce",
        every: int | None = None,
        run: str = "0",
        folder: str | Path | None = None,
        share: int | float | None = None,
        batch_size: int = 64,
        collate: Callable[[list[Any]], Any] = default_collate,
        ask: Callable[[nn.Module, Any], Tensor] | None = None,
        label: Callable[[Any], Tensor] | None = None,
        about: Mapping[str, Any] | None = None,
        quiet: bool = False,
    ) -> None:
        self._settings = Settings(quantizers, task, every, run, folder, share, about or {}, quiet)
        self._evaluation, self._batch_size, self._collate = evaluation, batch_size, collate
        self._ask, self._label = ask or forward, label or second
        self._measuring: Measuring | None = None
        self.record: Record | None = None
        self.ranking: Ranking | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Read the evaluation samples, and refuse what does not fit."""
        if not trainer.is_global_zero:
            return
        check_whole(pl_module)
        with untouched():
            items = [self._evaluation[place] for place in range(len(self._evaluation))]
            size = self._batch_size
            parts = [self._collate(items[start : start + size]) for start in range(0, len(items), size)]
            found = members(self._evaluation, getattr(trainer.train_dataloader, "dataset", None))
        y = torch.cat([self._label(part).detach().cpu() for part in parts])
        self._measuring = Measuring(self._settings, pl_module, Batches(parts, self._ask), y, found)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Measure after each ``every`` steps."""
        del outputs, batch, batch_idx
        every, step = self._settings.every, trainer.global_step
        if self._measuring is not None and every is not None and step and step % every == 0:
            self._measuring.step(pl_module, step)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure after each epoch."""
        if self._measuring is not None and self._settings.every is None:
            self._measuring.step(pl_module, trainer.global_step)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Say what was found."""
        del trainer, pl_module
        if self._measuring is not None:
            self.record, self.ranking = self._measuring.end()


def forward(module: nn.Module, batch: Any) -> Tensor:
    """Ask a module about the first part of a batch."""
    x = batch[0] if isinstance(batch, list | tuple) else batch
    if not isinstance(x, Tensor):
        raise ValueError(
            f"evaluation: expected batches (x, y) of tensors, got {type(x).__name__}; give ask=... and label=..."
        )
    return module(x.to(next(module.parameters()).device))


def second(batch: Any) -> Tensor:
    """The labels of a batch (x, y)."""
    if not isinstance(batch, list | tuple) or len(batch) != 2 or not isinstance(batch[1], Tensor):
        raise ValueError(
            f"evaluation: expected batches (x, y) of tensors, got {type(batch).__name__}; give label=..."
        )
    return batch[1]
