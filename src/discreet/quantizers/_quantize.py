"""Quantize one model with all that is stored, or many models at once for their dense weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from discreet import _find
from discreet.quantizers._calibration import Calibration, calibrated
from discreet.quantizers._check import (
    check_codes,
    check_finite,
    check_levels,
    check_reloaded,
    check_representable,
)
from discreet.quantizers._codes import Codes, restore
from discreet.quantizers._fields import PACKAGE, QuantizerError
from discreet.quantizers._groups import Part, cut
from discreet.quantizers._protocol import NeedsInputs, Quantizer
from discreet.quantizers._quantized import SCHEMA, Quantized
from discreet.quantizers._select import Choice, Select, Source, as_select, choose, read

__all__ = ["check_shapes", "encoded", "parse", "quantize", "quantize_stack"]

# Weights that go through a quantizer together: few enough to stay in the processor's cache.
_AT_ONCE = 1 << 19


def parse(spec: str) -> Quantizer:
    """Build a quantizer from its spec string.

    Args:
        spec: Such as ``"sign"``, ``"ternary(zeros=0.9)"``,
            ``"uniform(bits=4, granularity='channel', scale='absmean')"`` or ``"my_pkg.mine:Mine"``.

    Raises:
        SpecError: A ValueError that says what is wrong and what was perhaps meant.

    Example:
        >>> str(parse("uniform(4)"))
        'uniform(bits=4)'
    """
    quantizer = _find.parse(spec, PACKAGE)
    if not isinstance(quantizer, Quantizer):
        raise _find.SpecError(f"{spec!r} is no quantizer: it needs granularity, scope, levels and encode")
    return quantizer


def quantize(
    state: Mapping[str, Tensor] | nn.Module,
    quantizer: Quantizer | str,
    *,
    select: Select | str | Iterable[str] = Select(),  # noqa: B008 (frozen)
    calibration: Mapping[str, Tensor] | Iterable[Any] | None = None,
    feed: Callable[[nn.Module, Any], object] | None = None,
) -> Quantized:
    """Quantize one model.

    Args:
        state: A module, or a state dict. Only a module tells which tensors are parameters and of what
            layer: of a state dict, the running statistics of normalisation layers are known by their names.
        quantizer: A quantizer or its spec string.
        select: Name patterns to include, or a ``Select`` with patterns to exclude as well.
        calibration: For a quantizer that needs the inputs of layers (``needs_inputs``), and for no other: batches
            for the module, or the inputs ``[row, in]`` themselves by the names of weights. Layers are taken
            in the order in which the module runs them, each with the inputs that the layers quantized before it
            give, in one pass over the batches a layer; the module itself is left alone.
        feed: How the module takes a batch; without it, by position, a mapping by its names, a tuple one by one.

    Returns:
        Dense weights in the types of the input, and what is stored. Nothing is shared with the input.

    Raises:
        QuantizerError: Nothing to quantize, a weight that is not finite, a shape that the quantizer cannot
            take, calibration that is missing or not wanted, or a broken promise of the
            quantizer (too many levels, unchanged weights, a stored form that reads back differently).

    Example:
        >>> done = quantize({"w": torch.tensor([-3.0, 0.5])}, "sign")
        >>> done.dense["w"], done.levels
        (tensor([-1.,  1.]), 2)
    """
    quantizer = parse(quantizer) if isinstance(quantizer, str) else quantizer
    spec = _find.spec(quantizer, PACKAGE)
    source = read(state)
    choice = choose(source, quantizer.scope, as_select(select))
    dense = {
        name: tensor.detach().clone(memory_format=torch.contiguous_format)
        for name, tensor in source.tensors.items()
    }
    dense |= {name: dense[first] for name, first in choice.tied.items()}
    stack = {name: dense[name].unsqueeze(0) for name in choice.names}
    parts = cut(check_shapes(quantizer, spec, stack), quantizer.granularity)
    inputs = calibrated(state, quantizer, spec, choice, calibration, feed)
    packed: dict[str, Tensor] = {}
    abouts: dict[int, Any] = {}
    for number, part in inputs.ordered(parts):
        rows, codes, values = encoded(quantizer, spec, part, stack, inputs)
        about, stored = codes.stored(_widest(part, stack))
        check_levels(rows, values, quantizer.levels, spec, codes.block, getattr(codes, "run", None))
        check_reloaded(values, restore(about, stored, part.groups, part.size), spec)
        part.put(values, stack)
        inputs.done(part, stack)
        packed |= {f"{number}.{name}": tensor for name, tensor in stored.items()}
        abouts[number] = about
    packed |= {
        f"kept.{name}": dense[name].to("cpu", copy=True) for name in choice.kept if name not in choice.tied
    }
    about = {
        "schema": SCHEMA,
        "quantizer": spec,
        "granularity": quantizer.granularity,
        "levels": quantizer.levels,
        "tensors": {name: [_name(tensor.dtype), list(tensor.shape)] for name, tensor in dense.items()},
        "quantized": list(choice.names),
        "kept": dict(choice.kept),
        "tied": dict(choice.tied),
        "parts": [abouts[number] for number in sorted(abouts)],
    }
    about |= {"made_by": quantizer.made_by} if hasattr(quantizer, "made_by") else {}  # type: ignore[attr-defined]
    return Quantized(dense, packed, about)


def quantize_stack(
    params: Mapping[str, Tensor],
    quantizer: Quantizer | str,
    *,
    select: Select | str | Iterable[str] = Select(),  # noqa: B008 (frozen)
    module: nn.Module | None = None,
) -> dict[str, Tensor]:
    """Quantize many models of one architecture at once, for their dense weights only.

    Each model gets the bits that ``quantize`` gives it alone. The number of codes is checked as there;
    dense values are not counted again and nothing is packed.

    Args:
        params: Tensors with a leading model axis, such as ``{"0.weight": [model, out, in]}``.
        quantizer: A quantizer or its spec string.
        select: As in ``quantize``.
        module: One module of the architecture, to tell parameters from buffers and layers from each other.
            Without it, that is decided as for a bare state dict of one model.

    Returns:
        All tensors in the given order: new ones for the quantized, the given ones for the kept.

    Raises:
        QuantizerError: As in ``quantize``, the tensors disagree on the number of models, or a quantizer that
            needs the inputs of layers.
    """
    quantizer = parse(quantizer) if isinstance(quantizer, str) else quantizer
    spec = _find.spec(quantizer, PACKAGE)
    source = _read_stack(params, None if module is None else read(module))
    choice = choose(source, quantizer.scope, as_select(select))
    stack = {name: params[name].detach() for name in choice.names}
    models = len(next(iter(stack.values())))
    made = {
        name: torch.empty(each.shape, dtype=each.dtype, device=each.device) for name, each in stack.items()
    }
    for part in cut(check_shapes(quantizer, spec, stack), quantizer.granularity):
        step = max(1, _AT_ONCE // (part.groups * part.size))
        for start in range(0, models, step):
            taken = {name: stack[name][start : start + step] for name in part.names}
            _, _, values = encoded(quantizer, spec, part, taken)
            part.put(values, {name: made[name][start : start + step] for name in part.names})
    return {name: _of(name, made, choice, tensor) for name, tensor in params.items()}


def check_shapes(quantizer: Quantizer, spec: str, stack: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Shapes of one model's tensors, all of which the quantizer takes.

    Raises:
        QuantizerError: With the first tensor that it does not take, and why.
    """
    shapes = {name: tuple(each.shape[1:]) for name, each in stack.items()}
    why_not = getattr(quantizer, "why_not", lambda shape: None)
    for name, shape in shapes.items():
        if (reason := why_not(shape)) is not None:
            raise QuantizerError(f"{spec}: tensor {name!r} has shape {shape}: {reason}")
    return shapes


