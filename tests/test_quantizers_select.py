"""What is quantized and what is kept: layers, scopes, patterns, tied weights; and broken promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from discreet.quantizers import (
    Codes,
    Indices,
    Multiples,
    QuantizerError,
    Raw,
    Select,
    quantize,
    quantize_stack,
)

WEIGHTS = "sign(scope='weights')"


class Net(nn.Module):
    """One layer of each kind that matters here."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(7, 4)
        self.conv = nn.Conv1d(4, 4, 3)
        self.norm = nn.BatchNorm1d(4)
        self.mix = nn.Parameter(torch.randn(4, 4))
        self.register_buffer("mask", torch.randn(4, 4))
        self.head = nn.Linear(4, 7)
        self.head.weight = self.embed.weight


def test_a_module_tells_its_layers_apart() -> None:
    net = Net()
    done = quantize(net, WEIGHTS)
    assert done.quantized == ("embed.weight", "conv.weight", "head.weight")
    assert dict(done.reasons) == {
        "mix": "outside scope 'weights'",
        "conv.bias": "outside scope 'weights'",
        "norm.weight": "outside scope 'weights'",
        "norm.bias": "outside scope 'weights'",
        "head.bias": "outside scope 'weights'",
        "norm.running_mean": "a buffer, not a parameter",
        "norm.running_var": "a buffer, not a parameter",
        "mask": "a buffer, not a parameter",
        "norm.num_batches_tracked": "int64 is not quantized",
    }
    net.load_state_dict(dict(done.dense))
    assert net.head.weight is net.embed.weight
    assert net.embed.weight.unique().tolist() == [-1, 1]


def test_all_means_every_parameter_and_no_buffer() -> None:
    done = quantize(Net(), "sign")
    assert set(done.kept) == {"norm.running_mean", "norm.running_var", "mask", "norm.num_batches_tracked"}
    assert {"mix", "conv.bias", "norm.weight", "head.bias"} <= set(done.quantized)


def test_a_bare_state_goes_by_axes_and_the_names_of_running_statistics() -> None:
    state = Net().state_dict()
    done = quantize(state, WEIGHTS)
    assert done.quantized == ("mix", "mask", "embed.weight", "conv.weight", "head.weight")
    assert quantize(state, "sign").kept == (
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    )


def test_a_stack_counts_axes_without_its_own() -> None:
    params = {"w": torch.randn(3, 2, 2), "b": torch.randn(3, 2), "scale": torch.randn(3)}
    dense = quantize_stack(params, WEIGHTS)
    assert dense["w"].abs().unique().tolist() == [1]
    assert dense["b"] is params["b"]
    assert dense["scale"] is params["scale"]
    assert quantize_stack(params, "sign")["scale"].abs().unique().tolist() == [1]


def test_a_stack_may_be_told_the_module_it_comes_from() -> None:
    net = Net()
    params = {name: tensor[None] for name, tensor in net.state_dict().items()}
    for spec in (WEIGHTS, "uniform(bits=3)"):
        together, alone = quantize_stack(params, spec, module=net), quantize(net, spec).dense
        assert all(torch.equal(together[name][0], alone[name]) for name in params)


def test_patterns() -> None:
    state = {name: torch.randn(2, 2) for name in ("a.weight", "a.bias", "b.weight", "b.bias")}
    assert quantize(state, "sign", select="*.weight").quantized == ("a.weight", "b.weight")
    assert quantize(state, "sign", select=["a.*", "b.bias"]).quantized == ("a.weight", "a.bias", "b.bias")
    done = quantize(state, "sign", select=Select(include=("*.weight",), exclude=("b*",)))
    assert done.quantized == ("a.weight",)
    assert dict(done.reasons) == {"a.bias": "not included", "b.weight": "excluded", "b.bias": "not included"}
    stack = {name: tensor[None] for name, tensor in state.items()}
    assert quantize_stack(stack, "sign", select="a.bias")["b.bias"] is stack["b.bias"]


