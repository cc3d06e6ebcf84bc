"""One base and one working copy, whose layers are merged and quantized one by one, and only when they change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from discreet._types import Float
from discreet.llm._blocks import copied, find_blocks, layer_inputs
from discreet.llm._changes import BASE, Changes, changes, is_transposed, weight_of
from discreet.llm._hash import joined_hash, tensors_hash
from discreet.llm._packed import Packed
from discreet.llm._variants import Variant, parse_variants
from discreet.llm.adapters import AdapterCheckpoint
from discreet.llm.encoding import Encoded
from discreet.llm.model import LanguageModel
from discreet.quantizers import QuantizerError, quantize_layer

__all__ = ["Stored", "Working"]

ROWS = 2048


@dataclass(frozen=True)
class Stored:
    """What a variant takes on disk.

    Attributes:
        bits_per_weight: Stored bits per weight of the quantized layers: codes, scales and what else is needed.
        bytes: Of the whole model: quantized layers, everything kept in the model's type, and an adapter on top.
        weights: How many weights are quantized.
    """

    bits_per_weight: float
    bytes: int
    weights: int


class Working:
    """The variants of the checkpoints of one base, one at a time, in one working copy.

    Only the weights of Linear layers in the decoder's blocks are quantized (GPT-2's ``Conv1D`` too); embeddings,
    head, norms and biases stay, and are shared with the base. So memory holds the base, a second copy of its
    Linear layers, one checkpoint's adapter, and what one layer takes meanwhile.

    A layer of the working copy is written anew only if its content or the quantizer differ from what it holds.
    Ask for all checkpoints of one variant before the next variant: layers that no adapter touches are then
    quantized once a variant, and of a checkpoint only those that changed. A quantizer that looks at inputs (GPTQ)
    is an exception, since a change in one layer changes the inputs of all that follow: it works on every layer of
    every checkpoint. It is given the inputs that come of calibration texts through the blocks before, quantized
    already.

    In ``"adapter over SPEC"`` the base is quantized once, and each layer's low-rank term is added to its output
    in full precision, as a server of adapters computes it; a layer that was trained whole (``modules_to_save``) is in
    full precision itself there.

    Args:
        base: The model before fine-tuning; it is not changed.
        variants: ``"full"``, quantizers' specs, ``"adapter over SPEC"``.
        calibration: Texts for quantizers that look at inputs; none of them may be judged as a non-member of the
            variant.
        rows: At most so many tokens of them.
        packed: Quantized layers of the base that another working copy left; those of this one join them.

    Attributes:
        quantized: Names of the layers that are quantized.
        kept: Why each other parameter is not.
        requantized: How many quantized layers were written so far.

    Raises:
        ValueError: A variant that cannot be, or needs calibration texts.
    """

    def __init__(
        self,
        base: LanguageModel,
        variants: Sequence[str],
        calibration: Encoded | None = None,
        *,
        rows: int = ROWS,
        packed: Packed | None = None,
    ) -> None:
        self.base, self.variants = base, parse_variants(variants)
        for name, variant in self.variants.items():
            if variant.needs_inputs and calibration is None:
                raise ValueError(
                    f"variant {name!r} looks at what goes into each layer: give calibration texts"
                )
        self._calibration, self._rows, self._packed = calibration, rows, packed
        self._blocks = find_blocks(base.module)
        self.quantized = tuple(name for names in self._blocks.layers for name in names)
        self.kept: Mapping[str, str] = self._blocks.kept
        self.requantized = 0
        self._module = copied(base.module, self._blocks)
        self._source = {name: base.module.get_submodule(name) for name in self.quantized}
        self._target = {name: self._module.get_submodule(name) for name in self.quantized}
        self._holds: dict[str, tuple[str, ...]] = dict.fromkeys(self.quantized, (BASE, "full"))
        self._digests: dict[str, str] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._hooks: list[Any] = []
        self._put: dict[str, str] = {}
        self._adapter: AdapterCheckpoint | None = None
        self._changes: Changes = Changes()
        self._now: Variant | None = None

    def checkpoint(self, adapter: AdapterCheckpoint | None) -> None:
        """Turn to a checkpoint; None: the base itself. Its weights are written when a variant is asked for.

        Raises:
            LanguageModelError: It is another base's, or not supported.
        """
        opened = changes(adapter, self.base)
        self._unhook()
        self._adapter, self._changes, self._now = adapter, opened, None
        self._write_others()

    def variant(self, name: str) -> nn.Module:
        """The working copy with the weights of a variant of the current checkpoint; it holds until the next call.

        Raises:
            ValueError: The variant was not announced.
            QuantizerError: The quantizer fails or yields values that are not finite; variant and layer are named.
        """
        if name not in self.variants:
            raise ValueError(f"variant {name!r} was not announced; there are {', '.join(self.variants)}")
        variant = self.variants[name]
        self._unhook()
        self._now = variant
        for block, layers in zip(self._blocks.blocks, self._blocks.layers, strict=True):
            stale = [each for each in layers if self._holds[each] != self._wanted(each, variant)]
            if stale:
                # All of them where inputs are taken: some may be quantized already if it failed at another.
                self._renew(variant, block, list(layers) if variant.needs_inputs else stale)
        if variant.over:
            self._hooks = [self._hook(each) for each in self.quantized if each in self._changes.layers]
        return self._module

    def stored(self, name: str) -> Stored:
        """What a variant takes on disk, once it was made."""
        variant = self.variants[name]
        own: list[Any] = [self._source[each].weight for each in self.quantized]
        weights, dense = sum(each.numel() for each in own), sum(each.nbytes for each in own)
        kept = sum(value.nbytes for value in self._module.parameters()) - dense
        if variant.quantizer is None:
            return Stored(8 * dense / weights, dense + kept, 0)
        spec = str(variant.quantizer)
        packed = sum(self._sizes[each, spec] for each in self.quantized)
        on_top = sum(map(self._on_top, self._changes.layers)) if variant.over else 0
        return Stored(8 * packed / weights, packed + kept + on_top, weights)

    def fingerprint(self) -> int:
        """The first 64 bits of a SHA-256 over all parameters of the variant that was asked for last.

        Raises:
            ValueError: None was.
        """
        if self._now is None:
            raise ValueError("no variant of this checkpoint was asked for yet")
        for name in self.quantized:
            if name not in self._digests:
                value: Any = self._target[name].weight
                self._digests[name] = tensors_hash([(name, value.data + 0)])  # -0 + 0 is 0
        parts = [self._digests[name] for name in self.quantized] + sorted(
            f"{name} {digest}" for name, digest in self._put.items()
        )
        if self._now.over:
            parts += [f"{name} {digest}" for name, digest in sorted(self._changes.layers.items())]
        digest = joined_hash(self.base.weights, *parts)
        return int.from_bytes(hashlib.sha256(digest.encode()).digest()[:8], "little")

    def _wanted(self, layer: str, variant: Variant) -> tuple[str, ...]:
        """What a layer must hold: whose weight, by which quantizer, after which others."""
        content = BASE if variant.over else self._changes.layers.get(layer, BASE)
        if variant.quantizer is None:
            return content, "full"
        before = ()
        if variant.needs_inputs:
            before = (BASE if variant.over or self._adapter is None else self._adapter.sha,)
        return content, str(variant.quantizer), *before

    def _renew(self, variant: Variant, block: str, layers: list[str]) -> None:
        """Write layers of one block."""
        opened = Changes() if variant.over else self._changes
        inputs: Mapping[str, Tensor] = {}
        if variant.needs_inputs and self._calibration is not None:
            for name in layers:
                self._write(name, opened.merged(name, weight_of(self._source[name])), ("inputs", "full"))
            with self._others_of_the_base(variant.over):
                inputs = layer_inputs(self._module, block, layers, self._calibration, self._rows)
        for name in layers:
            weight = opened.merged(name, weight_of(self._source[name]))
            if variant.quantizer is not None:
                weight = self._quantize(variant, name, weight, inputs.get(name))
            self._write(name, weight, self._wanted(name, variant))

    def _quantize(
        self, variant: Variant, name: str, weight: Float[Tensor, "out in"], inputs: Tensor | None
    ) -> Float[Tensor, "out in"]:
        where = f"variant {variant.name!r}, layer {name!r}"
        quantizer: Any = variant.quantizer
        try:
            of_base = self._wanted(name, variant)[0] == BASE and not variant.needs_inputs
            if of_base and self._packed is not None:
                done = self._packed.layer(quantizer, weight.contiguous(), name=name)
            else:
                done = quantize_layer(quantizer, weight.contiguous(), inputs, name=name)
        except QuantizerError as error:
            raise QuantizerError(f"{where}: {error}") from error
        if not bool(torch.isfinite(done.dense).all()):
            count = int((~torch.isfinite(done.dense)).sum())
            raise QuantizerError(f"{where}: {count} quantized weights are NaN or infinite")
        self.requantized += 1
        self._sizes[name, str(quantizer)] = done.bytes
        return done.dense

    def _write(self, name: str, weight: Float[Tensor, "out in"], holds: tuple[str, ...]) -> None:
        target: Any = self._target[name]
        with torch.no_grad():
            target.weight.copy_(weight.T if is_transposed(target) else weight)
        self._holds[name] = holds
        self._digests.pop(name, None)

    def _write_others(self) -> None:
        """Parameters outside the quantized layers: the checkpoint's own, or again the base's."""
        wanted = dict(self._changes.others)
        wanted |= {name: each for name, each in self._changes.layers.items() if name not in self._target}
        for name in [*self._put, *wanted]:
            if self._put.get(name) != wanted.get(name):
                self._set(name, name in wanted)
        self._put = wanted

    @contextmanager
    def _others_of_the_base(self, wanted: bool) -> Iterator[None]:
        """Parameters outside the quantized layers as the base has them, for a base that is quantized for itself."""
        for name in self._put if wanted else ():
            self._set(name, False)
        try:
            yield
        finally:
            for name in self._put if wanted else ():
                self._set(name, True)

    def _set(self, name: str, changed: bool) -> None:
        """Set a parameter, or the weight of a layer, wherever it is tied to."""
        own = dict(self.base.module.named_parameters(remove_duplicate=False))
        path = name if name in own else f"{name}.weight"
        value = own[path]
        if changed and path == name:
            value = nn.Parameter(
                self._changes.other(name).to(value.dtype).to(value.device), requires_grad=False
            )
        elif changed:
            layer = self.base.module.get_submodule(name)
            made = self._changes.merged(name, weight_of(layer))
            value = nn.Parameter((made.T if is_transposed(layer) else made).contiguous(), requires_grad=False)
        for other, each in own.items():
            if each is own[path]:
                owner, _, last = other.rpartition(".")
                setattr(self._module.get_submodule(owner), last, value)

    def _hook(self, name: str) -> Any:
        """Add a layer's term to its output, or put that of the weight that was trained in its place."""
        term = self._changes.low_rank(name)
        layer: Any = self._target[name]
        if term is None:
            whole = self._changes.merged(name, weight_of(self._source[name]))
            return layer.register_forward_hook(
                lambda module, given, _: functional.linear(given[0], whole, module.bias)
            )
        stretch = term.lengths(weight_of(layer))
        a, b = term.a.float().T.contiguous(), (term.scaling * term.b.float()).T.contiguous()

        def add(module: Any, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
            more = given[0].float() @ a @ b
            if stretch is None:
                return output + more.to(output.dtype)
            plain = output if module.bias is None else output - module.bias
            whole = ((plain.float() + more) * stretch).to(output.dtype)
            return whole if module.bias is None else whole + module.bias

        return layer.register_forward_hook(add)

    def _on_top(self, name: str) -> int:
        """Bytes of a layer's term, or of the weight that takes the place of the layer's own."""
        term = self._changes.low_rank(name)
        if term is None:
            own: Any = self._source.get(name)  # outside the blocks it is kept, and counted there
            return 0 if own is None else own.weight.nbytes
        return term.a.nbytes + term.b.nbytes + (0 if term.magnitude is None else term.magnitude.nbytes)

    def _unhook(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
