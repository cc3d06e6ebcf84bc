"""What a fine-tuner has, audited: a language model, checkpoints of its training, the training file, other texts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from discreet._spread import available, one_torch_thread
from discreet._words import listing, whole
from discreet.attack_specs import chosen
from discreet.audit import Audit, Data, Dataset, Provenance
from discreet.auditing import attack_held
from discreet.auditing_release import CONTENT, content_of
from discreet.dealing_texts import Dealt, Texted, check_dealt, deal_texts
from discreet.llm._packed import Packed
from discreet.llm._variants import parse_variants
from discreet.llm.adapters import AdapterCheckpoint, adapters_in, check_base
from discreet.llm.model import LanguageModel, load
from discreet.llm.tokens import losses
from discreet.llm.trajectory import release, trajectory
from discreet.records import Record
from discreet.runs.analysis import Evidence, analyse, look_beside
from discreet.store import Store, StoreError
from discreet.summary import summarize

__all__ = ["UNITS", "VARIANTS", "Dealt", "Texted", "audit_language", "check_dealt", "deal_texts", "follow"]

Progress = Callable[[str, float], None]

VARIANTS = ("full", "bnb8", "bnb4(kind='nf4')", *(f"hqq(bits={bits})" for bits in (8, 4, 3, 2)))
"""What is compared when nobody says: full precision and quantizers that need no texts."""

RUN = "0"
UNITS = "units"
"""Folder below the run directory where single measurements are kept."""
_PACKAGES = ("discreet", "numpy", "scipy", "torch", "transformers")
_SHIPPED = "shipped checkpoint by run"
_ADAPTER = "adapter"
_ELSEWHERE = (_SHIPPED, _ADAPTER)  # settings that records do not tell: which row, and a folder's name


def audit_language(
    folder: str | Path,
    model: str,
    adapter: str | Path,
    texted: Texted,
    *,
    variants: Sequence[str] = VARIANTS,
    attacks: Sequence[str] = ("all",),
    revision: str | None = None,
    trust_remote_code: bool = False,
    dtype: str = "float32",
    device: str = "cpu",
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = lambda doing, share: None,
) -> Audit:
    """Rank quantizers of a fine-tuned model from its checkpoints, attack what ships, and report.

    r is taken over the checkpoints on the texts that the model was not trained on. The last checkpoint is attacked.
    The model before fine-tuning serves attacks as a reference. Three tenths of the non-members are known to the
    attacker, who fits on them; they are not judged. An audit of the same fine-tuning and texts that lies in the
    folder already (with other variants or attacks, or in another precision) is replaced once all is done.

    Args:
        folder: The run directory.
        model: What was fine-tuned: a folder or a name on the hub.
        adapter: Output folder of the training, with ``checkpoint-STEP`` folders; or one adapter, which is attacked
            but not ranked.
        texted: The texts.
        variants: What may be shipped, ``"full"`` first.
        attacks: Spec strings.
        revision: Of a name on the hub.
        trust_remote_code: Run Python code that comes with the model.
        dtype: Of weights and forward passes.
        device: Where the model runs.
        seed: Of every draw.
        workers: Threads, a core each; while measuring each has a copy of the model's linear layers. None: one of
            these, and for attacks one a core.
        progress: Called with what is being done, and the share of all work that is done.

    Returns:
        The audit, as written to ``audit.json``, ``report.html`` and ``exposed.csv``.

    Raises:
        LanguageModelError: The model or an adapter cannot be had, or they do not belong together.
        TextError: The texts cannot be used.
        QuantizerError, SpecError: A variant or an attack that cannot be.
        StoreError: The folder is in use, cannot be written, or holds the audit of something else.
    """
    if not variants or variants[0] != "full":
        raise ValueError(f"variants: expected full precision first, 'full', got {list(variants)}")
    parse_variants(variants)
    chosen(attacks)
    store, units = Store(folder), Store(Path(folder) / UNITS)
    with store.lock(), units.lock():
        progress("reading the model", 0.0)
        checkpoints = adapters_in(adapter)
        base = load(model, revision=revision, trust_remote_code=trust_remote_code, dtype=dtype, device=device)
        for each in checkpoints:
            check_base(each, base)
        dealt = deal_texts(base, texted, seed)
        check_dealt(dealt, variants)
        subject = _Subject(Path(adapter).expanduser().resolve().name, checkpoints, _sources(texted))
        _check_folder(store.folder, subject)
        followed = follow(
            units,
            base,
            checkpoints,
            variants,
            dealt,
            workers=workers or 1,
            progress=_part(progress, 0.02, 0.5),
        )
        shipped = release(
            units,
            base,
            {RUN: checkpoints},
            variants,
            dealt.judged,
            dealt.member[None],
            calibration=dealt.calibration,
            workers=workers or 1,
            progress=_part(progress, 0.5, 0.75),
        )
        shipped = _known(units, base, dealt, shipped)
        audit = _audit(base, subject, texted, dealt, followed, shipped, seed)
        _keep(store, audit, followed, shipped)
        return attack_held(
            store,
            audit,
            attacks,
            strict=False,
            workers=workers or available(),
            backend=None,
            progress=lambda doing, share: progress(doing, 0.75 + 0.25 * share),
        )


def follow(
    units: Store,
    base: LanguageModel,
    checkpoints: Sequence[AdapterCheckpoint],
    variants: Sequence[str],
    dealt: Dealt,
    *,
    packed: Packed | None = None,
    workers: int = 1,
    progress: Callable[[float], None] = lambda share: None,
) -> Record:
    """Losses of checkpoints on the evaluation texts; what is in the store, or ``packed``, is not made again."""
    return trajectory(
        units,
        base,
        {RUN: checkpoints},
        variants,
        dealt.evaluation,
        calibration=dealt.calibration,
        packed=packed,
        workers=workers,
        progress=progress,
    )


@dataclass(frozen=True)
class _Subject:
    """What an audit is of."""

    adapter: str
    checkpoints: Sequence[AdapterCheckpoint]
    texts: tuple[Dataset, ...]

    @property
    def shas(self) -> list[str]:
        """Of the checkpoints."""
        return [each.sha for each in self.checkpoints]


def _sources(texted: Texted) -> tuple[Dataset, ...]:
    files = [texted.members, texted.nonmembers, *([texted.calibration] if texted.calibration else [])]
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    return tuple(Dataset(path.name, sha, "", path.name) for path, sha in zip(files, hashes, strict=True))


def _check_folder(folder: Path, subject: _Subject) -> None:
    """Refuse to replace the audit of another fine-tuning, or on other members or non-members."""
    if not (folder / "audit.json").is_file():
        return
    there = Audit.load(folder / "audit.json")
    known = there.settings.get("checkpoints")
    own, texts = f"adapter {subject.adapter!r} ({_short(subject.shas[-1])})", subject.texts[:2]
    if "texts sha256" not in there.settings or not isinstance(known, list) or not known:
        other = f"another audit, {there.title!r}"
    elif not set(known) & set(subject.shas):  # a training that went on has some of its checkpoints still
        other = f"the audit of adapter {there.settings.get(_ADAPTER, '')!r} ({_short(known[-1])})"
    elif [each.sha256 for each in there.provenance.data[:2]] != [each.sha256 for each in texts]:
        other, own = f"an audit on {_named(there.provenance.data[:2])}", _named(texts)
    else:
        return
    raise StoreError(
        f"{folder}: holds {other}, which one of {own} would replace; name another folder (--folder), or remove"
        " audit.json there"
    )


def _named(texts: Sequence[Dataset]) -> str:
    return listing([f"{each.name} ({_short(each.sha256)})" for each in texts])


def _short(sha: str) -> str:
    return f"{sha[:12]}…"


def _part(progress: Progress, low: float, high: float) -> Callable[[float], None]:
    return lambda share: progress(
        "measuring checkpoints" if low < 0.5 else "measuring tokens", low + (high - low) * share
    )


def _known(units: Store, base: LanguageModel, dealt: Dealt, shipped: Record) -> Record:
    """The record with what the attacker knows besides: some answers, and losses before fine-tuning."""
    versions = {name: metadata.version(name) for name in ("discreet", "torch", "transformers")}
    module: Any = base.module
    how = {"dtype": str(module.dtype), "device": base.device.type, "versions": versions}
    key = units.key("release/before.safetensors", base=base.sha, texts=dealt.judged.sha, **how)

    def write(aside: Path) -> None:
        with one_torch_thread():  # as the checkpoints are measured, whose losses these are taken off
            save_file({"loss": losses(base, dealt.judged)}, aside)

    path = units.make(key, write)
    more: dict[str, np.ndarray] = {"pretrained_loss": load_file(path)["loss"]}
    more |= {"prompt": np.array(dealt.prompt)} if any(dealt.prompt) else {}
    if dealt.public.any():
        more["public"] = dealt.public
    axes = dict(shipped.axes) | dict.fromkeys(more, ("sample",))
    return replace(shipped, signals=dict(shipped.signals) | more, axes=axes)


def _audit(
    base: LanguageModel,
    subject: _Subject,
    texted: Texted,
    dealt: Dealt,
    followed: Record,
    shipped: Record,
    seed: int,
) -> Audit:
    evidence = Evidence(
        replace(followed, about={**followed.about, "n_train": dealt.trained}),
        shipped,
        _storage(shipped),
        seed=seed,
        task="lm",
    )
    beside = look_beside(evidence, followed.variants)
    note = (
        "r is taken over all checkpoints of the one fine-tuning there is, on the texts it was not trained on."
    )
    analysis = analyse(evidence, beside, name="as shipped", note=note)
    settings = {
        "model": base.name,
        "revision": base.revision or "",
        "sha256": base.sha,
        _ADAPTER: subject.adapter,
        "checkpoints": subject.shas,
        **{name: followed.about[name] for name in ("dtype", "device")},
        "variants": list(followed.variants),
        "texts": {name: value for name, value in vars(texted).items() if not isinstance(value, Path)},
        "texts sha256": [each.sha256 for each in subject.texts],
        "texts seed": seed,
        _SHIPPED: {RUN: float(shipped.step[0])},
        CONTENT: content_of(shipped),
    }
    return Audit(
        f"What {Path(base.name).name}, fine-tuned, and its quantized forms give away",
        (analysis,),
        summary=summarize(analysis),
        settings=settings,
        provenance=Provenance(
            seed,
            {name: metadata.version(name) for name in _PACKAGES},
            subject.texts,
        ),
        data=Data(dict(dealt.counts)),
        notes=tuple(_notes(subject.checkpoints, dealt, shipped)),
    )


def _storage(shipped: Record) -> Mapping[str, Mapping[str, Any]]:
    return {
        variant: {
            "bits_per_weight": float(shipped.signal("bits_per_weight")[row]),
            "bytes": int(shipped.signal("stored_bytes")[row]),
        }
        for row, variant in enumerate(shipped.variant)
    }


def _notes(checkpoints: Sequence[AdapterCheckpoint], dealt: Dealt, shipped: Record) -> Iterator[str]:
    steps = [each.step for each in checkpoints]
    yield (
        f"{len(steps)} checkpoint{'s' * (len(steps) > 1)} of one fine-tuning (steps "
        f"{listing([str(s) for s in steps], 12)}); sizes, performance and attacks are of the last one, step "
        f"{shipped.step[0]:g}."
    )
    if len(steps) < 2:
        yield "r compares checkpoints, and there is only one: keep several (save_strategy of the Trainer)."
    yield (
        "One training run: intervals speak about this model, and not about another fine-tuning. With more runs, "
        "attacks that compare them are stronger (discreet study language)."
    )
    yield (
        f"Members are texts of the training file, non-members {whole(len(dealt.evaluation))} texts that it does not "
        "hold. If the two were not drawn alike, an attack may tell them apart without any leak; a classifier that "
        "sees no model looks for that."
    )


def _keep(store: Store, audit: Audit, followed: Record, shipped: Record) -> None:
    """Write records where attacks look for them; the audit itself is written when these are done."""
    settings = {name: value for name, value in audit.settings.items() if name not in _ELSEWHERE}
    contents = {"trajectory": content_of(followed), "release": audit.settings[CONTENT]}
    for kind, record in (("trajectory", followed), ("release", shipped)):
        named = replace(record, about={**record.about, "settings": settings})
        key = store.key(f"{kind}/run-{RUN}.safetensors", settings=settings, content=contents[kind])
        store.make(key, named.save)
