"""All that a training needs to go on where it stopped, as one safetensors file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from discreet._draft import draft
from discreet._types import Float, Int
from discreet.optimizers import SLOTS
from discreet.recipe import Recipe

__all__ = ["Revise", "TrainingState"]

SCHEMA = "discreet.training/1"


@dataclass(frozen=True)
class TrainingState:
    """The end of an epoch.

    Attributes:
        epoch: How many epochs are done.
        params: The stack.
        moments: Of the optimizer: for each slot a stack.
        best: Lowest validation loss of each model so far; infinite without one.
        waited: Epochs since then.
        stopped: The epoch after which a model was stopped early, 0 while it trains.
        key: Hash of all that the training depends on but its length; only a training with the same key can go on.
        masks: For some parameters which entries may differ from 0, whole stacks. They are those of the training, not
            copies.
    """

    epoch: int
    params: Mapping[str, Tensor]
    moments: Mapping[str, Mapping[str, Tensor]]
    best: Float[Tensor, " model"]
    waited: Int[Tensor, " model"]
    stopped: Int[Tensor, " model"]
    key: str
    masks: Mapping[str, Tensor] = field(default_factory=dict)

    def save(self, path: str | Path) -> Path:
        """Write the state aside and rename it."""
        tensors = {f"params/{name}": value.contiguous() for name, value in self.params.items()}
        for slot, stack in (*self.moments.items(), ("masks", self.masks)):
            tensors |= {f"{slot}/{name}": value.contiguous() for name, value in stack.items()}
        tensors |= {f"model/{name}": getattr(self, name) for name in ("best", "waited", "stopped")}
        about = {"schema": SCHEMA, "epoch": str(self.epoch), "key": self.key, "order": list(tensors)}
        with draft(Path(path)) as aside:
            save_file(tensors, aside, {"discreet": json.dumps(about, sort_keys=True)})
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> TrainingState:
        """Read a state.

        Raises:
            ValueError: The file is no saved state, or it is damaged.
        """
        try:
            with safe_open(path, "pt") as file:
                about = json.loads((file.metadata() or {}).get("discreet", "{}"))
                names = (
                    about.get("order") or file.keys()
                )  # the file sorts them; their order ships with the model
                tensors = {name: file.get_tensor(name) for name in names}
        except (SafetensorError, json.JSONDecodeError) as error:
            raise ValueError(f"{path}: not a training state: {error}") from error
        if about.get("schema") != SCHEMA:
            raise ValueError(f"{path}: expected schema {SCHEMA}, got {about.get('schema')}")
        groups: dict[str, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            slot, _, rest = name.partition("/")
            groups.setdefault(slot, {})[rest] = value
        params, model, masks = groups.pop("params"), groups.pop("model"), groups.pop("masks", {})
        return cls(int(about["epoch"]), params, groups, **model, key=about["key"], masks=masks)

    @classmethod
    def start(
        cls, params: Mapping[str, Tensor], trained: Sequence[str], recipe: Recipe, key: str
    ) -> TrainingState:
        """The state before the first step: moments are zero."""
        models = len(next(iter(params.values())))
        moments = {
            slot: {name: torch.zeros_like(params[name]) for name in trained}
            for slot in SLOTS[recipe.optimizer]
        }
        return cls(
            0,
            params,
            moments,
            best=torch.full((models,), torch.inf, dtype=torch.float64),
            waited=torch.zeros(models, dtype=torch.int64),
            stopped=torch.zeros(models, dtype=torch.int64),
            key=key,
        )

    def check(self, key: str) -> TrainingState:
        """Return the state if it belongs to the training with this key.

        Raises:
            ValueError: It belongs to another one.
        """
        if self.key != key:
            raise ValueError(
                "resume: the state is of another training: seed, ids, recipe (but for epochs), path, subsets, x and y"
                " must be the same"
            )
        return self

    @property
    def active(self) -> Int[Tensor, " active"]:
        """Positions of the models that still train."""
        return torch.nonzero(self.stopped == 0)[:, 0]


Revise = Callable[[TrainingState], TrainingState]
