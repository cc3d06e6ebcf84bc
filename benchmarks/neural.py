"""The neural attack as a safety test: fine-tune and score 10,000 records, beside training from scratch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from discreet.learners._attacker import Attacker
from discreet.learners._evidence import Evidence
from discreet.learners.neural_blackbox import NeuralBlackbox
from discreet.learners.neural_whitebox import NeuralWhitebox
from discreet.stats import auc
from tuning.rates import Took, timed

RECORDS, FEATURES, HIDDEN = 10_000, 64, 128


@dataclass(frozen=True)
class Target:
    """A network that has learnt the first half of the records by heart, and the same one in five bits a weight."""

    full: Evidence
    coarse: Evidence
    member: np.ndarray

    @property
    def known(self) -> np.ndarray:
        """Half of the members and half of the others."""
        return np.arange(RECORDS) % 2 == 0


def target(classes: int, epochs: int = 15) -> Target:
    """Train on noisy clusters, one a class; two classes are one logit."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(classes, (RECORDS,), generator=generator)
    x = torch.randn(classes, FEATURES, generator=generator)[y]
    x = x + 3 * torch.randn(RECORDS, FEATURES, generator=generator)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))
    optimizer = torch.optim.Adam(net.parameters(), 2e-3, fused=True)
    for _ in range(epochs):
        for rows in torch.randperm(RECORDS // 2).split(64):
            optimizer.zero_grad()
            cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
    full = seen(net, x, y)
    with torch.no_grad():
        for layer in (net[0], net[2]):
            step = layer.weight.abs().max() / 15
            layer.weight.copy_((layer.weight / step).round() * step)
    return Target(full, seen(net, x, y), np.arange(RECORDS) < RECORDS // 2)


def seen(net: nn.Sequential, x: torch.Tensor, y: torch.Tensor) -> Evidence:
    """What the network says; two logits as one, their difference."""
    with torch.no_grad():
        hidden = net[:2](x)
        outputs = net[2](hidden)
    outputs = outputs[:, 1:] - outputs[:, :1] if outputs.shape[1] == 2 else outputs
    return Evidence(outputs, y, hidden, np.arange(len(y)))


def report(classes: int, learner: NeuralBlackbox | NeuralWhitebox) -> None:
    """Print seconds, their ratio, and how well either attacker tells the unknown half."""
    data = target(classes)
    rows, judged = np.flatnonzero(data.known), ~data.known
    start = learner.fit(data.full.take(rows), data.member[rows], seed=0)
    found: dict[str, Attacker] = {}

    def fit(name: str, init: Attacker | None) -> Took:
        def work() -> None:
            found[name] = learner.fit(data.coarse.take(rows), data.member[rows], seed=0, init=init)

        return timed(work, 1)

    scratch, tuned = fit("scratch", None), fit("tuned", start)
    scored = timed(lambda: found["tuned"].score(data.coarse), 1)
    scores = {name: attacker.score(data.coarse)[judged] for name, attacker in found.items()}
    areas = {name: auc(values, data.member[judged]).value for name, values in scores.items()}
    total = Took(tuned.wall + scored.wall, tuned.core + scored.core)
    print(
        f"{type(learner).__name__}, {classes} classes: fine-tune {tuned.core:.1f} s"
        f" ({len(found['tuned'].history) - 1} epochs), score {RECORDS:,} records {scored.core:.1f} s,"
        f" together {total.core:.1f} s of one core; from scratch {scratch.core:.1f} s"
        f" ({len(found['scratch'].history)} epochs): {scratch.core / tuned.core:.1f} times as long;"
        f" AUC {areas['tuned']:.3f}, from scratch {areas['scratch']:.3f}"
    )


def main() -> None:
    """Print the ratios."""
    torch.set_num_threads(1)
    for classes in (2, 100):
        report(classes, NeuralBlackbox())
        report(classes, NeuralWhitebox())


if __name__ == "__main__":
    main()
