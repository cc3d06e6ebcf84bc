"""The callback for language models in a real ``Trainer``: it measures what is saved, and the audit finds it."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from discreet.auditing_language import Texted, audit_language
from discreet.callbacks import language
from discreet.callbacks._same_base import is_same_base
from discreet.callbacks.language import LanguageCallback
from discreet.llm import working
from discreet.llm.adapters import BASE_FILE, note_base
from discreet.llm.encoding import encode
from discreet.llm.model import LanguageModelError, load
from discreet.llm.texts import TextError, Texts
from discreet.quantizers import QuantizerError
from discreet.store import Store
from discreet.studies.language_pretraining import pad
from tests import llm
from tests.test_auditing_language import sentences, written
from tests.test_llm_working import COUNTED, Counted

VARIANTS = ("full", "uniform(bits=4, granularity='channel')")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("callback")
    llm.module("qwen2").save_pretrained(place / "base")
    llm.tokenizer().save_pretrained(place / "base")
    llm.module("qwen2", seed=5).save_pretrained(place / "other")
    llm.tokenizer().save_pretrained(place / "other")
    written(place / "members.jsonl", sentences(32, 0))
    written(place / "others.jsonl", sentences(40, 1))
    return place


def fit(
    place: Path,
    out: Path,
    callback: LanguageCallback,
    *,
    adapter: bool,
    steps: int = 6,
    save: int = 2,
    resume: bool = False,
) -> Any:
    """Fine-tune as people do, and return the trained weights."""
    from peft import LoraConfig, get_peft_model

    base = load(place / "base")
    encoded = encode(Texts.of(sentences(32, 0)), base)
    data = [encoded.window(i).tolist() for i in range(32)]
    model: Any = base.module.train().requires_grad_(True)
    torch.manual_seed(0)
    if adapter:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = get_peft_model(
                model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
            )

    def collate(ids: list[list[int]]) -> dict[str, torch.Tensor]:
        tokens, mask = pad(ids)
        return {"input_ids": tokens, "attention_mask": mask, "labels": tokens.masked_fill(mask == 0, -100)}

    arguments = TrainingArguments(
        output_dir=str(out),
        max_steps=steps,
        save_steps=save,
        per_device_train_batch_size=8,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
        learning_rate=1e-2,
        seed=3,
        logging_steps=100,
    )
    trainer = Trainer(model, arguments, train_dataset=data, data_collator=collate, callbacks=[callback])  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.train(resume_from_checkpoint=resume)
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("adapter", [True, False], ids=["adapters", "whole models"])
def test_the_audit_finds_what_was_measured_in_training(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], adapter: bool
) -> None:
    texted = Texted(place / "members.jsonl", place / "others.jsonl")
    callback = LanguageCallback(str(place / "base"), texted, tmp_path / "run", variants=VARIANTS)
    fit(place, tmp_path / "out", callback, adapter=adapter)
    told = capsys.readouterr().out
    assert "discreet: r_Q from 3 checkpoints and 36 texts (higher is safer):" in told
    assert re.search(r"discreet:   full: r \S+ \(\S+ to \S+\); .*full-precision-reference", told)
    assert callback.ranking is not None
    units = sorted((tmp_path / "run" / "units" / "trajectory").rglob("step-*.safetensors"))
    assert len(units) == 3 * len(VARIANTS)
    before = [path.stat().st_mtime_ns for path in units]
    found = audit_language(
        tmp_path / "run", str(place / "base"), tmp_path / "out", texted, variants=VARIANTS, attacks=("loss",)
    )
    assert sorted((tmp_path / "run" / "units" / "trajectory").rglob("step-*.safetensors")) == units
    assert [path.stat().st_mtime_ns for path in units] == before
    ranked = {row.variant: row.r for row in found.analyses[0].ranking.variants}
    assert ranked == {row["variant"]: row["r"] for row in callback.ranking.to_json()["variants"]}


def test_layers_that_no_adapter_touches_are_quantized_once(place: Path, tmp_path: Path) -> None:
    texted = Texted(place / "members.jsonl", place / "others.jsonl")
    variants = ("full", COUNTED, f"adapter over {COUNTED}")
    callback = LanguageCallback(str(place / "base"), texted, tmp_path / "run", variants=variants)
    Counted.calls.clear()
    fit(place, tmp_path / "out", callback, adapter=True)
    # Of 14 layers 4 have terms: 10 once, these 4 at each of three checkpoints, and the base's own once below a term.
    assert len(Counted.calls) == 10 + 3 * 4 + 4


def test_training_is_as_without_it(place: Path, tmp_path: Path) -> None:
    class Idle(LanguageCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...

    texted = Texted(place / "members.jsonl", place / "others.jsonl")
    found = [
        fit(
            place,
            tmp_path / name,
            kind(str(place / "base"), texted, tmp_path / "run", variants=VARIANTS),
            adapter=True,
        )
        for name, kind in (("with", LanguageCallback), ("without", Idle))
    ]
    assert all(torch.equal(found[0][name], value) for name, value in found[1].items())


def test_what_does_not_fit_is_told_before_the_training(place: Path, tmp_path: Path) -> None:
    written(tmp_path / "none.jsonl", sentences(32, 0))
    callback = LanguageCallback(
        str(place / "base"), Texted(place / "members.jsonl", tmp_path / "none.jsonl"), tmp_path / "run"
    )
    with pytest.raises(TextError, match="no text is left"):
        fit(place, tmp_path / "out", callback, adapter=True)
    assert not list((tmp_path / "out").glob("checkpoint-*"))
    texted = Texted(place / "members.jsonl", place / "others.jsonl")
    with pytest.raises(ValueError, match="bits must be 1, 2, 3, 4 or 8, got 5"):
        LanguageCallback(str(place / "base"), texted, tmp_path / "run", variants=("full", "hqq(bits=5)"))
    few = replace(texted, nonmembers=written(tmp_path / "few.jsonl", sentences(5, 1)))
    callback = LanguageCallback(str(place / "base"), few, tmp_path / "run", variants=("full", "gptq(bits=4)"))
    with pytest.raises(TextError, match="leaves 0 non-members to judge it by"):
        fit(place, tmp_path / "out", callback, adapter=True)


def test_a_folder_in_use_does_not_end_the_training(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texted = Texted(place / "members.jsonl", place / "others.jsonl")
    callback = LanguageCallback(str(place / "base"), texted, tmp_path / "run", variants=VARIANTS[:1])
    with Store(tmp_path / "run" / "units").lock():
        fit(place, tmp_path / "out", callback, adapter=True, steps=4)
    assert (tmp_path / "out/checkpoint-4").is_dir()
    assert callback.ranking is None
    told = capsys.readouterr().out
    assert "discreet: step 2 is left to the audit: " in told
    assert "units: in use by this process" in told


def test_one_checkpoint_gives_no_r(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texted = Texted(place / "members.jsonl", place / "others.jsonl")
    callback = LanguageCallback(str(place / "base"), texted, tmp_path / "run", variants=VARIANTS)
    (tmp_path / "out/checkpoint-1").mkdir(parents=True)  # of an earlier training that was killed
    fit(place, tmp_path / "out", callback, adapter=True, steps=2)
    assert callback.ranking is None
    assert "no r_Q from fewer than two checkpoints" in capsys.readouterr().out
    assert np.isfinite(callback._spent)


@pytest.mark.parametrize("adapter", [True, False], ids=["adapters", "whole models"])
def test_another_base_than_the_one_in_training_is_refused(place: Path, tmp_path: Path, adapter: bool) -> None:
    texted = Texted(place / "members.jsonl", place / "others.jsonl")
    callback = LanguageCallback(str(place / "other"), texted, tmp_path / "run", variants=VARIANTS)
    with pytest.raises(
        LanguageModelError,
        match=r"does not start from 'other': [\d,]+ of [\d,]+ weights of 'model\.embed_tokens\.weight' differ",
    ):
        fit(place, tmp_path / "out", callback, adapter=adapter)
    assert not list((tmp_path / "out").glob("checkpoint-*"))
    assert not list(tmp_path.rglob(BASE_FILE))


def test_an_output_folder_of_another_base_is_refused(place: Path, tmp_path: Path) -> None:
    texted = Texted(place / "members.jsonl", place / "others.jsonl")
    noted = note_base(tmp_path / "out", load(place / "other")).read_text()
    callback = LanguageCallback(str(place / "base"), texted, tmp_path / "run", variants=VARIANTS)
    with pytest.raises(
        LanguageModelError, match=r"were trained on 'other' with weights .* take another output"
    ):
        fit(place, tmp_path / "out", callback, adapter=True)
    assert (tmp_path / "out" / BASE_FILE).read_text() == noted


@pytest.mark.parametrize("kind", ["bfloat16", "float16 and back", "float64"])
def test_one_base_in_two_types_is_the_same(kind: str) -> None:
    base, model = llm.base(), llm.module()
    model = {
        "bfloat16": lambda: model.bfloat16(),
        "float16 and back": lambda: model.half().float(),
        "float64": lambda: model.double(),
    }[kind]()
    assert is_same_base(model, base, resumed=False)
    last = list(model.parameters())[-1]
    with torch.no_grad():
        last[0] *= 1.02
    with pytest.raises(LanguageModelError, match=r"1 of 32 weights of 'model\.norm\.weight' differ"):
        is_same_base(model, base, resumed=False)


def test_what_is_trained_may_differ_once_it_was(tmp_path: Path) -> None:
    base = llm.base()
    tuned = llm.adapter(base, tmp_path, 1, modules_to_save=["norm"], bias="all").train()
    for name, value in tuned.named_parameters():
        value.requires_grad_("original_module" not in name and ("lora_" in name or "bias" in name))
    assert is_same_base(tuned, base, resumed=True)
    whole = llm.module(seed=5)
    assert not is_same_base(whole, base, resumed=True)
    whole.get_submodule("model.norm").requires_grad_(False)
    with pytest.raises(LanguageModelError, match=r"weights of 'model\.norm\.weight' differ"):
        is_same_base(whole, base, resumed=True)


def test_other_models_are_told_and_what_cannot_be_compared_is_no_error() -> None:
    base = llm.base()
    with pytest.raises(LanguageModelError, match="and no parameter by a name of the base"):
        is_same_base(llm.module("gpt2"), base, resumed=False)
    wide = llm.module()
    wide.get_submodule("model").embed_tokens = nn.Embedding(400, 32)  # pyright: ignore
    with pytest.raises(LanguageModelError, match=r"has the shape \[400, 32\], that of the base \[384, 32\]"):
        is_same_base(wide, base, resumed=False)
    packed = llm.module(seed=5)
    for each in packed.modules():
        for name, value in list(each.named_parameters(recurse=False)):
            setattr(each, name, nn.Parameter(value.detach().to(torch.uint8), requires_grad=False))
    assert not is_same_base(packed, base, resumed=False)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (QuantizerError("refused"), r"variant .*, layer .*: refused"),
        (RuntimeError("out of memory"), r"RuntimeError: out of memory"),
    ],
)
def test_a_quantizer_that_fails_does_not_end_the_training(
    place: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    told: str,
) -> None:
    calls, plain = [], working.quantize_layer

    def failing(*given: Any, **named: Any) -> Any:
        calls.append(named["name"])
        if calls.count(calls[0]) == 2 and calls[-1] == calls[0]:  # the first layer, at the second save
            raise error
        return plain(*given, **named)

    monkeypatch.setattr(working, "quantize_layer", failing)
    texted = Texted(place / "members.jsonl", place / "others.jsonl")
    callback = LanguageCallback(str(place / "base"), texted, tmp_path / "run", variants=VARIANTS)
    fit(place, tmp_path / "out", callback, adapter=True)
    assert (tmp_path / "out/checkpoint-6").is_dir()
    said = capsys.readouterr().out
    assert re.search(rf"discreet: step 4 is left to the audit: {told}\n", said)
    assert "discreet: r_Q from 2 checkpoints" in said


def test_a_checkpoint_that_cannot_be_read_does_not_end_the_training(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(folder: Path) -> Any:
        raise LanguageModelError("in pieces")

    monkeypatch.setattr(language, "adapters_in", failing)
    texted = Texted(place / "members.jsonl", place / "others.jsonl")
    callback = LanguageCallback(str(place / "base"), texted, tmp_path / "run", variants=VARIANTS)
    fit(place, tmp_path / "out", callback, adapter=True, steps=4)
    assert (tmp_path / "out/checkpoint-4").is_dir()
    assert capsys.readouterr().out.count("in pieces") == 1
    assert callback.ranking is None


def test_a_resumed_training_counts_the_checkpoints_before(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texted = Texted(place / "members.jsonl", place / "others.jsonl")

    def callback() -> LanguageCallback:
        return LanguageCallback(str(place / "base"), texted, tmp_path / "run", variants=VARIANTS)

    fit(place, tmp_path / "out", callback(), adapter=True, steps=4)
    (tmp_path / "out/checkpoint-1").mkdir()  # left by a kill while it was saved
    capsys.readouterr()
    resumed = callback()
    fit(place, tmp_path / "out", resumed, adapter=True, steps=6, resume=True)
    told = capsys.readouterr().out
    assert "discreet: checkpoint-1 is left out: " in told
    assert "discreet: r_Q from 3 checkpoints" in told
    assert resumed.ranking is not None
    assert [row["checkpoints"] for row in resumed.ranking.to_json()["variants"]] == [3, 3]
