"""What is masked, how masks are drawn, and what the first weights are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from discreet.mlp import MLP
from discreet.sparse import (
    SparseError,
    check_masks,
    check_zeros,
    close,
    counts,
    dead_units,
    draw_masks,
    maskable,
    rescale,
)

SHAPES = {"0.weight": (6, 5), "2.weight": (3, 6)}
COUNTS = {"0.weight": 9, "2.weight": 4}


class Text(nn.Module):
    """An embedding tied to the head, as language models have it."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 4)
        self.norm = nn.LayerNorm(4)
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 11, bias=False)
        if tied:
            self.head.weight = self.embed.weight


def test_linear_and_convolution_weights_and_nothing_else() -> None:
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ConvTranspose2d(4, 2, 2),
        nn.GroupNorm(1, 2),
        nn.Linear(8, 3),
    )
    found = maskable(module)
    assert found.shapes == {"0.weight": (4, 1, 3, 3), "2.weight": (4, 2, 2, 2), "4.weight": (3, 8)}
    assert set(found.kept.values()) == {"a bias, norm or other vector"}
    assert found.normed
    text = maskable(Text(tied=False))
    assert list(text.shapes) == ["body.weight", "head.weight"]
    assert text.kept["embed.weight"] == "not included"
    assert maskable(MLP((8, 4, 1))).shapes == {"0.weight": (4, 8), "2.weight": (1, 4)}
    assert not maskable(lambda: nn.Linear(2, 2)).normed


def test_patterns() -> None:
    module = Text(tied=False)
    assert list(maskable(module, exclude=("head.*",)).shapes) == ["body.weight"]
    assert list(maskable(module, include=("embed.*", "b*")).shapes) == ["embed.weight", "body.weight"]
    with pytest.raises(
        SparseError, match=r"^include: the pattern 'norm.\*' matches no tensor of two or more axes"
    ):
        maskable(module, include=("norm.*",))
    with pytest.raises(
        SparseError, match=r"^exclude: the pattern 'heat.\*' matches no parameter; did you mean 'head"
    ):
        maskable(module, exclude=("heat.*",))


def test_tied_tensors_count_once_or_are_refused() -> None:
    module = Text(tied=True)
    with pytest.raises(
        SparseError, match=r"^model: 'head.weight' is tied to 'embed.weight', which is kept; exclude"
    ):
        maskable(module)
    assert list(maskable(module, exclude=("embed.weight",)).shapes) == ["body.weight"]
    both = maskable(module, include=("*.weight",))
    assert list(both.shapes) == ["embed.weight", "body.weight"]
    assert both.tied == {"head.weight": "embed.weight"}
    twice = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    twice[1].weight = twice[0].weight
    assert maskable(twice).tied == {"1.weight": "0.weight"}


def test_frozen_layers_and_models_without_layers_are_refused() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    module[0].weight.requires_grad_(False)
    with pytest.raises(
        SparseError, match=r"^model: '0.weight' is frozen \(requires_grad is False\); unfreeze it, or"
    ):
        maskable(module)
    assert list(maskable(module, exclude=("0.*",)).shapes) == ["1.weight"]
    with pytest.raises(SparseError, match=r"^model: nothing to mask: .* \(a bias, norm or other vector\)$"):
        maskable(nn.BatchNorm1d(3))
    with pytest.raises(SparseError, match=r"\(it has no parameters\)$"):
        maskable(nn.ReLU())
    with pytest.raises(SparseError, match=r"'weight' has no shape yet; run the model once"):
        maskable(nn.LazyLinear(3))


def test_masks_have_exact_counts_and_come_from_each_models_own_seed() -> None:
    masks = draw_masks(SHAPES, COUNTS, [4, 0, 7], seed=3)
    for name, mask in masks.items():
        assert mask.dtype == torch.bool
        assert mask.flatten(1).sum(1).tolist() == [COUNTS[name]] * 3
        for row, model in enumerate([4, 0, 7]):
            assert torch.equal(draw_masks(SHAPES, COUNTS, [model], seed=3)[name][0], mask[row])
        assert len({each.numpy().tobytes() for each in mask}) == 3
    other = draw_masks(SHAPES, COUNTS, [4, 0, 7], seed=4)
    assert not torch.equal(other["0.weight"], masks["0.weight"])


def test_every_weight_is_drawn_as_often_as_any_other() -> None:
    many = draw_masks({"w": (4, 5)}, {"w": 5}, range(4000))["w"].flatten(1).double()
    # Binomial(4000, 1/4): standard error .0068; 20 positions.
    assert (many.mean(0) - 0.25).abs().max() < 4 * 0.0068
    # Without replacement two positions exclude each other a little: 1/4 * 4/19.
    pair = (many[:, 0] * many[:, 1]).mean()
    assert abs(float(pair) - 5 / 20 * 4 / 19) < 4 * np.sqrt(0.0526 * 0.947 / 4000)


def test_rescaled_weights_keep_the_variance_of_a_units_sum() -> None:
    shapes = {"w": (400, 300)}
    kept = counts(shapes, 0.1)
    generator = torch.Generator().manual_seed(0)
    stack = {
        "w": torch.randn(2, 400, 300, generator=generator),
        "b": torch.randn(2, 400, generator=generator),
    }
    masks = draw_masks(shapes, kept, [0, 1])
    made = close(rescale(stack, shapes, kept), masks)
    assert torch.equal(made["b"], stack["b"])
    assert made["b"] is not stack["b"]
    assert torch.equal(made["w"] != 0, masks["w"])
    sums = made["w"].square().sum(2).mean()
    assert float(sums) == pytest.approx(300, rel=0.02)


def test_masks_that_drift_and_weights_that_come_back_are_noticed() -> None:
    masks = draw_masks(SHAPES, COUNTS, [5, 6])
    check_masks(masks, SHAPES, COUNTS, [5, 6])
    stack = {name: mask.double() for name, mask in masks.items()}
    check_zeros(stack, masks, [5, 6])
    row = int((~masks["2.weight"][1]).flatten().nonzero()[0])
    stack["2.weight"][1].view(-1)[row] = -1e-30
    with pytest.raises(
        SparseError, match=r"^masks: 1 weights of '2.weight' of model 6 are not 0 although they are"
    ):
        check_zeros(stack, masks, [5, 6])
    masks["2.weight"][1].view(-1)[row] = True
    message = r"^masks: expected 4 weights of '2.weight' in use at every moment, model 6 has 5$"
    with pytest.raises(SparseError, match=message):
        check_masks(masks, SHAPES, COUNTS, [5, 6])
    with pytest.raises(SparseError, match=r"expected a mask of shape \[2, 6, 5\] for '0.weight', got none$"):
        check_masks({}, SHAPES, COUNTS, [5, 6])


def test_dead_units_are_counted_by_model() -> None:
    masks = draw_masks({"a": (9, 4), "b": (5, 2, 3, 3)}, {"a": 7, "b": 6}, [0, 1])
    for name, found in dead_units(masks).items():
        for row in range(2):
            assert int(found[row]) == sum(not bool(unit.any()) for unit in masks[name][row])
    assert int(dead_units(masks)["a"].min()) >= 2
