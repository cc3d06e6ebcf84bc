"""Trajectories and releases against one model at a time; stopped, resumed, and with any number of workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

import discreet
from discreet.llm import LanguageModelError, adapters_in, encode, losses, release, token_signals, trajectory
from discreet.llm._packed import Packed
from discreet.quantizers import Multiples, quantize_layer
from discreet.quantizers.uniform import Uniform
from discreet.records import Record, RecordError
from discreet.store import Store
from tests import llm

SPEC = "uniform(bits=3, granularity='channel')"
COUNTED = "tests.test_llm_trajectory:Counted"
VARIANTS = ("full", SPEC, f"adapter over {SPEC}")


@dataclass(frozen=True)
class Counted(Uniform):
    """A quantizer that counts its calls, and may be slow."""

    granularity: str = "channel"
    calls: ClassVar[list[int]] = []

    def encode(self, groups: Tensor) -> Multiples:
        self.calls.append(1)
        time.sleep(float(os.environ.get("SECONDS_A_LAYER", "0")))  # no part of the code, which keys hold
        return super().encode(groups)


@pytest.fixture
def setting(tmp_path: Path) -> tuple[Any, dict[str, Any], Any]:
    base = llm.base()
    runs = {name: adapters_in(llm.run(base, tmp_path / name, seed)) for seed, name in enumerate("ab", 1)}
    return base, runs, encode(llm.texts(10, prompts=True), base)


def test_losses_are_those_of_each_checkpoint_merged_by_peft(setting: Any, tmp_path: Path) -> None:
    base, runs, evaluation = setting
    shares: list[float] = []
    record = trajectory(Store(tmp_path / "s"), base, runs, VARIANTS, evaluation, progress=shares.append)
    assert record.variants == VARIANTS
    assert (record.runs, sorted(set(record.step.tolist()))) == (("a", "b"), [10, 20, 30])
    assert record.sample.tolist() == [f"t{i}" for i in range(10)]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    for seed, run in enumerate("ab", 1):
        for step in (10, 20, 30):
            merged = llm.adapter(base, tmp_path / "again", 100 * seed + step // 10).merge_and_unload()
            (row,) = record.rows("full", run, step)
            np.testing.assert_allclose(record.signals["loss"][row], losses(merged, evaluation), atol=1e-5)
            for name, layer in merged.named_modules():
                if isinstance(layer, torch.nn.Linear) and "lm_head" not in name:
                    layer.weight.data = quantize_layer(SPEC, layer.weight.data).dense
            (row,) = record.rows(SPEC, run, step)
            np.testing.assert_allclose(record.signals["loss"][row], losses(merged, evaluation), atol=1e-4)
    rows = record.rows(SPEC)
    assert len(set(record.signals["params_hash"].tolist())) == 18
    assert (record.signals["bits_per_weight"][rows] < 8).all()
    assert (record.signals["stored_bytes"][rows] < record.signals["stored_bytes"][record.rows("full")]).all()
    assert record.about["base"] == base.sha


def test_records_of_texts_are_ranked_and_attacked_as_any(setting: Any, tmp_path: Path) -> None:
    base, runs, evaluation = setting
    store = Store(tmp_path / "s")
    ranking = discreet.rank(trajectory(store, base, runs, VARIANTS, evaluation))
    assert {each["variant"] for each in ranking.to_json()["variants"]} == set(VARIANTS)
    member = np.random.default_rng(0).random((2, 10)) < 0.5
    member[:, :2] = [[True, False], [False, True]]
    record = release(store, base, runs, VARIANTS, evaluation, member)
    for name in ("loss", "mink(k=0.2)", "minkpp", "zlib"):
        scores = discreet.attack(record, name, run="a", variant=SPEC)
        assert np.isfinite(scores.values).all()
    before = {"pretrained_loss": losses(base, evaluation)}  # as the attack's own error says
    axes = {**record.axes, "pretrained_loss": ("sample",)}
    with pytest.raises(RecordError, match=r"losses\(base, encoded\)"):
        discreet.attack(record, "pretrained", run="a", variant=SPEC)
    more = replace(record, signals={**record.signals, **before}, axes=axes)
    found = discreet.attack(more, "pretrained", run="a", variant=SPEC).values
    row = record.rows(SPEC, "a")[0]
    np.testing.assert_allclose(found, before["pretrained_loss"] - record.signals["loss"][row], atol=1e-12)
    np.testing.assert_allclose(
        discreet.attack(record, "loss", run="a", variant=SPEC).values,
        -record.signals["loss"][record.rows(SPEC, "a")[0]],
    )


def test_a_release_holds_the_signals_of_each_token(setting: Any, tmp_path: Path) -> None:
    base, runs, evaluation = setting
    member = np.zeros((2, 10), bool)
    member[0, :5] = member[1, 5:] = True
    record = release(Store(tmp_path / "s"), base, runs, VARIANTS, evaluation, member)
    assert record.step.tolist() == [30.0] * 6
    np.testing.assert_array_equal(record.member, member)
    np.testing.assert_array_equal(record.signals["offsets"], evaluation.offsets)
    assert record.signals["text"].tolist() == list(llm.texts(10).answer)
    expected = [len(zlib.compress(text.encode())) for text in llm.texts(10).answer]
    assert record.signals["zlib_bytes"].tolist() == expected
    for seed, run in enumerate("ab", 1):
        merged = llm.adapter(base, tmp_path / "again", 100 * seed + 3).merge_and_unload()
        found = token_signals(merged, evaluation)
        (row,) = record.rows("full", run)
        for name, values in (("logp", found.logp), ("logp_mean", found.mean), ("logp_std", found.std)):
            np.testing.assert_allclose(record.signals[name][row], values, atol=1e-4)
            assert record.signals[name].dtype == np.float32
        assert (record.signals["rank"][row] != found.rank).mean() < 0.01
        np.testing.assert_allclose(record.signals["loss"][row], found.loss, atol=1e-5)
    early = release(Store(tmp_path / "s"), base, runs, ["full"], evaluation, member, steps={"a": 10, "b": 20})
    assert early.step.tolist() == [10.0, 20.0]


def test_workers_change_no_byte(setting: Any, tmp_path: Path) -> None:
    base, runs, evaluation = setting
    files = []
    for workers in (1, 3):
        record = trajectory(
            Store(tmp_path / f"s{workers}"), base, runs, VARIANTS, evaluation, workers=workers
        )
        files.append(Path(record.source).read_bytes())
    assert files[0] == files[1]


def test_what_is_done_is_not_done_again_and_unchanged_layers_neither(setting: Any, tmp_path: Path) -> None:
    base, runs, evaluation = setting
    store = Store(tmp_path / "s")
    Counted.calls.clear()
    trajectory(store, base, runs, [COUNTED], evaluation)
    assert (
        len(Counted.calls) == 14 + 5 * 4
    )  # q and v of two blocks change from one of six checkpoints to the next
    first = trajectory(store, base, runs, [COUNTED], evaluation)
    assert len(Counted.calls) == 14 + 5 * 4
    llm.adapter(base, runs["b"][1].path, 77)  # another adapter in the same place
    changed = runs | {"b": adapters_in(runs["b"][1].path.parent)}
    Counted.calls.clear()
    second = trajectory(store, base, changed, [COUNTED], evaluation)
    assert len(Counted.calls) == 14
    differs = (first.signals["loss"] != second.signals["loss"]).any(axis=1)
    assert [(first.run[row], first.step[row]) for row in np.flatnonzero(differs)] == [("b", 20.0)]
    trajectory(store, base, changed, [COUNTED], evaluation.take(np.arange(5)))
    assert len(Counted.calls) == 14 + 14 + 5 * 4


@pytest.mark.parametrize("most", [0, 3000, 10**6])
def test_one_checkpoint_at_a_time_with_layers_kept_packed_is_the_same(
    setting: Any, tmp_path: Path, most: int
) -> None:
    base, runs, evaluation = setting
    variants, packed = ["full", COUNTED, SPEC, f"adapter over {SPEC}"], Packed(most)
    Counted.calls.clear()
    parts = [
        trajectory(Store(tmp_path / "s"), base, {run: [each]}, variants, evaluation, packed=packed)
        for run, checkpoints in runs.items()
        for each in checkpoints
    ]
    fewest, all_of_them = 10 + 6 * 4, 6 * 14  # of 14 layers the adapters have terms on 4
    calls = {0: all_of_them, 10**6: fewest}.get(most, len(Counted.calls))
    assert len(Counted.calls) == calls
    assert (fewest < calls < all_of_them) == (most == 3000)
    assert sum(each.nbytes for stored, _ in packed._held.values() for each in stored.values()) <= most
    whole = trajectory(Store(tmp_path / "t"), base, runs, variants, evaluation)
    for part in parts:
        for row, (run, step, variant) in enumerate(zip(part.run, part.step, part.variant, strict=True)):
            (same,) = whole.rows(variant, run, step)
            for name, values in part.signals.items():
                np.testing.assert_array_equal(values[row], whole.signals[name][same])


def test_texts_that_calibrated_a_quantizer_are_marked_for_it(setting: Any, tmp_path: Path) -> None:
    base, runs, evaluation = setting
    looking = "tests.test_llm_working:Looking"
    calibration = encode(llm.texts(4, prompts=True).take([1, 3]), base)
    other_prompt = encode(llm.texts(4).take([2]), base)
    record = trajectory(
        Store(tmp_path / "s"), base, runs, ["full", looking], evaluation, calibration=calibration
    )
    assert record.calibration is not None
    marked = record.calibration[:, record.variants.index(looking)]
    assert [np.flatnonzero(line).tolist() for line in marked] == [[1, 3], [1, 3]]
    assert not record.calibration[:, record.variants.index("full")].any()
    assert not evaluation.also_in(other_prompt).any()


KILLED = """
import sys
import os
from pathlib import Path
from discreet.llm import adapters_in, encode, trajectory
from discreet.store import Store
from tests import llm
from tests.test_llm_trajectory import COUNTED, Counted
folder = Path(sys.argv[1])
os.environ["SECONDS_A_LAYER"] = sys.argv[2]
base = llm.base()
runs = {name: adapters_in(folder / name) for name in "ab"}
store = Store(folder / "store")
with store.lock():
    record = trajectory(store, base, runs, ["full", COUNTED], encode(llm.texts(10, prompts=True), base))
