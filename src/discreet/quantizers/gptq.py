"""Weights rounded column by column, each error made good by the columns that follow, for a layer's inputs.

Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers" (2023), by the
package ``gptqmodel``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from discreet._types import Float
from discreet.quantizers._affine import Affine
from discreet.quantizers._fields import QuantizerError, one_of
from discreet.quantizers._gptq_client import INSTALL, apart
from discreet.quantizers._library import Library

__all__ = ["Gptq"]

_BITS = (2, 3, 4, 8)
_GROUPS = (16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Gptq(Library):
    """What the library's own class for one layer gives at its defaults: symmetric codes, groups by activation.

    It sees what goes into each layer (``quantize(module, …, calibration=batches)``). The result depends on the order
    of sums, and so on the number of threads: there is always one, in a process of its own, as the library changes
    others when it is imported. Weights of an input that is always 0 become 0. A group without negative weights is cut
    off at less than half of its largest one (7/15 at 4 bits): the library's range is then half as wide, but still
    symmetric. A layer whose inputs have no invertible second moments is refused; the library would round to the
    nearest without a word.

    Attributes:
        bits: Bits of a code: 2, 3, 4 or 8.
        group: Weights of a row that share a scale: 16, 32, 64, 128, 256, 512 or 1024; the last may be shorter.

    Example:
        >>> Gptq(bits=3).needs_inputs
        True
    """

    bits: int = 4
    group: int = 64

    package: ClassVar[str] = "gptqmodel"
    extra: ClassVar[str] = "gptq"
    scopes: ClassVar[tuple[str, ...]] = ("linear",)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("bits", self.bits, _BITS)
        one_of("group", self.group, _GROUPS)

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """See ``Library``."""
        return (str(apart()),)

    @property
    def _how(self) -> str:
        return INSTALL

    @property
    def needs_inputs(self) -> bool:
        """True."""
        return True

    @property
    def made_by(self) -> str:
        """Package and version, and the number of threads."""
        return f"{super().made_by}, 1 thread"

    @property
    def granularity(self) -> str:
        """Rows, cut into groups."""
        return "channel"

    @property
    def run(self) -> int:
        """Weights of a row that share their levels."""
        return self.group

    @property
    def levels(self) -> int:
        """2^bits in each group."""
        return 2**self.bits

    def encode(self, groups: Float[Tensor, "group weight"]) -> Affine:
        """Refuse: weights alone are not enough.

        Raises:
            QuantizerError: Always.
        """
        raise QuantizerError(
            f"{self} needs what goes into each layer, which many models at once, or a file of weights, do not tell"
        )

    def encode_layer(self, weight: Float[Tensor, "out in"], inputs: Float[Tensor, "row in"]) -> Affine:
        """Codes and scales of one layer, by ``gptqmodel.quantization.gptq.GPTQ``.

        Raises:
            QuantizerError: The library is missing or refuses, or its process ended.
        """
        from discreet.quantizers._gptq_client import the_process

        _ = self.made_by
        made = the_process.quantize(
            weight.to("cpu", torch.float32), inputs.to("cpu", torch.float32), bits=self.bits, group=self.group
        )
        dense, scale, zero = made["dense"], made["scale"], made["zero"]
        place = torch.arange(weight.shape[1]) // self.group
        middle = 2 ** (self.bits - 1)
        if not torch.equal(made["places"].long(), place) or not bool((zero == middle).all()):
            raise QuantizerError(f"{self}: gptqmodel's groups or zeros are not those of {self.made_by}")
        numbers = (dense / scale[:, place]).round() + middle
        codes = Affine(
            numbers.clamp(0, self.levels - 1).to(torch.uint8),
            self.levels,
            self.group,
            scale,
            lowest=-middle,
            dtype=weight.dtype,
        )
        if differ := int((codes.dense().to(torch.float32) != dense).sum()):
            raise QuantizerError(f"{self}: {differ} weights are no levels of their group")
        return codes if weight.device.type == "cpu" else _on(codes, weight.device)


def _on(codes: Affine, device: torch.device) -> Affine:
    return Affine(
        codes.codes.to(device),
        codes.count,
        codes.run,
        codes.scale.to(device),
        lowest=codes.lowest,
        dtype=codes.dtype,
    )