def encoded(
    quantizer: Quantizer,
    spec: str,
    part: Part,
    stack: Mapping[str, Tensor],
    inputs: Calibration | None = None,
) -> tuple[Tensor, Codes, Tensor]:
    """Weights of a part as groups, their codes, and the weights that those stand for, checked.

    Raises:
        QuantizerError: As ``quantize``.
    """
    dtypes = {stack[name].dtype for name in part.names}
    rows = part.take(stack, torch.float64 if torch.float64 in dtypes else torch.float32)
    check_finite(rows, stack, part.names)
    if isinstance(quantizer, NeedsInputs) and inputs is not None:
        made = quantizer.encode_layer(rows, inputs.of(part.names[0]))
    else:
        made = quantizer.encode(rows)
    codes = check_codes(made, rows, quantizer.levels, spec)
    values = codes.dense()
    for name, piece in part.split(values):
        check_representable(name, piece, stack[name].dtype, spec)
    return rows, codes, values


def _read_stack(params: Mapping[str, Tensor], known: Source | None) -> Source:
    tensors = dict(read(params).tensors)
    sizes = {name: len(tensor) if tensor.ndim else 0 for name, tensor in tensors.items()}
    (first, models), *others = sizes.items()
    for name, size in [(first, models), *others]:
        if size == 0 or size != models:
            had = f"{first!r} has shape {tuple(tensors[first].shape)}, {name!r} {tuple(tensors[name].shape)}"
            raise QuantizerError(
                f"tensors need a leading axis of the same number of models, at least 1: {had}"
            )
    if known is None:
        return Source(tensors, leading=1)
    return Source(tensors, known.parameters, known.weights, known.linear, leading=1)


def _of(name: str, made: Mapping[str, Tensor], choice: Choice, given: Tensor) -> Tensor:
    return made.get(choice.tied.get(name, name), given)


def _widest(part: Part, stack: Mapping[str, Tensor]) -> torch.dtype:
    widest = stack[part.names[0]].dtype
    for name in part.names:
        widest = torch.promote_types(widest, stack[name].dtype)
    return widest


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
