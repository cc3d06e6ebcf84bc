"""The paper's networks have the sizes that are known of them, and CIFAR archives are read as they are written."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from discreet.data import cifar
from discreet.data.samples import DataError
from discreet.sparse import counts, maskable
from discreet.studies.paper_models import ResNet18, alexnet, vgg16


def test_vgg16_is_the_released_one() -> None:
    network = vgg16()
    found = maskable(network)
    weights = {name: int(np.prod(shape)) for name, shape in found.shapes.items()}
    assert sum(weights.values()) == 11_353_792
    kept = counts(found.shapes, 0.05, "erk")
    assert sum(kept.values()) <= 567_689
    assert sum(kept.values()) == pytest.approx(567_683, abs=8)
    densities = [kept[name] / weights[name] for name in weights]
    assert densities[0] == 1.0
    assert densities[-1] == pytest.approx(0.558, abs=0.01)
    assert network.eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 100)


@pytest.mark.parametrize(("network", "side", "classes"), [(alexnet(), 32, 10), (ResNet18(), 64, 200)])
def test_the_others_answer(network: torch.nn.Module, side: int, classes: int) -> None:
    assert network.eval()(torch.zeros(2, 3, side, side)).shape == (2, classes)


def test_resnet18_has_its_known_size() -> None:
    smaller = 64 * 3 * (49 - 9)  # the usual first layer has windows of 7 x 7
    assert sum(each.numel() for each in ResNet18(1000).parameters()) == 11_689_512 - smaller


@pytest.mark.parametrize("classes", [10, 100])
def test_archives_are_read_training_first(tmp_path: Path, classes: int) -> None:
    rng = np.random.default_rng(0)
    labels = 1 if classes == 10 else 2
    path = tmp_path / "some.tar.gz"
    rows = {}
    with tarfile.open(path, "w:gz") as archive:
        for name in ("test_batch.bin", "data_batch_1.bin", "readme.html"):
            rows[name] = rng.integers(0, 10, (3, labels + 3072)).astype(np.uint8)
            about = tarfile.TarInfo(f"cifar/{name}")
            about.size = rows[name].size
            archive.addfile(about, io.BytesIO(rows[name].tobytes()))
    x, y = cifar.read(path, classes)
    assert x.shape == (6, 3, 32, 32)
    first = rows["data_batch_1.bin"][0]
    assert y[0] == first[labels - 1]
    assert np.array_equal(x[0].ravel(), first[labels:])
    assert y[3] == rows["test_batch.bin"][0, labels - 1]


def test_archives_that_are_missing_or_others(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"cannot be read \(No such file or directory\); download it from https"
    ):
        cifar.load(tmp_path, 10)
    (tmp_path / "cifar-100-binary.tar.gz").write_bytes(b"pictures")
    with pytest.raises(DataError, match="expected MD5 03b5dce01913d631647c71ecec9e9cb8, got"):
        cifar.load(tmp_path, 100)
    with pytest.raises(DataError, match="classes: expected 10 or 100, got 20"):
        cifar.load(tmp_path, 20)
