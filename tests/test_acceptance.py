"""Trained models, real quantizers: what the indicator says of trajectories that should not be trusted."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import discreet  # noqa: E402
from discreet.records import Record  # noqa: E402


def trained(lr: float, epochs: int, quantizers: list[str], *, runs: int = 4, shift: float = 0.5) -> Record:
    """Records of networks trained on overlapping Gaussian clusters, each on its own sample."""
    from discreet.mlp import MLP
    from discreet.recipe import Recipe
    from discreet.recorder import Recorder
    from discreet.training import train

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 64 * runs + 800)
    x = (rng.standard_normal((len(y), 16)) + shift * (2 * y[:, None] - 1)).astype(np.float32)
    network = MLP((16, 32, 1))
    fresh = slice(64 * runs, None)
    recorder = Recorder(
        x[fresh],
        y[fresh],
        quantizers,
        run=[str(i) for i in range(runs)],
        model=network,
        about={"n_train": 64},
    )
    subsets = np.arange(64 * runs).reshape(runs, 64)
    recipe = Recipe(lr=lr, epochs=epochs, batch_size=16)
    train(network, x, y, subsets, recipe, on_checkpoint=recorder.step_stack)
    return recorder.record()


def test_training_that_stops_early_is_not_converged_and_long_training_is() -> None:
    early = discreet.rank(trained(1e-4, 12, ["full", "uniform(bits=5)"]))
    assert all("not-converged" in found.diagnostics for found in early.indicators)
    late = discreet.rank(trained(1e-2, 40, ["full", "uniform(bits=5)"]))
    assert all("not-converged" not in found.diagnostics for found in late.indicators)


def test_a_quantizer_that_never_moves_never_ranks_as_safe() -> None:
    """Steps too small to turn a sign: every checkpoint is one configuration, while full precision moves."""
    found = discreet.rank(trained(3e-7, 6, ["full", "sign"]))
    assert (found["sign"].status, found["sign"].r, found["sign"].runs_undefined) == ("undefined", None, 4)
    assert found.indicators[-1].variant == "sign"
    assert found["full"].status == "ok"
    assert [(pair.safer, pair.probability, pair.told_apart) for pair in found.pairwise] == [
        ("full", None, False)
    ]


def test_an_unscaled_sign_network_is_worse_than_a_constant_and_says_so() -> None:
    found = discreet.rank(trained(1e-2, 20, ["full", "sign", "sign(scale='absmean')"], shift=0.1))
    assert "worse-than-constant" in found["sign"].diagnostics
    assert "worse-than-constant" not in found["sign(scale='absmean')"].diagnostics
