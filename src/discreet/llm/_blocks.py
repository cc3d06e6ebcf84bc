"""The decoder's blocks and their Linear layers: what is quantized, and why the rest is not."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from discreet._types import Float
from discreet.llm._changes import is_transposed
from discreet.llm.encoding import Encoded
from discreet.llm.model import LanguageModelError

__all__ = ["Blocks", "copied", "find_blocks", "layer_inputs"]


@dataclass(frozen=True)
class Blocks:
    """Names of modules.

    Attributes:
        blocks: Blocks in the order in which they run.
        layers: The Linear layers of each.
        kept: Every other parameter, and why it is not quantized.
    """

    blocks: tuple[str, ...]
    layers: tuple[tuple[str, ...], ...]
    kept: dict[str, str]


def find_blocks(module: nn.Module) -> Blocks:
    """Find the longest list of modules in a decoder, by parameters, and the Linear layers in it.

    Raises:
        LanguageModelError: There is no such list, or no Linear layer in it.
    """
    lists = {name: part for name, part in module.named_modules() if isinstance(part, nn.ModuleList)}
    if not lists:
        raise LanguageModelError(
            f"{type(module).__name__}: has no list of decoder blocks, so nothing to quantize"
        )
    chosen = max(lists, key=lambda name: sum(p.numel() for p in lists[name].parameters()))
    blocks = tuple(f"{chosen}.{name}" for name, _ in lists[chosen].named_children())
    layers = tuple(
        tuple(
            f"{block}.{name}"
            for name, part in module.get_submodule(block).named_modules()
            if isinstance(part, nn.Linear) or is_transposed(part)
        )
        for block in blocks
    )
    if not any(layers):
        raise LanguageModelError(f"{type(module).__name__}: the blocks {chosen} hold no Linear layers")
    weights = {f"{name}.weight" for own in layers for name in own}
    kept = {
        name: "a bias or norm, or no Linear layer"
        if name.startswith(f"{chosen}.")
        else "outside the decoder's blocks"
        for name, _ in module.named_parameters()
        if name not in weights
    }
    return Blocks(blocks, layers, kept)


def copied(module: nn.Module, blocks: Blocks) -> nn.Module:
    """A copy whose Linear layers have weights of their own; every other parameter is shared."""
    own = {f"{name}.weight" for names in blocks.layers for name in names}
    memo = {id(value): value for name, value in module.named_parameters() if name not in own}
    return copy.deepcopy(module, memo)


class _Enough(Exception):
    """The forward pass has come far enough."""


def layer_inputs(
    module: nn.Module, block: str, layers: list[str], calibration: Encoded, rows: int
) -> dict[str, Float[Tensor, "row in"]]:
    """What goes into layers of one block: the first ``rows`` tokens of the calibration texts, in float32.

    Texts run one by one, so that no padding is seen, and no further than the block.
    """
    found: dict[str, list[Tensor]] = {name: [] for name in layers}
    seen = 0

    def keep(name: str, _: nn.Module, given: Any) -> None:
        found[name].append(given[0].detach().flatten(0, -2).to("cpu", torch.float32)[: rows - seen])

    def stop(*_: object) -> None:
        raise _Enough

    hooks = [module.get_submodule(name).register_forward_pre_hook(partial(keep, name)) for name in layers]
    hooks.append(module.get_submodule(block).register_forward_hook(stop))
    device: Any = next(module.parameters()).device
    try:
        for window in range(len(calibration.owner)):
            ids = torch.from_numpy(calibration.window(window))[None].to(device)
            try:
                with torch.no_grad():
                    module(input_ids=ids, use_cache=False)
            except _Enough:
                pass
            seen += ids.shape[1]
            if seen >= rows:
                break
    finally:
        for hook in hooks:
            hook.remove()
    return {name: torch.cat(parts) for name, parts in found.items() if parts}
