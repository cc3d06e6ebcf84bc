"""Forms that ship: CSR layers, ONNX files, plain files, and how their times are taken."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import binom
from torch import Tensor, nn

from discreet.artefacts import ArtefactError, csr_linears, latency, load_onnx, save_dense, save_onnx
from discreet.artefacts._timing import Middle, in_turns, middle
from discreet.artefacts.csr import CsrLinear, pays


def sparse_linear(into: int, out: int, density: float, *, bias: bool = True) -> nn.Linear:
    layer = nn.Linear(into, out, bias=bias)
    with torch.no_grad():
        layer.weight.masked_fill_(torch.rand(out, into) > density, 0)
    return layer


@pytest.fixture
def module() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        sparse_linear(300, 400, 0.02), nn.BatchNorm1d(400), nn.ReLU(), sparse_linear(400, 10, 1.0)
    ).eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7,), (1, 7), (5, 7), (2, 3, 7), (0, 7)])
def test_a_csr_layer_gives_what_the_linear_layer_gives(bias: bool, shape: tuple[int, ...]) -> None:
    layer = sparse_linear(7, 4, 0.5, bias=bias)
    x = torch.randn(*shape)
    torch.testing.assert_close(CsrLinear(layer)(x), layer(x), rtol=1e-5, atol=1e-6)
    rows = CsrLinear(layer).weight
    assert rows.values().numel() == int((layer.weight != 0).sum())


def test_a_csr_layer_keeps_weights_in_use_that_are_zero() -> None:
    layer = sparse_linear(7, 4, 0.5)
    mask = layer.weight != 0
    mask[0, 0] = True
    assert CsrLinear(layer, mask).weight.values().numel() == int(mask.sum())


def test_layers_are_replaced_where_it_pays(module: nn.Sequential) -> None:
    before = {name: value.clone() for name, value in module.state_dict().items()}
    found = csr_linears(module, turns=11)
    assert [swap.layer for swap in found.swaps] == ["0", "3"]
    for swap in found.swaps:
        lows = [each.low for each in swap.faster.values() if each.low is not None]
        assert list(swap.faster) == [1, 64]
        assert swap.kept == (min(lows) >= 1.1)
        assert isinstance(found.module.get_submodule(swap.layer), CsrLinear) == swap.kept
    assert found.swaps[1].density == 1.0
    assert not found.swaps[1].kept  # a dense layer gains nothing
    x = torch.randn(20, 300)
    torch.testing.assert_close(found.module(x), module(x), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert csr_linears(module, turns=6, at_least=1e9).kept == ()
    everything = csr_linears(module, turns=6, at_least=0.0)
    assert everything.kept == ("0", "3")
    torch.testing.assert_close(everything.module(x), module(x), rtol=1e-4, atol=1e-5)
    alone = csr_linears(module[0], {"weight": torch.ones(400, 300) > 0}, turns=6, at_least=0.0)
    assert isinstance(alone.module, CsrLinear)


def test_only_a_gain_that_is_certain_pays() -> None:
    sure, unsure, unknown = Middle(1.2, 1.1, 1.3, 21), Middle(1.5, 1.0, 2.0, 21), Middle(2.0, None, None, 3)
    assert pays({1: sure, 64: sure}, 1.1)
    for wrong in (unsure, unknown):
        assert not pays({1: sure, 64: wrong}, 1.1)


def test_what_csr_layers_refuse(module: nn.Sequential) -> None:
    with pytest.raises(ArtefactError, match=r"module: expected at least one linear layer .* got none"):
        csr_linears(nn.ReLU())
    with pytest.raises(
        ArtefactError, match=r"batch_sizes: expected at least one, each at least 1, got \[0\]"
    ):
        csr_linears(module, batch_sizes=[0])
    with pytest.raises(ArtefactError, match=r"turns: expected at least 6, .* got 5"):
        csr_linears(module, turns=5)
    with pytest.raises(ArtefactError, match=r"masks: expected shape \[400, 300\] for '0', got \[3, 4\]"):
        csr_linears(module, {"0.weight": torch.ones(3, 4) > 0})


def test_the_interval_of_a_median_covers_as_often_as_it_says() -> None:
    for n in (6, 11, 21):
        found = middle(np.arange(float(n)))
        assert found.low is not None
        outside = int(found.low)  # so many values lie below the interval, and as many above
        assert 2 * binom.cdf(outside, n, 0.5) <= 0.05 < 2 * binom.cdf(outside + 1, n, 0.5)
        assert found.high == n - 1 - outside
    assert middle(np.arange(5.0)).low is None
    rng = np.random.default_rng(0)
    found = [middle(rng.standard_normal(21)) for _ in range(2000)]
    hits = [(each.low or 0) <= 0 <= (each.high or 0) for each in found]
    assert np.mean(hits) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 2000)


def test_turns_tell_a_long_work_from_a_short_one() -> None:
    def busy(seconds: float) -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    spent = in_turns({"short": lambda: busy(1e-3), "long": lambda: busy(3e-3)}, 11)
    ratio = middle(spent["long"] / spent["short"])
    assert ratio.value == pytest.approx(3, rel=0.1)
    assert {name: len(each) for name, each in spent.items()} == {"short": 11, "long": 11}


def test_latency_compares_each_form_with_the_first(module: nn.Sequential) -> None:
    x = torch.randn(8, 300)
    module.train()
    forms = {"dense": module, "other": module[0]}
    found = latency(forms, x, [1, 16], turns=6)
    assert [(each.form, each.batch) for each in found] == [
        ("dense", 1),
        ("other", 1),
        ("dense", 16),
        ("other", 16),
    ]
    assert all(each.faster.value == 1 for each in found if each.form == "dense")
    assert all(each.seconds.value > 0 and each.seconds.n == 6 for each in found)
    assert module.training
    for sizes, turns, words in (([], 6, "batch_sizes"), ([0], 6, "batch_sizes"), ([1], 2, "turns")):
        with pytest.raises(ArtefactError, match=f"{words}: expected at least"):
            latency(forms, x, sizes, turns=turns)
    with pytest.raises(ArtefactError, match="forms: expected at least one, got none"):
        latency({}, x)


def test_an_onnx_file_agrees_and_says_nothing_of_this_machine(module: nn.Sequential, tmp_path: Path) -> None:
    x = torch.randn(9, 300)
    done = save_onnx(tmp_path / "model.onnx", module, x)
    assert done.bytes == (tmp_path / "model.onnx").stat().st_size
    assert done.rows == 9
    assert done.difference <= 1e-5 * done.largest
    model = load_onnx(tmp_path / "model.onnx")
    found = latency({"dense": module, "onnx": model}, x, [1], turns=6)
    assert [each.form for each in found] == ["dense", "onnx"]
    with torch.no_grad():
        for rows in (1, 5, 33):
            some = torch.randn(rows, 300)
            np.testing.assert_allclose(model(some), module(some).numpy(), rtol=1e-4, atol=1e-5)
    data = (tmp_path / "model.onnx").read_bytes()
    for path in (sys.prefix, str(Path(torch.__file__).parent), str(Path(__file__).parent), "site-packages"):
        assert path.encode() not in data


class Rows(nn.Module):
    """Depends on the number of rows in a way that an export fixes or refuses."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sum(1) if len(x) == 2 else x.sum(1) + 1


