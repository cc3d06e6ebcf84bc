"""Folders of checkpoints, and adapters that are not those of the base."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from discreet.llm import LanguageModel, LanguageModelError, Working, adapters_in, load, note_base
from discreet.llm.adapters import BASE_FILE, check_base
from tests import llm


def test_an_adapter_of_another_base_is_refused_with_both_names(tmp_path: Path) -> None:
    base = llm.base()
    llama = llm.base("gpt2")
    llm.adapter(llama, tmp_path / "other", 1, ["c_attn"], fan_in_fan_out=True)
    working = Working(base, ["full"])
    with pytest.raises(
        LanguageModelError, match=r"other: has a term for 'transformer.h.0.attn.c_attn', but 'qwen2' has"
    ):
        working.checkpoint(adapters_in(tmp_path / "other")[0])
    mine = tmp_path / "mine"
    llm.adapter(base, mine, 1)
    save_file(
        {
            k: v[:, :16].contiguous() if "lora_A" in k else v
            for k, v in load_file(mine / "adapter_model.safetensors").items()
        },
        mine / "adapter_model.safetensors",
    )
    with pytest.raises(
        LanguageModelError, match=r"is \[32, 4\] times \[4, 16\], but the layer of 'qwen2' is \[32, 32\]"
    ):
        working.checkpoint(adapters_in(mine)[0])


def renamed(folder: Path, **fields: Any) -> Path:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return folder


def test_names_revisions_and_hashes_of_bases_are_compared(tmp_path: Path) -> None:
    base = llm.base()
    llm.adapter(base, tmp_path / "a", 1)
    working = Working(base, ["full"])

    def check(folder: Path, **fields: Any) -> None:
        working.checkpoint(adapters_in(renamed(folder, **fields))[0])

    check(tmp_path / "a", base_model_name_or_path="hub/qwen2")
    check(tmp_path / "a", base_model_name_or_path="/gone/hub/models--hub--qwen2/snapshots/123")
    with pytest.raises(LanguageModelError, match=r"its base is 'Qwen/Qwen2-7B', but the base is 'qwen2'"):
        check(tmp_path / "a", base_model_name_or_path="Qwen/Qwen2-7B")
    base.module.save_pretrained(tmp_path / "same")  # pyright: ignore
    check(tmp_path / "a", base_model_name_or_path=str(tmp_path / "same"))
    llm.module(seed=5).save_pretrained(tmp_path / "other")  # pyright: ignore
    with pytest.raises(
        LanguageModelError, match=r"other, whose weights are [0-9a-f]{12}…, but those of 'qwen2' are"
    ):
        check(tmp_path / "a", base_model_name_or_path=str(tmp_path / "other"))
    check(tmp_path / "a", base_model_name_or_path=None)
    note_base(tmp_path, base)
    check(tmp_path / "a", base_model_name_or_path="anything/else")
    noted = note_base(tmp_path, base).read_text()
    with pytest.raises(LanguageModelError, match=r"were trained on 'qwen2' with weights .*remove this file"):
        note_base(tmp_path, llm.base(seed=5))
    assert (tmp_path / BASE_FILE).read_text() == noted
    note_base(tmp_path / "a", llm.base(seed=5))
    with pytest.raises(
        LanguageModelError, match=r"was trained on 'qwen2' with weights .*another model or another revision"
    ):
        check(tmp_path / "a")


def test_a_base_with_mistrals_file_beside_its_own_is_known_by_its_own(tmp_path: Path) -> None:
    base = llm.base()
    base.module.save_pretrained(tmp_path / "m")  # pyright: ignore
    base.tokenizer.save_pretrained(tmp_path / "m")
    own = load_file(tmp_path / "m/model.safetensors")
    save_file(
        {f"mistral.{name}": value for name, value in own.items()}, tmp_path / "m/consolidated.safetensors"
    )
    found = load(tmp_path / "m", name="hub/m")
    llm.adapter(found, tmp_path / "a", 1)
    renamed(tmp_path / "a", base_model_name_or_path=str(tmp_path / "m"))
    check_base(adapters_in(tmp_path / "a")[0], found)


def test_a_revision_that_an_adapter_names_is_the_bases(tmp_path: Path) -> None:
    base = llm.base()
    llm.adapter(base, tmp_path / "a", 1)

    def check(base: LanguageModel, revision: str | None, named: str = "hub/qwen2") -> None:
        renamed(tmp_path / "a", revision=revision, base_model_name_or_path=named)
        check_base(adapters_in(tmp_path / "a")[0], base)

    for revision in (None, "main"):
        check(base, revision)
    with pytest.raises(
        LanguageModelError,
        match=r"revision 'v1' of 'hub/qwen2', but the base was loaded without naming one; give revision='v1'",
    ):
        check(base, "v1")
    check(replace(base, revision="v1"), "v1")
    check(replace(base, revision="v1"), None)  # most adapters name none
    with pytest.raises(LanguageModelError, match=r"revision 'v2' of .*, but the base is revision 'v1'"):
        check(replace(base, revision="v1"), "v2")
    cache = tmp_path / "models--hub--qwen2"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs/main").write_text("0f")
    (cache / "refs/v1").write_text("0f")
    (cache / "refs/v2").write_text("1f")
    cached = replace(base, folder=str(cache / "snapshots/0f"))
    for revision in ("v1", "main", "0f"):
        check(cached, revision)
        check(replace(cached, revision="v1"), revision)
    with pytest.raises(LanguageModelError, match="revision 'v2'"):
        check(cached, "v2")
    base.module.save_pretrained(tmp_path / "same")  # pyright: ignore
    check(base, "v1", str(tmp_path / "same"))  # the weights say more than a name


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"target_parameters": ["x"]}, "target_parameters is not supported; merge the adapter with peft"),
        (
            {"init_lora_weights": "pissa_niter_4"},
            "init_lora_weights='pissa_niter_4' changes the base's weights",
        ),
        ({"lora_alpha": None}, r"adapter_config.json: expected a number lora_alpha, got None"),
        ({"peft_type": "IA3"}, r"expected a LoRA adapter \(peft_type LORA\), got 'IA3'"),
    ],
)
def test_adapters_that_are_not_supported_say_what_to_do(
    fields: dict[str, Any], message: str, tmp_path: Path
) -> None:
    base = llm.base()
    llm.adapter(base, tmp_path, 1)
    with pytest.raises(LanguageModelError, match=message):
        Working(base, ["full"]).checkpoint(adapters_in(renamed(tmp_path, **fields))[0])


def test_folders_without_checkpoints_are_told_apart(tmp_path: Path) -> None:
    base = llm.base()
    with pytest.raises(LanguageModelError, match="no such folder"):
        adapters_in(tmp_path / "none")
    with pytest.raises(LanguageModelError, match="no checkpoints: expected checkpoint-STEP folders"):
        adapters_in(tmp_path)
    llm.run(base, tmp_path, 1, steps=11)
    assert [each.step for each in adapters_in(tmp_path)] == [
        10 * k for k in range(1, 12)
    ]  # by number, not by name
    weights = tmp_path / "checkpoint-20/adapter_model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:100])
    with pytest.raises(
        LanguageModelError, match=r"checkpoint-20/adapter_model.safetensors: cannot be read as safetensors"
    ):
        adapters_in(tmp_path)
    weights.unlink()
    with pytest.raises(LanguageModelError, match=r"checkpoint-20: neither .* the checkpoint is incomplete"):
        adapters_in(tmp_path)
    (weights.parent / "adapter_model.bin").write_bytes(b"")
    with pytest.raises(LanguageModelError, match=r"adapter_model.bin is pickled"):
        adapters_in(tmp_path)
    single = tmp_path / "single"
    llm.adapter(base, single, 1)
    assert [each.step for each in adapters_in(single)] == [0]
    (single / "trainer_state.json").write_text('{"global_step": 44}')
    assert [each.step for each in adapters_in(single)] == [44]
