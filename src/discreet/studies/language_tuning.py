"""Fine-tuning with low-rank adapters ("LoRA: Low-Rank Adaptation of Large Language Models") as PEFT saves them."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from discreet._quiet import imported
from discreet.model_seeds import init_seed, stream
from discreet.studies.language_plan import LanguageScale
from discreet.studies.language_pretraining import batches, loss_of

__all__ = ["TARGETS", "tune"]

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""All linear layers of a block."""


def tune(
    base: nn.Module,
    ids: Sequence[Sequence[int]],
    first: Sequence[int],
    scale: LanguageScale,
    folder: Path,
    *,
    run: int,
    seed: int,
    on_step: Callable[[], None] = lambda: None,
) -> None:
    """Fine-tune a copy of a model and leave an adapter in ``folder/checkpoint-STEP`` at each mark of the scale.

    The loss is that of the answers. Step size falls linearly after a warm-up of 3 %.

    Args:
        base: The model; it stays as it is.
        ids: Tokens of each text that is trained on.
        first: Place of the first token of each that counts.
        scale: Settings.
        folder: Where to.
        run: Number of the run.
        seed: Of the study.
        on_step: Called after each step; what it raises ends the training.
    """
    peft = imported("peft")
    torch.manual_seed(init_seed(seed, run))
    config = peft.LoraConfig(
        r=scale.rank,
        lora_alpha=scale.rank,
        target_modules=list(TARGETS),
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by an old name
        model = peft.get_peft_model(copy.deepcopy(base), config)
    model.train()
    weights = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=scale.lr, weight_decay=0.0)
    warm = max(1, round(0.03 * scale.steps))

    def size(step: int) -> float:
        return min((step + 1) / warm, (scale.steps - step) / max(1, scale.steps - warm))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, size)
    for step, chosen in enumerate(batches(ids, scale.batch, scale.steps, stream(seed, run, 2)), 1):
        loss_of(model, [ids[i] for i in chosen], [first[i] for i in chosen]).backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step in scale.marks:
            _save(model, folder / f"checkpoint-{step}")
        on_step()


def _save(model: Any, folder: Path) -> None:
    """Leave an adapter whose files tell neither where its base lies nor in what order Python met its layers."""
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text("utf-8"))
    place = config["base_model_name_or_path"] or ""
    if Path(place).is_dir():
        config["base_model_name_or_path"] = Path(place).name
    config["target_modules"] = sorted(config["target_modules"])
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
