"""The promises of a quantizer, checked after every call."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from discreet._types import Float, Int
from discreet.quantizers._codes import Affine, Codes, Indices, Multiples, Raw
from discreet.quantizers._fields import QuantizerError

__all__ = ["check_codes", "check_finite", "check_levels", "check_reloaded", "check_representable"]


def check_codes(
    codes: object, groups: Float[Tensor, "group weight"], promised: int | None, spec: str
) -> Codes:
    """Refuse codes that can name more values than promised, or that do not cover the groups.

    As a weight can only take a value that some code names, this bounds the number of levels without
    counting, and it rules out a call that did nothing.

    Raises:
        QuantizerError: With the spec and what is wrong.
    """
    if not isinstance(codes, Affine | Multiples | Indices | Raw):
        raise QuantizerError(
            f"{spec}: encode must return Affine, Multiples, Indices or Raw, got {type(codes).__name__}"
        )
    if promised is not None and (codes.levels is None or codes.levels > promised):
        had = "raw weights" if codes.levels is None else f"codes for {codes.levels}"
        raise QuantizerError(f"{spec}: promised at most {promised} levels per group, returned {had}")
    shape, dtype = _form(codes)
    if shape != groups.shape or dtype != groups.dtype:
        expected = f"{groups.dtype} {tuple(groups.shape)}"
        raise QuantizerError(f"{spec}: codes stand for {dtype} {shape} [group, weight], expected {expected}")
    try:
        codes.check()
    except QuantizerError as error:
        raise QuantizerError(f"{spec}: {error}") from error
    return codes


def check_levels(
    before: Float[Tensor, "group weight"],
    after: Float[Tensor, "group weight"],
    promised: int | None,
    spec: str,
    block: int = 1,
    run: int | None = None,
) -> None:
    """Count the distinct values (or blocks of values) of every group, or of every run of ``run`` weights in it.

    Groups that were not changed are accepted only if they took no more values than promised already: such
    weights lie on a grid of the promised size. Any other unchanged group means that nothing was quantized.

    Raises:
        QuantizerError: Some group holds more than promised.
    """
    if run is not None and run < after.shape[1]:
        for start, stop, size in _runs(after.shape[1], run):
            was, now = (each[:, start:stop].reshape(-1, size) for each in (before, after))
            check_levels(was, now, promised, spec, block)
        return
    if promised is None or after.shape[1] // block <= promised:
        return
    counts = _distinct(after, block)
    worst = int(counts.argmax())
    if counts[worst] > promised:
        what = "values" if block == 1 else f"blocks of {block}"
        did = "did not change" if torch.equal(before[worst], after[worst]) else "changed"
        raise QuantizerError(
            f"{spec}: {did} group {worst}, which holds {int(counts[worst])} distinct {what}; "
            f"promised were at most {promised}"
        )


def check_finite(
    groups: Float[Tensor, "group weight"], stack: Mapping[str, Tensor], names: tuple[str, ...]
) -> None:
    """Refuse NaN and infinite weights, naming the first tensor that holds one.

    Args:
        groups: What is about to be quantized.
        stack: The tensors it was taken from, with a leading model axis.
        names: Tensors that ``groups`` covers.

    Raises:
        QuantizerError: With tensor, number of weights, and model where there are several.
    """
    if all(bound.isfinite().item() for bound in groups.aminmax()):
        return
    for name in names:
        bad = ~stack[name].isfinite()
        if bad.any():
            models = bad.flatten(1).any(1) if bad.ndim > 1 else bad
            where = f" (first in model {int(models.int().argmax())})" if len(models) > 1 else ""
            raise QuantizerError(f"tensor {name!r} holds {int(bad.sum())} NaN or infinite weights{where}")


def check_representable(
    name: str, values: Float[Tensor, "group weight"], dtype: torch.dtype, spec: str
) -> None:
    """Refuse quantized weights of a tensor that overflow the type they go back to.

    Raises:
        QuantizerError: A value rounds to infinity, or is not finite to begin with.
    """
    for bound in values.aminmax():
        if not bound.to(dtype).isfinite().item():
            kind = str(dtype).removeprefix("torch.")
            raise QuantizerError(
                f"{spec}: quantized weight {bound.item():g} of tensor {name!r} does not fit {kind}"
            )


def check_reloaded(dense: Float[Tensor, "group weight"], codes: Codes, spec: str) -> None:
    """Refuse a stored form that does not read back to the dense weights bit for bit.

    Raises:
        QuantizerError: With the number of weights that differ.
    """
    again = codes.dense()
    bits = torch.int64 if dense.dtype == torch.float64 else torch.int32
    differ = int((again.to(dense.dtype).view(bits) != dense.cpu().view(bits)).sum())
    if differ:
        raise QuantizerError(f"{spec}: the stored form reads back differently in {differ} weights")


def _form(codes: Codes) -> tuple[tuple[int, ...], torch.dtype]:
    if isinstance(codes, Affine):
        return tuple(codes.codes.shape), codes.dtype
    if isinstance(codes, Indices):
        return (len(codes.index), codes.size), codes.book.dtype
    held = codes.numbers if isinstance(codes, Multiples) else codes.values
    return tuple(held.shape), held.dtype


def _runs(width: int, run: int) -> list[tuple[int, int, int]]:
    whole = width - width % run
    return [(0, whole, run), *([(whole, width, width - whole)] if whole < width else [])]


def _distinct(groups: Float[Tensor, "group weight"], block: int) -> Int[Tensor, " group"]:
    if block > 1:
        whole = groups[:, : groups.shape[1] // block * block]
        counts = [len(row.reshape(-1, block).unique(dim=0)) for row in whole]
        return torch.tensor(counts)
    ordered = groups.sort(dim=1).values
    return (ordered[:, 1:] != ordered[:, :-1]).sum(dim=1) + 1