@pytest.mark.slow
def test_an_onnx_export_that_disagrees_is_refused(module: nn.Sequential, tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="module: ONNX Runtime cannot run it on 1 rows"):
        save_onnx(tmp_path / "rows.onnx", Rows(), torch.randn(4, 3))
    with pytest.raises(ArtefactError, match="outputs of ONNX Runtime differ from PyTorch's by up to"):
        save_onnx(tmp_path / "exact.onnx", module, torch.randn(4, 300), tolerance=-1.0)
    assert not list(tmp_path.iterdir())


def test_what_an_onnx_file_must_be(module: nn.Sequential, tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="x: expected at least 2 rows to compare on, got 1"):
        save_onnx(tmp_path / "one.onnx", module, torch.randn(1, 300))
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(ArtefactError, match=r"no.onnx: ONNX Runtime cannot read it"):
        load_onnx(tmp_path / "no.onnx")


def test_a_plain_file_holds_every_name(tmp_path: Path) -> None:
    weight = torch.randn(30, 40)
    state = {"a": weight, "b": weight, "view": weight.T, "steps": torch.tensor(3)}
    size = save_dense(tmp_path / "model.safetensors", state, {"note": "é"})
    again = load_file(tmp_path / "model.safetensors")
    assert set(again) == set(state)
    assert all(torch.equal(again[name], state[name]) for name in state)
    assert size == (tmp_path / "model.safetensors").stat().st_size > 3 * weight.nbytes
    with pytest.raises(ArtefactError, match="state: safetensors cannot hold it"):
        save_dense(tmp_path / "none", {"c": torch.zeros(3, dtype=torch.complex128)})
