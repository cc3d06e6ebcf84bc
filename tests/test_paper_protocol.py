"""The trap of augmented members: a model that never saw them seems to leak, and the flag says why."""

from __future__ import annotations

import numpy as np
import torch

from discreet.defences.augment import Augment
from discreet.mlp import MLP
from discreet.paper_protocol import paper_protocol
from discreet.phase import Setting
from discreet.recipe import Recipe
from discreet.roles import Sizes, deal

ATTACK = (
    "blackbox(learner=\"neural_blackbox(posterior=(32,), label=(8,), fusion=(16,), epochs=25, view='odds')\")"
)


def test_a_model_that_never_saw_the_members_seems_to_leak() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 1600)
    shapes = rng.random((4, 8, 8)) > 0.5
    x = torch.from_numpy(shapes[y] + 0.3 * rng.normal(size=(1600, 8, 8))).float().flatten(1)
    labels = torch.from_numpy(y)
    roles = deal(1600, 2, Sizes(fit=600, loop=4, audit=500, validation=1, test=1))
    given = Setting(MLP((64, 16, 4)), x, labels, roles, Recipe("ce"), 0.5)
    # Fitted by hand: class means as weights, from the noiseless shapes and no sample at all.
    params = MLP((64, 4)).init([0, 1])
    params["0.weight"] = torch.from_numpy(np.stack([shapes.reshape(4, 64) - 0.5] * 2)).float()
    params["0.bias"].zero_()
    found = paper_protocol(
        given, MLP((64, 4)), params, Augment(noise=0.0, pad=2, flip=True, shape=(1, 8, 8)), attack=ATTACK
    )
    assert found.confounded.value > 0.7
    assert abs(found.clean.value - 0.5) < 0.07
    assert found.difference.value > 0.15
    assert "no measure of memorisation" in found.to_json()["flag"]
