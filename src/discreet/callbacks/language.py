"""A language model measured while the ``Trainer`` of Hugging Face's transformers fine-tunes it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from discreet._words import interval, number, percent
from discreet.auditing_language import UNITS, VARIANTS, Dealt, Texted, check_dealt, deal_texts, follow
from discreet.callbacks._same_base import is_same_base
from discreet.callbacks._untouched import untouched
from discreet.llm._packed import Packed
from discreet.llm._variants import parse_variants
from discreet.llm.adapters import AdapterCheckpoint, adapters_in, note_base
from discreet.llm.model import LanguageModel, load
from discreet.ranking import Ranking, rank
from discreet.store import Store, StoreError

__all__ = ["LanguageCallback"]


class LanguageCallback(TrainerCallback):
    """Measures each checkpoint as the ``Trainer`` saves it, adapter or whole model, and prints r_Q at the end.

    What it measured lies in ``folder``, where ``discreet audit --hf MODEL --adapter OUTPUT_DIR`` with the same texts
    finds it: that audit then only attacks. Keep all checkpoints (no ``save_total_limit``), since r compares them.
    A checkpoint that cannot be measured (the folder is in use, the disk is full, a quantizer refuses a layer, memory
    runs out) is left to that audit, and the training goes on. A resumed training counts the checkpoints before it.
    The model in training is not touched. Beside it memory holds another copy of the base, one of its linear layers,
    and, packed, what quantizers made of layers that no adapter touches: at most as much as the base takes.
    Of several processes only the first measures.

    Args:
        model: What is fine-tuned: a folder or a name on the hub.
        texted: The training file and texts that it does not hold.
        folder: Run directory.
        variants: ``"full"`` first.
        dtype: Of weights and forward passes when measured.
        device: Where that happens.
        seed: Of every draw; that of the audit later on.
        revision: Of a name on the hub.
        trust_remote_code: Run Python code that comes with the model.
        quiet: Print nothing.

    Attributes:
        ranking: At the end of the training; None of fewer than two checkpoints, and on other processes.

    Raises:
        SpecError, LanguageModelError, TextError: Before the training starts: a variant, a model or texts that
            cannot be used, a base that is not the one whose weights are in training, or an output folder with
            checkpoints of another.

    Source: Algorithm 2 of "An Indicator of Membership Inference Security in Post-Training Quantized Models".

    Example:
        >>> texted = Texted(Path("train.jsonl"), Path("held-out.jsonl"))
        >>> callback = LanguageCallback("base", texted, "my-run")  # doctest: +SKIP
        >>> Trainer(model, arguments, train_dataset=data, callbacks=[callback]).train()  # doctest: +SKIP
    """

    def __init__(
        self,
        model: str,
        texted: Texted,
        folder: str | Path,
        *,
        variants: Sequence[str] = VARIANTS,
        dtype: str = "float32",
        device: str = "cpu",
        seed: int = 0,
        revision: str | None = None,
        trust_remote_code: bool = False,
        quiet: bool = False,
    ) -> None:
        parse_variants(variants)
        self._base = (
            model,
            {"revision": revision, "trust_remote_code": trust_remote_code, "dtype": dtype, "device": device},
        )
        self._texted, self._folder, self._variants, self._seed = texted, Path(folder), variants, seed
        self._quiet = quiet
        self._ready: tuple[LanguageModel, Dealt, Packed] | None = None
        self._seen: dict[int, AdapterCheckpoint] = {}
        self._failed = ""
        self._spent = self._begun = 0.0
        self.ranking: Ranking | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Read model and texts, and refuse what does not fit."""
        del control
        if not state.is_world_process_zero:
            return
        self._begun = time.perf_counter()
        self._seen, self._failed, self.ranking = {}, "", None
        resumed = state.global_step > 0
        with untouched():
            source, how = self._base
            base = load(source, **how)
            is_checked = is_same_base(kwargs["model"], base, resumed=resumed)
            dealt = deal_texts(base, self._texted, self._seed)
            check_dealt(dealt, self._variants)
            if is_checked:  # what is noted is believed later on
                note_base(str(args.output_dir), base)
            elif not resumed:
                self._say(["no weights to compare with the base (all quantized, or spread over devices)"])
            size = sum(value.nbytes for value in base.module.parameters())
            self._ready = base, dealt, Packed(size)
        if resumed:
            self._look_back(Path(str(args.output_dir)), state.global_step)
        self._spent = time.perf_counter() - self._begun

    def _look_back(self, folder: Path, last: int) -> None:
        """Count the checkpoints of a training before it was resumed; what was not measured is at the end."""
        for place in folder.glob("checkpoint-*"):
            step = place.name.removeprefix("checkpoint-")
            if not step.isdigit() or int(step) > last:
                continue
            try:
                self._seen |= {each.step: each for each in adapters_in(place)}
            except Exception as error:  # left by a kill, say, while it was saved
                self._say([f"{place.name} is left out: {error}"])

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure what was just saved."""
        del control, kwargs
        if self._ready is None:
            return
        begun = time.perf_counter()
        folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        units = Store(self._folder / UNITS)
        base, dealt, packed = self._ready
        try:
            saved = adapters_in(folder)
            with untouched(), units.lock():
                follow(units, base, saved, self._variants, dealt, packed=packed)
            self._seen |= {each.step: each for each in saved}
        except Exception as error:  # hours of training count for more than one measurement
            self._leave(f"step {state.global_step}", error)
        self._spent += time.perf_counter() - begun

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Say what was found."""
        del args, state, control, kwargs
        if self._ready is None:
            return
        base, dealt, packed = self._ready
        self._ready = None
        if len(self._seen) < 2:
            why = "some are left to the audit" if self._failed else "save some on the way (save_strategy)"
            self._say([f"no r_Q from fewer than two checkpoints: {why}"])
            return
        units = Store(self._folder / UNITS)
        try:
            with untouched(), units.lock():
                seen = [self._seen[step] for step in sorted(self._seen)]
                record = follow(units, base, seen, self._variants, dealt, packed=packed)
            self.ranking = rank(record, n_train=dealt.trained)
        except Exception as error:  # the trained model is not yet handed back
            self._leave("r_Q", error)
            return
        rows = self.ranking.to_json()["variants"]
        training = time.perf_counter() - self._begun - self._spent
        share = percent(self._spent / training) if training > 0 else "–"
        self._say(
            [
                f"r_Q from {len(self._seen)} checkpoints and {rows[0]['samples']:,} texts (higher is safer):",
                *(f"  {row['variant']}: r {_told(row)}" for row in rows),
                f"measuring took {number(self._spent)} s, {share} of the training's {number(training)} s",
                f"next: discreet audit --hf … --folder {self._folder}",
            ]
        )

    def _leave(self, what: str, error: Exception) -> None:
        """Say that the audit has to do it, and why; the same reason once."""
        why = str(error) if isinstance(error, StoreError | ValueError) else f"{type(error).__name__}: {error}"
        self._say([f"{what} is left to the audit{', again' if why == self._failed else f': {why}'}"])
        self._failed = why

    def _say(self, lines: Sequence[str]) -> None:
        if not self._quiet:
            print("\n".join(f"discreet: {line}" for line in lines), flush=True)


def _told(row: Mapping[str, Any]) -> str:
    """r with its interval and what to heed; why there is none of a variant without."""
    if row["status"] != "ok":
        return f"is {row['status']}"
    return "; ".join([f"{number(row['r'])} ({interval(row['low'], row['high'])})", *row["diagnostics"]])
