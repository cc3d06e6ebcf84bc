"""GPTQ: better than rounding, the library's numbers, the order of layers, and a process that goes when we do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from discreet.quantizers import (
    Library,
    QuantizerError,
    needs_inputs,
    quantize,
    quantize_file,
    quantize_layer,
    quantize_stack,
)
from discreet.quantizers._gptq_client import GptqProcess, apart, the_process

BITS = (2, 3, 4, 8)


def layer(rows: int = 400, out: int = 48, width: int = 128, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A weight, and inputs that hang together, as those of real layers do."""
    draw = torch.Generator().manual_seed(seed)
    mix = torch.randn(width, width, generator=draw) / width**0.5
    inputs = torch.randn(rows, width, generator=draw) @ mix + 0.3 * torch.randn(rows, width, generator=draw)
    return 0.1 * torch.randn(out, width, generator=draw), inputs


class Net(nn.Module):
    """Layers whose order in the state is not that in which they run; one is never run."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a_last = nn.Linear(32, 16)
        self.b_first = nn.Linear(64, 32)
        self.drop = nn.Dropout(0.5)
        self.spare = nn.Linear(64, 16)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.a_last(self.drop(torch.relu(scale * self.b_first(x))))


@pytest.fixture
def own() -> Iterator[GptqProcess]:
    """A process for a test that is not kind to it."""
    process = GptqProcess()
    yield process
    process.close()


def alive(pid: int) -> bool:
    """Whether a process runs, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends(pid: int, seconds: float = 10.0) -> bool:
    limit = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < limit:
        time.sleep(0.05)
    return not alive(pid)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_outputs_are_nearer_than_those_of_rounding(bits: int) -> None:
    weight, inputs = layer()
    error = {
        spec: (inputs @ (quantize_layer(spec, weight, given).dense - weight).T).square().mean().sqrt()
        for spec, given in (
            (f"gptq(bits={bits})", inputs),
            (f"intx(bits={bits})", None),
            (f"hqq(bits={bits})", None),
        )
    }
    gptq, *others = error.values()
    assert all(gptq < 0.95 * other for other in others), error


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(("group", "width"), [(64, 128), (16, 40), (32, 20)])
def test_weights_are_levels_of_their_group(bits: int, group: int, width: int, tmp_path: Path) -> None:
    weight, inputs = layer(width=width)
    done = quantize({"w": weight}, f"gptq(bits={bits}, group={group})", calibration={"w": inputs})
    for piece in done.dense["w"].split(group, dim=1):
        assert all(len(row.unique()) <= 2**bits for row in piece)
    groups = -(-width // group)
    assert done.bits_per_weight == bits + 32 * groups / width
    done.save(tmp_path / "packed")
    assert torch.equal(type(done).load(tmp_path / "packed").dense["w"], done.dense["w"])


@pytest.mark.slow
def test_weights_are_those_of_the_library_s_class(tmp_path: Path) -> None:
    weight, inputs = layer()
    save_file({"weight": weight, "inputs": inputs}, tmp_path / "given")
    code = f"""
import torch
torch.set_num_threads(1)
from gptqmodel import QuantizeConfig
from gptqmodel.quantization.gptq import GPTQ
from safetensors.torch import load_file, save_file
given, made = load_file({str(tmp_path / "given")!r}), {{}}
for bits in {BITS}:
    layer = torch.nn.Linear(128, 48)
    layer.weight.data = given["weight"].clone()
    task = GPTQ(layer, QuantizeConfig(bits=bits, group_size=64, device="cpu"))
    task.quantizer.configure(perchannel=True)
    task.add_batch(given["inputs"][None], None)
    made[str(bits)] = task.quantize()[0].contiguous()
save_file(made, {str(tmp_path / "made")!r})
"""
    environment = os.environ | {
        "GPTQMODEL_CPU_WORKERS": "2",
        "HF_HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": str(apart()),
    }
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    made = load_file(tmp_path / "made")
    for bits in BITS:
        assert torch.equal(quantize_layer(f"gptq(bits={bits})", weight, inputs).dense, made[str(bits)])


def test_the_same_inputs_give_the_same_weights_and_others_give_others() -> None:
    weight, inputs = layer()
    one, again, other = (quantize_layer("gptq", weight, each).dense for each in (inputs, inputs, inputs[:50]))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_each_layer_sees_what_the_quantized_ones_before_it_give() -> None:
    net, x = Net(), layer(width=64)[1]
    batches = list(x.split(100))
    done = quantize(net, "gptq", select=["a_last.*", "b_first.*"], calibration=batches)
    assert done.quantized == ("a_last.weight", "b_first.weight")
    first = quantize_layer("gptq", net.b_first.weight, x).dense
    assert torch.equal(done.dense["b_first.weight"], first)
    inputs = torch.relu(nn.functional.linear(x, first, net.b_first.bias)).detach()
    assert torch.equal(done.dense["a_last.weight"], quantize_layer("gptq", net.a_last.weight, inputs).dense)
    # With the layer before it as it was, there would be other inputs, and another result.
    full = torch.relu(net.b_first(x)).detach()
    assert not torch.equal(done.dense["a_last.weight"], quantize_layer("gptq", net.a_last.weight, full).dense)


def test_batches_go_in_as_the_module_takes_them_and_the_module_stays_as_it_was() -> None:
    net, x = Net(), layer(width=64)[1]
    net.drop.eval()
    before = {name: each.clone() for name, each in net.state_dict().items()}
    select = ["b_first.*", "a_last.*"]
    plain = quantize(net, "gptq", select=select, calibration=[x])
    ways: list[tuple[Any, Any]] = [
        ([(x,)], None),
        ([{"x": x}], None),
        ([(x, 1.0)], None),
        ([x.numpy()], lambda module, batch: module(torch.from_numpy(batch))),
    ]
    for batches, feed in ways:
        done = quantize(net, "gptq", select=select, calibration=batches, feed=feed)
        assert all(torch.equal(done.dense[name], plain.dense[name]) for name in before)
    assert all(torch.equal(net.state_dict()[name], each) for name, each in before.items())
    copies: list[nn.Module] = []
    quantize(net, "gptq", select=select, calibration=[x], feed=lambda each, x: (copies.append(each), each(x)))
    assert copies[0] is not net
    assert not any(each._forward_pre_hooks for each in copies[0].modules())
    assert (net.training, net.drop.training, net.b_first._forward_pre_hooks) == (True, False, {})


def test_tied_weights_are_quantized_by_their_linear_layer() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(32, 64), nn.Linear(64, 32, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.embed(x))

    torch.manual_seed(0)
    net, x = Tied(), torch.arange(32)
    done = quantize(net, "gptq", calibration=[x])
    expected = quantize_layer("gptq", net.head.weight, net.embed(x).detach()).dense
    assert torch.equal(done.dense["head.weight"], expected)
    assert torch.equal(done.dense["embed.weight"], expected)


def test_inputs_that_are_missing_or_do_not_fit(tmp_path: Path) -> None:
    net, (weight, inputs) = Net(), layer()
    spec, how = "gptq(bits=4, group=64)", "give quantize(…, calibration=) batches for the module, or inputs"
    nan = inputs.clone()
    nan[3, 4] = torch.nan
    save_file({"w": weight}, tmp_path / "w.safetensors")
    cases: list[tuple[Any, str]] = [
        (lambda: quantize(net, "gptq"), f"{spec} needs what goes into each layer; {how}"),
        (lambda: quantize(net, "gptq", calibration=[]), f"{spec}: calibration holds no batch"),
        (
            lambda: quantize({"w": weight}, "gptq", calibration=[inputs]),
            f"{spec}: a state dict takes no batches",
        ),
        (
            lambda: quantize(net, "gptq", calibration=[torch.randn(9, 64)]),
            f"{spec}: the calibration batches never reach the layer of 'spare.weight'; exclude it",
        ),
        (
            lambda: quantize({"w": weight}, "gptq", calibration={"v": inputs}),
            f"{spec}: calibration has no inputs for 'w'; exclude it or give some",
        ),
        (
            lambda: quantize(net, "hqq(group=8)", calibration=[inputs]),
            "hqq(bits=4, group=8) does not look at data",
        ),
        (
            lambda: quantize_layer("gptq", weight),
            f"{spec} needs what goes into 'weight': give inputs [row, in]",
        ),
        (lambda: quantize_layer("hqq", weight, inputs), "hqq(bits=4, group=64) does not look at data"),
        (
            lambda: quantize({"w": weight}, "gptq", calibration={"w": inputs[:, :5]}),
            f"{spec}: inputs of 'w' must be [row, 128] with at least one row, got shape (400, 5)",
        ),
        (
            lambda: quantize_layer("gptq", weight, inputs[:0]),
            "must be [row, 128] with at least one row, got shape (0, 128)",
        ),
        (
            lambda: quantize_layer("gptq", weight, nan, name="q_proj"),
            f"{spec}: inputs of 'q_proj' hold NaN or infinite numbers",
        ),
        (
            lambda: quantize_stack({"w": weight[None]}, "gptq"),
            f"{spec} needs what goes into each layer, which many",
        ),
        (
            lambda: quantize_file(tmp_path / "w.safetensors", "gptq", tmp_path / "out"),
            f"{spec} needs what goes",
        ),
        (lambda: quantize_layer("gptq(bits=5)", weight), "bits must be 2, 3, 4 or 8, got 5"),
        (
            lambda: quantize_layer("gptq(group=48)", weight),
            "group must be 16, 32, 64, 128, 256, 512 or 1024, got 48",
        ),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=r".") as caught:
            call()
        assert message in str(caught.value)
    assert [needs_inputs(each) for each in ("gptq", "hqq", "full")] == [True, False, False]


def test_an_input_that_is_always_zero_takes_its_weights_along() -> None:
    weight, inputs = layer()
    inputs[:, 7] = 0
    assert quantize_layer("gptq", weight, inputs).dense[:, 7].abs().max() == 0


def test_the_library_never_enters_our_process() -> None:
    quantize_layer("gptq", *layer())
    assert the_process.pid is not None
    assert "gptqmodel" not in sys.modules
    assert "GPTQMODEL_CPU_WORKERS" not in os.environ


@pytest.mark.slow
def test_a_process_that_dies_is_reported_and_the_next_layer_gets_another(own: GptqProcess) -> None:
    weight, inputs = layer(rows=60)
    one = own.quantize(weight, inputs, bits=4, group=64)["dense"]
    first = own.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    with pytest.raises(
        QuantizerError, match=r"^the process that runs gptqmodel ended with status -9; its last words"
    ):
        own.quantize(weight, inputs, bits=4, group=64)
    assert ends(first)
    assert own.pid is None
    assert torch.equal(own.quantize(weight, inputs, bits=4, group=64)["dense"], one)


@pytest.mark.slow
def test_a_fork_of_ours_keeps_no_process_alive_and_ends_none() -> None:
    quantize_layer("gptq", *layer(rows=60))
    worker = the_process.pid
    assert worker is not None
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        quantize_layer("gptq", *layer(rows=60))
        assert the_process.pid == worker
        started = time.monotonic()
        the_process.close()
        assert time.monotonic() - started < 5
        assert ends(worker, 1)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.slow
def test_a_fork_in_the_middle_of_a_layer_goes_on_and_has_a_process_of_its_own() -> None:
    code = """
import os, sys, threading, time, torch
from discreet.quantizers import quantize_layer
from discreet.quantizers._gptq_client import the_process
torch.manual_seed(0)
weight, inputs = torch.randn(8, 64), torch.randn(90, 64)
expected = quantize_layer("gptq", weight, inputs).dense
busy = threading.Thread(target=quantize_layer, args=("gptq", torch.randn(1500, 1500), torch.randn(3000, 1500)))
busy.start()
while not the_process._lock.locked():
    pass
time.sleep(0.3)
worker, child = the_process.pid, os.fork()
if child == 0:
    assert the_process.pid is None
    assert torch.equal(quantize_layer("gptq", weight, inputs).dense, expected)
    assert the_process.pid != worker
    the_process.close()
    sys.stdout.flush()
    os._exit(7)
assert busy.is_alive()
limit = time.monotonic() + 60
while not (done := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < limit:
    time.sleep(0.05)
if not done[0]:
    os.kill(child, 9)
busy.join()
assert os.waitstatus_to_exitcode(done[1]) == 7
assert torch.equal(quantize_layer("gptq", weight, inputs).dense, expected)
assert the_process.pid == worker
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("end", ["return", "kill"])
def test_it_ends_with_ours(end: str, tmp_path: Path) -> None:
    code = f"""
import os, signal, torch
from discreet.quantizers import quantize_layer
from discreet.quantizers._gptq_client import the_process
quantize_layer("gptq", torch.randn(8, 64), torch.randn(90, 64))
print(the_process.pid, flush=True)
if {end!r} == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == (-9 if end == "kill" else 0), done.stderr
    assert done.stderr == ""
    assert ends(int(done.stdout))
    # Its files go with it.
    time.sleep(0.2)
    assert list(tmp_path.iterdir()) == []


def test_without_the_library(own: GptqProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gptqmodel.py").write_text("raise ModuleNotFoundError('No module', name='pcre')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(QuantizerError) as caught:
        own.quantize(*layer(), bits=4, group=64)
    assert str(caught.value) == (
        "gptq: the package pcre is not installed; install it with: python -m discreet.quantizers._gptq_install"
    )
    assert own.pid is None

    class Absent(Library):
        package, extra = "no-such-package", "gptq"

    with pytest.raises(
        QuantizerError, match=r"the package no-such-package is not installed; .*discreet\[gptq\]"
    ):
        _ = Absent().made_by
