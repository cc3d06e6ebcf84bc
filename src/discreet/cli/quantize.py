"""``discreet quantize``: one safetensors file in, its quantized weights out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["quantize"]

_EXAMPLES = (
    "[bold]Examples[/bold]\n\n"
    "discreet quantize model.safetensors --quantizer sign --out signs.safetensors\n\n"
    "discreet quantize model.safetensors --quantizer \"uniform(bits=4, granularity='channel', scale='absmean')\" "
    '--out dense.safetensors --packed packed.safetensors --include "*.weight" --exclude "head.*"\n'
)


def quantize(
    source: Annotated[
        Path, typer.Argument(metavar="IN.safetensors", show_default=False, help="The model's weights.")
    ],
    quantizer: Annotated[
        str,
        typer.Option(
            "--quantizer", metavar="SPEC", show_default=False, help="Such as sign or ternary(zeros=0.9)."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="OUT.safetensors",
            show_default=False,
            help="The dense weights: every tensor, in its own type.",
        ),
    ],
    packed: Annotated[
        Path | None, typer.Option("--packed", metavar="FILE", help="What would be shipped: codes and scales.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option("--include", metavar="PATTERN", help="Tensors to quantize; repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="PATTERN", help="Tensors to keep; repeatable.")
    ] = None,
) -> None:
    """Quantize the tensors of a safetensors file, and list what was quantized and what was kept."""
    from discreet._words import label, listing, number, whole
    from discreet.cli.output import check_apart, say
    from discreet.quantizers import quantize_file

    check_apart((out, packed), (source,))
    done = quantize_file(
        source, quantizer, out, packed_path=packed, include=include or ("*",), exclude=exclude or ()
    )
    original = source.stat().st_size
    kept = [f"{label(name)} ({done.reasons[name]})" for name in done.kept]
    say(
        f"quantized by {done.spec}: {listing([label(name) for name in done.quantized], 12)}",
        f"kept: {listing(kept, 12)}" if kept else "kept: nothing",
        f"{number(done.bits_per_weight)} bits per quantized weight; {whole(done.bytes)} bytes packed, "
        f"{whole(original)} bytes before",
        f"dense weights: {out}" + (f"; packed: {packed}" if packed else ""),
    )


quantize.__doc__ = f"{quantize.__doc__}\n\n{_EXAMPLES}"
