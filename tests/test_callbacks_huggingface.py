"""The Hugging Face callback in real trainings, against checkpoints that the Trainer itself saved."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from discreet.batches import Batches
from discreet.callbacks._measuring import Measuring, Settings
from discreet.callbacks._members import Members, members
from discreet.callbacks.huggingface import RecorderCallback
from discreet.quantizers import quantize
from discreet.records import Record
from discreet.signals import signals

QUANTIZERS = ["full", "sign(scale='absmean')", "uniform(bits=4, scale='absmean')"]
CONFIG: dict[str, Any] = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
    "num_labels": 3,
}


class Texts(Dataset):
    """Token ids of eight, whose class is a sum that can be learnt."""

    def __init__(self, samples: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.ids = rng.integers(5, 30, (samples, 8))
        self.labels = (self.ids[:, 0] % 3).astype(int)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return {
            "input_ids": torch.from_numpy(self.ids[place]),
            "labels": int(self.labels[place]),
            "note": "text",
        }


TRAINING, EVALUATION = Texts(60, 0), Texts(30, 1)


def bert(**changes: Any) -> BertForSequenceClassification:
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(**CONFIG | changes))


class Modes(TrainerCallback):
    """Whether the model was in train mode at the start of each step."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.seen.append(kwargs["model"].training)


def fit(
    folder: Path,
    callbacks: list[TrainerCallback],
    training: Any = TRAINING,
    collate: Any = None,
    model: nn.Module | None = None,
    **changes: Any,
) -> Trainer:
    settings = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 10,
        "num_train_epochs": 2,
        "learning_rate": 5e-3,
        "save_strategy": "epoch",
        "save_only_model": True,
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
        "seed": 3,
    } | changes
    trainer = Trainer(
        model or bert(),
        TrainingArguments(**settings),
        data_collator=collate,
        train_dataset=training,
        callbacks=callbacks,
    )
    trainer.train()
    return trainer


def weights(trainer: Trainer) -> dict[str, Tensor]:
    assert trainer.model is not None
    return {name: value.detach().clone() for name, value in trainer.model.state_dict().items()}


