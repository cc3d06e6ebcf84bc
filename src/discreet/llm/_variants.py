"""Names of variants: a quantizer of merged weights, a quantizer of the base below an adapter, or full precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet._content import content_of
from discreet.quantizers import Quantizer, QuantizerError, needs_inputs, parse

__all__ = ["FULL", "OVER", "Variant", "parse_variant", "parse_variants"]

FULL = "full"
OVER = "adapter over "


@dataclass(frozen=True)
class Variant:
    """What becomes of the Linear layers of the decoder's blocks.

    Attributes:
        name: As it was given.
        quantizer: None for full precision.
        over: The base is quantized and the adapter stays in full precision on top; else the adapter is merged
            into the weights, and these are quantized.
    """

    name: str
    quantizer: Quantizer | None
    over: bool = False

    @property
    def needs_inputs(self) -> bool:
        """Whether the quantizer looks at what goes into each layer."""
        return self.quantizer is not None and needs_inputs(self.quantizer)

    @property
    def content(self) -> list[Any]:
        """What results depend on: spec, library and version, and the code of a quantizer of one's own."""
        spec, made_by = str(self.quantizer or FULL), getattr(self.quantizer, "made_by", None)
        known = f"{spec}; made by {made_by}" if made_by else spec
        own = "" if self.quantizer is None else content_of(self.quantizer).removeprefix(known)
        return [spec, self.over, made_by, *([own] if own else [])]


def parse_variant(name: str) -> Variant:
    """Read the name of a variant.

    Args:
        name: ``"full"``; a quantizer's spec, for merged and then quantized weights; or ``"adapter over SPEC"``.

    Raises:
        ValueError: No such quantizer, or one whose groups span a whole model.

    Example:
        >>> parse_variant("adapter over uniform(bits=4, granularity='channel')").over
        True
    """
    if name.strip() == FULL:
        return Variant(FULL, None)
    over = name.startswith(OVER)
    quantizer = parse(name.removeprefix(OVER).strip())
    if quantizer.granularity == "model":
        raise QuantizerError(
            f"variant {name!r}: language models are quantized layer by layer, but its groups span the whole model;"
            " add granularity='tensor', 'channel' or 'group(n)'"
        )
    return Variant(name, quantizer, over)


def parse_variants(names: Sequence[str]) -> dict[str, Variant]:
    """Variants by name, in order.

    Raises:
        ValueError: None, one twice, or one that ``parse_variant`` refuses.
    """
    if not names:
        raise ValueError("variants: expected at least one, got none")
    found = {name: parse_variant(name) for name in names}
    if len(found) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise ValueError(f"variants: {twice!r} is given twice")
    return found
