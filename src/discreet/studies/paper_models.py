"""The networks of section 5.1 of "Safety and Performance, Why not Both?" (2022), as its released code builds them.

VGG16 and AlexNet are those of Lee et al., "SNIP: Single-shot Network Pruning based on Connection Sensitivity" (2019);
ResNet18 is that of He et al., "Deep Residual Learning for Image Recognition" (2016), with a small first layer.
"""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from discreet._types import Float

__all__ = ["ResNet18", "alexnet", "vgg16"]

_VGG = ((64, 64), (128, 128), (256, 256, -256), (512, 512, -512), (512, 512, -512))
"""Blocks of convolutions between poolings; those with a minus have windows of one pixel, padded all the same."""


def vgg16(classes: int = 100, share: float = 1.0) -> nn.Module:
    """VGG "C" for pictures of 32 pixels, with normalisation after every layer but the last.

    Args:
        classes: Of the answer.
        share: All hidden widths are multiplied by it: a student of distillation.

    Example:
        >>> sum(each.numel() for each in vgg16().parameters())
        11369636
    """
    layers: list[nn.Module] = []
    before = 3
    for block in _VGG:
        for width in block:
            wide = _wide(share, abs(width))
            layers += [nn.Conv2d(before, wide, 1 if width < 0 else 3, padding=1), nn.BatchNorm2d(wide)]
            layers += [nn.ReLU()]
            before = wide
        layers += [nn.MaxPool2d(2)]
    last = _wide(share, 512)
    layers += [nn.Flatten(), *_head((4 * before, last, last)), nn.Linear(last, classes)]
    return nn.Sequential(*layers)


def alexnet(classes: int = 10, widen: int = 1, share: float = 1.0) -> nn.Module:
    """AlexNet for pictures of 32 pixels: five strided convolutions and three linear layers.

    Args:
        classes: Of the answer.
        widen: Linear layers have 1,024 times as many units: 1 is "AlexNet-s", 2 is "AlexNet-b".
        share: All hidden widths are multiplied by it: a student of distillation.
    """
    layers: list[nn.Module] = []
    before = 3
    for width, window, padding in ((96, 11, 5), (256, 5, 2), (384, 3, 1), (384, 3, 1), (256, 3, 1)):
        after = _wide(share, width)
        layers += [nn.Conv2d(before, after, window, 2, padding), nn.BatchNorm2d(after), nn.ReLU()]
        before = after
    wide = _wide(share, 1024 * widen)
    layers += [nn.Flatten(), *_head((before, wide, wide)), nn.Linear(wide, classes)]
    return nn.Sequential(*layers)


def _wide(share: float, width: int) -> int:
    return max(1, int(share * width))


def _head(widths: tuple[int, ...]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for into, out in pairwise(widths):
        layers += [nn.Linear(into, out), nn.BatchNorm1d(out), nn.ReLU()]
    return layers


class ResNet18(nn.Module):
    """Eight blocks of two convolutions with shortcuts.

    Args:
        classes: Of the answer.
        share: All hidden widths are multiplied by it: a student of distillation.
    """

    def __init__(self, classes: int = 200, share: float = 1.0) -> None:
        super().__init__()
        before = _wide(share, 64)
        self.first = nn.Sequential(
            nn.Conv2d(3, before, 3, padding=1, bias=False), nn.BatchNorm2d(before), nn.ReLU()
        )
        blocks = []
        for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            wide = _wide(share, width)
            blocks += [_Block(before, wide, stride), _Block(wide, wide, 1)]
            before = wide
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Linear(before, classes)

    def forward(self, x: Float[Tensor, "sample 3 height width"]) -> Float[Tensor, "sample class"]:
        """Logits."""
        return self.last(self.blocks(self.first(x)).mean((-2, -1)))


class _Block(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(into, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        same = into == out and stride == 1
        self.shortcut: nn.Module = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        )

    def forward(self, x: Float[Tensor, "sample into height width"]) -> Float[Tensor, "sample out high wide"]:
        return (self.body(x) + self.shortcut(x)).relu()
