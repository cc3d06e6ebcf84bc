"""Which tensors of a model are masked, and why the others are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import UninitializedParameter

from discreet import _find
from discreet.initial import Architecture, as_model
from discreet.mlp import MLP
from discreet.sparse._errors import SparseError

__all__ = ["Maskable", "maskable"]

NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)


@dataclass(frozen=True)
class Maskable:
    """Tensors to mask, in the order of the model.

    Attributes:
        shapes: Of what is masked, by name.
        kept: For every other parameter the reason why it stays dense.
        tied: Other names of masked tensors, each with the name that stands for it: one tensor has one mask, and
            counts once.
        normed: Whether the model has normalisation layers.
    """

    shapes: Mapping[str, tuple[int, ...]]
    kept: Mapping[str, str]
    tied: Mapping[str, str]
    normed: bool = False


def maskable(
    model: Architecture, include: tuple[str, ...] | None = None, exclude: tuple[str, ...] = ()
) -> Maskable:
    """Weights of linear and convolution layers, or the parameters of two or more axes that patterns name.

    Patterns are as shells write them (``*``, ``?``, ``[abc]``), case-sensitive. Norms and biases are never masked,
    embeddings only when a pattern includes them.

    Args:
        model: An ``MLP``, a module, or a function that makes one.
        include: Patterns of what to mask; None: weights of linear and convolution layers.
        exclude: Patterns of what to keep whatever else names it.

    Raises:
        SparseError: Nothing to mask, a pattern that names nothing maskable, a frozen tensor, or one that is tied to
            another that would be kept; excluding such a tensor by name keeps it.

    Example:
        >>> maskable(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), exclude=("2.*",)).shapes
        {'0.weight': (4, 8)}
    """
    built = as_model(model)
    module = built.module() if isinstance(built, MLP) else built
    aliases = _aliases(module)
    layers = {
        f"{name}.weight".lstrip(".")
        for name, part in module.named_modules(remove_duplicate=False)
        if isinstance(part, nn.Linear | _ConvNd)
    }
    parameters = dict(module.named_parameters())
    for name, parameter in parameters.items():
        if isinstance(parameter, UninitializedParameter):
            raise SparseError(f"model: {name!r} has no shape yet; run the model once before it is masked")
    able = [name for first in aliases for name in aliases[first] if parameters[first].ndim >= 2]
    _check_patterns("include", include or (), able)
    _check_patterns("exclude", exclude, [name for names in aliases.values() for name in names])
    wanted = {name for name in able if (name in layers if include is None else _matches(name, include))}
    shapes: dict[str, tuple[int, ...]] = {}
    kept: dict[str, str] = {}
    tied: dict[str, str] = {}
    for first, names in aliases.items():
        parameter = parameters[first]
        reason = _why_kept(names, parameter, wanted, exclude)
        if reason is None:
            shapes[first] = tuple(parameter.shape)
            tied |= dict.fromkeys(names[1:], first)
        else:
            kept |= dict.fromkeys(names, reason)
    if not shapes:
        why = ", ".join(sorted(set(kept.values()))) or "it has no parameters"
        raise SparseError(
            f"model: nothing to mask: no weight of a linear or convolution layer is left ({why})"
        )
    return Maskable(shapes, kept, tied, any(isinstance(part, NORMS) for part in module.modules()))


def _why_kept(
    names: list[str], parameter: nn.Parameter, wanted: set[str], exclude: tuple[str, ...]
) -> str | None:
    excluded = [name for name in names if _matches(name, exclude)]
    chosen = [name for name in names if name in wanted]
    if excluded:
        return "excluded"
    if not chosen:
        return "a bias, norm or other vector" if parameter.ndim < 2 else "not included"
    if not parameter.requires_grad:
        raise SparseError(
            f"model: {chosen[0]!r} is frozen (requires_grad is False); unfreeze it, or exclude it"
        )
    if len(chosen) < len(names):
        other = next(name for name in names if name not in wanted)
        raise SparseError(
            f"model: {chosen[0]!r} is tied to {other!r}, which is kept; exclude one of them, or include both"
        )
    return None


def _check_patterns(argument: str, patterns: tuple[str, ...], names: list[str]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            what = "tensor of two or more axes" if argument == "include" else "parameter"
            raise SparseError(
                f"{argument}: the pattern {pattern!r} matches no {what}{_find.near(pattern.strip('*?'), names)}"
            )


def _aliases(module: nn.Module) -> dict[str, list[str]]:
    """All names of each parameter under its first."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {same[0]: same for same in names.values()}


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
