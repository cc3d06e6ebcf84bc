"""Where the weights in use of one tensor are, in the fewest bytes: a bit for each weight, or the gaps between them.

A gap is how many weights are skipped. One that does not fit its byte (or two) is preceded by fillers, the largest
number, each of which skips as many and names no weight. Bytes win below a density of about 1/8, a bitmask above.
"""

from __future__ import annotations

import numpy as np

from discreet._types import Bool, Int, Num
from discreet.artefacts._errors import ArtefactError

__all__ = ["FORMS", "decode", "encode"]

GAPS = {"gaps8": np.uint8, "gaps16": np.uint16}
FORMS = ("all", "bitmask", *GAPS)


def encode(mask: Bool[np.ndarray, " weight"]) -> tuple[str, Num[np.ndarray, " item"]]:
    """The shortest form of a mask, and its data (nothing where all weights are in use).

    Example:
        >>> encode(np.array([False] * 300 + [True, False, True] + [False] * 300))
        ('gaps8', array([255,  45,   1], dtype=uint8))
    """
    places = np.flatnonzero(mask)
    if len(places) == len(mask):
        return "all", np.empty(0, np.uint8)
    gaps = np.diff(places, prepend=-1) - 1
    sizes = {"bitmask": -(-len(mask) // 8)}
    for form, kind in GAPS.items():
        sizes[form] = np.dtype(kind).itemsize * int(len(gaps) + (gaps // np.iinfo(kind).max).sum())
    form = min(sizes, key=lambda each: sizes[each])
    return form, np.packbits(mask, bitorder="little") if form == "bitmask" else _gaps(gaps, GAPS[form])


def decode(form: str, data: Num[np.ndarray, " item"], weights: int) -> slice | Int[np.ndarray, " used"]:
    """Where the weights in use are in the flat tensor, in order.

    Raises:
        ArtefactError: Data of another length than the form's, or weights beyond the tensor.
    """
    if form == "all":
        return slice(None)
    if form == "bitmask":
        if data.dtype != np.uint8 or len(data) != -(-weights // 8):
            raise ArtefactError(f"a bitmask of {-(-weights // 8)} bytes expected, got {len(data)}")
        return np.flatnonzero(np.unpackbits(data, count=weights, bitorder="little").view(np.bool_))
    kind = GAPS.get(form)
    if kind is None or data.dtype != kind:
        raise ArtefactError(f"an index of form {' or '.join(FORMS)} expected, got {form!r} of {data.dtype}")
    places = np.cumsum(data, dtype=np.int64)
    fillers = np.flatnonzero(data == np.iinfo(kind).max)
    if len(fillers):
        places = np.delete(places, fillers)
    places += np.arange(len(places))  # each weight is one further than what was skipped
    if len(places) and places[-1] >= weights:
        raise ArtefactError(f"an index within {weights} weights expected, got {places[-1]}")
    return places


def _gaps(gaps: Int[np.ndarray, " used"], kind: type[np.unsignedinteger]) -> Num[np.ndarray, " item"]:
    filler = np.iinfo(kind).max
    fillers, rest = np.divmod(gaps, filler)
    data = np.full(len(gaps) + int(fillers.sum()), filler, kind)
    data[np.cumsum(fillers + 1) - 1] = rest
    return data
