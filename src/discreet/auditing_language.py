"""What a fine-tuner has, audited: a language model, checkpoints of its training, the training file, other texts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from discreet._words import listing, whole
from discreet.attack_specs import chosen
from discreet.audit import Audit, Data, Dataset, Provenance
from discreet.auditing import audit_attacks
from discreet.dealing_texts import Dealt, Texted, check_dealt, deal_texts
from discreet.llm._variants import parse_variants
from discreet.llm.adapters import AdapterCheckpoint, adapters_in, check_base
from discreet.llm.model import LanguageModel, load
from discreet.llm.tokens import losses
from discreet.llm.trajectory import release, trajectory
from discreet.records import Record
from discreet.runs.analysis import Evidence, analyse, look_beside
from discreet.store import Store
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
    workers: int = 1,
    progress: Progress = lambda doing, share: None,
) -> Audit:
    """Rank quantizers of a fine-tuned model from its checkpoints, attack what ships, and report.

    r is taken over the checkpoints on the texts that the model was not trained on. The last checkpoint is attacked.
    The model before fine-tuning serves attacks as a reference. Three tenths of the non-members are known to the
    attacker, who fits on them; they are not judged.

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
        workers: Threads, each with a working copy of the model.
        progress: Called with what is being done, and the share of all work that is done.

    Returns:
        The audit, as written to ``audit.json``, ``report.html`` and ``exposed.csv``.

    Raises:
        LanguageModelError: The model or an adapter cannot be had, or they do not belong together.
        TextError: The texts cannot be used.
        QuantizerError, SpecError: A variant or an attack that cannot be.
        StoreError: The folder is in use or cannot be written.
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
        followed = follow(
            units, base, checkpoints, variants, dealt, workers=workers, progress=_part(progress, 0.02, 0.5)
        )
        shipped = release(
            units,
            base,
            {RUN: checkpoints},
            variants,
            dealt.judged,
            dealt.member[None],
            calibration=dealt.calibration,
            workers=workers,
            progress=_part(progress, 0.5, 0.75),
        )
        shipped = _known(units, base, dealt, shipped)
        audit = _audit(base, checkpoints, texted, dealt, followed, shipped, seed)
        _keep(store, audit, followed, shipped)
    return audit_attacks(
        folder,
        attacks,
        strict=False,
        workers=workers,
        progress=lambda doing, share: progress(doing, 0.75 + 0.25 * share),
    )


def follow(
    units: Store,
    base: LanguageModel,
    checkpoints: Sequence[AdapterCheckpoint],
    variants: Sequence[str],
    dealt: Dealt,
    *,
    workers: int = 1,
    progress: Callable[[float], None] = lambda share: None,
) -> Record:
    """Losses of checkpoints on the evaluation texts; what is in the store is not measured again."""
    return trajectory(
        units,
        base,
        {RUN: checkpoints},
        variants,
        dealt.evaluation,
        calibration=dealt.calibration,
        workers=workers,
        progress=progress,
    )


def _part(progress: Progress, low: float, high: float) -> Callable[[float], None]:
    return lambda share: progress(
        "measuring checkpoints" if low < 0.5 else "measuring tokens", low + (high - low) * share
    )


def _known(units: Store, base: LanguageModel, dealt: Dealt, shipped: Record) -> Record:
    """The record with what the attacker knows besides: some answers, and losses before fine-tuning."""
    versions = {name: metadata.version(name) for name in ("discreet", "torch", "transformers")}
    key = units.key("release/before.safetensors", base=base.sha, texts=dealt.judged.sha, versions=versions)
    path = units.make(key, lambda aside: save_file({"loss": losses(base, dealt.judged)}, aside))
    more: dict[str, np.ndarray] = {"pretrained_loss": load_file(path)["loss"]}
    more |= {"prompt": np.array(dealt.prompt)} if any(dealt.prompt) else {}
    if dealt.public.any():
        more["public"] = dealt.public
    axes = dict(shipped.axes) | dict.fromkeys(more, ("sample",))
    return replace(shipped, signals=dict(shipped.signals) | more, axes=axes)


def _audit(
    base: LanguageModel,
    checkpoints: Sequence[AdapterCheckpoint],
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
    files = [texted.members, texted.nonmembers, *([texted.calibration] if texted.calibration else [])]
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    settings = {
        "model": base.name,
        "revision": base.revision or "",
        "sha256": base.sha,
        "checkpoints": [each.sha for each in checkpoints],
        "variants": list(followed.variants),
        "texts": {name: value for name, value in vars(texted).items() if not isinstance(value, Path)},
        "texts sha256": hashes,
        "texts seed": seed,
        _SHIPPED: {RUN: float(shipped.step[0])},
    }
    return Audit(
        f"What {Path(base.name).name}, fine-tuned, and its quantized forms give away",
        (analysis,),
        summary=summarize(analysis),
        settings=settings,
        provenance=Provenance(
            seed,
            {name: metadata.version(name) for name in _PACKAGES},
            tuple(Dataset(path.name, sha, "", path.name) for path, sha in zip(files, hashes, strict=True)),
        ),
        data=Data(dict(dealt.counts)),
        notes=tuple(_notes(checkpoints, dealt, shipped)),
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
    """Write records and audit where attacks, gate and report look for them."""
    settings = {name: value for name, value in audit.settings.items() if name != _SHIPPED}
    for kind, record in (("trajectory", followed), ("release", shipped)):
        named = replace(record, about={**record.about, "settings": settings})
        store.make(
            store.key(f"{kind}/run-{RUN}.safetensors", settings=settings, about=record.about), named.save
        )
    audit.save(store.folder / "audit.json")
