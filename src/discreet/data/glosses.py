"""Glosses of WordNet's nouns, to be sorted into 26 kinds, from Debian's package ``wordnet-base`` (WordNet licence).

Fellbaum, "WordNet: An Electronic Lexical Database" (1998).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np

from discreet._types import Int
from discreet.data.samples import read_checked

__all__ = ["Glosses", "load"]

FILE = Path("/usr/share/wordnet/data.noun")
SHA256 = "fea17d2f9656611334eac790e5d69e47645fa180c4aa481fb4cd9b3520754ca2"
LICENCE = "WordNet 3.0 licence"
SOURCE = "Debian package wordnet-base"
_ADVICE = "install Debian's package wordnet-base"
_FIRST = 3  # number of the first lexicographer file of nouns


@dataclass(frozen=True, eq=False)
class Glosses:
    """Distinct texts as rows of word numbers.

    Attributes:
        x: Words in their order, 0 where the text has ended.
        y: Kind of the noun (its lexicographer file), 0 to 25.
        words: Numbers that a word may have, 0 included.
        counts: How many glosses there were, and why some are not here.
    """

    x: Int[np.ndarray, "sample place"]
    y: Int[np.ndarray, " sample"]
    words: int
    counts: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.y)


def load(file: Path = FILE, *, length: int = 16, words: int = 4096) -> Glosses:
    """Read the glosses without their example sentences, and keep one of each.

    Words are numbered by a checksum, so that no text says anything about the numbers of another.

    Args:
        file: WordNet's ``data.noun``.
        length: Words of a text that are kept.
        words: Numbers that a word may have.

    Raises:
        DataError: The package is not installed, or the file is another one.
    """
    lines = read_checked(file, SHA256, _ADVICE).decode("utf-8").splitlines()
    rows: dict[bytes, tuple[np.ndarray, int]] = {}
    total = 0
    for line in lines:
        if line.startswith(" "):  # the licence
            continue
        total += 1
        head, _, gloss = line.partition(" | ")
        text = re.split(r'[;:]\s*"', gloss)[0].lower()
        numbers = [crc32(word.encode()) % (words - 1) + 1 for word in re.findall(r"[a-z0-9]+", text)]
        row = np.zeros(length, np.int64)
        row[: min(length, len(numbers))] = numbers[:length]
        if numbers:
            rows.setdefault(row.tobytes(), (row, int(head.split()[1]) - _FIRST))
    x, y = zip(*rows.values(), strict=True)
    return Glosses(np.stack(x), np.array(y), words, {"glosses": total, "repeats dropped": total - len(y)})
