"""CIFAR-10 and CIFAR-100, from the binary archives that the user has downloaded; no package ships them.

Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009). No licence is stated.
"""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

import numpy as np

from discreet._types import Int
from discreet.data.samples import DataError, Samples

__all__ = ["load", "read"]

PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
ARCHIVES = {
    10: ("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    100: ("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
}
"""File name and MD5, as the page gives them."""
_PIXELS = 3 * 32 * 32


def load(folder: str | Path, classes: int) -> Samples:
    """Read all 60,000 pictures, and keep one of each.

    Args:
        folder: Where the archive is.
        classes: 10 or 100.

    Returns:
        Pixels from 0 to 1 as [sample, 3, 32, 32], training pictures first.

    Raises:
        DataError: The archive is not there, or it is another one.
    """
    if classes not in ARCHIVES:
        raise DataError(f"classes: expected 10 or 100, got {classes}")
    name, md5 = ARCHIVES[classes]
    path = Path(folder) / name
    advice = f"download it from {PAGE} (binary version) into {folder}"
    try:
        digest = hashlib.md5(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {advice}") from None
    if digest != md5:
        raise DataError(f"{path}: expected MD5 {md5}, got {digest}; {advice}")
    x, y = read(path, classes)
    rows = x.reshape(len(x), -1)
    first = np.array(sorted({row.tobytes(): i for i, row in reversed(list(enumerate(rows)))}.values()))
    return Samples(
        (x[first].astype(np.float32) / np.float32(255)),
        y[first],
        tuple(str(each) for each in range(classes)),
        f"CIFAR-{classes}",
        {name: md5},
        "none stated",
        PAGE,
        {"pictures": len(x), "repeats dropped": len(x) - len(first)},
    )


def read(path: Path, classes: int) -> tuple[Int[np.ndarray, "sample 3 32 32"], Int[np.ndarray, " sample"]]:
    """Pixels (0 to 255) and fine labels of an archive, files in the order of their names but training before test.

    Raises:
        DataError: A file in it is cut off.
    """
    labels = 1 if classes == 10 else 2  # of the two, the second is the fine one
    wide = labels + _PIXELS
    found = []
    with tarfile.open(path) as archive:
        files = [each for each in archive.getmembers() if each.name.endswith(".bin")]
        for file in sorted(files, key=lambda each: ("test" in Path(each.name).name, each.name)):
            opened = archive.extractfile(file)
            data = b"" if opened is None else opened.read()
            if not data or len(data) % wide:
                raise DataError(f"{path}: {file.name} has {len(data)} bytes, no multiple of {wide}")
            found.append(np.frombuffer(data, np.uint8).reshape(-1, wide))
    rows = np.concatenate(found)
    return rows[:, labels:].reshape(-1, 3, 32, 32).astype(np.int64), rows[:, labels - 1].astype(np.int64)