def test_tied_weights_are_one_tensor() -> None:
    torch.manual_seed(1)
    shared, other = torch.randn(4, 3), torch.randn(5)
    state = {"z": shared, "other": other, "a": shared}
    done = quantize(state, "ternary(zeros=0.5)")
    # Counted once, the model has 17 weights, of which 8 are dropped.
    once = quantize({"a": shared, "other": other}, "ternary(zeros=0.5)")
    assert done.dense["a"] is done.dense["z"]
    assert torch.equal(done.dense["a"], once.dense["a"])
    assert (done.weights, done.quantized) == (17, ("z", "other", "a"))
    assert done.bits_per_weight == once.bits_per_weight
    models = {name: tensor[None] for name, tensor in (("a", shared), ("other", other))}
    stack = quantize_stack({"z": models["a"], **models}, "ternary(zeros=0.5)")
    assert torch.equal(stack["z"][0], once.dense["a"])


def test_excluding_one_name_of_a_tied_weight_keeps_it_under_all() -> None:
    net = Net()
    done = quantize(net, WEIGHTS, select=Select(exclude=("head.*",)))
    assert done.quantized == ("conv.weight",)
    assert done.reasons["embed.weight"] == "tied to head.weight, which is excluded"
    assert torch.equal(done.dense["embed.weight"], net.embed.weight)


def test_two_tensors_in_one_storage_are_two() -> None:
    flat = torch.tensor([1.0, -2.0, 3.0, 4.0])
    done = quantize({"a": flat[:2], "b": flat[2:]}, "sign(granularity='tensor', scale='absmean')")
    assert done.dense["a"].tolist() == [1.5, -1.5]
    assert done.dense["b"].tolist() == [3.5, 3.5]


def test_empty_tensors_are_kept() -> None:
    done = quantize({"none": torch.zeros(0, 3), "w": torch.ones(2)}, "sign")
    assert dict(done.reasons) == {"none": "empty"}
    assert done.dense["none"].shape == (0, 3)


def test_nothing_is_shared_with_the_input() -> None:
    net = nn.Linear(2, 2)
    done = quantize(net, WEIGHTS)
    bias = done.dense["bias"].clone()
    with torch.no_grad():
        net.bias += 1
    assert torch.equal(done.dense["bias"], bias)
    assert torch.equal(done.packed["kept.bias"], bias)
    assert not any(tensor.requires_grad for tensor in done.dense.values())


@pytest.mark.parametrize(
    ("state", "spec", "message"),
    [
        ({}, "sign", "there is nothing to quantize: the state holds no tensors"),
        (nn.ReLU(), "sign", "there is nothing to quantize: the state holds no tensors"),
        (
            {"n": torch.arange(3)},
            "sign",
            "no tensor is left to quantize; all 1 are kept (int64 is not quantized)",
        ),
        (
            {"a": torch.ones(3), "running_var": torch.ones(3)},
            WEIGHTS,
            "no tensor is left to quantize; all 2 are kept "
            "(a buffer, not a parameter, outside scope 'weights')",
        ),
        (
            {"w": torch.ones(2, device="meta")},
            "sign",
            "tensor 'w' must be dense and hold data, got torch.strided on meta",
        ),
        (
            {"w": torch.ones(2, 2).to_sparse()},
            "sign",
            "tensor 'w' must be dense and hold data, got torch.sparse_coo on cpu",
        ),
    ],
)
def test_states_without_anything_to_quantize(state: object, spec: str, message: str) -> None:
    with pytest.raises(QuantizerError) as caught:
        quantize(state, spec)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_patterns_that_match_nothing() -> None:
    state = {"head.weight": torch.ones(2), "body.weight": torch.ones(2)}
    with pytest.raises(
        QuantizerError, match=r"^pattern 'haed.w\*' matches no tensor; did you mean 'head.weight'\?$"
    ):
        quantize(state, "sign", select=Select(exclude=("haed.w*",)))
    with pytest.raises(QuantizerError, match=r"^pattern 'zzz' matches no tensor$"):
        quantize(state, "sign", select="zzz")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"a": torch.ones(2, 3), "b": torch.ones(3)}, "'a' has shape (2, 3), 'b' (3,)"),
        ({"a": torch.ones(()), "b": torch.ones(3)}, "'a' has shape (), 'a' ()"),
        ({"a": torch.ones(0, 3)}, "'a' has shape (0, 3), 'a' (0, 3)"),
    ],
)
def test_stacks_that_disagree_on_the_number_of_models(params: dict[str, Tensor], message: str) -> None:
    with pytest.raises(QuantizerError) as caught:
        quantize_stack(params, "sign")
    expected = "tensors need a leading axis of the same number of models, at least 1: "
    assert str(caught.value) == expected + message


