"""Fine-tunings of the study of language models as files: the same bytes everywhere, and they may be moved."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file

from discreet.llm import Working, adapters_in, load
from discreet.llm.adapters import check_base
from discreet.model_seeds import init_seed, stream
from discreet.store import Store
from discreet.studies.language import _Source, _tune_there, _Tuning
from discreet.studies.language_plan import LanguageScale
from discreet.studies.language_pretraining import batches, pretrain
from discreet.studies.language_tuning import TARGETS, tune

SCALE = LanguageScale(runs=4, trained=4, epochs=2, checkpoints=2, batch=4, rank=2, length=16)
IDS = [[1, 2, 3, 4 + i] for i in range(4)]


def tuned(folder: Path) -> Path:
    pretrain([f"text {i}" for i in range(8)], folder / "models" / "base", passes=1, length=16, seed=0)
    source = _Source(str(folder / "models" / "base"), "small-qwen2")
    key = Store(folder).key("adapters/run-0.json")
    _tune_there((source, SCALE, 0), _Tuning(folder, key, 0, IDS, [1] * 4))
    return Store(folder).path(key).with_suffix("")


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_another_place_and_another_process_leave_the_same_bytes(tmp_path: Path) -> None:
    place = tuned(tmp_path / "a")
    here = files(place)
    code = (
        "import sys; from pathlib import Path; import torch; torch.set_num_threads(1)\n"
        "from tests.test_studies_language_tuning import tuned; tuned(Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "b")], check=True, capture_output=True)
    there = files(tmp_path / "b" / "adapters" / place.name)
    assert set(here) == set(there)
    assert [name for name in here if here[name] != there[name]] == []
    assert not any(str(tmp_path).encode() in content for content in here.values())
    config = json.loads(here["checkpoint-2/adapter_config.json"])
    assert config["target_modules"] == sorted(TARGETS)


def test_a_run_directory_may_be_moved(tmp_path: Path) -> None:
    place = tuned(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    base = load(tmp_path / "b" / "models" / "base", name="small-qwen2")
    adapters = adapters_in(tmp_path / "b" / "adapters" / place.name)
    assert [each.step for each in adapters] == [1, 2]
    for each in adapters:
        check_base(each, base)
    working = Working(base, ["full"])
    working.checkpoint(adapters[-1])
    ids = torch.arange(8)[None]
    with torch.no_grad():
        assert not torch.equal(
            working.variant("full")(input_ids=ids).logits, base.module(input_ids=ids).logits
        )


def test_it_is_the_training_that_is_described(tmp_path: Path) -> None:
    """A loop of its own: labels as transformers has them, step sizes by hand."""
    pretrain([f"text {i}" for i in range(8)], tmp_path / "base", passes=1, length=16, seed=0)
    base = load(tmp_path / "base").module
    scale = replace(SCALE, trained=40, epochs=3, batch=8, rank=2, lr=1e-2)
    rng = np.random.default_rng(0)
    ids = [rng.integers(1, 900, rng.integers(4, 9)).tolist() for _ in range(40)]
    first = [1 + i % 3 for i in range(40)]
    tune(base, ids, first, scale, tmp_path / "out", run=3, seed=5)
    torch.manual_seed(init_seed(5, 3))
    config = LoraConfig(r=2, lora_alpha=2, target_modules=list(TARGETS), task_type="CAUSAL_LM")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = get_peft_model(copy.deepcopy(base), config).train()
    steps, warm = 15, 1
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], weight_decay=0.0)
    for step, chosen in enumerate(batches(ids, 8, steps, stream(5, 3, 2))):
        optimizer.param_groups[0]["lr"] = 1e-2 * min((step + 1) / warm, (steps - step) / (steps - warm))
        longest = max(len(ids[i]) for i in chosen)
        shape = (len(chosen), longest)
        tokens, labels = torch.zeros(shape, dtype=torch.long), torch.full(shape, -100)
        for row, i in enumerate(chosen):
            tokens[row, : len(ids[i])] = torch.tensor(ids[i])
            labels[row, first[i] : len(ids[i])] = torch.tensor(ids[i][first[i] :])
        mask = torch.tensor([[int(at < len(ids[i])) for at in range(longest)] for i in chosen])
        optimizer.zero_grad()
        model(input_ids=tokens, attention_mask=mask, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
    made = load_file(tmp_path / "out" / "checkpoint-15" / "adapter_model.safetensors")
    own = dict(model.named_parameters())
    assert len(made) == 2 * len(TARGETS) * 4
    for name, value in made.items():
        expected = own[name.replace(".weight", ".default.weight")].detach()
        torch.testing.assert_close(value, expected, atol=1e-5, rtol=1e-3)
    said = json.loads((tmp_path / "out" / "checkpoint-15" / "adapter_config.json").read_text())
    assert said["r"] == said["lora_alpha"] == 2


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
