"""The Lightning callback in real trainings, against checkpoints that Lightning itself saved."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from discreet.callbacks._untouched import untouched
from discreet.callbacks.lightning import RecorderCallback
from discreet.quantizers import quantize
from discreet.records import Record
from discreet.signals import signals

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*is smaller than the logging interval.*"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),
]
QUANTIZERS = ["full", "sign(scale='absmean')", "uniform(bits=4, scale='absmean')"]


class Net(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)
        )
        self.modes: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)

    def training_step(self, batch: list[Tensor], place: int) -> Tensor:
        self.modes.append(self.training)
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.02)


def data(samples: int, seed: int) -> TensorDataset:
    stream = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 6, generator=stream)
    return TensorDataset(x, x[:, :3].argmax(dim=1))


TRAINING, EVALUATION = data(60, 0), data(30, 1)


def fit(folder: Path, callbacks: list[pl.Callback], training: Any = TRAINING, **changes: Any) -> Net:
    torch.manual_seed(5)
    module = Net()
    settings = {
        "max_epochs": 3,
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": any(isinstance(each, ModelCheckpoint) for each in callbacks),
        "default_root_dir": folder,
    }
    trainer = pl.Trainer(callbacks=callbacks, **settings | changes)
    trainer.fit(module, DataLoader(training, batch_size=10, shuffle=True))
    return module


def test_losses_are_those_of_the_checkpoints_that_lightning_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    callback = RecorderCallback(EVALUATION, QUANTIZERS, folder=tmp_path / "run", run="a", batch_size=7)
    saved = ModelCheckpoint(tmp_path, filename="{step}", save_top_k=-1, every_n_epochs=1)
    module = fit(tmp_path, [callback, saved])
    assert all(module.modes)
    record = callback.record
    assert record is not None
    assert sorted(set(record.step)) == [6, 12, 18]
    x, y = EVALUATION.tensors
    for row, (step, variant) in enumerate(zip(record.step, record.variant, strict=True)):
        net = Net()
        net.load_state_dict(
            torch.load(tmp_path / f"step={step:g}.ckpt", weights_only=True)["state_dict"], strict=True
        )
        net.load_state_dict(quantize(net, variant).dense)
        with torch.no_grad():
            expected = signals(net.eval()(x), y, "ce")
        np.testing.assert_allclose(record.signals["loss"][row], expected["loss"], rtol=1e-5, atol=1e-6)
    assert Record.open(tmp_path / "run" / "run-a.safetensors") == record
    out = capsys.readouterr().out
    assert "discreet: r_Q of run a from 3 checkpoints and 30 evaluation samples (higher is safer):" in out
    assert "discreet: measuring took " in out


def test_a_training_with_the_callback_ends_in_the_same_weights(tmp_path: Path) -> None:
    def ask(module: nn.Module, batch: list[Tensor]) -> Tensor:
        assert not module.training
        random.random(), np.random.rand(), torch.rand(1)  # noqa: NPY002
        return module(batch[0])

    found = []
    for callbacks in ([RecorderCallback(EVALUATION, QUANTIZERS, every=2, ask=ask, quiet=True)], []):
        np.random.seed(0)  # noqa: NPY002
        module = fit(tmp_path, callbacks)
        found.append((module.state_dict(), torch.rand(1).item(), np.random.rand()))  # noqa: NPY002
    (with_it, *drawn), (without, *expected) = found
    assert drawn == expected
    for name, value in without.items():
        assert torch.equal(value, with_it[name]), name


def test_random_streams_are_put_back() -> None:
    def drawn() -> tuple[float, ...]:
        return random.random(), np.random.rand(), torch.rand(1).item()  # noqa: NPY002

    with untouched():
        state = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
        drawn()
    after = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    assert after[0] == state[0]
    np.testing.assert_equal(after[1], state[1])
    assert torch.equal(after[2], state[2])


def test_several_measurements_an_epoch(tmp_path: Path) -> None:
    callback = RecorderCallback(EVALUATION, every=4, quiet=True)
    fit(tmp_path, [callback])
    assert callback.record is not None
    assert callback.record.step.tolist() == [4, 8, 12, 16]


def test_samples_that_were_trained_on_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    both = TensorDataset(
        *(torch.cat([a[:10], b]) for a, b in zip(TRAINING.tensors, EVALUATION.tensors, strict=True))
    )
    callback = RecorderCallback(both)
    fit(tmp_path, [callback])
    assert callback.record is not None
    assert callback.record.member is not None
    assert callback.record.member[0].tolist() == [True] * 10 + [False] * 30
    assert "10 of 40 samples were left out" in capsys.readouterr().out
    with pytest.raises(
        ValueError, match="evaluation: 0 of 20 samples are not in the training data; at least 2"
    ):
        fit(tmp_path, [RecorderCallback(Subset(TRAINING, range(20)))])


def test_what_does_not_fit_is_said_before_the_training(tmp_path: Path) -> None:
    x, y = EVALUATION.tensors
    for evaluation, message in [
        (TensorDataset(x, y + 1), "y: expected the classes 0 to 2, got 3"),
        (TensorDataset(x), r"evaluation: expected batches \(x, y\) of tensors"),
        (TensorDataset(x[:, :5], y), "mat1 and mat2"),
    ]:
        with pytest.raises((ValueError, RuntimeError), match=message):
            fit(tmp_path, [RecorderCallback(evaluation)])


def test_batches_of_another_form(tmp_path: Path) -> None:
    x, y = EVALUATION.tensors
    items = [{"features": each, "class": label} for each, label in zip(x, y, strict=True)]
    named = RecorderCallback(
        items,
        ask=lambda module, batch: module(batch["features"]),
        label=lambda batch: batch["class"],
        quiet=True,
    )
    usual = RecorderCallback(EVALUATION, quiet=True)
    fit(tmp_path, [named, usual])
    assert named.record is not None
    assert usual.record is not None
    np.testing.assert_array_equal(named.record.signals["loss"], usual.record.signals["loss"])


SCRIPT = """
import os, sys
from pathlib import Path
from tests.test_callbacks_lightning import EVALUATION, QUANTIZERS, RecorderCallback, fit
callback = RecorderCallback(EVALUATION, QUANTIZERS, folder=Path(sys.argv[1]) / "run")
fit(Path(sys.argv[1]), [callback], devices=2, strategy="ddp")
Path(sys.argv[1], f"process-{os.environ.get('LOCAL_RANK', '0')}").write_text(str(callback.record is not None))
"""


@pytest.mark.slow
def test_of_two_processes_only_the_first_writes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ | {"PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("discreet: r_Q of run 0") == 1
    assert [(tmp_path / f"process-{rank}").read_text() for rank in (0, 1)] == ["True", "False"]
    assert sorted(set(Record.open(tmp_path / "run" / "run-0.safetensors").step)) == [3, 6, 9]
