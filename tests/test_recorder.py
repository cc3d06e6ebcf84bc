"""What a recorder measures on the way against the same figures from checkpoints kept for afterwards."""

from __future__ import annotations

import copy
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from discreet import rank
from discreet.fingerprint import fingerprints
from discreet.measure import logits, signals, stack_of
from discreet.mlp import MLP
from discreet.quantizers import parse, quantize, quantize_stack
from discreet.recipe import Recipe
from discreet.recorder import Recorder
from discreet.records import Record
from discreet.training import train
from tests.own_code import QUANTIZER

QUANTIZERS = ["full", "sign", "uniform(bits=3)"]


def data(samples: int = 40) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(samples, 6)
    return x, (x[:, 0] + 0.5 * torch.randn(samples) > 0).long()


def training(model: nn.Module, steps: int):
    """A training loop of the user's own, one model after the other."""
    x, y = data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y.float()).backward()
        optimizer.step()
        yield model


def test_steps_of_a_module_are_those_of_its_kept_checkpoints() -> None:
    x, y = data()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.3), nn.Linear(5, 1))
    recorder = Recorder(x, y, QUANTIZERS, run="a", about={"n_train": 40})
    kept = []
    for each in training(model, 4):
        assert recorder.step(each)
        kept.append(copy.deepcopy(each))
        assert each.training
    record = recorder.record()
    assert record.run == ("a",) * 12
    assert record.variants == tuple(str(parse(spec)) for spec in QUANTIZERS)
    assert record.about["n_train"] == 40
    assert recorder.steps == (1, 2, 3, 4)
    for variant, spec in zip(record.variants, QUANTIZERS, strict=True):
        rows = record.trajectory(variant, "a")
        assert record.step[rows].tolist() == [1, 2, 3, 4]
        for row, module in zip(rows, kept, strict=True):
            other = copy.deepcopy(module)
            other.load_state_dict(quantize(module, spec).dense)
            with torch.no_grad():
                expected = signals(other.eval()(x), y, "bce")
            for name in ("loss", "margin"):
                np.testing.assert_allclose(record.signals[name][row], expected[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(record.signals["label"], y)
    assert recorder.overhead > 0


def test_stacks_are_recorded_while_they_train(tmp_path: Path) -> None:
    x, y = data()
    network, runs = MLP((6, 5, 1)), ["0", "1", "10", "2"]
    subsets = np.stack([np.random.default_rng(run).permutation(40)[:20] for run in range(4)])
    member = np.zeros((4, 40), bool)
    np.put_along_axis(member, subsets, True, axis=1)
    seen: dict[int, dict[str, Tensor]] = {}
    recorder = Recorder(
        x, y, QUANTIZERS, run=runs, model=network, every=2, folder=tmp_path, member=member, dtype="float64"
    )

    def note(epoch: int, params: dict[str, Tensor]) -> None:
        seen[epoch] = params
        assert recorder.step_stack(epoch, params) == (epoch % 2 == 0)

    train(network, x, y, subsets, Recipe(epochs=6, batch_size=8, lr=0.05), on_checkpoint=note)
    record = recorder.record(tmp_path / "whole.safetensors")
    assert record.runs == ("0", "1", "2", "10")
    np.testing.assert_array_equal(record.member, member[[0, 1, 3, 2]])
    assert record == recorder.record()
    assert set(record.step) == {2, 4, 6}
    for row, (run, step, variant) in enumerate(zip(record.run, record.step, record.variant, strict=True)):
        stack = quantize_stack(seen[int(step)], variant)
        outputs = logits(network, stack, x)[runs.index(run), :, None]
        for name, values in signals(outputs, y, "bce").items():
            np.testing.assert_allclose(record.signals[name][row], values, rtol=1e-5, atol=1e-6)
        assert record.signals["params_hash"][row] == fingerprints(stack)[runs.index(run)]
        assert record.signals["weights_hash"][row] == fingerprints(seen[int(step)])[runs.index(run)]
    assert len(rank(record).to_json()["variants"]) == 3


def test_equal_parameters_have_equal_fingerprints_and_no_others() -> None:
    torch.manual_seed(0)
    stack = {"b": torch.randn(4, 3), "a": torch.randint(0, 5, (4,)), "c": torch.zeros(4, 2)}
    stack["b"][1], stack["a"][1] = stack["b"][0], stack["a"][0]
    stack["c"][1] = -0.0
    one, same, *others = fingerprints(stack).tolist()
    assert one == same
    assert len({one, *others}) == 3
    assert fingerprints(dict(reversed(stack.items())), workers=1).tolist()[0] == one
    swapped = {"b": stack["c"], "c": stack["b"]}
    assert fingerprints(swapped)[0] != fingerprints({"b": stack["b"], "c": stack["c"]})[0]
    assert fingerprints({"b": stack["b"]})[0] != fingerprints({"c": stack["b"]})[0]
    half = {"b": stack["b"].bfloat16()}
    assert fingerprints(half)[0] == fingerprints(half)[1] != fingerprints(half)[2]


def test_quantized_checkpoints_that_coincide_are_no_candidates() -> None:
    x, y = data()
    network = MLP((6, 5, 1))
    start = network.init([0])
    recorder = Recorder(x, y, ["full", "sign"], model=network)
    for step in (1, 2, 3):
        recorder.step_stack(step, {name: value * step for name, value in start.items()})  # same signs
    record = recorder.record()
    hashes = {v: set(record.signals["params_hash"][record.rows(v)].tolist()) for v in record.variants}
    assert (len(hashes["full"]), len(hashes["sign"])) == (3, 1)
    ranked = {each["variant"]: each for each in rank(record).to_json()["variants"]}
    assert ranked["sign"]["status"] == "undefined"
    assert ranked["full"]["status"] == "ok"


def test_a_recorder_goes_on_with_the_steps_in_its_folder(tmp_path: Path) -> None:
    x, y = data()
    network = MLP((6, 5, 1))
    stacks = [network.init([seed, seed + 10]) for seed in range(4)]

    def recorder(**changes) -> Recorder:
        return Recorder(
            x, y, QUANTIZERS, **({"run": ["a", "b"], "model": network, "folder": tmp_path / "run"} | changes)
        )

    first = recorder()
    for step in (0, 1):
        first.step_stack(step, stacks[step])
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.safetensors")}
    again = recorder()
    assert again.steps == (0, 1)
    for step in (1, 2, 3):
        again.step_stack(step, stacks[step])
    assert all(path.stat().st_mtime_ns == when for path, when in files.items())
    whole = recorder(folder=None)
    for step in range(4):
        whole.step_stack(step, stacks[step])
    assert (
        again.record().save(tmp_path / "a").read_bytes() == whole.record().save(tmp_path / "b").read_bytes()
    )
    with pytest.raises(ValueError, match="step 1: other weights were measured before"):
        again.step_stack(1, stacks[3])
    assert recorder(task="bce", about={"seed": 1}).steps == ()  # other settings, other record
    assert Recorder(x + 1, y, QUANTIZERS, run=["a", "b"], model=network, folder=tmp_path / "run").steps == ()
    damaged = next(iter(files))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    mended = recorder()
    assert len(mended.steps) == 3
    for step in range(4):
        mended.step_stack(step, stacks[step])
    assert mended.record() == whole.record()


def test_steps_of_other_code_or_releases_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    x, y = data()
    network = MLP((6, 5, 1))

    def recorder(code: str = QUANTIZER) -> Recorder:
        sys.modules.pop("own_quantizer", None)
        (tmp_path / "own_quantizer.py").write_text(code)
        importlib.invalidate_caches()
        return Recorder(x, y, ["own_quantizer:Mine", "sign"], model=network, folder=tmp_path / "run")

    recorder().step_stack(1, network.init([0]))
    assert recorder().steps == (1,)
    assert recorder(QUANTIZER.replace("2 *", "3 *")).steps == ()
    with monkeypatch.context() as patched:
        patched.setattr("discreet.quantizers.sign.Sign.made_by", "other 2.0", raising=False)
        assert recorder().steps == ()
    monkeypatch.setattr("discreet.recorder.versions_of", lambda *names: dict.fromkeys(names, "9"))
    assert recorder().steps == ()
    sys.modules.pop("own_quantizer")


KILLED = """
import sys, torch
from discreet.mlp import MLP
from discreet.recorder import Recorder
torch.set_num_threads(1)
network = MLP((6, 5, 1))
x = torch.linspace(-1, 1, 60).reshape(10, 6)
recorder = Recorder(x, torch.arange(10) % 2, ["full", "sign"], model=network, folder=sys.argv[1])
for step in range(int(sys.argv[2])):
    recorder.step_stack(step, network.init([step]))
    print(step, flush=True)
print(recorder.record().save(sys.argv[1] + ".safetensors"))
"""


@pytest.mark.slow
def test_a_killed_run_keeps_its_finished_steps(tmp_path: Path) -> None:
    def start(folder: Path) -> subprocess.Popen:
        command = [sys.executable, "-c", KILLED, str(folder), "12"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    for kill_after in (1, 4, 7):
        with start(tmp_path / "killed") as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip() == str(kill_after):
                    process.send_signal(signal.SIGKILL)
    with start(tmp_path / "killed") as process:
        process.wait()
    with start(tmp_path / "whole") as process:
        process.wait()
    assert (tmp_path / "killed.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    assert Record.open(tmp_path / "whole.safetensors").n_samples == 10


def test_names_for_variants_and_the_steps_that_every_skips() -> None:
    x, y = data()
    model = nn.Linear(6, 1)
    recorder = Recorder(x, y, {"plain": "full", "one bit": "sign"}, every=3)
    assert [recorder.step(model) for _ in range(6)] == [False, False, True, False, False, True]
    assert not recorder.step(model, step=10)
    assert recorder.step(model, step=12)
    record = recorder.record()
    assert record.variants == ("plain", "one bit")
    assert recorder.steps == (3, 6, 12)


@pytest.mark.parametrize("task", ["ce", "mse"])
def test_other_tasks(task: str) -> None:
    x, y = data()
    model = nn.Linear(6, 2)
    target = y if task == "ce" else torch.stack([y, -y], dim=1).float()
    recorder = Recorder(x, target, ["full"], task=task)
    recorder.step(model)
    record = recorder.record()
    assert set(record.signals) == {"loss", "label", "params_hash", "weights_hash"} | (
        {"margin"} if task == "ce" else set()
    )
    expected = signals(model(x).detach(), target, task)["loss"]
    np.testing.assert_allclose(record.signals["loss"][0], expected, rtol=1e-5)


def test_all_variants_of_large_stacks_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = data()
    network = MLP((6, 5, 1))
    together, apart = (Recorder(x, y, QUANTIZERS, model=network) for _ in range(2))
    together.step_stack(1, network.init([0]))
    monkeypatch.setattr("discreet.recorder._AT_ONCE", 1)
    apart.step_stack(1, network.init([0]))
    assert together.record() == apart.record()


def test_what_does_not_fit_is_named() -> None:
    x, y = data()
    stack = MLP((6, 5, 1)).init([0, 1])
    for options, message in [
        ({"every": 0}, "every: expected at least 1, got 0"),
        ({"dtype": "float16"}, "dtype: expected float32 or float64, got 'float16'"),
        ({"quantizers": ["sign", "sign()"]}, "quantizers: 'sign' occurs twice"),
        ({"quantizers": []}, "quantizers: expected at least one, got none"),
        ({"quantizers": ["signs"]}, "signs"),
        ({"y": y[:3]}, "y: expected one label for each of 40 samples, got 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            Recorder(**({"x": x, "y": y} | options))
    with pytest.raises(ValueError, match="record: nothing was measured yet"):
        Recorder(x, y).record()
    with pytest.raises(ValueError, match="model: give the recorder the architecture of the stack"):
        Recorder(x, y, run=["a", "b"]).step_stack(1, stack)
    with pytest.raises(ValueError, match="run: expected one label for each of 2 models, got 1"):
        Recorder(x, y, model=MLP((6, 5, 1))).step_stack(1, stack)
    with pytest.raises(ValueError, match="run: a single model is one run, but the recorder has 2"):
        Recorder(x, y, run=["a", "b"]).step(nn.Linear(6, 1))
    assert list(stack_of(nn.Linear(6, 1))) == ["weight", "bias"]
