"""Language models: quantized, measured token by token, over the checkpoints of their fine-tuning."""

from __future__ import annotations

from discreet.llm.adapters import AdapterCheckpoint, adapters_in, note_base
from discreet.llm.encoding import Encoded, encode
from discreet.llm.model import LanguageModel, LanguageModelError, load, of_module
from discreet.llm.texts import TextError, Texts, apart, joined, read_texts
from discreet.llm.tokens import TokenSignals, losses, token_signals
from discreet.llm.trajectory import release, trajectory
from discreet.llm.working import Stored, Working

__all__ = [
    "AdapterCheckpoint",
    "Encoded",
    "LanguageModel",
    "LanguageModelError",
    "Stored",
    "TextError",
    "Texts",
    "TokenSignals",
    "Working",
    "adapters_in",
    "apart",
    "encode",
    "joined",
    "load",
    "losses",
    "note_base",
    "of_module",
    "read_texts",
    "release",
    "token_signals",
    "trajectory",
]
