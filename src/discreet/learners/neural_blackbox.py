"""Zhu et al., "Safety and Performance, Why not Both?" (2022), Figure 2: a network reads answers and labels.

Three streams of fully connected layers: one for the model's probabilities, one for the label, and one that fuses
the two into the logit of membership. The text gives Adam with rate 0.001, batches of 128 with as many members as
non-members, 100 epochs. Where it is silent or was changed:

- It initialises all weights from N(0, 0.01); the network then stands still for its first epochs, so the default is
  He's initialisation (``weight_std=0.01`` is the paper's).
- It feeds probabilities class by class, of which the true one is hard to find and those near 1 look alike; the
  default is log-odds with the true class first (``view="plain"`` is the paper's).
- It does not say which epoch's attacker is used. Here a part of the known samples is held out and chooses, never
  the samples that the attacker is judged on.
- The smaller of the two known groups is repeated, so that every known sample is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from discreet._types import Float
from discreet.attacks._references import check_choice
from discreet.learners._attacker import Attacker, Streams, check_settings, fit
from discreet.learners._evidence import Evidence
from discreet.learners._streams import VIEWS, check_widths, label_stream, layers, posterior_stream

__all__ = ["NeuralBlackbox"]


@dataclass(frozen=True)
class NeuralBlackbox:
    """Attack network on outputs and labels.

    Attributes:
        posterior: Widths of the layers that read the model's answer.
        label: Widths of the layers that read the label.
        fusion: Widths of the layers that read both results; a last one gives the logit.
        view: How the answer is written: ``"odds"``, or ``"plain"`` (the paper's) or ``"ranked"`` probabilities.
        epochs: Most passes over the larger known group, from scratch.
        tune: The same when it starts from another attacker.
        lr: Adam's rate.
        batch_size: Samples in a batch, half of them members.
        held_out: Share of the known samples that chooses the epoch; 0 keeps the last one.
        patience: Epochs without a better held-out cross-entropy after which it stops; 0: never.
        weight_std: Deviation of the initial weights; None: He's.

    Example:
        A safety test needs the model's answers as arrays or tensors, and no record.

        >>> from discreet.learners import Evidence
        >>> rng = np.random.default_rng(0)
        >>> member = np.arange(400) < 200
        >>> z = rng.normal(size=(400, 1)) + 2 * member[:, None]  # one logit; members' is higher
        >>> seen = Evidence(z, np.ones(400, int))
        >>> known = np.arange(400) % 2 == 0
        >>> learner = NeuralBlackbox(posterior=(32,), label=(8,), fusion=(16,), epochs=20)
        >>> attacker = learner.fit(seen.take(np.flatnonzero(known)), member[known], seed=0)
        >>> score = attacker.score(seen)
        >>> bool(score[member & ~known].mean() > score[~member & ~known].mean() + 1)
        True
        >>> again = learner.fit(seen, member, seed=1, init=attacker)  # fine-tuned, say to another variant
        >>> len(again.history) <= 1 + learner.tune
        True
    """

    posterior: tuple[int, ...] = (1024, 512, 64)
    label: tuple[int, ...] = (512, 64)
    fusion: tuple[int, ...] = (256, 64)
    view: str = "odds"
    epochs: int = 100
    tune: int = 5
    lr: float = 1e-3
    batch_size: int = 128
    held_out: float = 0.2
    patience: int = 10
    weight_std: float | None = None

    def __post_init__(self) -> None:
        check_widths(posterior=self.posterior, label=self.label, fusion=self.fusion)
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
            inputs: What the model says about them.
            member: Which of them trained the model, true or false [sample]; both kinds are there.
            seed: Settles the held-out part, the first weights and the batches.
            init: Start from this attacker, for ``tune`` epochs, instead of from scratch.

        Raises:
            ValueError: Shapes that do not fit, one kind of sample only, or an ``init`` for other widths.
        """
        return fit(self, inputs, member, seed, init)

    def streams(self, evidence: Evidence, scale: float | None) -> tuple[Streams, float]:
        """Inputs of the network."""
        del scale
        return {"posterior": posterior_stream(evidence, self.view), "label": label_stream(evidence)}, 1.0

    def network(self, streams: Streams) -> nn.Module:
        """Untrained network for inputs of these widths."""
        return _Network(self, streams["posterior"].shape[1])


class _Network(nn.Module):
    def __init__(self, learner: NeuralBlackbox, classes: int) -> None:
        super().__init__()
        self.posterior = layers((classes, *learner.posterior))
        self.label = layers((classes, *learner.label))
        self.fusion = layers((learner.posterior[-1] + learner.label[-1], *learner.fusion))
        self.last = nn.Linear(learner.fusion[-1], 1)

    def forward(self, streams: Streams) -> Float[Tensor, " sample"]:
        read = [self.posterior(streams["posterior"]), self.label(streams["label"])]
        return self.last(self.fusion(torch.cat(read, dim=1)))[:, 0]
