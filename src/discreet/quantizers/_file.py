"""Quantize a bare safetensors file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from discreet.quantizers._fields import QuantizerError
from discreet.quantizers._protocol import Quantizer
from discreet.quantizers._quantize import quantize
from discreet.quantizers._quantized import Quantized
from discreet.quantizers._safetensors import dump, load, write
from discreet.quantizers._select import Select

__all__ = ["quantize_file"]


def quantize_file(
    in_path: str | Path,
    spec: str | Quantizer,
    out_path: str | Path,
    *,
    packed_path: str | Path | None = None,
    include: Iterable[str] = ("*",),
    exclude: Iterable[str] = (),
) -> Quantized:
    """Quantize the tensors of a safetensors file and write the dense weights, and on request the packed ones.

    A bare file has no layer types: scope ``"weights"`` covers its floating tensors of two or more axes,
    scope ``"all"`` all floating tensors but ``running_mean`` and ``running_var``.

    Args:
        in_path: The model.
        spec: A quantizer or its spec string.
        out_path: Where the dense weights go: all tensors, in their own types, with the file's metadata.
        packed_path: Where the packed form goes, if anywhere.
        include: Name patterns to quantize.
        exclude: Name patterns to keep.

    Returns:
        What was written, with ``quantized``, ``kept``, ``reasons``, ``bits_per_weight`` and ``bytes``.

    Raises:
        QuantizerError: An unreadable file, a folder that cannot be written, or as ``quantize`` raises it.
            Nothing is written unless all went well until then.
    """
    source, target = Path(in_path), Path(out_path)
    packed = None if packed_path is None else Path(packed_path)
    if packed is not None and packed.resolve() == target.resolve():
        raise QuantizerError(f"dense and packed weights cannot both go to {target}")
    tensors, metadata = load(source)
    done = quantize(tensors, spec, select=Select(tuple(include), tuple(exclude)))
    write(dump(done.dense, metadata), target)
    if packed is not None:
        done.save(packed)
    return done
