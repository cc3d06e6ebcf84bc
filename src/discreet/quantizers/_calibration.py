"""What goes into each layer, for the quantizers that look at it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from discreet._types import Float
from discreet.quantizers._fields import QuantizerError
from discreet.quantizers._groups import Part
from discreet.quantizers._protocol import NeedsInputs, Quantizer
from discreet.quantizers._select import Choice

__all__ = ["Calibration", "calibrated", "one"]

_HOW = "give quantize(…, calibration=) batches for the module, or inputs [row, in] by the names of weights"


class Calibration:
    """No inputs: parts in their own order."""

    def ordered(self, parts: Sequence[Part]) -> list[tuple[int, Part]]:
        """Parts with their numbers, in the order in which they are to be quantized."""
        return list(enumerate(parts))

    def of(self, name: str) -> Float[Tensor, "row in"]:
        """What goes into the layer of a weight."""
        raise QuantizerError(f"no inputs were given for {name!r}; {_HOW}")

    def done(self, part: Part, stack: Mapping[str, Tensor]) -> None:
        """Take note that the tensors of a part are quantized."""


class Given(Calibration):
    """Inputs by the names of weights."""

    def __init__(self, inputs: Mapping[str, Tensor], weights: Mapping[str, Tensor], spec: str) -> None:
        self._inputs, self._weights, self._spec = inputs, weights, spec

    def of(self, name: str) -> Float[Tensor, "row in"]:
        """What was given for a weight."""
        if name not in self._inputs:
            raise QuantizerError(
                f"{self._spec}: calibration has no inputs for {name!r}; exclude it or give some"
            )
        return _check_inputs(self._inputs[name], self._weights[name], name, self._spec)


class Fed(Calibration):
    """Batches fed to a copy of the module, whose layers turn into quantized ones one after the other."""

    def __init__(
        self, module: nn.Module, batches: Sequence[Any], feed: Callable[[nn.Module, Any], object], spec: str
    ) -> None:
        self._module = copy.deepcopy(module).requires_grad_(False).eval()
        self._batches, self._feed, self._spec = batches, feed, spec
        self._layers: dict[str, nn.Module] = {}

    def name(self, choice: Choice) -> None:
        """Find the layer of each chosen weight, under whichever of its names is that of a Linear layer."""
        modules = dict(self._module.named_modules(remove_duplicate=False))
        for name in choice.names:
            same = [name, *(other for other, first in choice.tied.items() if first == name)]
            found = [modules.get(each.rpartition(".")[0]) for each in same if each.endswith("weight")]
            layer = next((each for each in found if isinstance(each, nn.Linear)), None)
            if layer is None:
                raise QuantizerError(f"{self._spec}: {name!r} is not the weight of a Linear layer")
            self._layers[name] = layer

    def ordered(self, parts: Sequence[Part]) -> list[tuple[int, Part]]:
        """Parts in the order in which the module runs their layers on the first batch."""
        order: list[str] = []
        hooks = [
            layer.register_forward_pre_hook(lambda *_, name=name: order.append(name))
            for name, layer in self._layers.items()
        ]
        self._run(hooks, self._batches[:1])
        place = {name: number for number, name in reversed(list(enumerate(order)))}
        for name in self._layers:
            if name not in place:
                raise QuantizerError(
                    f"{self._spec}: the calibration batches never reach the layer of {name!r}; exclude it"
                )
        return sorted(enumerate(parts), key=lambda each: place[each[1].names[0]])

    def of(self, name: str) -> Float[Tensor, "row in"]:
        """What goes into a layer, all batches after one another."""
        rows: list[Tensor] = []
        layer = self._layers[name]

        def keep(_: nn.Module, given: tuple[Tensor, ...]) -> None:
            rows.append(given[0].detach().to("cpu", torch.float32).reshape(-1, given[0].shape[-1]))

        self._run([layer.register_forward_pre_hook(keep)], self._batches)
        return _check_inputs(torch.cat(rows), layer.get_parameter("weight"), name, self._spec)

    def done(self, part: Part, stack: Mapping[str, Tensor]) -> None:
        """Give the copy the quantized weights."""
        for name in part.names:
            self._layers[name].get_parameter("weight").data.copy_(stack[name][0])

    def _run(self, hooks: list[Any], batches: Sequence[Any]) -> None:
        try:
            with torch.no_grad():
                for batch in batches:
                    self._feed(self._module, batch)
        finally:
            for hook in hooks:
                hook.remove()


def calibrated(
    state: Mapping[str, Tensor] | nn.Module,
    quantizer: Quantizer,
    spec: str,
    choice: Choice,
    calibration: Mapping[str, Tensor] | Iterable[Any] | None,
    feed: Callable[[nn.Module, Any], object] | None,
) -> Calibration:
    """Make sure that a quantizer has the inputs that it needs, and none that it does not look at.

    Raises:
        QuantizerError: Calibration that is missing, empty, not wanted, or batches without a module.
    """
    if not isinstance(quantizer, NeedsInputs):
        if calibration is not None:
            raise QuantizerError(f"{spec} does not look at data: leave calibration out")
        return Calibration()
    if calibration is None:
        raise QuantizerError(f"{spec} needs what goes into each layer; {_HOW}")
    if isinstance(calibration, Mapping):
        tensors = state.state_dict() if isinstance(state, nn.Module) else state
        return Given(calibration, tensors, spec)
    if not isinstance(state, nn.Module):
        raise QuantizerError(f"{spec}: a state dict takes no batches: give the module, or inputs by name")
    batches = list(calibration)
    if not batches:
        raise QuantizerError(f"{spec}: calibration holds no batch")
    fed = Fed(state, batches, feed or _feed, spec)
    fed.name(choice)
    return fed


def one(quantizer: Quantizer, spec: str, name: str, weight: Tensor, inputs: Tensor | None) -> Calibration:
    """The inputs of one layer, or none, as ``calibrated`` would have them.

    Raises:
        QuantizerError: Inputs that are missing or not wanted.
    """
    if not isinstance(quantizer, NeedsInputs):
        if inputs is not None:
            raise QuantizerError(f"{spec} does not look at data: leave inputs out")
        return Calibration()
    if inputs is None:
        raise QuantizerError(f"{spec} needs what goes into {name!r}: give inputs [row, in]")
    return Given({name: inputs}, {name: weight}, spec)


def _check_inputs(inputs: Tensor, weight: Tensor, name: str, spec: str) -> Float[Tensor, "row in"]:
    """Inputs of a layer as float32, finite and of its width.

    Raises:
        QuantizerError: Not ``[row, in]``, no row, or numbers that are not finite.
    """
    if inputs.ndim != 2 or inputs.shape[1] != weight.shape[-1] or not len(inputs):
        expected = f"[row, {weight.shape[-1]}] with at least one row"
        raise QuantizerError(
            f"{spec}: inputs of {name!r} must be {expected}, got shape {tuple(inputs.shape)}"
        )
    inputs = inputs.detach().to("cpu", torch.float32)
    if not inputs.isfinite().all():
        raise QuantizerError(f"{spec}: inputs of {name!r} hold NaN or infinite numbers")
    return inputs


def _feed(module: nn.Module, batch: Any) -> object:
    if isinstance(batch, Mapping):
        return module(**batch)
    return module(*batch) if isinstance(batch, tuple) else module(batch)
