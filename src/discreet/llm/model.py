"""Causal language models of Hugging Face, read from a local folder or the hub, and known by their content."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from discreet._quiet import quiet_transformers
from discreet.device import Device
from discreet.llm import _hash

__all__ = ["LanguageModel", "LanguageModelError", "known_name", "load", "of_module", "weights_hash"]

DTYPES = ("float32", "bfloat16", "float16", "float64", "auto")
# What is fetched of a hub's repository: no pickles, and not the copies in subfolders that some keep.
_WANTED = ["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja", "*.py"]
_LEFT = ["*/*", "consolidated*"]


class LanguageModelError(ValueError):
    """A language model, its tokenizer or an adapter cannot be had or used; the message says which and why."""


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A causal language model that is only asked, never trained.

    Attributes:
        module: The model, in evaluation mode, its parameters without gradients.
        tokenizer: Its tokenizer.
        sha: SHA-256 over weights, configuration and tokenizer.
        context: The most tokens that it takes at once.
        name: The hub id or the name it was loaded under.
        weights: SHA-256 over the weights alone, as they are stored.
        revision: What was asked for of a hub id.
    """

    module: nn.Module = field(repr=False)
    tokenizer: Any = field(repr=False)
    sha: str
    context: int
    name: str
    weights: str = ""
    revision: str | None = None
    folder: str | None = field(default=None, repr=False)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.module.parameters()).device


def load(
    source: str | Path,
    *,
    revision: str | None = None,
    trust_remote_code: bool = False,
    dtype: str = "float32",
    device: str | torch.device = "cpu",
    name: str | None = None,
) -> LanguageModel:
    """Load a model and its tokenizer.

    Args:
        source: A folder with ``config.json``, safetensors files and tokenizer files; a folder with one
            ``.gguf`` file, whose weights are turned into ordinary ones; or a hub id, which is looked for in
            the local cache if the hub cannot be reached. If a folder of that name exists, the network is
            never asked.
        revision: Of a hub id: a branch, tag or commit.
        trust_remote_code: Run Python code that comes with the model.
        dtype: ``"float32"``, ``"bfloat16"``, ``"float16"``, ``"float64"``, or ``"auto"`` for that of the
            file.
        device: Where to put it.
        name: What to know it by, where a folder's name is not what adapters call their base; None: as found.

    Raises:
        LanguageModelError: Nothing there, weights that are incomplete, pickled or already quantized, code
            that is not trusted, or a hub that is out of reach (which files to download, and where to put
            them), or a device that is not there.
    """
    try:
        Device(str(device))
    except ValueError as error:
        raise LanguageModelError(f"device: {str(error).removeprefix('name: ')}") from None
    if dtype not in DTYPES:
        raise LanguageModelError(f"dtype: expected one of {', '.join(DTYPES)}, got {dtype!r}")
    folder = Path(source).expanduser()
    if not folder.is_dir():
        folder = _fetched(str(source), revision)
    gguf, _ = _weight_files(folder)
    words: dict[str, Any] = {"gguf_file": gguf.name} if gguf else {}
    words |= {"trust_remote_code": trust_remote_code, "local_files_only": True}
    kind = None if dtype == "auto" else getattr(torch, dtype)
    with quiet_transformers(), _told(folder):
        from transformers import AutoModelForCausalLM

        config = None if gguf else _config(folder, trust_remote_code)
        more = {} if gguf else {"config": config, "use_safetensors": True}
        module, found = AutoModelForCausalLM.from_pretrained(
            folder, dtype=kind or "auto", output_loading_info=True, **words, **more
        )
        tokenizer = _tokenizer(folder, words)
    _check_complete(folder, found)
    module = _plain(module) if gguf else module
    known = name or (str(source) if not Path(source).expanduser().is_dir() else known_name(folder.resolve()))
    return _made(module.to(device), tokenizer, known, weights_hash(folder), revision, str(folder.resolve()))


def of_module(module: nn.Module, tokenizer: Any, name: str = "model") -> LanguageModel:
    """A model that is in memory already, such as one that was just trained.

    The module is put into evaluation mode and its parameters lose their gradients; nothing is copied.

    Raises:
        LanguageModelError: It is no causal language model of transformers.
    """
    if getattr(module, "config", None) is None or not hasattr(module, "get_output_embeddings"):
        raise LanguageModelError(
            f"module: expected a causal language model of transformers, got {type(module).__name__}"
        )
    return _made(module, tokenizer, name, _hash.module_hash(module), None, None)


def weights_hash(folder: Path) -> str:
    """What a model in a folder is known by: SHA-256 over its weights alone, as they are stored.

    Raises:
        LanguageModelError: There are none, or they are pickled.
    """
    gguf, weights = _weight_files(folder)
    return _hash.file_hash(gguf) if gguf else _hash.safetensors_hash(weights)


def _made(
    module: nn.Module, tokenizer: Any, name: str, weights: str, revision: str | None, folder: str | None
) -> LanguageModel:
    module.eval().requires_grad_(False)
    sha = _hash.joined_hash(weights, _hash.config_hash(module.config), _hash.tokenizer_hash(tokenizer))
    return LanguageModel(module, tokenizer, sha, _context(module, tokenizer), name, weights, revision, folder)


