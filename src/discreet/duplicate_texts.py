"""Texts that occur more than once, and what that means for who was trained on what. NumPy only."""

from __future__ import annotations

import unicodedata

import numpy as np

from discreet._types import Bool, Int
from discreet.linked import linked
from discreet.records import Record

__all__ = ["in_words", "on_both_sides", "plain", "same_text", "text_families"]


def same_text(record: Record) -> Int[np.ndarray, " sample"] | None:
    """One number for each text of a record: texts with one number are the same; None without texts.

    Two texts are the same if they differ in nothing but white space and in how Unicode writes a letter. Case counts:
    ``C1CCCCC1`` and ``c1ccccc1`` are two molecules. Where the signal ``text`` holds answers, ``prompt`` tells what
    they answer: one answer to two prompts makes two texts.
    """
    if not _told(record, "text"):
        return None
    texts = [plain(text) for text in record.signal("text").tolist()]
    asked = [plain(text) for text in record.signal("prompt").tolist()] if _told(record, "prompt") else texts
    number: dict[tuple[str, str], int] = {}
    both = zip(asked, texts, strict=True)
    return np.array([number.setdefault(text, len(number)) for text in both], dtype=np.int64)


def on_both_sides(
    text: Int[np.ndarray, " sample"], member: Bool[np.ndarray, "run sample"]
) -> Bool[np.ndarray, "run sample"]:
    """Samples whose text is that of a member and of a non-member of one run: neither answer is right for them.

    Example:
        >>> on_both_sides(np.array([0, 0, 1, 1, 2]), np.array([[True, False, True, True, False]]))
        array([[ True,  True, False, False, False]])
    """
    found = np.zeros(member.shape, dtype=bool)
    copies = np.bincount(text)
    for row, truth in zip(found, member, strict=True):
        inside = np.bincount(text[truth], minlength=len(copies))
        row[:] = ((inside > 0) & (inside < copies))[text]
    return found


def text_families(record: Record) -> Int[np.ndarray, " sample"] | None:
    """One label a sample: samples of one ``family`` or with one text, and whoever those link, share it.

    None where no two samples depend on each other, or all do.
    """
    found = [each for each in (_families(record), same_text(record)) if each is not None]
    if not found:
        return None
    label = found[0] if len(found) == 1 else linked(found[0], found[1])
    groups = len(np.unique(label))
    return label if 1 < groups < len(label) else None


def in_words(count: int) -> str:
    """The sentence about texts that are not judged; empty if there are none.

    Example:
        >>> in_words(0), in_words(2)[:7]
        ('', '2 texts')
    """
    if not count:
        return ""
    texts, have, are = ("1 text", "has", "it is") if count == 1 else (f"{count:,} texts", "have", "they are")
    both = "in some run the one is a member and the other not"
    return f"{texts} {have} a copy on the other side: {both}; {are} not judged."


def _told(record: Record, name: str) -> bool:
    return name in record.signals and np.asarray(record.signal(name)).dtype.kind == "U"


def plain(text: str) -> str:
    """A text as it is compared with others: white space and ways to write a letter made one.

    Example:
        >>> plain(" a   b ")
        'a b'
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def _families(record: Record) -> Int[np.ndarray, " sample"] | None:
    if "family" not in record.signals or record.axes["family"] != ("sample",):
        return None
    return np.unique(np.asarray(record.signal("family")), return_inverse=True)[1].astype(np.int64)
