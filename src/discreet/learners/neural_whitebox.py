"""Zhu et al., "Safety and Performance, Why not Both?" (2022), Figure 6: a network also reads loss and gradient.

Five streams: the model's probabilities in falling order, the loss, the gradient of the last layer's weight (one
convolution, then fully connected layers), the one-hot label, and one that fuses the four. The gradient is the outer
product of softmax - onehot and what the last layer takes in, so it is never kept and its convolution is a
product of thin matrices (:mod:`discreet.learners._outer`).

The text gives no widths, and the rest as for the black box (:mod:`discreet.learners.neural_blackbox`, where the
changes are told that apply here too). Beside these:

- The gradient is divided by its root mean square over the samples first trained on: it shrinks by orders of
  magnitude as a model learns its data by heart.
- The loss goes in as log p - log(1 - p) of the true class (through asinh): it falls strictly as the loss rises and
  still tells losses apart that round to 0.
- One-logit models have one row of weights: their gradient is (sigmoid - label) times the input.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from discreet._types import Float
from discreet.attacks._references import check_choice
from discreet.learners._attacker import Attacker, Streams, check_settings, fit
from discreet.learners._evidence import Evidence, log_odds, residual, squashed
from discreet.learners._outer import OuterConvolution
from discreet.learners._streams import VIEWS, check_widths, label_stream, layers, posterior_stream

__all__ = ["NeuralWhitebox"]


@dataclass(frozen=True)
class NeuralWhitebox:
    """Attack network on outputs, labels, losses and last-layer gradients.

    Attributes:
        posterior: Widths of the layers that read the model's answer.
        loss: Widths of the layers that read the loss.
        gradient: Widths of the layers after the convolution of the gradient.
        label: Widths of the layers that read the label.
        fusion: Widths of the layers that read the four results; a last one gives the logit.
        kernel: Side of the convolution's window, odd.
        view: How the answer is written: ``"ranked"`` probabilities (the paper's), ``"plain"`` ones or ``"odds"``.
        epochs: Most passes over the larger known group, from scratch.
        tune: The same when it starts from another attacker.
        lr: Adam's rate.
        batch_size: Samples in a batch, half of them members.
        held_out: Share of the known samples that chooses the epoch; 0 keeps the last one.
        patience: Epochs without a better held-out cross-entropy after which it stops; 0: never.
        weight_std: Deviation of the initial weights; None: He's.

    Example:
        >>> from discreet.learners import Evidence
        >>> rng = np.random.default_rng(0)
        >>> member = np.arange(200) < 100
        >>> z, hidden = rng.normal(size=(200, 3)), rng.normal(size=(200, 6)) + member[:, None]
        >>> seen = Evidence(z, rng.integers(0, 3, 200), hidden)
        >>> score = NeuralWhitebox(epochs=3, tune=1).fit(seen, member, seed=0).score(seen)
        >>> score.shape, score.dtype
        ((200,), dtype('float64'))
    """

    posterior: tuple[int, ...] = (128, 64)
    loss: tuple[int, ...] = (128, 64)
    gradient: tuple[int, ...] = (256, 128, 64)
    label: tuple[int, ...] = (128, 64)
    fusion: tuple[int, ...] = (256, 128, 64)
    kernel: int = 5
    view: str = "ranked"
    epochs: int = 100
    tune: int = 5
    lr: float = 1e-3
    batch_size: int = 128
    held_out: float = 0.2
    patience: int = 10
    weight_std: float | None = None

    def __post_init__(self) -> None:
        widths = {"posterior": self.posterior, "loss": self.loss, "gradient": self.gradient}
        check_widths(**widths, label=self.label, fusion=self.fusion)
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise ValueError(f"kernel: expected an odd number of at least 1, got {self.kernel}")
        check_choice("view", self.view, VIEWS)
        check_settings(self)

    def fit(
        self,
        inputs: Evidence,
        member: np.ndarray,
        *,
        seed: int,
        init: Attacker | None = None,
    ) -> Attacker:
        """Train on samples whose membership is known.

        Args:
            inputs: What the model says about them, ``hidden`` included.
            member: Which of them trained the model, true or false [sample]; both kinds are there.
            seed: Settles the held-out part, the first weights and the batches.
            init: Start from this attacker, for ``tune`` epochs, instead of from scratch.

        Raises:
            ValueError: No ``hidden``, shapes that do not fit, one kind of sample only, or an ``init`` for other
                widths.
        """
        return fit(self, inputs, member, seed, init)

    def streams(self, evidence: Evidence, scale: float | None) -> tuple[Streams, float]:
        """Inputs of the network; the gradient as its two factors."""
        if evidence.hidden is None:
            raise ValueError(
                "hidden: the white-box attacker needs what the model's last layer takes in, got None"
            )
        rows = np.arange(len(evidence))
        error, hidden = residual(evidence.outputs, evidence.label), evidence.hidden.astype(np.float64)
        if scale is None:
            scale = _root_mean_square(error, hidden)
        confidence = squashed(log_odds(evidence.outputs)[rows, evidence.label])
        return {
            "posterior": posterior_stream(evidence, self.view),
            "loss": torch.from_numpy(confidence[:, None]),
            "label": label_stream(evidence),
            "error": torch.from_numpy(error),
            "hidden": torch.from_numpy(hidden / scale),
        }, scale

    def network(self, streams: Streams) -> nn.Module:
        """Untrained network for inputs of these widths."""
        return _Network(self, {name: values.shape[1] for name, values in streams.items()})


class _Network(nn.Module):
    def __init__(self, learner: NeuralWhitebox, widths: dict[str, int]) -> None:
        super().__init__()
        self.posterior = layers((widths["posterior"], *learner.posterior))
        self.loss = layers((1, *learner.loss))
        self.label = layers((widths["label"], *learner.label))
        self.conv = OuterConvolution(learner.kernel)
        cells = -(-widths["error"] // 2) * -(-widths["hidden"] // 2)
        self.gradient = layers((cells, *learner.gradient))
        last = (learner.posterior, learner.loss, learner.label, learner.gradient)
        self.fusion = layers((sum(each[-1] for each in last), *learner.fusion))
        self.last = nn.Linear(learner.fusion[-1], 1)

    def forward(self, streams: Streams) -> Float[Tensor, " sample"]:
        read = [
            self.posterior(streams["posterior"]),
            self.loss(streams["loss"]),
            self.label(streams["label"]),
            self.gradient(self.conv(streams["error"], streams["hidden"])),
        ]
        return self.last(self.fusion(torch.cat(read, dim=1)))[:, 0]


def _root_mean_square(
    error: Float[np.ndarray, "sample out"], hidden: Float[np.ndarray, "sample feature"]
) -> float:
    """Of all entries of the outer products; 1 where all are 0."""
    largest = np.abs(hidden).max()
    if not largest:
        return 1.0
    sizes = (error**2).mean(axis=1) * ((hidden / largest) ** 2).mean(axis=1)
    return float(largest * np.sqrt(sizes.mean())) or 1.0
