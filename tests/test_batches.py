"""Batches that are read when asked for: the same losses, and the next one read while this one is computed on."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet.batches import Batches
from discreet.recorder import Recorder

X, Y = torch.randn(50, 6, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 3


class Lazy(Sequence[Tensor]):
    """Batches of ten that are cut when asked for."""

    def __init__(self) -> None:
        self.read = [Event() for _ in range(5)]

    def __len__(self) -> int:
        return 5

    def __getitem__(self, at: Any) -> Any:
        if at >= len(self):
            raise IndexError(at)
        self.read[at].set()
        return X[10 * at : 10 * at + 10]


def test_they_give_the_losses_of_samples_in_memory() -> None:
    torch.manual_seed(0)
    module = nn.Linear(6, 3)
    plain = Recorder(X, Y, ["full", "sign"], task="ce")
    lazy = Recorder(Batches(Lazy(), lambda module, batch: module(batch)), Y, ["full", "sign"], task="ce")
    for recorder in (plain, lazy):
        recorder.step(module)
    one, other = (each.record().signals["loss"] for each in (plain, lazy))
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_the_next_batch_is_read_while_this_one_is_computed_on() -> None:
    parts, seen = Lazy(), []

    def ask(module: nn.Module, batch: Tensor) -> Tensor:
        at = len(seen)
        if at + 1 < len(parts):
            assert parts.read[at + 1].wait(20), f"batch {at + 1} was not read meanwhile"
        seen.append(at)
        return module(batch)

    batches = Batches(parts, ask)
    for event in parts.read:  # what the constructor has looked at
        event.clear()
    assert batches.outputs(nn.Linear(6, 3)).shape == (50, 3)
    assert seen == [0, 1, 2, 3, 4]
