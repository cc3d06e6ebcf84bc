"""Texts with classes, from the CSV files of Zhang et al., "Character-level Convolutional Networks for Text
Classification" (2015), that the user has downloaded; no package ships them."""

from __future__ import annotations

import csv
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from discreet._types import Int
from discreet.data.samples import DataError

__all__ = ["LabelledTexts", "ag_news", "parse", "yelp5"]

_PAGE = "https://github.com/zhangxiangxiao/Crepe (its datasets)"
YELP = ("yelp_review_full_csv.tar.gz", "f7ddfafed1033f68ec72b9267863af6c")
AG_NEWS = (
    ("ag_news_csv/train.csv", "b1a00f826fdfbd249f79597b59e1dc12"),
    ("ag_news_csv/test.csv", "d52ea96a97a2d943681189a97654912d"),
)
"""File names and MD5."""


@dataclass(frozen=True, eq=False)
class LabelledTexts:
    """Distinct texts.

    Attributes:
        texts: In their order, training texts first.
        y: Classes, from 0 on.
        name: Of the data set.
        md5: Of each file that was read.
        licence: Its licence.
        counts: How many there were, and how many repeats are not here.
    """

    texts: tuple[str, ...]
    y: Int[np.ndarray, " text"]
    name: str
    md5: Mapping[str, str]
    licence: str
    counts: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.texts)


def yelp5(folder: str | Path) -> LabelledTexts:
    """Reviews with one to five stars (0 to 4).

    Args:
        folder: Where the archive is.

    Raises:
        DataError: The archive is not there, or it is another one.
    """
    name, md5 = YELP
    data = _checked(Path(folder) / name, md5)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        files = []
        for part in ("train.csv", "test.csv"):
            found = archive.extractfile(f"yelp_review_full_csv/{part}")
            files.append(b"" if found is None else found.read())
    return _texts(files, "Yelp-5", {name: md5}, "Yelp's dataset terms (academic use)")


def ag_news(folder: str | Path) -> LabelledTexts:
    """News of four topics: title and description.

    Args:
        folder: Where ``ag_news_csv`` is.

    Raises:
        DataError: A file is not there, or it is another one.
    """
    files = [_checked(Path(folder) / name, md5) for name, md5 in AG_NEWS]
    return _texts(files, "AG-News", dict(AG_NEWS), "non-commercial use")


def parse(data: bytes) -> list[tuple[int, str]]:
    """Class (from 0 on) and text of each row; what is in several columns is put together.

    Example:
        >>> parse(b'"3","Title","Some\\\\ntext"')
        [(2, 'Title Some text')]
    """
    rows = csv.reader(io.StringIO(data.decode("utf-8")))
    return [
        (int(row[0]) - 1, " ".join(" ".join(row[1:]).replace("\\n", " ").replace("\\", " ").split()))
        for row in rows
    ]


def _texts(files: list[bytes], name: str, md5: Mapping[str, str], licence: str) -> LabelledTexts:
    rows = [row for data in files for row in parse(data)]
    first: dict[str, int] = {}
    for label, text in rows:
        first.setdefault(text, label)
    counts = {"texts": len(rows), "repeats dropped": len(rows) - len(first)}
    return LabelledTexts(tuple(first), np.array(list(first.values())), name, md5, licence, counts)


def _checked(path: Path, md5: str) -> bytes:
    advice = f"download it from {_PAGE} into {path.parent}"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {advice}") from None
    digest = hashlib.md5(data).hexdigest()
    if digest != md5:
        raise DataError(f"{path}: expected MD5 {md5}, got {digest}; {advice}")
    return data