print(len(Counted.calls), record.source)
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 8])
def test_a_killed_trajectory_goes_on_and_ends_in_the_same_bytes(
    after: int, setting: Any, tmp_path: Path
) -> None:
    base, runs, evaluation = setting
    whole = trajectory(Store(tmp_path / "undisturbed"), base, runs, ["full", COUNTED], evaluation)
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    where = {
        "cwd": Path(__file__).parents[1],
        "env": os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": "."},
    }
    process = subprocess.Popen(
        [*command, "0.05"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **where
    )

    def done() -> int:
        return len(list((tmp_path / "store").glob("trajectory/*/*.safetensors")))

    wait_until(lambda: done() >= after)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = done()
    assert after <= kept < 12
    out = subprocess.run([*command, "0"], capture_output=True, text=True, check=True, **where)
    calls, path = out.stdout.split()
    assert int(calls) <= 14 + 4 * (min(6, 12 - kept) - 1)
    assert Path(path).read_bytes() == Path(whole.source).read_bytes()


def wait_until(there: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_runs_and_steps_that_do_not_fit_are_refused(setting: Any, tmp_path: Path) -> None:
    base, runs, evaluation = setting
    store, member = Store(tmp_path / "s"), np.zeros((2, 10), bool)
    for call, message in (
        (lambda: trajectory(store, base, {}, ["full"], evaluation), "runs: expected at least one, got none"),
        (lambda: trajectory(store, base, {"a": ()}, ["full"], evaluation), "run 'a' has no checkpoints"),
        (
            lambda: trajectory(store, base, {"a": runs["a"] * 2}, ["full"], evaluation),
            "run 'a' has step 10 twice",
        ),
        (
            lambda: release(store, base, runs, ["full"], evaluation, member, steps={"a": 5}),
            "step 5; there are 10, 20, 30",
        ),
        (
            lambda: release(store, base, runs, ["full"], evaluation, member, steps={}),
            "no step is named; there are 10",
        ),
        (
            lambda: release(store, base, runs, ["full"], evaluation, member[:1]),
            r"2 runs and 10 texts, got shape \(1, 10\)",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_an_adapter_over_a_base_needs_adapters_and_that_is_told_first(setting: Any, tmp_path: Path) -> None:
    base, _, evaluation = setting
    for step in (1, 2):
        base.module.save_pretrained(tmp_path / f"run/checkpoint-{step}")
    runs = {"a": adapters_in(tmp_path / "run")}
    message = (
        r"variant 'adapter over hqq\(bits=4\)' .* run/checkpoint-1 is a whole model; .* be 'hqq\(bits=4\)'"
    )
    with pytest.raises(LanguageModelError, match=message.replace(" run/", " .*run/")):
        trajectory(Store(tmp_path / "s"), base, runs, ["full", "adapter over hqq(bits=4)"], evaluation)
    assert not (tmp_path / "s").exists()


def test_losses_that_are_not_finite_name_variant_and_checkpoint(setting: Any, tmp_path: Path) -> None:
    _, runs, evaluation = setting
    base = llm.base()
    with torch.no_grad():
        base.module.get_input_embeddings().weight[int(evaluation.window(2)[-2])] = torch.nan  # pyright: ignore
    name = "uniform(bits=4, granularity='channel')"
    with pytest.raises(
        LanguageModelError, match=r"variant \"uniform.* of .*checkpoint-10: .* not finite for .* text"
    ):
        trajectory(Store(tmp_path / "s"), base, runs, [name], evaluation)


def test_another_bases_adapter_stops_the_work_and_finished_units_stay(setting: Any, tmp_path: Path) -> None:
    base, runs, evaluation = setting
    other = llm.base("gpt2")
    foreign = adapters_in(llm.run(other, tmp_path / "other", 9, targets=["c_attn"], fan_in_fan_out=True))
    with pytest.raises(LanguageModelError, match="it is another base's"):
        trajectory(Store(tmp_path / "s"), base, {**runs, "c": foreign}, ["full"], evaluation)
    assert len(list((tmp_path / "s/trajectory").glob("*/*.safetensors"))) == 6


MEMORY = """
import sys
import numpy as np, torch
from pathlib import Path
torch.set_num_threads(1)
from discreet.llm import adapters_in, load, trajectory
from discreet.llm.encoding import Encoded
from discreet.llm.working import Working
from discreet.store import Store
import transformers.models.qwen2.modeling_qwen2
folder = Path(sys.argv[1])
def peak(): return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
small = peak()
base = load(folder / "base")
size = sum(value.nbytes for value in base.module.parameters()) / 2**20
texts = Encoded(np.arange(2), np.arange(64), np.array([0, 32, 64]), np.ones(2, int), np.arange(2), ("x", "y"))
variants = ["full", "uniform(bits=4, granularity='channel')", "adapter over uniform(bits=2, granularity='channel')"]
record = trajectory(Store(folder / "store"), base, {"a": adapters_in(folder / "run")}, variants, texts)
print("RESULT", size, peak(), small)
"""


@pytest.mark.slow
def test_memory_stays_under_two_and_a_half_models(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, Qwen2Config

    config = Qwen2Config(
        vocab_size=384, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=8,
        num_key_value_heads=4, tie_word_embeddings=True,
    )  # fmt: skip
    module = AutoModelForCausalLM.from_config(config)
    base = llm.of_module(module, llm.tokenizer(), "base")
    module.save_pretrained(tmp_path / "base")
    base.tokenizer.save_pretrained(tmp_path / "base")
    llm.run(base, tmp_path / "run", 1, steps=2, targets=["q_proj", "v_proj"])
    size, peak, small = measured(tmp_path)
    assert size > 350
    assert peak - small < 2.5 * size + 150, (size, peak, small)


def measured(folder: Path) -> tuple[float, float, float]:
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, "-c", MEMORY, str(folder)], capture_output=True, text=True, check=True, env=env
    )
    line = next(line for line in out.stdout.splitlines() if line.startswith("RESULT"))
    size, peak, small = map(float, line.split()[1:])
    return size, peak, small


def test_record_files_open_again(setting: Any, tmp_path: Path) -> None:
    base, runs, evaluation = setting
    record = trajectory(Store(tmp_path / "s"), base, runs, ["full"], evaluation)
    assert Record.open(record.source) == record