def test_losses_are_those_of_the_checkpoints_that_the_trainer_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    callback = RecorderCallback(EVALUATION, QUANTIZERS, folder=tmp_path / "run", run="seed 3", batch_size=7)
    fit(tmp_path, [callback])
    record = callback.record
    assert record is not None
    assert record.runs == ("seed 3",)
    assert sorted(set(record.step)) == [6, 12]
    x, y = torch.from_numpy(EVALUATION.ids), torch.from_numpy(EVALUATION.labels)
    for row, (step, variant) in enumerate(zip(record.step, record.variant, strict=True)):
        model = BertForSequenceClassification.from_pretrained(tmp_path / f"checkpoint-{step:g}").eval()
        model.load_state_dict(quantize(model, variant).dense)
        with torch.no_grad():
            expected = signals(model(input_ids=x).logits, y, "ce")
        np.testing.assert_allclose(record.signals["loss"][row], expected["loss"], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(record.signals["margin"][row], expected["margin"], rtol=1e-4, atol=1e-5)
    assert record.about["n_train"] == 60
    kept = Record.open(tmp_path / "run" / "run-seed_3-1ea7ad11.safetensors")
    assert kept == record
    out = capsys.readouterr().out
    assert (
        "discreet: r_Q of run seed 3 from 2 checkpoints and 30 evaluation samples (higher is safer):" in out
    )
    assert "full-precision-reference" in out
    assert "discreet: measuring took " in out
    assert "of the training's" in out
    assert "train several with other seeds, then rank" in out
    assert callback.ranking is not None
    assert {row["variant"] for row in callback.ranking.to_json()["variants"]} == set(record.variants)


def test_a_training_with_the_callback_ends_in_the_same_weights(tmp_path: Path) -> None:
    modes = Modes()
    with_it = fit(tmp_path / "a", [RecorderCallback(EVALUATION, QUANTIZERS, every=2, quiet=True), modes])
    without = fit(tmp_path / "b", [])
    assert all(modes.seen)
    for name, value in weights(without).items():
        assert torch.equal(value, weights(with_it)[name]), name


def test_several_measurements_an_epoch_and_accumulated_steps(tmp_path: Path) -> None:
    callback = RecorderCallback(EVALUATION, every=2, quiet=True)
    fit(tmp_path / "a", [callback])
    assert callback.record is not None
    assert callback.record.step.tolist() == [2, 4, 6, 8, 10, 12]
    accumulated = RecorderCallback(EVALUATION, every=2, quiet=True)
    fit(tmp_path / "b", [accumulated], gradient_accumulation_steps=3)
    assert accumulated.record is not None
    assert accumulated.record.step.tolist() == [2, 4]


def test_samples_that_were_trained_on_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    both = Texts(60, 0)
    both.ids, both.labels = (
        np.concatenate([getattr(TRAINING, name)[:10], getattr(EVALUATION, name)])
        for name in ("ids", "labels")
    )
    callback = RecorderCallback(both)
    fit(tmp_path, [callback])
    assert callback.record is not None
    assert callback.record.member is not None
    assert callback.record.member[0].tolist() == [True] * 10 + [False] * 30
    assert "10 of 40 samples were left out" in capsys.readouterr().out
    with pytest.raises(
        ValueError, match="evaluation: 0 of 60 samples are not in the training data; at least 2"
    ):
        fit(tmp_path, [RecorderCallback(TRAINING)])
    halves = Subset(TRAINING, range(40)), Subset(Subset(TRAINING, range(30, 60)), range(5, 30))
    subset = RecorderCallback(halves[1])
    fit(tmp_path, [subset], halves[0], num_train_epochs=1)
    assert subset.record is not None
    assert subset.record.member is not None
    assert subset.record.member.sum() == 5
    assert subset.ranking is None
    assert "no r_Q from one checkpoint" in capsys.readouterr().out


class Columns:
    """What the Trainer asks of a ``datasets.Dataset``, which is the one kind that it removes columns from."""

    def __init__(self, **columns: list[Any]) -> None:
        self._columns = columns
        self.column_names = [*columns]

    def remove_columns(self, names: list[str]) -> Columns:
        return Columns(**{name: each for name, each in self._columns.items() if name not in names})

    def __len__(self) -> int:
        return len(self._columns["label"])

    def __getitem__(self, place: int) -> dict[str, Any]:
        return {name: each[place] for name, each in self._columns.items()}


def columns(ids: np.ndarray, first: int) -> Columns:
    return Columns(
        idx=[first + place for place in range(len(ids))],
        text=[" ".join(map(str, each)) for each in ids],
        input_ids=ids.tolist(),
        attention_mask=np.ones_like(ids).tolist(),
        label=(ids[:, 0] % 3).tolist(),
    )


def stacked(items: list[dict[str, Any]]) -> dict[str, Tensor]:
    """As collators that pad do: every column becomes a tensor."""
    return {
        "labels" if name == "label" else name: torch.tensor([item[name] for item in items])
        for name in items[0]
    }


def test_members_are_found_where_the_trainer_removes_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = SimpleNamespace(Dataset=Columns, __version__="4.0.0")
    monkeypatch.setattr("transformers.trainer.datasets", known, raising=False)
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: True)
    evaluation = columns(np.concatenate([TRAINING.ids[:10], EVALUATION.ids]), 1000)
    callback = RecorderCallback(evaluation)
    fit(tmp_path, [callback], columns(TRAINING.ids, 0), collate=stacked)
    assert callback.record is not None
    assert callback.record.member is not None
    assert callback.record.member[0].tolist() == [True] * 10 + [False] * 30
    out = capsys.readouterr().out
    assert "10 of 40 samples were left out" in out
    assert "could not be compared" not in out


class Narrow(BertForSequenceClassification):
    """Takes nothing but what it names."""

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Any:
        return super().forward(input_ids=input_ids, labels=labels)


def test_columns_that_the_trainer_keeps_reach_the_collator(tmp_path: Path) -> None:
    def collate(items: list[dict[str, Any]]) -> dict[str, Tensor]:
        tokens = [[int(word) for word in item["text"].split()] for item in items]
        return stacked(
            [{"input_ids": ids, "label": item["label"]} for ids, item in zip(tokens, items, strict=True)]
        )

    callback = RecorderCallback(columns(EVALUATION.ids, 0), quiet=True)
    settings = {"remove_unused_columns": False, "max_steps": 1}
    fit(tmp_path, [callback], columns(TRAINING.ids, 0), collate, Narrow(BertConfig(**CONFIG)), **settings)
    assert callback.record is not None


def test_samples_are_compared_by_what_both_have() -> None:
    ours = [{"text": "a", "x": [1, 2], "label": 0}, {"text": "b", "x": [3, 4], "label": 1}]
    theirs = [{"x": [3, 4], "mask": [1, 1], "label": 0}, {"x": [5, 6], "text": "c", "label": 0}]
    found = members(ours, theirs)
    assert (found.member.tolist(), found.looked, found.training) == ([False, True], 2, 2)
    renumbered = [each | {"text": "d"} for each in ours]
    assert not members(ours, renumbered).member.any()
    assert members(ours, renumbered, read={"x", "label"}).member.all()
    for others in ([{"z": 1, "label": 0}] * 3, [([1, 2], 0)] * 3, [{"label": 0}, {"label": 1}]):
        found = members(ours, others)
        assert (found.member.tolist(), found.looked, found.training) == ([False, False], 0, len(others))


