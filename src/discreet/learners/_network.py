"""A small network on features or images, trained until its loss on held-out rows stops falling."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from discreet._spread import one_torch_thread
from discreet._types import Float

__all__ = ["Network", "Training", "predict"]

_CHUNK = 4096
# Share by which the running mean of the weights follows at each step.
_FOLLOW = 0.02


class Network(nn.Module):
    """Hidden layers on features and one-hot labels; images first pass a small convolutional front.

    Beside the hidden layers a linear map leads straight to the outputs: it is learned at once, and much
    of how a score depends on features that another model computed is linear.

    Args:
        shape: Shape of a record's features: (feature,) or (channel, height, width).
        labels: Number of label columns.
        hidden: Widths of the hidden layers.
        start: What the outputs are before training, whatever the record.
    """

    def __init__(
        self, shape: Sequence[int], labels: int, hidden: Sequence[int], start: Float[np.ndarray, " output"]
    ) -> None:
        super().__init__()
        self.front, width = _front(shape)
        width += labels
        layers: list[nn.Module] = []
        for before, after in zip((width, *hidden), hidden, strict=False):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.hidden = nn.Sequential(*layers)
        self.head = nn.Linear(hidden[-1], len(start))
        self.skip = nn.Linear(width, len(start), bias=False)
        with torch.no_grad():
            self.head.bias.copy_(torch.as_tensor(start))
            self.head.weight.zero_()
            self.skip.weight.zero_()

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        inputs = torch.cat([self.front(features), labels], dim=1)
        return self.head(self.hidden(inputs)) + self.skip(inputs)


def _front(shape: Sequence[int]) -> tuple[nn.Module, int]:
    if len(shape) != 3:
        return nn.Flatten(), int(np.prod(shape))
    layers: list[nn.Module] = []
    before = shape[0]
    for after in (16, 32):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
        before = after
    # Four by four parts of the picture, or as many as it has.
    parts = [min(4, -(-side // 4)) for side in shape[1:]]
    layers += [nn.AdaptiveAvgPool2d((parts[0], parts[1])), nn.Flatten()]
    return nn.Sequential(*layers), before * parts[0] * parts[1]


@dataclass(frozen=True)
class Training:
    """How to train.

    Attributes:
        lr: Learning rate of AdamW.
        weight_decay: Its weight decay.
        epochs: At most so many passes.
        batch: Rows a step.
        patience: Passes without a lower held-out loss before it ends.
        held_out: Share of rows that only decide when to stop.
    """

    lr: float
    weight_decay: float
    epochs: int
    batch: int
    patience: int
    held_out: float

    def run(
        self,
        build: Callable[[], nn.Module],
        inputs: Sequence[np.ndarray],
        target: Float[np.ndarray, " n"],
        loss: Callable[[Tensor, Tensor], Tensor],
        seed: int,
    ) -> nn.Module:
        """Train and return the network as it was best, in float64 and evaluation mode.

        Args:
            build: Makes the network, from PyTorch's generator.
            inputs: What its ``forward`` takes.
            target: Standardised scores.
            loss: Mean loss of outputs and targets.
            seed: Of the start, the held-out rows and the order.
        """
        with one_torch_thread():
            return self._run(build, inputs, target, loss, seed)

    def _run(
        self,
        build: Callable[[], nn.Module],
        inputs: Sequence[np.ndarray],
        target: Float[np.ndarray, " n"],
        loss: Callable[[Tensor, Tensor], Tensor],
        seed: int,
    ) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = build().float()
        generator = torch.Generator().manual_seed(seed)
        data = [torch.as_tensor(each, dtype=torch.float32) for each in (*inputs, target)]
        order = torch.randperm(len(target), generator=generator)
        held = max(1, round(self.held_out * len(target)))
        out, fit = [each[order[:held]] for each in data], order[held:]
        optimiser = torch.optim.AdamW(
            network.parameters(), lr=self.lr, weight_decay=self.weight_decay, fused=True
        )
        # A running mean of the weights is judged and kept: single steps jump about, most of all high quantiles.
        smooth = copy.deepcopy(network)
        moving, followed = [p.data for p in smooth.parameters()], [p.data for p in network.parameters()]
        best, state, waited = _mean_loss(smooth, out, loss), [each.clone() for each in moving], 0
        for _ in range(self.epochs):
            for rows in fit[torch.randperm(len(fit), generator=generator)].split(self.batch):
                optimiser.zero_grad(set_to_none=True)
                loss(network(*(each[rows] for each in data[:-1])), data[-1][rows]).backward()
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimiser.step()
                for mean, value in zip(moving, followed, strict=True):
                    mean.lerp_(value, _FOLLOW)
            now = _mean_loss(smooth, out, loss)
            if now < best:
                best, state, waited = now, [each.clone() for each in moving], 0
            else:
                waited += 1
                if waited >= self.patience:
                    break
        for parameter, kept in zip(moving, state, strict=True):
            parameter.copy_(kept)
        return smooth.double().eval()


def predict(network: nn.Module, inputs: Sequence[np.ndarray]) -> Float[np.ndarray, "n output"]:
    """Outputs in float64, in pieces of bounded size."""
    data = [torch.as_tensor(each, dtype=torch.float64) for each in inputs]
    with one_torch_thread(), torch.inference_mode():
        pieces = [network(*piece) for piece in zip(*(each.split(_CHUNK) for each in data), strict=True)]
    return torch.cat(pieces).numpy()


def _mean_loss(network: nn.Module, data: Sequence[Tensor], loss: Callable[[Tensor, Tensor], Tensor]) -> float:
    total, rows = 0.0, len(data[-1])
    with torch.inference_mode():
        for piece in zip(*(each.split(_CHUNK) for each in data), strict=True):
            total += float(loss(network(*piece[:-1]), piece[-1])) * len(piece[-1])
    return total / rows
