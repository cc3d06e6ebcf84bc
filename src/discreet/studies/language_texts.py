"""Texts of the study of language models: from a file, and what is left of the parts once texts are cut."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from discreet._types import Int
from discreet.data.samples import DataError
from discreet.data.texts import TextSet
from discreet.linked import linked
from discreet.llm.encoding import Encoded
from discreet.llm.texts import read_texts
from discreet.studies.language_plan import Parts

__all__ = ["distinct", "mirrored", "text_file"]


def text_file(path: Path) -> TextSet:
    """Texts of a file (see ``read_texts``), each once: two that differ in white space alone are one.

    Raises:
        DataError: There is no such file, or it holds chats.
        TextError: It cannot be read.
    """
    if not path.exists():
        raise DataError(
            f"{path}: no such file; expected texts as .jsonl, .csv or .parquet with columns prompt and completion, "
            "such as molecule captioning and generation of SMolInstruct (osunlp/SMolInstruct on the Hugging Face hub)"
        )
    read = read_texts(path)
    if read.messages:
        raise DataError(f"{path}: holds chats (messages); expected texts, or prompt and completion")
    keys = [
        tuple(" ".join(each.split()) for each in pair) for pair in zip(read.prompt, read.answer, strict=True)
    ]
    first = {key: at for at, key in reversed(list(enumerate(keys)))}
    kept = read.take(sorted(first.values()))
    family = mirrored(kept.prompt, kept.answer)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    counts = {"texts": len(read), "there already": len(read) - len(kept), "families": int(family.max()) + 1}
    return TextSet(kept.prompt, kept.answer, family, path.name, {path.name: digest}, "", path.name, counts)


def mirrored(prompt: Sequence[str], answer: Sequence[str]) -> Int[np.ndarray, " text"]:
    """One label for all texts about one thing: the answer of one, if it is short, stands in another one's prompt, or
    is its answer too.

    A molecule that is asked for in one text and given in the next is such a thing: to train on one of the two would
    tell about the other. Words of fewer than eight characters, or that over twenty texts and one in a hundred hold
    (tags), are no names of anything; an answer of more than three words is prose.

    Example:
        >>> mirrored(["Describe C1CCCCC1O", "Which one is used in nylon?", "Hi"], ["An alcohol.", "C1CCCCC1O", "Ho"])
        array([0, 0, 1])
    """
    short = [text if len(text.split()) <= 3 else "" for text in answer]
    names = {word for text in short for word in text.split() if len(word) >= 8}
    held: dict[str, list[int]] = {}
    for at, (before, after) in enumerate(zip(prompt, short, strict=True)):
        for name in names.intersection(f"{before} {after}".split()):
            held.setdefault(name, []).append(at)
    texts, things = list(range(len(answer))), list(range(len(answer)))  # each text is about itself
    for name in sorted(held):
        if len(held[name]) <= max(20, len(answer) // 100):
            texts += held[name]
            things += [things[-1] + 1] * len(held[name])
    return linked(np.array(texts), np.array(things))[: len(answer)]


def distinct(parts: Parts, encoded: Encoded) -> tuple[Parts, int]:
    """The parts without texts that are, as they were cut, the same as another one, and how many they were.

    Such a text could be trained on under one name and judged under another. Of those that are the same, the one in
    the first part stays, in the order pretraining, pool, public, evaluation, calibration.

    Raises:
        ValueError: Nothing is left of a part.
    """
    names = ("pretraining", "pool", "public", "evaluation", "calibration")
    held = [getattr(parts, name) for name in names]
    first: dict[bytes, int] = {}
    places = np.concatenate(held).tolist()
    keep = np.array([first.setdefault(encoded.window(at).tobytes(), at) == at for at in places], bool)
    pieces = dict(zip(names, np.split(keep, np.cumsum([len(each) for each in held])[:-1]), strict=True))
    pieces["pretraining"][:] = True  # nothing is measured on them
    for name, kept in pieces.items():
        if len(kept) and not kept.any():
            raise ValueError(f"length: too short: cut there, every text of the part {name} is also elsewhere")
    left = {name: getattr(parts, name)[kept] for name, kept in pieces.items()}
    lost = sum(int((~kept).sum()) for kept in pieces.values())
    return replace(parts, member=parts.member[:, pieces["pool"]], **left), lost
