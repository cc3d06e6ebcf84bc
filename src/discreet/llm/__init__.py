"""Language models: quantized, measured token by token, over the checkpoints of their fine-tuning."""

from __future__ import annotations

from discreet.llm.encoding import Encoded, encode
from discreet.llm.model import LanguageModel, LanguageModelError, load, of_module
from discreet.llm.texts import TextError, Texts, apart, joined, read_texts
from discreet.llm.tokens import TokenSignals, losses, token_signals

__all__ = [
    "Encoded",
    "LanguageModel",
    "LanguageModelError",
    "TextError",
    "Texts",
    "TokenSignals",
    "apart",
    "encode",
    "joined",
    "load",
    "losses",
    "of_module",
    "read_texts",
    "token_signals",
]
