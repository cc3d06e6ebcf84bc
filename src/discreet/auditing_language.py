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

from discreet._words import listing, whole
from discreet.attack_specs import chosen
from discreet.audit import Audit, Data, Dataset, Provenance
from discreet.auditing import audit_attacks
from discreet.llm._variants import parse_variants
from discreet.llm.adapters import AdapterCheckpoint, adapters_in, check_base
from discreet.llm.encoding import Encoded, encode
from discreet.llm.model import LanguageModel, load
from discreet.llm.texts import TextError, Texts, apart, joined, read_texts
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
_CALIBRATION, _PUBLIC, _FEW = 128, 0.3, 60
_PACKAGES = ("discreet", "numpy", "scipy", "torch", "transformers")
_SHIPPED = "shipped checkpoint by run"


@dataclass(frozen=True)
class Texted:
    """Texts and how to read them.

    Attributes:
        members: The training file: what the model was fine-tuned on.
        nonmembers: Texts of the same kind that it was not trained on.
        calibration: Texts for quantizers that look at inputs (GPTQ); None: some of the non-members, which are then
            not judged.
        prompt: Column of prompts, where it has another name than usual.
        answer: Column of what is scored.
        mask_prompt: Score the answer alone.
        on_long: What to do with texts longer than the context: ``"refuse"``, ``"split"`` or ``"cut"``.
        most: At most so many texts of either kind, drawn at random; None: all.
    """

    members: Path
    nonmembers: Path
    calibration: Path | None = None
    prompt: str | None = None
    answer: str | None = None
    mask_prompt: bool = True
    on_long: str = "refuse"
    most: int | None = None


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


@dataclass(frozen=True, eq=False)
class Dealt:
    """Texts by what they are for.

    Attributes:
        evaluation: Non-members, which r is taken over.
        judged: Members, then the same non-members, which attacks are about.
        member: Which of those are members.
        public: Which of those the attacker knows to be none.
        calibration: What quantizers see.
        trained: Texts of the training file.
        counts: What was left out, and why.
        prompt: What comes before each of the judged.
    """

    evaluation: Encoded
    judged: Encoded
    member: np.ndarray
    public: np.ndarray
    calibration: Encoded
    trained: int
    counts: Mapping[str, int]
    prompt: tuple[str, ...]


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


def deal_texts(base: LanguageModel, texted: Texted, seed: int) -> Dealt:
    """Read the texts, leave out what is on both sides, and deal the non-members out.

    The texts of ``judged`` are known by side and line of the file, such as ``"members, line 3"``.

    Raises:
        TextError: The texts cannot be used, or too few are left of either side.
    """
    columns = {"prompt": texted.prompt, "answer": texted.answer}
    members, others = read_texts(texted.members, **columns), read_texts(texted.nonmembers, **columns)
    trained = len(members)
    mixed = bool(members.messages) == bool(others.messages) and any(members.prompt) != any(others.prompt)
    if texted.mask_prompt and mixed:
        which = (texted.members, texted.nonmembers)[:: 1 if any(members.prompt) else -1]
        raise TextError(
            f"{which[0]} has prompts and {which[1]} has none, so other parts of them would be scored: give both"
            " alike, or score prompts as well (mask_prompt, --whole)"
        )
    members, others, left = apart(members, others)
    generator = np.random.default_rng(seed)
    members = _some(members, texted.most, generator)
    calibrating: Texts | None = None
    if texted.calibration is not None:
        calibrating = read_texts(texted.calibration, **columns)
    else:
        order = generator.permutation(len(others))
        size = min(_CALIBRATION, len(others) // 10)
        calibrating = others.take(np.sort(order[:size])) if size else None
        others = others.take(np.sort(order[size:]))
    others = _some(others, texted.most, generator)
    for path, kept, what in ((texted.members, members, "members"), (texted.nonmembers, others, "no members")):
        if len(kept) < 2:
            raise TextError(f"{path}: expected at least 2 texts that are {what}, got {len(kept)}")
    how: dict[str, Any] = {"mask_prompt": texted.mask_prompt, "on_long": texted.on_long}
    whole_ = joined(members, others)
    sides = ["members"] * len(members) + ["nonmembers"] * len(others)
    names = [f"{side}, {at.rpartition(', ')[2]}" for side, at in zip(sides, whole_.where, strict=True)]
    judged = encode(replace(whole_, sample=np.array(names)), base, **how)
    member = np.arange(len(whole_)) < len(members)
    public = np.zeros(len(whole_), bool)
    if len(others) >= _FEW:
        known = generator.permutation(len(others))[: round(_PUBLIC * len(others))]
        public[len(members) + known] = True
    evaluation = judged.take(~member)
    calibration = (
        evaluation if calibrating is None else encode(calibrating, base, mask_prompt=False, on_long="cut")
    )
    counts = {
        "texts in the training file": trained,
        "members attacked": len(members),
        "non-members, which r is taken over": len(others),
        "of these known to the attacker, and not judged": int(public.sum()),
        "non-members set aside for calibration, and not judged": len(calibrating)
        if calibrating is not None and texted.calibration is None
        else 0,
        "texts on both sides, left out": left["shared"],
        "repeats, left out": left["repeated_members"] + left["repeated_nonmembers"],
        **{f"texts that were {name}": n for name in ("split", "cut") if (n := judged.counts.get(name, 0))},
    }
    return Dealt(evaluation, judged, member, public, calibration, trained, counts, whole_.prompt)


def check_dealt(dealt: Dealt, variants: Sequence[str]) -> None:
    """Refuse texts that leave nothing to judge a variant by.

    Raises:
        TextError: A quantizer looks at all, or all but one, of the members or of the non-members.
    """
    unseen = ~dealt.judged.also_in(dealt.calibration)
    for name, variant in parse_variants(variants).items():
        for what, side in (("members", dealt.member), ("non-members", ~dealt.member & ~dealt.public)):
            if variant.needs_inputs and (left := int((side & unseen).sum())) < 2:
                raise TextError(
                    f"variant {name!r} looks at calibration texts, which leaves {left} {what} to judge it by, and"
                    " expected are at least 2: give more texts, or others to calibrate with (calibration)"
                )


def _some(texts: Texts, most: int | None, generator: np.random.Generator) -> Texts:
    if most is None or len(texts) <= most:
        return texts
    return texts.take(np.sort(generator.permutation(len(texts))[:most]))


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
            tuple(
                Dataset(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), "", path.name)
                for path in files
            ),
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
