"""A second ``discreet audit --hf`` in one folder: what it adds, replaces, leaves alone and refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from torch import Tensor

from discreet import auditing_language
from discreet.audit import Audit
from discreet.auditing import audit_attacks
from discreet.auditing_language import Texted, deal_texts
from discreet.auditing_release import release_of
from discreet.cli import entry
from discreet.llm.model import load
from discreet.llm.tokens import losses
from discreet.quantizers import Multiples
from discreet.quantizers.uniform import Uniform
from discreet.store import StoreError
from tests.test_auditing_language import figure, fine_tuned, run, sentences, written

AGED = "tests.test_auditing_language_again:Aged"
ONE = {"variants": ("full",), "attacks": ("loss",)}


@dataclass(frozen=True)
class Aged(Uniform):
    """A quantizer of a library whose second version has the wrong sign."""

    granularity: str = "channel"
    version: ClassVar[int] = 1

    @property
    def made_by(self) -> str:
        return f"aged {self.version}"

    def encode(self, groups: Tensor) -> Multiples:
        found = super().encode(groups)
        return replace(found, numbers=found.numbers * (3 - 2 * self.version))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fine_tuned(tmp_path_factory.mktemp("again"))


@pytest.fixture(scope="module")
def audited(place: Path) -> Path:
    run(place, place / "run", **ONE)
    return place / "run"


@pytest.fixture
def folder(audited: Path, tmp_path: Path) -> Path:
    """A folder with a complete audit in it."""
    return Path(shutil.copytree(audited, tmp_path / "run"))


def test_another_precision_and_back(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = run(place, folder, **ONE)
    told = (folder / "audit.json").read_bytes()
    half = run(place, folder, dtype="bfloat16", **ONE)
    assert figure(half, "full", "loss") != figure(first, "full", "loss")
    assert half.settings["dtype"] == "bfloat16"
    assert run(place, folder, **ONE) == first
    assert (folder / "audit.json").read_bytes() == told


def test_a_record_that_does_not_tell_its_content_is_left_alone(place: Path, folder: Path) -> None:
    found = Audit.load(folder / "audit.json")
    record, _ = release_of(folder, found)
    told = {name: found.settings[name] for name in ("model", "variants", "texts")}
    replace(record, about={**record.about, "settings": told}).save(folder / "release" / "run-0-x.safetensors")
    assert run(place, folder, **ONE).analyses == found.analyses


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_losses_before_fine_tuning_are_of_the_same_precision(place: Path, folder: Path, dtype: str) -> None:
    found = run(place, folder, dtype=dtype, **ONE)
    record, _ = release_of(folder, found)
    base = load(place / "base", dtype=dtype)
    dealt = deal_texts(base, Texted(place / "members.jsonl", place / "others.jsonl"), 0)
    np.testing.assert_allclose(record.signal("pretrained_loss"), losses(base, dealt.judged), atol=1e-6)


def test_attacks_are_of_the_weights_that_are_ranked_beside_them(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"variants": ("full", AGED), "attacks": ("pretrained",)}
    first = run(place, tmp_path / "run", **more)
    monkeypatch.setattr(Aged, "version", 2)
    second = run(place, tmp_path / "run", **more)
    assert figure(second, AGED, "pretrained") < figure(first, AGED, "pretrained") - 0.1
    assert second.analyses == run(place, tmp_path / "apart", **more).analyses


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Stop the attacks of audits from now on."""

    def stop(*given: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    return lambda: monkeypatch.setattr(auditing_language, "attack_held", stop)


def test_what_was_stopped_before_its_attacks_passes_no_gate(
    place: Path, tmp_path: Path, stopped: Callable[[], None]
) -> None:
    stopped()
    with pytest.raises(KeyboardInterrupt):
        run(place, tmp_path / "run", **ONE)
    assert entry.run(["gate", str(tmp_path / "run"), "--require", "auc < 2"]) == 2
    assert not (tmp_path / "run" / "audit.json").exists()


def test_a_complete_audit_stays_until_the_next_is(
    place: Path, folder: Path, stopped: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("audit.json", "report.html", "exposed.csv")
    before = {name: (folder / name).read_bytes() for name in names}
    more: dict[str, Any] = {**ONE, "variants": ("full", AGED)}
    stopped()
    with pytest.raises(KeyboardInterrupt):
        run(place, folder, **more)
    assert {name: (folder / name).read_bytes() for name in names} == before
    audit_attacks(folder, ["loss"])  # of the audit that is there, with two release records beside each other
    assert {name: (folder / name).read_bytes() for name in names} == before
    monkeypatch.undo()
    found = run(place, folder, **more)
    assert len(found.analyses[0].ranking.variants) == 2
    assert Audit.load(folder / "audit.json") == found


def altered(source: Path, target: Path) -> Path:
    """Checkpoints of another fine-tuning."""
    shutil.copytree(source, target)
    for path in target.glob("checkpoint-*/adapter_model.safetensors"):
        save_file({name: 1.01 * values for name, values in load_file(path).items()}, path)
    return target


def test_the_audit_of_another_fine_tuning_is_not_replaced(place: Path, folder: Path, tmp_path: Path) -> None:
    told = (folder / "audit.json").read_bytes()
    other = altered(place / "out", tmp_path / "mine")
    with pytest.raises(
        StoreError, match=r"run: holds the audit of adapter 'out' \(\w{12}…\), which one of adapter 'mine' "
    ):
        run(place, folder, adapter=other, **ONE)
    others = written(tmp_path / "mine.jsonl", sentences(70, 5))
    with pytest.raises(
        StoreError, match=r"holds an audit on members.jsonl \(.*others.jsonl \(.* would .*--folder"
    ) as error:
        run(place, folder, others=others, **ONE)
    assert "mine.jsonl (" in str(error.value)
    assert (folder / "audit.json").read_bytes() == told
    (folder / "audit.json").unlink()
    assert run(place, folder, adapter=other, **ONE).settings["adapter"] == "mine"


def test_an_audit_of_another_kind_is_not_replaced(place: Path, folder: Path) -> None:
    audit = Audit.load(folder / "audit.json")
    replace(audit, title="Mine", settings={"checkpoints": 3}).save(folder / "audit.json")
    with pytest.raises(StoreError, match=r"holds another audit, 'Mine', which one of adapter 'out' "):
        run(place, folder, **ONE)


def test_a_training_that_went_on_replaces_its_audit(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(place, folder, adapter=place / "out" / "checkpoint-24", **ONE)
    assert len(run(place, folder, **ONE).settings["checkpoints"]) == 3
