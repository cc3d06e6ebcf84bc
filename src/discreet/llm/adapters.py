"""Checkpoints of a fine-tuning: adapters in a Trainer's output folder, or whole models, and which base they have."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from discreet.llm import _hash
from discreet.llm.model import LanguageModel, LanguageModelError, known_name, weights_hash

__all__ = ["BASE_FILE", "AdapterCheckpoint", "adapters_in", "check_base", "note_base"]

BASE_FILE = "discreet-base.json"
_STEP = re.compile(r"checkpoint-(\d+)")
# Of a LoRA configuration, what the weights mean depends on; the rest is where it was and how it was trained.
_FACTS = ("alpha_pattern", "lora_alpha", "use_dora", "use_rslora")


@dataclass(frozen=True, eq=False)
class AdapterCheckpoint:
    """One checkpoint of a fine-tuning.

    Attributes:
        step: Its optimizer step.
        path: The folder.
        sha: SHA-256 over its weights and what its configuration says about them.
        kind: ``"lora"``, or ``"full"`` for a checkpoint that holds a whole model.
        config: Of an adapter, ``adapter_config.json``.
    """

    step: int
    path: Path
    sha: str
    kind: str = "lora"
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files with its weights."""
        return _weights(self.path, self.kind)


def adapters_in(folder: str | Path) -> tuple[AdapterCheckpoint, ...]:
    """List the checkpoints of a fine-tuning.

    Args:
        folder: The output folder of a Trainer, with ``checkpoint-STEP`` folders; an adapter in the folder itself
            is then passed over, since a Trainer saves its last or best checkpoint there once more. Or a folder
            that is one adapter or one model, whose step is read from its name or its ``trainer_state.json``, else
            0.

    Returns:
        By step. Adapters are known by ``adapter_config.json``, whole models by ``model.safetensors`` (or its pieces).

    Raises:
        LanguageModelError: The folder has no checkpoints, or one of them lacks its weights, holds pickled ones,
            or has a configuration that cannot be read.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise LanguageModelError(f"{folder}: no such folder; expected one with checkpoint-STEP folders in it")
    steps = {
        path: found for path in folder.iterdir() if (found := _STEP.fullmatch(path.name)) and path.is_dir()
    }
    if steps:
        return tuple(
            _read(path, int(steps[path][1])) for path in sorted(steps, key=lambda path: int(steps[path][1]))
        )
    if not any(folder.glob("adapter_*")) and not _weights(folder, "full"):
        raise LanguageModelError(
            f"{folder}: no checkpoints: expected checkpoint-STEP folders, or adapter_config.json and"
            " adapter_model.safetensors"
        )
    return (_read(folder, _own_step(folder)),)


def check_base(adapter: AdapterCheckpoint, base: LanguageModel) -> None:
    """Refuse an adapter that says it was trained on another base.

    Names are compared as hub ids or folder names, an existing folder by its weights. A file ``discreet-base.json`` in
    the checkpoint's folder or the one above (see ``note_base``) is believed first. A revision that the adapter names
    must be the one that was asked for of the base, or one that the hub's cache knows the same files by.

    Raises:
        LanguageModelError: Naming both, and how to settle it.
    """
    for place in (adapter.path, adapter.path.parent):
        noted = _noted(place / BASE_FILE)
        if noted is not None:
            if noted.get("weights") != base.weights:
                raise LanguageModelError(
                    f"{adapter.path}: was trained on {noted.get('name')!r} with weights"
                    f" {_short(noted.get('weights'))}, but the base {base.name!r} has {_short(base.weights)}: another"
                    " model or another revision"
                )
            return
    named = adapter.config.get("base_model_name_or_path")
    if not named:
        return
    other = _folder_weights(named)
    if other is not None:
        if other != base.weights:
            raise LanguageModelError(
                f"{adapter.path}: its base is {named}, whose weights are {_short(other)}, but those of"
                f" {base.name!r} are {_short(base.weights)}"
            )
        return
    if known_name(named).split("/")[-1] != base.name.split("/")[-1]:
        raise LanguageModelError(
            f"{adapter.path}: its base is {named!r}, but the base is {base.name!r}; if they are the same, rename the"
            f" base's folder to {known_name(named).split('/')[-1]!r} (in Python: name=)"
        )
    revision = adapter.config.get("revision")
    if revision and revision not in _revisions(base):
        loaded = f"is revision {base.revision!r}" if base.revision else "was loaded without naming one"
        raise LanguageModelError(
            f"{adapter.path}: was trained on revision {revision!r} of {named!r}, but the base {loaded}; give"
            f" revision={revision!r} (--revision): a hub id is then read at it, and a folder is taken to be it"
        )


def note_base(folder: str | Path, base: LanguageModel) -> Path:
    """Write into a fine-tuning's output folder which base it starts from, so that a mix-up is found later.

    Returns:
        The file, ``discreet-base.json``.

    Raises:
        LanguageModelError: It is there and names other weights.
    """
    path = Path(folder) / BASE_FILE
    there = _noted(path)
    if there is not None and there.get("weights") != base.weights:
        raise LanguageModelError(
            f"{path}: says that the checkpoints here were trained on {there.get('name')!r} with weights"
            f" {_short(there.get('weights'))}, but those of {base.name!r} are {_short(base.weights)}; take another"
            " output folder, or remove this file with the checkpoints that it is about"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"name": base.name, "weights": base.weights, "sha": base.sha, "revision": base.revision}
    path.write_text(json.dumps(about, indent=1, sort_keys=True) + "\n", "utf-8")
    return path


def _read(path: Path, step: int) -> AdapterCheckpoint:
    kind = "lora" if any(path.glob("adapter_*")) else "full"
    files = _weights(path, kind)
    if not files:
        pickled = sorted([*path.glob("adapter_model.bin"), *path.glob("pytorch_model*.bin")])
        if pickled:
            raise LanguageModelError(
                f"{pickled[0]} is pickled, which can run code, and is not read; save it as safetensors"
            )
        raise LanguageModelError(
            f"{path}: neither adapter_model.safetensors nor model.safetensors is in it; the checkpoint is incomplete"
        )
    try:
        weights = _hash.safetensors_hash(files)
    except Exception as error:  # safetensors raises an error of its own for a truncated file
        raise LanguageModelError(f"{files[0]}: cannot be read as safetensors: {error}") from error
    if kind == "full":
        return AdapterCheckpoint(step, path, weights, kind)
    config = _config(path / "adapter_config.json")
    facts = {name: config.get(name) for name in _FACTS}
    sha = _hash.joined_hash(weights, json.dumps(facts, sort_keys=True))
    return AdapterCheckpoint(step, path, sha, kind, config)


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise LanguageModelError(f"{path}: no such file; an adapter needs it beside its weights") from None
    except (OSError, ValueError) as error:
        raise LanguageModelError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kind = config.get("peft_type") if isinstance(config, dict) else type(config).__name__
        raise LanguageModelError(f"{path}: expected a LoRA adapter (peft_type LORA), got {kind!r}")
    if not isinstance(config.get("lora_alpha"), int | float):
        raise LanguageModelError(f"{path}: expected a number lora_alpha, got {config.get('lora_alpha')!r}")
    return config


def _weights(path: Path, kind: str) -> tuple[Path, ...]:
    if kind == "lora":
        found = path / "adapter_model.safetensors"
        return (found,) if found.is_file() else ()
    return tuple(sorted(path.glob("model*.safetensors")))


def _own_step(folder: Path) -> int:
    named = _STEP.fullmatch(folder.resolve().name)
    if named:
        return int(named[1])
    try:
        return int(json.loads((folder / "trainer_state.json").read_text("utf-8"))["global_step"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _noted(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise LanguageModelError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(found, dict):
        raise LanguageModelError(
            f"{path}: expected an object with name and weights, got {type(found).__name__}"
        )
    return found


def _revisions(base: LanguageModel) -> set[str]:
    """What the base's revision is known as: what was asked for; in the hub's cache its commit and names of that."""
    folder = Path(base.folder or "")
    if folder.parent.name != "snapshots":
        return {base.revision or "main"}
    names = folder.parent.parent / "refs"
    same = [path for path in names.rglob("*") if path.is_file() and path.read_text().strip() == folder.name]
    return {base.revision or folder.name, folder.name, *(path.relative_to(names).as_posix() for path in same)}


@lru_cache(maxsize=16)
def _folder_weights(named: str) -> str | None:
    """Hash of the weights in a folder; None if there is no such folder or nothing in it."""
    folder = Path(named).expanduser()
    if not folder.is_dir():
        return None
    try:
        return weights_hash(folder)
    except LanguageModelError:
        return None


def _short(sha: object) -> str:
    return f"{str(sha)[:12]}…"
