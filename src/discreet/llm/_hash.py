"""What a language model is known by: hashes of its weights, its configuration and its tokenizer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

__all__ = [
    "config_hash",
    "file_hash",
    "joined_hash",
    "module_hash",
    "safetensors_hash",
    "tensors_hash",
    "tokenizer_hash",
]

# What differs between copies of one model: where it was, who wrote it, and how it was last loaded.
_VOLATILE = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "use_cache", "architectures")


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def joined_hash(*parts: str) -> str:
    """One hash for several."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def tensors_hash(named: Iterable[tuple[str, Tensor]]) -> str:
    """SHA-256 over names, shapes, types and bytes of tensors, in the order given."""
    whole = hashlib.sha256()
    for name, tensor in named:
        value = tensor.detach().cpu().contiguous()
        whole.update(f"{name}{tuple(value.shape)}{value.dtype};".encode())
        whole.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()


def module_hash(module: nn.Module) -> str:
    """Hash of a module's parameters and kept buffers; tied ones count once.

    That of a module and of the file that ``save_pretrained`` writes of it agree, as long as the file holds
    the names and types of the module.
    """
    tied = {name for group in _ties(module) for name in group[1:]}
    state = module.state_dict()
    return tensors_hash((name, state[name]) for name in sorted(state) if name not in tied)


def safetensors_hash(files: Sequence[Path]) -> str:
    """The same of safetensors files, however the tensors are spread over them."""
    place: dict[str, Path] = {}
    for path in files:
        with safe_open(path, "pt") as opened:
            place |= dict.fromkeys(opened.keys(), path)
    whole = {path: safe_open(path, "pt") for path in files}
    return tensors_hash((name, whole[place[name]].get_tensor(name)) for name in sorted(place))


def config_hash(config: Any) -> str:
    """Hash of what a configuration says beyond its defaults, but for what differs between copies."""
    said = {name: value for name, value in config.to_diff_dict().items() if name not in _VOLATILE}
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def tokenizer_hash(tokenizer: Any) -> str:
    """Hash of how a tokenizer cuts text; how it would pad or truncate is left out, since that is not asked of it."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        said: Mapping[str, Any] = {"class": type(tokenizer).__name__, "vocabulary": tokenizer.get_vocab()}
    else:
        said = {k: v for k, v in json.loads(backend.to_str()).items() if k not in ("padding", "truncation")}
    more = {
        "template": getattr(tokenizer, "chat_template", None),
        "eos": tokenizer.eos_token,
        "bos": tokenizer.bos_token,
    }
    return hashlib.sha256(json.dumps([said, more], sort_keys=True, default=str).encode()).hexdigest()


def _ties(module: nn.Module) -> list[list[str]]:
    """Names of parameters that are one tensor, the one that is saved first."""
    same: dict[int, list[str]] = {}
    for name, value in module.named_parameters(remove_duplicate=False):
        same.setdefault(id(value), []).append(name)
    return list(same.values())