@dataclass(frozen=True)
class Fake:
    """A quantizer that returns what it is told to."""

    make: Callable[[Tensor], object]
    levels: int | None = 2
    granularity: str = "tensor"
    scope: str = "all"

    def encode(self, groups: Tensor) -> Codes:
        return self.make(groups)  # type: ignore[return-value]


class Fickle(Multiples):
    """Dense weights that the codes do not say."""

    def dense(self) -> Tensor:
        return self.numbers * 1.5


class Unbounded(Multiples):
    """Dense weights of any value."""

    def dense(self) -> Tensor:
        return self.numbers * torch.arange(1.0, self.numbers.numel() + 1).view_as(self.numbers)


ROW = torch.tensor([0.3, -0.2, 0.7, 0.9])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Raw, "promised at most 2 levels per group, returned raw weights"),
        (
            lambda g: Multiples(g.sign(), 1, zero=True),
            "promised at most 2 levels per group, returned codes for 3",
        ),
        (
            lambda g: Multiples(3 * g.sign(), 1, zero=False),
            "codes reach 3 in magnitude, promised was 1 at most",
        ),
        (lambda g: Multiples(g / g.abs().amax(), 1, zero=False), "codes are not whole numbers"),
        (lambda g: Multiples(0 * g, 1, zero=False), "a code is 0, which is no level of this quantizer"),
        (
            lambda g: Multiples(g.sign()[:, :2], 1, zero=False),
            "codes stand for torch.float32 (1, 2) [group, weight], expected torch.float32 (1, 4)",
        ),
        (
            lambda g: Multiples(g.sign().double(), 1, zero=False),
            "codes stand for torch.float64 (1, 4) [group, weight], expected torch.float32 (1, 4)",
        ),
        (lambda g: g.sign(), "encode must return Affine, Multiples, Indices or Raw, got Tensor"),
        (
            lambda g: Indices(torch.tensor([[0, 1, 2, 0]]), torch.ones(1, 2, 1), 4),
            "codes run from 0 to 2, the codebook has 2 entries",
        ),
        (lambda g: Indices(torch.tensor([[0, 1]]), torch.ones(1, 2, 1), 4), "2 blocks of 1 for 4 weights"),
    ],
)
def test_broken_promises_are_errors(make: Callable[[Tensor], object], message: str) -> None:
    for call in (
        lambda fake: quantize({"w": ROW}, fake),
        lambda fake: quantize_stack({"w": ROW[None]}, fake),
    ):
        with pytest.raises(QuantizerError) as caught:
            call(Fake(make))
        assert str(caught.value).partition("): ")[2] == message


def test_values_are_counted_and_not_only_codes() -> None:
    with pytest.raises(
        QuantizerError, match=r"changed group 0, which holds 4 distinct values; promised were at most 2$"
    ):
        quantize({"w": ROW}, Fake(lambda groups: Unbounded(groups.sign(), 1, zero=False)))


def test_weights_returned_unchanged_are_an_error_unless_they_lie_on_such_a_grid() -> None:
    class Idle(Multiples):
        def dense(self) -> Tensor:
            return given["w"][None]

    given = {"w": ROW}
    with pytest.raises(
        QuantizerError, match=r"did not change group 0, which holds 4 distinct values; promised"
    ):
        quantize(given, Fake(lambda groups: Idle(groups.sign(), 1, zero=False)))
    on_grid = {"w": torch.tensor([1.0, -1.0, -1.0])}
    assert torch.equal(quantize(on_grid, "sign").dense["w"], on_grid["w"])


def test_a_stored_form_that_reads_back_differently_is_an_error() -> None:
    with pytest.raises(QuantizerError, match=r"the stored form reads back differently in 4 weights$"):
        quantize({"w": ROW}, Fake(lambda groups: Fickle(groups.sign(), 1, zero=False)))
