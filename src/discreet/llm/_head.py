"""Logits without all of them at once: the decoder runs without its head, which is applied piece by piece."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from discreet._types import Float, Int
from discreet.llm.model import LanguageModelError

__all__ = ["Head", "Hidden", "hidden_and_head", "whole_logits"]

Hidden = Callable[[Tensor, Tensor | None], Tensor]
"""Token ids and a mask (None: no padding) to what the head is given, [text, position, unit]."""
Head = Callable[[Tensor], Tensor]
"""What the head is given, [position, unit], to logits, [position, token]."""
_PROBED = 16


def hidden_and_head(module: nn.Module, probe: Int[Tensor, " position"]) -> tuple[Hidden, Head] | None:
    """A model in two parts, such that their composition is the model.

    Models that scale or cap their logits (Gemma 2, Cohere, Granite) do so after the head. What of this
    applies is found by trying: on the first tokens of a text, the two parts must give the logits of the model
    as a whole.

    Args:
        module: A causal language model.
        probe: Token ids of some text.

    Returns:
        The two parts; None if no composition gives the model's own logits, so that only the whole can be
        asked.

    Raises:
        LanguageModelError: The model gives no logits [text, position, token].
    """
    module = _inner(module)
    ids = probe[None, :_PROBED]
    own = getattr(module(input_ids=ids, use_cache=False), "logits", None)
    if not isinstance(own, Tensor) or own.ndim != 3:
        raise LanguageModelError(f"{type(module).__name__} gives no logits of shape [text, position, token]")
    body = getattr(module, "base_model", module)
    layer = module.get_output_embeddings()  # pyright: ignore[reportCallIssue]
    if body is module or not isinstance(layer, nn.Module) or ids.shape[1] != own.shape[1]:
        return None

    def hidden(ids: Tensor, mask: Tensor | None) -> Tensor:
        return body(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state

    try:
        given = hidden(ids, None)[0]
    except (AttributeError, TypeError, RuntimeError):
        return None
    tried = [(_distance(after(layer(given)), own[0]), after) for after in _after(module.config)]
    least, after = min(tried, key=lambda each: each[0])
    return (hidden, _then(layer, after)) if least <= 1 else None


def whole_logits(module: nn.Module, ids: Tensor, mask: Tensor | None) -> Float[Tensor, "text position token"]:
    """Logits as the model gives them."""
    return _inner(module)(input_ids=ids, attention_mask=mask, use_cache=False).logits


def _then(layer: nn.Module, after: Callable[[Tensor], Tensor]) -> Head:
    return lambda given: after(layer(given))


def _inner(module: Any) -> Any:
    """The model itself where adapters are wrapped around it, which it then holds."""
    return module.get_base_model() if hasattr(module, "peft_config") else module


def _after(config: Any) -> list[Callable[[Tensor], Tensor]]:
    """What models are known to do with their logits, most common first."""
    inner = config.get_text_config() if hasattr(config, "get_text_config") else config
    found: list[Callable[[Tensor], Tensor]] = [lambda logits: logits]
    cap = getattr(inner, "final_logit_softcapping", None)
    if cap:
        found.append(lambda logits: torch.tanh(logits / cap) * cap)
    for name in ("logit_scale", "logits_scaling"):
        scale = getattr(inner, name, None)
        if isinstance(scale, (int, float)) and scale:
            found += [lambda logits, by=scale: logits * by, lambda logits, by=scale: logits / by]
    return found


def _distance(one: Tensor, other: Tensor) -> float:
    """The largest difference of logits, as a multiple of what rounding in their own type explains."""
    if one.shape != other.shape:
        return math.inf
    steps = 64 if one.dtype in (torch.float32, torch.float64) else 4
    size = max(float(other.float().abs().max()), 1.0)
    found = float((one.float() - other.float()).abs().max()) / (steps * torch.finfo(one.dtype).eps * size)
    return math.inf if math.isnan(found) else found
