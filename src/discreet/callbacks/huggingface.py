"""r_Q at the end of a training by the ``Trainer`` of Hugging Face's transformers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from discreet.batches import Batches
from discreet.callbacks._measuring import Measuring, Settings, check_whole
from discreet.callbacks._members import LABELS, members
from discreet.callbacks._untouched import untouched
from discreet.ranking import Ranking
from discreet.recorder import Quantizers
from discreet.records import Record

__all__ = ["RecorderCallback"]


class RecorderCallback(TrainerCallback):
    """Measures quantized checkpoints while a ``Trainer`` trains, and prints r_Q and what it cost at the end.

    The model is copied, never changed; random streams are left as they were. Of several processes only the first
    measures and writes.

    Args:
        evaluation: A data set of samples that the model is not trained on, with the training data's columns. Those
            that are found in the training data are left out, and counted; compared are the columns, but for labels,
            that both have and the ``Trainer`` does not remove.
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
        collate: Makes a batch of a list of items as they are; None: as the ``Trainer`` does, without the columns that
            it removes.
        ask: ``(model, batch) -> logits`` [sample, class]; None: the ``logits`` of what the model returns.
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
        >>> Trainer(model, arguments, train_dataset=data, callbacks=[callback]).train()  # doctest: +SKIP
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
        collate: Callable[[list[Any]], Any] | None = None,
        ask: Callable[[nn.Module, Any], Tensor] | None = None,
        about: Mapping[str, Any] | None = None,
        quiet: bool = False,
    ) -> None:
        self._settings = Settings(quantizers, task, every, run, folder, share, about or {}, quiet)
        self._evaluation, self._batch_size, self._collate = evaluation, batch_size, collate
        self._ask = ask or logits_of
        self._measuring: Measuring | None = None
        self.record: Record | None = None
        self.ranking: Ranking | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Read the evaluation samples, and refuse what does not fit."""
        del control
        if not state.is_world_process_zero:
            return
        model, loader = plain(kwargs["model"]), kwargs["train_dataloader"]
        check_whole(model)
        read = _read(model) if args.remove_unused_columns else None
        with untouched():
            items = [self._evaluation[place] for place in range(len(self._evaluation))]
            if self._collate is None and read is not None:
                items = [_without(item, read) for item in items]
            collate, size = self._collate or loader.collate_fn, self._batch_size
            parts = [collate(items[start : start + size]) for start in range(0, len(items), size)]
            found = members(self._evaluation, getattr(loader, "dataset", None), read)
        y = torch.cat([_labels(part).detach().cpu() for part in parts])
        self._measuring = Measuring(self._settings, model, Batches(parts, self._ask), y, found)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure after each ``every`` steps."""
        del args, control
        every = self._settings.every
        if self._measuring is not None and every is not None and state.global_step % every == 0:
            self._measuring.step(plain(kwargs["model"]), state.global_step)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure after each epoch."""
        del args, control
        if self._measuring is not None and self._settings.every is None:
            self._measuring.step(plain(kwargs["model"]), state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Say what was found."""
        del args, state, control, kwargs
        if self._measuring is not None:
            self.record, self.ranking = self._measuring.end()


def plain(model: nn.Module) -> nn.Module:
    """The module inside a compiled or distributed one."""
    while isinstance(inner := getattr(model, "_orig_mod", getattr(model, "module", None)), nn.Module):
        model = inner
    return model


def logits_of(model: nn.Module, batch: Mapping[str, Any]) -> Tensor:
    """Ask a model for its logits.

    Raises:
        ValueError: It does not return one row of them a sample.
    """
    device = next(model.parameters()).device
    given = {
        name: value.to(device)
        for name, value in batch.items()
        if name not in LABELS and isinstance(value, Tensor)
    }
    found = model(**given)
    outputs = found["logits"] if isinstance(found, Mapping) else getattr(found, "logits", found)
    if not isinstance(outputs, Tensor) or outputs.ndim > 2:
        shape = list(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(
            f"model: expected one row of logits a sample, got {shape}; give ask=... to make one (for "
            "language models, with a row a token, see discreet.callbacks.language)"
        )
    return outputs


def _labels(batch: Any) -> Tensor:
    for name in LABELS:
        if isinstance(batch, Mapping) and name in batch:
            return batch[name]
    keys = ", ".join(map(str, batch)) if isinstance(batch, Mapping) else type(batch).__name__
    raise ValueError(f"evaluation: expected batches with {', '.join(LABELS[:2])}, got {keys}")


def _read(model: nn.Module) -> set[str]:
    """The columns that a ``Trainer`` does not remove."""
    base: nn.Module = getattr(model, "get_base_model", lambda: model)()  # of an adapter
    return {*inspect.signature(base.forward).parameters, *LABELS}


def _without(item: Any, read: set[str]) -> Any:
    if not isinstance(item, Mapping):
        return item
    return {name: value for name, value in item.items() if name in read}
