"""What a model says of each token of each text, read piece by piece, and sums of the least likely ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from discreet._types import Float, Int
from discreet.records import Record
from discreet.records.laws import OFFSETS, all_finite, quoted

__all__ = ["fewest", "lowest_sums", "need_texts", "token_counts", "tokens", "zlib_bytes"]

_HOW = "measure texts with discreet.llm.release, or add it"
_OF_TEXTS = {OFFSETS, "logp", "logp_mean", "logp_std", "text", "zlib_bytes", "pretrained_loss"}
_TOKENS = 1 << 20  # tokens read at a time


def need_texts(blind: Record) -> None:
    """Refuse a record that is not about texts at all, in the same words for every attack.

    Raises:
        RecordError: It has none of the signals of texts.
    """
    if not _OF_TEXTS & set(blind.signals):
        raise blind.error(
            "no texts: such attacks read what a language model says of texts (signals logp, offsets, text, …); "
            "measure texts with discreet.llm.release, or add them"
        )


def token_counts(blind: Record) -> Int[np.ndarray, " sample"]:
    """How many tokens of each text were scored.

    Raises:
        RecordError: No signal ``offsets``, or a text of which no token was scored.
    """
    need_texts(blind)
    if OFFSETS not in blind.signals:
        raise blind.error(f"{OFFSETS}: this attack needs the number of tokens of each text; {_HOW}")
    counts = np.diff(np.asarray(blind.signal(OFFSETS)).astype(np.int64))
    if (counts == 0).any():
        at = int(np.argmin(counts))
        raise blind.error(
            f"{OFFSETS}: sample {quoted(blind.sample[at])} has no scored token ({int((counts == 0).sum())} such "
            "samples); expected at least one"
        )
    return counts


def tokens(
    blind: Record, row: int, names: tuple[str, ...]
) -> Iterator[tuple[slice, Int[np.ndarray, " sample"], list[Float[np.ndarray, " token"]]]]:
    """Read token signals of one model, some texts at a time, so that memory does not grow with their number.

    Yields:
        A slice of the samples, their numbers of tokens, and each signal's values there in float64.

    Raises:
        RecordError: A signal is missing, has other axes or a value that is not finite; or as :func:`token_counts`.
    """
    need_texts(blind)
    for name in names:
        if name not in blind.signals:
            raise blind.error(f"{name}: this attack reads the signal '{name}' [row, token]; {_HOW}")
        if blind.axes[name] != ("row", "token"):
            raise blind.error(f"{name}: expected the axes row, token, got {', '.join(blind.axes[name])}")
    counts = token_counts(blind)
    bounds = np.asarray(blind.signal(OFFSETS)).astype(np.int64)
    start = 0
    while start < len(counts):
        stop = max(start + 1, int(np.searchsorted(bounds, bounds[start] + _TOKENS, "right")) - 1)
        part, cut = slice(start, stop), slice(int(bounds[start]), int(bounds[stop]))
        read = [np.asarray(blind.signal(name)[row, cut], dtype=np.float64) for name in names]
        for name, values in zip(names, read, strict=True):
            if not all_finite(values):
                raise blind.error(
                    f"{name}: a value of variant {quoted(blind.variant[row])} is NaN or infinite"
                )
        yield part, counts[part], read
        start = stop


def fewest(k: float, counts: Int[np.ndarray, " sample"]) -> Int[np.ndarray, " sample"]:
    """The least whole number of tokens that is a share ``k`` of each text; at least one of them.

    Example:
        >>> fewest(0.28, np.array([25, 3, 1])).tolist()
        [7, 1, 1]
    """
    # 0.28 * 25 is a little above 7 in floating point.
    return np.maximum(np.ceil(k * counts * (1 - 1e-12)), 1).astype(np.int64)


def lowest_sums(
    values: Float[np.ndarray, " token"], counts: Int[np.ndarray, " sample"], take: Int[np.ndarray, " sample"]
) -> Float[np.ndarray, " sample"]:
    """Sum of the lowest values of each text.

    Args:
        values: Of all tokens, text after text.
        counts: Tokens of each text.
        take: How many of them to add up; at most as many as there are.

    Example:
        >>> lowest_sums(np.array([-1.0, -3.0, -2.0, -9.0]), np.array([3, 1]), np.array([2, 1]))
        array([-5., -9.])
    """
    starts = np.cumsum(counts) - counts
    found = np.zeros(len(counts))
    # Texts of like length (within a factor of 2) are sorted as the rows of one table.
    size = np.frexp(counts.astype(np.float64))[1]
    for each in np.unique(size):
        rows = np.flatnonzero(size == each)
        place = np.arange(counts[rows].max())
        at = np.minimum(starts[rows, None] + place, len(values) - 1)
        table = np.where(place < counts[rows, None], values[at], np.inf)
        table.sort(axis=1)
        found[rows] = np.where(place < take[rows, None], table, 0.0).sum(axis=1)
    return found


def zlib_bytes(blind: Record) -> Int[np.ndarray, " sample"]:
    """Bytes of each text in UTF-8 when zlib has compressed it: the signal ``zlib_bytes``, else from ``text``.

    Raises:
        RecordError: Neither signal, or a number below 1.
    """
    need_texts(blind)
    if "zlib_bytes" in blind.signals:
        found = np.asarray(blind.signal("zlib_bytes"))
        if blind.axes["zlib_bytes"] != ("sample",) or found.dtype.kind not in "iu" or (found < 1).any():
            raise blind.error(
                f"zlib_bytes: expected whole numbers above 0 with the axes sample, got {found.dtype}, "
                f"{', '.join(blind.axes['zlib_bytes'])}"
            )
        return found.astype(np.int64)
    if "text" not in blind.signals or np.asarray(blind.signal("text")).dtype.kind != "U":
        raise blind.error(
            f"zlib_bytes: this attack needs the signal 'zlib_bytes' [sample], or 'text' [sample]; {_HOW}"
        )
    from discreet.text_features import compressed

    return compressed(blind.signal("text"))
