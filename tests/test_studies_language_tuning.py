"""Fine-tunings of the study of language models as files: the same bytes everywhere, and they may be moved."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from discreet.llm import Working, adapters_in, load
from discreet.llm.adapters import check_base
from discreet.store import Store
from discreet.studies.language import _Source, _tune_there, _Tuning
from discreet.studies.language_plan import LanguageScale
from discreet.studies.language_pretraining import pretrain
from discreet.studies.language_tuning import TARGETS

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


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