def test_labels_that_file_names_cannot_hold_are_told_apart(tmp_path: Path) -> None:
    names = set()
    for run in ("a/b", "a b", "a_b", "α", "β", "x" * 300, "x" * 301):
        settings = Settings(("full",), "ce", None, run, tmp_path, None, {}, True)
        found = Members(np.zeros(6, bool), 6, 6)
        measuring = Measuring(
            settings,
            nn.Linear(2, 3),
            Batches([torch.eye(6, 2)], nn.Module.__call__),
            torch.arange(6) % 3,
            found,
        )
        measuring.step(nn.Linear(2, 3), 1)
        measuring.end()
        names |= {path.name for path in tmp_path.glob("run-*.safetensors")}
    assert len(names) == 7
    assert "run-a_b.safetensors" in names


def test_what_does_not_fit_is_said_before_the_training(tmp_path: Path) -> None:
    wrong = Texts(20, 2)
    wrong.labels[4] = 3
    for callback, message in [
        (RecorderCallback(wrong), r"y: expected the classes 0 to 2, got 3 at position 4"),
        (RecorderCallback(EVALUATION, ["signs"]), "signs"),
        (RecorderCallback(EVALUATION, task="bce"), "bce expects a model with one output, got 3"),
        (
            RecorderCallback(EVALUATION, ask=lambda model, batch: torch.zeros(1, 3)),
            "expected one label for each of",
        ),
    ]:
        modes = Modes()
        with pytest.raises(ValueError, match=message):
            fit(tmp_path, [callback, modes])
        assert not modes.seen
    with pytest.raises(ValueError, match="every: expected at least 1 step, or None for each epoch, got 0"):
        RecorderCallback(EVALUATION, every=0)
    with pytest.raises(ValueError, match=r"share: expected a share of the training's time above 0, got -1"):
        RecorderCallback(EVALUATION, share=-1)


def test_no_more_than_a_share_of_the_time(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    callback = RecorderCallback(EVALUATION, QUANTIZERS, every=1, share=1e-9)
    fit(tmp_path, [callback])
    assert callback.record is None
    assert "nothing was measured" in capsys.readouterr().out
    half = RecorderCallback(EVALUATION, QUANTIZERS, every=1, share=1.0)
    fit(tmp_path, [half])
    out = capsys.readouterr().out
    measured = 0 if half.record is None else len(set(half.record.step))
    assert (
        measured == 12 or f"{12 - measured} checkpoints were skipped" in out or "nothing was measured" in out
    )


def test_a_resumed_training_goes_on_with_its_steps(tmp_path: Path) -> None:
    whole = RecorderCallback(EVALUATION, QUANTIZERS, quiet=True)
    fit(tmp_path / "a", [whole], save_only_model=False)
    first = RecorderCallback(EVALUATION, QUANTIZERS, folder=tmp_path / "run", quiet=True)
    fit(tmp_path / "b", [first], save_only_model=False, max_steps=6, lr_scheduler_type="constant")
    second = RecorderCallback(EVALUATION, QUANTIZERS, folder=tmp_path / "run", quiet=True)
    settings = TrainingArguments(
        output_dir=str(tmp_path / "b"),
        per_device_train_batch_size=10,
        num_train_epochs=2,
        learning_rate=5e-3,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        seed=3,
    )
    Trainer(bert(), settings, train_dataset=TRAINING, callbacks=[second]).train(
        resume_from_checkpoint=str(tmp_path / "b" / "checkpoint-6")
    )
    assert second.record is not None
    assert whole.record is not None
    assert sorted(set(second.record.step)) == sorted(set(whole.record.step)) == [6, 12]


SCRIPT = """
import sys
from pathlib import Path
from tests.test_callbacks_huggingface import EVALUATION, QUANTIZERS, RecorderCallback, fit
callback = RecorderCallback(EVALUATION, QUANTIZERS, folder=Path(sys.argv[1]) / "run")
fit(Path(sys.argv[1]) / "out", [callback], save_strategy="no", ddp_backend="gloo")
Path(sys.argv[1], f"process-{__import__('os').environ['RANK']}").write_text(str(callback.record is not None))
"""


@pytest.mark.slow
def test_of_two_processes_only_the_first_writes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node=2",
        str(script),
    ]
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [*command, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ | {"PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("discreet: r_Q of run 0") == 1
    assert [(tmp_path / f"process-{rank}").read_text() for rank in (0, 1)] == ["True", "False"]
    assert sorted(set(Record.open(tmp_path / "run" / "run-0.safetensors").step)) == [3, 6]
