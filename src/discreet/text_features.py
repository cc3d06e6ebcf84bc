"""Texts as numbers that no model computed: sizes, kinds of characters and hashed character n-grams. NumPy only."""

from __future__ import annotations

import zlib

import numpy as np

from discreet._types import Float, Int

__all__ = ["compressed", "ngrams", "sizes"]

_LETTERS = 1 << 22  # characters looked at in one go
_PRIME = np.uint64(0x9E3779B97F4A7C15)


def compressed(texts: np.ndarray) -> Int[np.ndarray, " sample"]:
    """Bytes of each text in UTF-8 when zlib has compressed it.

    Example:
        >>> compressed(np.array(["a" * 100, "abcdefgh" * 2])).tolist()
        [12, 18]
    """
    return np.array([len(zlib.compress(_utf8(text))) for text in texts.tolist()], dtype=np.int64)


def sizes(texts: np.ndarray) -> Float[np.ndarray, "sample feature"]:
    """How long texts are, how well they compress, and what they are made of.

    Columns: log of characters, of zlib bytes, zlib bytes a UTF-8 byte, different characters a character, mean word
    length (log), and shares of upper-case letters, digits, white space, other ASCII signs and non-ASCII characters.

    Args:
        texts: Fixed-width unicode, one a sample.
    """
    small = compressed(texts)
    plain = np.array([len(_utf8(text)) for text in texts.tolist()])
    parts = []
    for rows in _pieces(texts):
        code = _codes(texts[rows])
        there = code > 0
        length = np.maximum(there.sum(axis=1), 1)
        ordered = np.sort(code, axis=1)
        different = (np.diff(ordered, axis=1, prepend=0) > 0).sum(axis=1)
        space = (code == 32) | ((code >= 9) & (code <= 13))
        words = ((space[:, 1:] & (there & ~space)[:, :-1]).sum(axis=1)) + 1
        upper, digit = (code >= 65) & (code <= 90), (code >= 48) & (code <= 57)
        lower, other = (code >= 97) & (code <= 122), code > 127
        signs = there & ~(space | upper | digit | lower | other)
        shares = [kind.sum(axis=1) / length for kind in (upper, digit, space, signs, other)]
        parts.append(
            np.stack([np.log1p(length), different / length, np.log(length / words), *shares], axis=1)
        )
    found = np.concatenate(parts)
    return np.column_stack([found[:, 0], np.log(small), small / np.maximum(plain, 1), found[:, 1:]])


def ngrams(texts: np.ndarray, columns: int, longest: int = 3) -> Float[np.ndarray, "sample column"]:
    """Character n-grams of 1 to ``longest`` characters, hashed with a sign into columns; rows of length 1.

    Args:
        texts: Fixed-width unicode, one a sample.
        columns: How many numbers a text becomes.
        longest: Characters of the longest n-gram.

    Example:
        >>> found = ngrams(np.array(["CCO", "CCO", "CCN"]), 32)
        >>> bool((found[0] == found[1]).all()), bool((found[0] == found[2]).all())
        (True, False)
    """
    if columns < 1 or longest < 1:
        raise ValueError(f"columns and longest: expected at least 1, got {columns} and {longest}")
    found = np.zeros((len(texts), columns))
    for rows in _pieces(texts):
        code = _codes(texts[rows])
        here = np.arange(len(code))[:, None]
        key = np.zeros(code.shape, np.uint64)
        for size in range(1, min(longest, code.shape[1]) + 1):
            key = key[:, : code.shape[1] - size + 1] * np.uint64(257) + code[:, size - 1 :].astype(np.uint64)
            mixed = (key + np.uint64(size)) * _PRIME
            mixed = (mixed ^ (mixed >> np.uint64(31))) * _PRIME
            column = ((mixed >> np.uint64(33)) % np.uint64(columns)).astype(np.int64)
            sign = np.where((mixed >> np.uint64(20)) & np.uint64(1), 1.0, -1.0)
            sign[code[:, size - 1 :] == 0] = 0.0
            flat = np.bincount((here * columns + column).ravel(), sign.ravel(), minlength=len(code) * columns)
            found[rows] += flat.reshape(-1, columns)
    length = np.sqrt((found**2).sum(axis=1, keepdims=True))
    return found / np.where(length > 0, length, 1.0)


def _pieces(texts: np.ndarray) -> list[slice]:
    step = max(1, _LETTERS // max(1, texts.dtype.itemsize // 4))
    return [slice(start, start + step) for start in range(0, len(texts), step)]


def _codes(texts: np.ndarray) -> Int[np.ndarray, "sample letter"]:
    """Code points of each text, 0 behind its end."""
    return np.ascontiguousarray(texts).view(np.uint32).reshape(len(texts), -1).astype(np.int64)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
