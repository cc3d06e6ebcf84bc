"""A masked module in a loop of one's own: nothing comes back, nothing drifts, nothing is lost in a file."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from discreet.sparse import Masked, Plan, Schedule, SparseError, attach, draw_masks, preset

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.1, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1, foreach=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.9, centered=True, weight_decay=0.1),
}


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 12),
        nn.BatchNorm1d(12),
        nn.ReLU(),
        nn.Linear(12, 3),
    )


def batch(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(10, 1, 6, 6, generator=generator), torch.randint(0, 3, (10,), generator=generator)


def loss(module: nn.Module, seed: int) -> Tensor:
    x, y = batch(seed)
    return cross_entropy(module(x), y)


def slots(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> list[Tensor]:
    return [
        each
        for each in optimizer.state[parameter].values()
        if isinstance(each, Tensor) and each.shape == parameter.shape
    ]


def run(masked: Masked, optimizer: torch.optim.Optimizer, first: int, last: int, total: int) -> None:
    for step in range(first, last + 1):
        optimizer.zero_grad()
        loss(masked.module, step).backward()
        masked.step(optimizer)
        masked.check()
        slopes = masked.gradients([lambda step=step: loss(masked.module, 1000 + step)])
        masked.update(optimizer, step, total, slopes)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_masked_weights_and_every_slot_are_zero_after_each_step(name: str) -> None:
    module = network()
    optimizer = OPTIMIZERS[name](module.parameters())
    loss(module, 1).backward()
    optimizer.step()  # dense, so that every slot is filled
    masked = attach(module, Plan(0.2))
    for step in range(3):
        optimizer.zero_grad()
        loss(module, step).backward()
        masked.step(optimizer)
        masked.check()
        for each, parameter in masked.parameters.items():
            closed = ~masked.masks[each]
            assert int(closed.sum()) > 0
            found = slots(optimizer, parameter)
            assert len(found) >= (1 if name == "sgd" else 2)
            for tensor in (parameter, parameter.grad, *found):
                assert tensor is not None
                assert (tensor[closed] == 0).all()
                assert (tensor[~closed] != 0).any()


@pytest.mark.parametrize("grow", ["gradient", "random", "least_gradient"])
@pytest.mark.parametrize("prune", ["magnitude", "threshold"])
def test_counts_never_change_and_what_grows_begins_at_zero(prune: str, grow: str) -> None:
    plan = Plan(0.2, prune=prune, grow=grow, schedule=Schedule(interval=1), regrow=True)
    masked = attach(network(), plan, seed=3)
    optimizer = OPTIMIZERS["adam"](masked.module.parameters())
    exchanged = 0
    for step in range(1, 25):
        optimizer.zero_grad()
        loss(masked.module, step).backward()
        masked.step(optimizer)
        before = {name: mask.clone() for name, mask in masked.masks.items()}
        slopes = masked.gradients([lambda step=step: loss(masked.module, step)]) if grow != "random" else None
        done = masked.update(optimizer, step, 24, slopes)
        assert (done == {}) == (step >= 18)  # at 18, where masks stay, nothing would be exchanged
        exchanged += sum(done.values())
        for name, mask in masked.masks.items():
            assert int(mask.sum()) == masked.counts[name]
            parameter = masked.parameters[name]
            for tensor in (parameter, *slots(optimizer, parameter)):
                assert (tensor[mask & ~before[name]] == 0).all()
    assert exchanged > 30


def test_a_weight_that_is_dropped_and_taken_back_begins_at_zero() -> None:
    plan = preset("rigl", 0.2, schedule=Schedule(interval=1), regrow=True)
    masked = attach(network(), plan)
    optimizer = OPTIMIZERS["adam"](masked.module.parameters())
    loss(masked.module, 0).backward()
    masked.step(optimizer)
    before = {name: mask.clone() for name, mask in masked.masks.items()}
    slopes = {name: mask.float() for name, mask in before.items()}  # only what is in use seems worth it
    exchanged = masked.update(optimizer, 1, 100, slopes)
    for name, mask in masked.masks.items():
        parameter = masked.parameters[name]
        assert torch.equal(mask, before[name])
        assert exchanged[name] > 0
        assert int((parameter[mask] == 0).sum()) == exchanged[name]
        for slot in slots(optimizer, parameter):
            assert (slot[parameter == 0] == 0).all()


def test_collecting_gradients_leaves_no_trace() -> None:
    masked = attach(network(), preset("rigl", 0.2))
    module = masked.module
    loss(module, 0).backward()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    grads = {name: value.grad.clone() for name, value in module.named_parameters() if value.grad is not None}
    found = masked.gradients([lambda: loss(module, 1), lambda: loss(module, 2)])
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    for name, grad in grads.items():
        after = module.get_parameter(name).grad
        assert after is not None
        assert torch.equal(after, grad)
    with pytest.raises(SparseError, match=r"^losses: expected at least one, got none$"):
        masked.gradients([])
    dense = copy.deepcopy(module)
    dense.zero_grad()
    ((loss(dense, 1) + loss(dense, 2)) / 2).backward()
    for name, slope in found.items():
        torch.testing.assert_close(slope, dense.get_parameter(name).grad)
        assert (slope[~masked.masks[name]] != 0).any()


def test_norms_and_biases_are_never_masked() -> None:
    masked = attach(network(), Plan(0.1))
    assert list(masked.masks) == ["0.weight", "4.weight", "7.weight"]
    fresh = network()
    for name, value in fresh.named_parameters():
        if name not in masked.masks:
            assert torch.equal(value, masked.module.get_parameter(name))
    plain = attach(nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3)), Plan(0.1), seed=1)
    assert torch.equal(
        plain.masks["0.weight"], draw_masks(plain.maskable.shapes, plain.counts, [0], seed=1)["0.weight"][0]
    )


def test_saved_and_loaded_training_gives_the_same_bytes(tmp_path: Any) -> None:
    plan = preset("rigl", 0.2, schedule=Schedule(interval=2))

    def fresh(seed: int) -> tuple[Masked, torch.optim.Optimizer]:
        masked = attach(network(seed), plan, seed=9)
        return masked, OPTIMIZERS["sgd"](masked.module.parameters())

    masked, optimizer = fresh(0)
    run(masked, optimizer, 1, 6, 40)
    torch.save({"module": masked.module.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "half")
    run(masked, optimizer, 7, 40, 40)
    other, again = fresh(1)
    saved = torch.load(tmp_path / "half", weights_only=True)
    other.module.load_state_dict(saved["module"])
    again.load_state_dict(saved["optimizer"])
    run(other, again, 7, 40, 40)
    for name, value in masked.module.state_dict().items():
        assert value.numpy().tobytes() == other.module.state_dict()[name].numpy().tobytes(), name


def test_a_copy_goes_its_own_way() -> None:
    masked = attach(network(), preset("set", 0.2, schedule=Schedule(interval=1)))
    other = replace(masked, module=copy.deepcopy(masked.module))
    optimizer = OPTIMIZERS["sgd"](other.module.parameters())
    before = {name: value.clone() for name, value in masked.module.state_dict().items()}
    assert sum(other.update(optimizer, 1, 10).values()) > 0
    assert all(torch.equal(before[name], value) for name, value in masked.module.state_dict().items())
    assert not torch.equal(other.masks["4.weight"], masked.masks["4.weight"])


def test_what_does_not_fit_is_refused() -> None:
    masked = attach(network(), preset("rigl", 0.2, schedule=Schedule(interval=1)))
    with pytest.raises(SparseError, match=r"^module: '0.weight' is masked already$"):
        attach(masked.module, Plan(0.2))
    stranger = OPTIMIZERS["sgd"](network().parameters())
    with pytest.raises(
        SparseError, match=r"^optimizer: it does not hold '0.weight', which is masked; make it from"
    ):
        masked.step(stranger)
    optimizer = OPTIMIZERS["sgd"](masked.module.parameters())
    with pytest.raises(
        SparseError, match=r"^gradients: Gradient\(\) needs the gradient of every masked tensor"
    ):
        masked.update(optimizer, 1, 10)
    loss(masked.module, 0).backward()
    optimizer.step()  # not masked.step
    with pytest.raises(
        SparseError, match=r"weights of '0.weight' of model 0 are not 0 although they are masked"
    ):
        masked.update(optimizer, 1, 10)
    masked.settle(optimizer)
    masked.masks["7.weight"].fill_(True)
    with pytest.raises(
        SparseError, match=r"expected \d+ weights of '7.weight' in use at every moment, model 0 has 36"
    ):
        masked.check()
