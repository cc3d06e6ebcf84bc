"""A language model measured while the ``Trainer`` of Hugging Face's transformers fine-tunes it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from discreet._words import interval, number, percent
from discreet.auditing_language import UNITS, VARIANTS, Dealt, Texted, check_dealt, deal_texts, follow
from discreet.callbacks._untouched import untouched
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
    A checkpoint that cannot be measured because the folder is in use or the disk is full is left to that audit; the
    training goes on. The model in training is not touched; another copy of the base and one of its linear layers are
    kept beside it. Of several processes only the first measures.

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
            cannot be used.

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
        self._ready: tuple[LanguageModel, Dealt] | None = None
        self._seen: list[AdapterCheckpoint] = []
        self._spent = self._begun = 0.0
        self.ranking: Ranking | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Read model and texts, and refuse what does not fit."""
        del args, control, kwargs
        if not state.is_world_process_zero:
            return
        self._begun = time.perf_counter()
        with untouched():
            source, how = self._base
            base = load(source, **how)
            dealt = deal_texts(base, self._texted, self._seed)
            check_dealt(dealt, self._variants)
            self._ready = base, dealt
        self._seen = []
        self._spent = time.perf_counter() - self._begun

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure what was just saved."""
        del control, kwargs
        if self._ready is None:
            return
        begun = time.perf_counter()
        folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        saved = list(adapters_in(folder)) if folder.is_dir() else []
        units = Store(self._folder / UNITS)
        base, dealt = self._ready
        try:
            with untouched(), units.lock():
                note_base(str(args.output_dir), base)
                follow(units, base, saved, self._variants, dealt)
            self._seen += saved
        except StoreError as error:
            self._say([f"step {state.global_step} is left to the audit: {error}"])
        self._spent += time.perf_counter() - begun

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Say what was found."""
        del args, state, control, kwargs
        if self._ready is None:
            return
        base, dealt = self._ready
        self._ready = None
        if len(self._seen) < 2:
            self._say(["no r_Q from fewer than two checkpoints: save some on the way (save_strategy)"])
            return
        units = Store(self._folder / UNITS)
        try:
            with units.lock():
                record = follow(units, base, self._seen, self._variants, dealt)
        except StoreError as error:
            self._say([f"r_Q is left to the audit: {error}"])
            return
        self.ranking = rank(record, n_train=dealt.trained)
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

    def _say(self, lines: Sequence[str]) -> None:
        if not self._quiet:
            print("\n".join(f"discreet: {line}" for line in lines), flush=True)


def _told(row: Mapping[str, Any]) -> str:
    """r with its interval and what to heed; why there is none of a variant without."""
    if row["status"] != "ok":
        return f"is {row['status']}"
    return "; ".join([f"{number(row['r'])} ({interval(row['low'], row['high'])})", *row["diagnostics"]])
