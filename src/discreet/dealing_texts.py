"""Texts of a fine-tuning by what an audit does with them: trained on, judged, known to the attacker, calibrating."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from discreet._types import Bool
from discreet._words import whole
from discreet.llm._variants import parse_variants
from discreet.llm.encoding import Encoded, encode
from discreet.llm.model import LanguageModel
from discreet.llm.texts import TextError, Texts, apart, joined, read_texts
from discreet.records.laws import longest_text

__all__ = ["Dealt", "Texted", "check_dealt", "deal_texts"]

_CALIBRATION, _PUBLIC, _FEW = 128, 0.3, 60


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


def deal_texts(base: LanguageModel, texted: Texted, seed: int) -> Dealt:
    """Read the texts, leave out what is on both sides, and deal the non-members out.

    A non-member that comes to the tokens of a member, as the two may once they are cut, is left out too: what the
    model says of it is what it says of the member.

    The texts of ``judged`` are known by side and line of the file, such as ``"members, line 3"``.

    Raises:
        TextError: The texts cannot be used, are too long for a record, or too few are left of either side.
    """
    columns = {"prompt": texted.prompt, "answer": texted.answer}
    members, others = read_texts(texted.members, **columns), read_texts(texted.nonmembers, **columns)
    trained = len(members)
    _check_alike(members, others, texted)
    members, others, left = apart(members, others)
    generator = np.random.default_rng(seed)
    members = _some(members, texted.most, generator)
    aside: Texts | None = None
    if texted.calibration is None:
        order = generator.permutation(len(others))
        size = min(_CALIBRATION, len(others) // 10)
        aside = others.take(np.sort(order[:size])) if size else None
        others = others.take(np.sort(order[size:]))
    calibrating = aside if texted.calibration is None else read_texts(texted.calibration, **columns)
    others = _some(others, texted.most, generator)
    both = _named(members, others)
    judged = encode(both, base, mask_prompt=texted.mask_prompt, on_long=texted.on_long)
    long = {name: judged.counts.get(name, 0) for name in ("split", "cut")}
    seen = _as_members(judged, len(members))
    if seen.any():
        both, judged, others = both.take(~seen), judged.take(~seen), others.take(~seen[len(members) :])
    for path, kept, what in ((texted.members, members, "members"), (texted.nonmembers, others, "no members")):
        if len(kept) < 2:
            raise TextError(f"{path}: expected at least 2 texts that are {what}, got {len(kept)}")
    _check_room(both, judged)
    member = np.arange(len(both)) < len(members)
    public = np.zeros(len(both), bool)
    if len(others) >= _FEW:
        known = generator.permutation(len(others))[: round(_PUBLIC * len(others))]
        public[len(members) + known] = True
    evaluation = judged.take(~member)
    calibration = (
        evaluation if calibrating is None else encode(calibrating, base, mask_prompt=False, on_long="cut")
    )
    both_ways = int(judged.also_in(calibration).sum())
    counts = {
        "texts in the training file": trained,
        "members attacked": len(members),
        "non-members, which r is taken over": len(others),
        "of these known to the attacker, and not judged": int(public.sum()),
        "non-members set aside for calibration, and not judged": len(aside or ()),
        "texts that also calibrate, not judged for quantizers that look at texts": both_ways,
        "texts on both sides, left out": left["shared"],
        "repeats, left out": left["repeated_members"] + left["repeated_nonmembers"],
        **({"non-members with the tokens of a member, left out": int(seen.sum())} if seen.any() else {}),
        **{f"texts that were {name}": count for name, count in long.items() if count},
    }
    return Dealt(evaluation, judged, member, public, calibration, trained, counts, both.prompt)


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


def _as_members(judged: Encoded, members: int) -> Bool[np.ndarray, " sample"]:
    """Which texts, the members being the first, are non-members of the very tokens of a member."""
    bounds = judged.bounds[np.searchsorted(judged.owner, np.arange(len(judged) + 1))]
    tokens = [judged.tokens[begin:end].tobytes() for begin, end in pairwise(bounds.tolist())]
    known = set(tokens[:members])
    return np.array([at >= members and each in known for at, each in enumerate(tokens)], bool)


def _check_room(both: Texts, judged: Encoded) -> None:
    """Refuse what a record could not hold once everything is measured."""
    most = longest_text(len(both))
    for what, texts in (("text", judged.text), ("prompt", both.prompt)):
        sizes = [len(text) for text in texts]
        longest = int(np.argmax(sizes))
        if sizes[longest] > most:
            raise TextError(
                f"{both.where[longest]}: its {what} has {whole(sizes[longest])} characters, but expected are at most"
                f" {whole(most)} where {whole(len(both))} texts are judged, since each takes the room of the longest:"
                f" shorten it{', cut long texts (on_long, --on-long cut)' * (what == 'text')} or leave it out, or"
                " judge fewer (most, --most)"
            )
        ended = next((at for at, text in enumerate(texts) if text.endswith("\0")), None)
        if ended is not None:
            raise TextError(
                f"{both.where[ended]}: its {what} ends in a NUL character, which a record cannot hold"
            )


def _check_alike(members: Texts, others: Texts, texted: Texted) -> None:
    mixed = bool(members.messages) == bool(others.messages) and any(members.prompt) != any(others.prompt)
    if texted.mask_prompt and mixed:
        which = (texted.members, texted.nonmembers)[:: 1 if any(members.prompt) else -1]
        raise TextError(
            f"{which[0]} has prompts and {which[1]} has none, so other parts of them would be scored: give both"
            " alike, or score prompts as well (mask_prompt, --whole)"
        )


def _named(members: Texts, others: Texts) -> Texts:
    """All texts, known by side and line."""
    both = joined(members, others)
    sides = ["members"] * len(members) + ["nonmembers"] * len(others)
    names = [f"{side}, {at.rpartition(', ')[2]}" for side, at in zip(sides, both.where, strict=True)]
    return replace(both, sample=np.array(names))


def _some(texts: Texts, most: int | None, generator: np.random.Generator) -> Texts:
    if most is None or len(texts) <= most:
        return texts
    return texts.take(np.sort(generator.permutation(len(texts))[:most]))
