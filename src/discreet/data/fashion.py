"""Fashion-MNIST, 70,000 small pictures of clothes, from Debian's package ``dataset-fashion-mnist`` (MIT).

Xiao, Rasul and Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms" (2017).
"""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np

from discreet.data.samples import DataError, Samples, read_checked

__all__ = ["load"]

FOLDER = Path("/usr/share/datasets/fashion-mnist")
FILES = {
    "train-images-idx3-ubyte.gz": "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
    "train-labels-idx1-ubyte.gz": "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
    "t10k-images-idx3-ubyte.gz": "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
    "t10k-labels-idx1-ubyte.gz": "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
}
CLASSES = (
    "T-shirt",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Boot",
)
_ADVICE = "install Debian's package dataset-fashion-mnist"


def load(folder: Path = FOLDER) -> Samples:
    """Read all 70,000 pictures, and keep one of each.

    Args:
        folder: Where the four files are.

    Returns:
        Pixels from 0 to 1 as rows of 784, the original training pictures first.

    Raises:
        DataError: The package is not installed, or a file is another one.
    """
    read = {name: gzip.decompress(read_checked(folder / name, sha, _ADVICE)) for name, sha in FILES.items()}
    images, labels = (
        np.concatenate([_idx(read[name]) for name in FILES if kind in name]) for kind in ("images", "labels")
    )
    rows = images.reshape(len(images), -1)
    first = np.array(list({row.tobytes(): place for place, row in reversed(list(enumerate(rows)))}.values()))[
        ::-1
    ]
    counts = {"pictures": len(rows), "repeats dropped": len(rows) - len(first)}
    return Samples(
        (rows[first] / np.float32(255)).astype(np.float32),
        labels[first].astype(np.int64),
        CLASSES,
        "Fashion-MNIST",
        FILES,
        "MIT",
        "Debian package dataset-fashion-mnist",
        counts,
    )


def _idx(data: bytes) -> np.ndarray:
    """Read an IDX file of bytes: two zeros, the type, the number of axes, their sizes, the values."""
    zeros, kind, axes = struct.unpack(">HBB", data[:4])
    if zeros or kind != 8:
        raise DataError(f"expected an IDX file of bytes, got one that begins with {data[:4].hex()}")
    shape = struct.unpack(f">{axes}I", data[4 : 4 + 4 * axes])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)
