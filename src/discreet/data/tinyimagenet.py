"""Tiny ImageNet, from the archive that the user has downloaded; no package ships it.

Le and Yang, "Tiny ImageNet Visual Recognition Challenge" (2015). No licence is stated.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np

from discreet._types import Int, Num
from discreet.data.samples import DataError, Samples

__all__ = ["load", "read"]

PAGE = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
NAME, MD5 = "tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de"


def load(folder: str | Path) -> Samples:
    """Read the 110,000 pictures with labels, and keep one of each. They take 5 GB of memory.

    Args:
        folder: Where the archive is.

    Returns:
        Pixels from 0 to 1 as [sample, 3, 64, 64], training pictures first.

    Raises:
        DataError: The archive is not there, or it is another one.
    """
    path = Path(folder) / NAME
    advice = f"download {PAGE} into {folder}"
    digest = hashlib.md5()
    try:
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {advice}") from None
    if digest.hexdigest() != MD5:
        raise DataError(f"{path}: expected MD5 {MD5}, got {digest.hexdigest()}; {advice}")
    x, y, classes = read(path)
    seen = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in x]
    first = np.array(sorted({key: at for at, key in reversed(list(enumerate(seen)))}.values()))
    return Samples(
        x[first].astype(np.float32) / np.float32(255),
        y[first],
        classes,
        "Tiny ImageNet",
        {NAME: MD5},
        "none stated",
        PAGE,
        {"pictures": len(x), "repeats dropped": len(x) - len(first)},
    )


def read(
    path: Path,
) -> tuple[Num[np.ndarray, "sample 3 high wide"], Int[np.ndarray, " sample"], tuple[str, ...]]:
    """Pixels (0 to 255, in eight bits), labels and class names of an archive, training pictures first.

    Raises:
        DataError: It lacks the list of classes, or pictures of a class that the list lacks.
    """
    from PIL import Image

    with zipfile.ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".JPEG"))
        root = names[0].partition("/")[0] if names else ""
        try:
            classes = tuple(sorted(archive.read(f"{root}/wnids.txt").decode().split()))
            told = archive.read(f"{root}/val/val_annotations.txt").decode().splitlines()
        except KeyError as error:
            raise DataError(f"{path}: {error.args[0]}") from None
        of_file = {line.split("\t")[0]: line.split("\t")[1] for line in told if line}
        place = {name: at for at, name in enumerate(classes)}
        pixels, label = [], []
        for part in ("train", "val"):
            for name in names:
                parts = PurePosixPath(name).parts
                if parts[1] != part:
                    continue
                kind = parts[2] if part == "train" else of_file.get(parts[-1], "")
                if kind not in place:
                    raise DataError(f"{path}: {name} is of class {kind!r}, which wnids.txt does not name")
                with Image.open(io.BytesIO(archive.read(name))) as picture:
                    pixels.append(np.asarray(picture.convert("RGB"), np.uint8).transpose(2, 0, 1))
                label.append(place[kind])
    return np.stack(pixels), np.array(label, np.int64), classes
