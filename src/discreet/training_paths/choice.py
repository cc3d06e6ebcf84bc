"""Choose a path, by the architecture and the figures of ``discreet.measured``."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from discreet._once import once
from discreet._types import Num
from discreet.forward import inputs, perceptron
from discreet.losses import Loss
from discreet.measured import batches_well, chunk, convolves
from discreet.mlp import MLP
from discreet.outputs import columns
from discreet.sparse_inputs import SparseRows
from discreet.training_paths import Gradients, Path
from discreet.training_paths.custom import Custom
from discreet.training_paths.func import Func
from discreet.training_paths.loop import Loop
from discreet.training_paths.written import Written

__all__ = ["Choice", "Traits", "choose", "traits"]

PATHS = ("auto", "written", "func", "loop")


@dataclass(frozen=True)
class Traits:
    """What a module does in training mode, found by running it once.

    Attributes:
        outputs: Width of the output.
        draws: It draws random numbers (dropout).
        drifts: It changes its buffers (running statistics).
        trained: Names of the parameters that are trained.
        convolved: Products a sample in its convolutions.
    """

    outputs: int
    draws: bool
    drifts: bool
    trained: tuple[str, ...]
    convolved: int = 0


@dataclass(frozen=True)
class Choice:
    """A path, how many models it takes at once, and how many threads may run it (None: any number)."""

    name: str
    path: Path
    models: int
    workers: int | None


def traits(model: MLP | nn.Module, x: Num[Tensor, " sample *features"]) -> Traits:
    """Run a copy of the model on two samples."""
    network = perceptron(model)
    if network is not None:
        names = tuple(name for layer in network.layers for name in layer)
        return Traits(network.widths[-1], False, False, names)
    module = _module(model, x)
    before = {name: value.clone() for name, value in module.named_buffers()}
    convolved = _count_convolutions(module)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        state = torch.get_rng_state()
        outputs = columns(module(x[[0, -1]]))
        draws = not torch.equal(state, torch.get_rng_state())
    drifts = any(not torch.equal(before[name], value) for name, value in module.named_buffers())
    trained = tuple(name for name, value in module.named_parameters() if value.requires_grad)
    return Traits(outputs.shape[1], draws, drifts, trained, sum(convolved))


def choose(
    model: MLP | nn.Module,
    found: Traits,
    x: Num[Tensor, " sample *features"],
    y: Num[Tensor, " sample *target"],
    loss: Loss,
    batch_size: int,
    path: str = "auto",
    gradients: Gradients | None = None,
) -> Choice:
    """Choose how to train.

    Args:
        model: The architecture.
        found: Its traits.
        x: Inputs.
        y: Labels.
        loss: What is minimised.
        batch_size: Samples a step.
        path: ``"written"`` (perceptrons only), ``"func"``, ``"loop"``, or ``"auto"``: the first that fits and is not
            slower than the next.
        gradients: A step of the caller's own, instead of any of these.

    Raises:
        ValueError: No such path, or one that cannot train this model.
    """
    network = perceptron(model)
    module = _module(model, x)
    parameters = sum(value.numel() for value in module.parameters())
    if gradients is not None:
        return Choice("custom", Custom(gradients, x, y), chunk("func", parameters, batch_size), 1)
    if path not in PATHS:
        raise ValueError(f"path: expected one of {', '.join(PATHS)}, got {path!r}")
    if path == "auto":
        batched = not found.draws and not found.drifts and batches_well(found.convolved * batch_size)
        path = "written" if network else "func" if batched else "loop"
    if path == "written":
        if network is None:
            raise ValueError("path: written is for multilayer perceptrons; use func, loop or auto")
        rows = once(x, ("rows", x.dtype), lambda: inputs(network, x, x.dtype))
        kind = "sparse" if isinstance(rows, SparseRows) else "written"
        return Choice(path, Written(network, rows, y, loss), chunk(kind, parameters, batch_size), None)
    if path == "func":
        if found.draws or found.drifts:
            what = "draws random numbers" if found.draws else "changes its running statistics"
            raise ValueError(f"path: func cannot train a model that {what}; use loop or auto")
        return Choice(path, Func(module, x, y, loss), chunk("func", parameters, batch_size), None)
    # Layers that draw do so from torch's one global generator.
    return Choice(path, Loop(module, x, y, loss, found.draws), 1, 1 if found.draws else None)


def _count_convolutions(module: nn.Module) -> list[int]:
    """A list that fills, as the module runs, with the products a sample of each convolution."""
    counts: list[int] = []

    def note(part: nn.Module, given: tuple[Tensor, ...], result: Tensor) -> None:
        weight = part.get_parameter("weight")
        positions = given[0][0, 0].numel() if "Transpose" in type(part).__name__ else result[0, 0].numel()
        counts.append(weight.numel() * positions)

    for part in module.modules():
        if convolves(part):
            part.register_forward_hook(note)
    return counts


def _module(model: MLP | nn.Module, x: Num[Tensor, " sample *features"]) -> nn.Module:
    """A copy in training mode, in the floating type of the inputs."""
    module = model.module() if isinstance(model, MLP) else copy.deepcopy(model)
    return module.to(x.dtype if x.is_floating_point() else torch.float32).train()
