"""A new quantizer is one new file: dropped into the folder, it is found, run, stored and read back."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import torch

import discreet.quantizers
from discreet.quantizers import Quantized, names, parse, quantize, quantize_stack

HALVES = '''
    """Weights rounded to the nearest half, as far as two."""

    from __future__ import annotations

    from dataclasses import dataclass

    import torch
    from torch import Tensor

    from discreet.quantizers import Grouped, Multiples

    __all__ = ["Halves"]


    @dataclass(frozen=True)
    class Halves(Grouped):
        """Multiples of a half."""

        reach: int = 4

        @property
        def levels(self) -> int:
            return 2 * self.reach + 1

        def encode(self, groups: Tensor) -> Multiples:
            numbers = (2 * groups).round().clamp(-self.reach, self.reach)
            return Multiples(numbers, self.reach, zero=True, scale=torch.full_like(groups[:, :1], 0.5))
'''
WEIGHTS = {"w": torch.tensor([[0.2, -0.3], [1.1, 9.0]])}
EXPECTED = [[0.0, -0.5], [1.0, 2.0]]


def test_a_file_dropped_into_the_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "halves.py").write_text(textwrap.dedent(HALVES))
    before = names()
    # The folder of an installed package may not be writable: a second folder on its path stands in for it.
    monkeypatch.setattr(discreet.quantizers, "__path__", [*discreet.quantizers.__path__, str(tmp_path)])
    assert names() == tuple(sorted((*before, "halves")))
    quantizer = parse("halves(reach=4)")
    assert str(quantizer) == "halves(reach=4)"
    done = quantize(WEIGHTS, quantizer)
    assert done.dense["w"].tolist() == EXPECTED
    assert done.levels == 9
    assert quantize_stack({"w": WEIGHTS["w"][None]}, "halves")["w"][0].tolist() == EXPECTED
    done.save(tmp_path / "packed")
    assert Quantized.load(tmp_path / "packed").dense["w"].tolist() == EXPECTED
    with pytest.raises(ValueError, match=r"unknown quantizer 'halfs'; did you mean 'halves'\?"):
        parse("halfs")


def test_a_method_from_elsewhere_goes_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somebodys_halves.py").write_text(textwrap.dedent(HALVES))
    monkeypatch.syspath_prepend(str(tmp_path))
    quantizer = parse("somebodys_halves:Halves(4)")
    assert str(quantizer) == "somebodys_halves:Halves(reach=4)"
    assert quantize(WEIGHTS, quantizer).dense["w"].tolist() == EXPECTED
    assert quantize(WEIGHTS, str(quantizer)).spec == "somebodys_halves:Halves(reach=4)"
    assert "halves" not in names()


def test_a_frozen_dataclass_that_is_no_quantizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "from dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass Other:\n    levels: int = 2\n"
    )
    (tmp_path / "somebodys_other.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=r"is no quantizer: it needs granularity, scope, levels and encode$"):
        parse("somebodys_other:Other")