def _fetched(source: str, revision: str | None) -> Path:
    """The folder of a hub id in the local cache, after downloading what is missing."""
    if Path(source).expanduser().exists():
        raise LanguageModelError(f"{source}: expected a folder with the model in it, got a file")
    if source.startswith((".", "/", "~")) or source.count("/") > 1 or not source:
        raise LanguageModelError(f"{source!r}: there is no such folder, and it is no hub id (owner/name)")
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(source, revision=revision, allow_patterns=_WANTED, ignore_patterns=_LEFT)
        )
    except Exception as error:  # the hub's client raises its own, the HTTP library's and OSError
        at = f" (revision {revision})" if revision else ""
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise LanguageModelError(
            f"{source!r}{at}: no such folder, and the hub gave nothing ({why[:200]}). Download config.json,"
            " every *.safetensors file (with model.safetensors.index.json if there are several) and the tokenizer's"
            f" files (tokenizer.json, tokenizer_config.json) of https://huggingface.co/{source}"
            f"{f'/tree/{revision}' * bool(revision)} into a folder named {source.split('/')[-1]!r}, by which adapters"
            " know it, and give that folder instead"
        ) from error


def _weight_files(folder: Path) -> tuple[Path | None, list[Path]]:
    """The one GGUF file, or the safetensors files; not an adapter's, nor the same weights in the form of Mistral."""
    weights = sorted(folder.glob("*.safetensors"))
    weights = [path for path in weights if not path.name.startswith(("consolidated", "adapter_model"))]
    if weights:
        return None, weights
    gguf = sorted(folder.glob("*.gguf"))
    if len(gguf) == 1:
        return gguf[0], []
    if gguf:
        raise LanguageModelError(
            f"{folder}: expected one .gguf file, got {len(gguf)}; keep the one that is meant"
        )
    if (folder / "adapter_model.safetensors").exists():
        raise LanguageModelError(
            f"{folder}: this is an adapter without its base; load the base and name this as one"
        )
    pickled = sorted([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])
    if pickled:
        raise LanguageModelError(
            f"{folder}: {pickled[0].name} is pickled, which can run code, and is not read; save the model as"
            " safetensors (save_pretrained does)"
        )
    raise LanguageModelError(f"{folder}: no weights: expected *.safetensors files or one .gguf file")


def _tokenizer(folder: Path, words: dict[str, Any]) -> Any:
    """The tokenizer of a folder.

    One that says it is ``tokenizer.json`` and nothing else is read as that: ``AutoTokenizer`` would put the rules of
    the model's family in place of its own.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        said = json.loads((folder / "tokenizer_config.json").read_text("utf-8")).get("tokenizer_class")
    except (OSError, ValueError, AttributeError):
        said = None
    plain = said in ("PreTrainedTokenizerFast", "TokenizersBackend") and (folder / "tokenizer.json").is_file()
    kind: Any = PreTrainedTokenizerFast if plain else AutoTokenizer
    made = kind.from_pretrained(folder, **words)
    if set(made.get_vocab()) <= set(made.all_special_tokens):  # what transformers makes of no files at all
        raise LanguageModelError(
            f"{folder}: no tokenizer: expected tokenizer.json and tokenizer_config.json, or the files of its kind"
        )
    return made


def _config(folder: Path, trust_remote_code: bool) -> Any:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code, local_files_only=True)
    if getattr(config, "quantization_config", None) is not None:
        raise LanguageModelError(
            f"{folder}: the model is quantized already; quantizers need its full-precision weights"
        )
    return config


def _check_complete(folder: Path, found: Any) -> None:
    """Refuse weights that transformers would have drawn at random."""
    for what in ("missing_keys", "mismatched_keys"):
        names = sorted(str(each) for each in found.get(what, ()))
        if names:
            fault = (
                "are missing" if what == "missing_keys" else "have another shape than the configuration says"
            )
            raise LanguageModelError(f"{folder}: {len(names)} weights {fault}, first {names[0]}")


def _plain(module: nn.Module) -> nn.Module:
    """The same weights in a model that does not take itself for a quantized one; shared, not copied."""
    config: Any = copy.deepcopy(module.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):
        made = type(module)(config)
    made.load_state_dict(module.state_dict(), assign=True)
    for name, buffer in module.named_buffers():
        owner, _, last = name.rpartition(".")
        made.get_submodule(owner).register_buffer(last, buffer, persistent=name in made.state_dict())
    made.tie_weights()  # pyright: ignore[reportCallIssue]
    return made


def _context(module: Any, tokenizer: Any) -> int:
    """Positions that the configuration names, else the tokenizer's limit, else as good as none."""
    config = module.config
    inner = config.get_text_config() if hasattr(config, "get_text_config") else config
    for limit in (getattr(inner, "max_position_embeddings", None), tokenizer.model_max_length):
        if isinstance(limit, int) and 0 < limit < 1 << 30:
            return limit
    return 1 << 20


def known_name(path: str | Path) -> str:
    """A hub id as it is; of a folder its name, and of a snapshot in the hub's cache the id.

    Example:
        >>> known_name("/data/hub/models--Qwen--Qwen2-0.5B/snapshots/1f"), known_name("/data/tuned/base")
        ('Qwen/Qwen2-0.5B', 'base')
    """
    parts = Path(path).parts
    cached = [part for part in parts if part.startswith("models--")]
    if cached:
        return cached[-1].removeprefix("models--").replace("--", "/")
    return str(path) if len(parts) == 2 and not Path(path).is_absolute() else parts[-1] if parts else ""


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Say in one sentence what transformers could not do."""
    try:
        yield
    except LanguageModelError:
        raise
    except Exception as error:  # safetensors, tokenizers and models each raise their own
        why = " ".join(str(error).split())
        if "trust_remote_code" in why:
            raise LanguageModelError(
                f"{folder}: the model comes with Python code of its own, which is not run; read it, then give"
                " trust_remote_code=True (--trust-remote-code)"
            ) from error
        raise LanguageModelError(f"{folder}: cannot be loaded: {why[:300]}") from error
