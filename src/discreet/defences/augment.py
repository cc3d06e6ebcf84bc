"""Augmentation: other views of the training samples at every step.

A trick of Zhu et al., "Safety and Performance, Why not Both?", Table 8, where it leaks more. Attackers are given the
samples as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad as padded

from discreet._types import Float
from discreet.defences._check import check_range
from discreet.defences._gradients import plain
from discreet.defences._streams import VIEW
from discreet.model_seeds import stream
from discreet.phase import Phase
from discreet.training_paths import Batch

__all__ = ["Augment"]


@dataclass(frozen=True)
class Augment:
    """Add noise; and of images, take a random crop of the padded image, and flip half of them.

    Attributes:
        noise: Standard deviation, in the units of the inputs.
        pad: Pixels of zeros on each side before the crop.
        flip: Whether left and right are swapped at random.
        shape: Channels, height and width of images that are given as rows; None: inputs have that shape themselves.
    """

    noise: float | int = 0.1
    pad: int = 0
    flip: bool = False
    shape: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        check_range("noise", self.noise, 0)
        check_range("pad", self.pad, 0)

    @property
    def needs_teacher(self) -> bool:
        """No."""
        return False

    def apply(self, phase: Phase) -> Phase:
        """See ``Defence``.

        Raises:
            ValueError: Inputs that are no numbers, or no images where a crop or a flip is wanted.
        """
        if not phase.x.is_floating_point():
            raise ValueError(f"augment: expected inputs that are real numbers, got {phase.x.dtype}")
        features = tuple(phase.x.shape[1:])
        if self.pad or self.flip:
            shape = features if self.shape is None else self.shape
            if len(shape) != 3 or int(np.prod(shape)) != int(np.prod(features)):
                raise ValueError(
                    "augment: pad and flip are for images; expected inputs [sample, channel, height, width] or a"
                    f" shape of {int(np.prod(features))} pixels in all, got inputs {list(features)} and shape"
                    f" {self.shape}"
                )
        return replace(phase, views=(*phase.views, self.view), steps=phase.steps or plain)

    def view(self, batch: Batch) -> Batch:
        """The batch as it is seen at its step: by seed, model, epoch and step alone."""
        epoch = batch.epoch
        rows = [
            self._one(x, stream(epoch.seed, model, VIEW, epoch.number, batch.number))
            for x, model in zip(batch.x, epoch.models, strict=True)
        ]
        return replace(batch, x=torch.stack(rows))

    def _one(self, x: Float[Tensor, " batch *features"], draw: np.random.Generator) -> Tensor:
        if self.pad or self.flip:
            x = self._moved(x if self.shape is None else x.view(-1, *self.shape), draw).reshape(x.shape)
        if self.noise:
            x = x + torch.from_numpy(draw.normal(0, self.noise, x.shape)).to(x.dtype)
        return x

    def _moved(self, x: Float[Tensor, "batch channel height width"], draw: np.random.Generator) -> Tensor:
        many, _, height, width = x.shape
        down, right = (torch.from_numpy(draw.integers(0, 2 * self.pad + 1, many)) for _ in range(2))
        turned = torch.from_numpy(draw.integers(0, 2, many).astype(bool) & self.flip)
        rows = down[:, None] + torch.arange(height)
        across = torch.arange(width).expand(many, -1)
        columns = right[:, None] + torch.where(turned[:, None], across.flip(1), across)
        wide = padded(x, (self.pad,) * 4)
        sample = torch.arange(many)[:, None, None]
        return wide[sample, :, rows[:, :, None], columns[:, None]].movedim(-1, 1)
