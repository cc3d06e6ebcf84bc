"""What a checkpoint makes of its base: low-rank terms on layers, and other parameters in place of the base's."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from discreet._types import Float
from discreet.llm._hash import joined_hash, tensors_hash
from discreet.llm.adapters import AdapterCheckpoint, check_base
from discreet.llm.model import LanguageModel, LanguageModelError

__all__ = ["Changes", "LowRank", "changes", "is_transposed", "weight_of"]

BASE = "base"
_UNSUPPORTED = (
    "alora_invocation_tokens",
    "arrow_config",
    "kasa_config",
    "layer_replication",
    "lora_bias",
    "monteclora_config",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_qalora",
)
# Initialisations that take their term out of the base's weights, so that the adapter does not fit the base itself.
_MOVED = ("pissa", "olora", "corda", "loftq", "lora_ga")


@dataclass(frozen=True, eq=False)
class LowRank:
    """A LoRA term: weight + scaling · B A; with DoRA, each output row then has the length ``magnitude``.

    Attributes:
        a: A.
        b: B.
        scaling: alpha / r, or alpha / sqrt(r).
        magnitude: Of DoRA; None without.
    """

    a: Float[Tensor, "rank in"]
    b: Float[Tensor, "out rank"]
    scaling: float
    magnitude: Float[Tensor, " out"] | None = None

    def merged(self, weight: Float[Tensor, "out in"]) -> Float[Tensor, "out in"]:
        """The weight with the term in it, computed in float32 (float64 for a weight in that)."""
        kind = torch.promote_types(weight.dtype, torch.float32)
        whole = torch.addmm(weight.to(kind), self.b.to(kind), self.a.to(kind), alpha=self.scaling)
        if self.magnitude is not None:
            whole *= (self.magnitude.to(kind) / torch.linalg.norm(whole, dim=1))[:, None]
        return whole.to(weight.dtype)

    def lengths(self, weight: Float[Tensor, "out in"]) -> Float[Tensor, " out"] | None:
        """With DoRA: what each output of the layer is multiplied with."""
        if self.magnitude is None:
            return None
        whole = torch.addmm(weight.float(), self.b.float(), self.a.float(), alpha=self.scaling)
        return self.magnitude.float() / torch.linalg.norm(whole, dim=1)


class Changes:
    """A checkpoint against its base; by itself, the base as it is.

    Attributes:
        layers: Of each Linear layer whose weight differs from the base's, a hash of what makes it differ.
        others: The same of every other parameter.
    """

    layers: Mapping[str, str] = MappingProxyType({})
    others: Mapping[str, str] = MappingProxyType({})

    def merged(self, layer: str, weight: Float[Tensor, "out in"]) -> Float[Tensor, "out in"]:
        """The checkpoint's weight of a layer, from the base's, which stays unchanged."""
        return weight

    def low_rank(self, layer: str) -> LowRank | None:
        """The term that is added to the layer's output; None where there is none, or the whole weight is another."""
        return None

    def other(self, name: str) -> Tensor:
        """The checkpoint's value of another parameter."""
        raise KeyError(name)


class _Lora(Changes):
    """Terms of layers, weights [out, in] of layers that were trained whole, and values of other parameters."""

    def __init__(
        self, terms: Mapping[str, LowRank], weights: Mapping[str, Tensor], values: Mapping[str, Tensor]
    ) -> None:
        self._terms, self._weights, self._values = terms, weights, values
        trained = {name: tensors_hash([(name, weight)]) for name, weight in weights.items()}
        added = {name: _term_hash(term) for name, term in terms.items()}
        both = {name: joined_hash(trained[name], added[name]) for name in trained.keys() & added.keys()}
        self.layers: Mapping[str, str] = trained | added | both
        self.others: Mapping[str, str] = {
            name: tensors_hash([(name, value)]) for name, value in values.items()
        }

    def merged(self, layer: str, weight: Float[Tensor, "out in"]) -> Float[Tensor, "out in"]:
        weight, term = self._weights.get(layer, weight).to(weight), self._terms.get(layer)
        return weight if term is None else term.merged(weight)

    def low_rank(self, layer: str) -> LowRank | None:
        return None if layer in self._weights else self._terms.get(layer)

    def other(self, name: str) -> Tensor:
        return self._values[name]


class _Whole(Changes):
    """A whole model, of which one tensor at a time is read."""

    def __init__(
        self,
        places: Mapping[str, Any],
        layers: Mapping[str, str],
        others: Mapping[str, str],
        transposed: Set[str],
    ) -> None:
        self._places, self._transposed = places, transposed
        self.layers: Mapping[str, str] = layers
        self.others: Mapping[str, str] = others

    def merged(self, layer: str, weight: Float[Tensor, "out in"]) -> Float[Tensor, "out in"]:
        if layer not in self.layers:
            return weight
        name = f"{layer}.weight"
        value = self._places[name].get_tensor(name).to(weight.dtype).to(weight.device)
        return value.T if layer in self._transposed else value

    def low_rank(self, layer: str) -> LowRank | None:
        raise LanguageModelError(
            "an adapter over a quantized base needs adapters, but this checkpoint is a whole model"
        )

    def other(self, name: str) -> Tensor:
        return self._places[name].get_tensor(name)


def is_transposed(layer: nn.Module) -> bool:
    """Whether a layer keeps its weight as [in, out], as GPT-2's do."""
    return type(layer).__name__ == "Conv1D"


def weight_of(layer: nn.Module) -> Float[Tensor, "out in"]:
    """The weight of a layer as [out, in], not copied."""
    weight: Any = layer.weight
    return weight.data.T if is_transposed(layer) else weight.data


def changes(adapter: AdapterCheckpoint | None, base: LanguageModel) -> Changes:
    """Open a checkpoint, and check that it fits its base.

    Adapters are read whole (they are small) and kept in memory; of whole models every tensor is read once to compare
    it with the base's.

    Raises:
        LanguageModelError: The base is another one, or the adapter has parts that are not supported.
    """
    if adapter is None:
        return Changes()
    check_base(adapter, base)
    return _whole(adapter, base) if adapter.kind == "full" else _lora(adapter, base)


def _lora(adapter: AdapterCheckpoint, base: LanguageModel) -> Changes:
    _check_config(adapter)
    parts: dict[str, dict[str, Tensor]] = {}
    values: dict[str, Tensor] = {}
    with safe_open(adapter.files[0], "pt", device=str(base.device)) as file:
        for key in sorted(file.keys()):
            name = key.removeprefix("base_model.model.").replace(".base_layer.", ".")
            found = re.fullmatch(r"(.+)\.(lora_A|lora_B|lora_magnitude_vector)(\.weight)?", name)
            if found:
                parts.setdefault(found[1], {})[found[2]] = file.get_tensor(key)
            else:
                values[name] = file.get_tensor(key)
    modules, terms = dict(base.module.named_modules()), {}
    for name, part in parts.items():
        term = _term(adapter, base, name, part, modules)
        if term.magnitude is not None or bool(term.b.any()):
            terms[name] = term
    weights, others = {}, {}
    for name, value in _replaced(adapter, base, values):
        layer = _layer_of(name, base)
        if layer is None:
            others[name] = value
        else:
            weights[layer] = value.T if is_transposed(modules[layer]) else value
    return _Lora(terms, weights, others)


def _check_config(adapter: AdapterCheckpoint) -> None:
    for name in _UNSUPPORTED:
        if adapter.config.get(name):
            raise LanguageModelError(
                f"{adapter.path}: {name} is not supported; merge the adapter with peft (merge_and_unload) and give"
                " whole models"
            )
    how = adapter.config.get("init_lora_weights")
    if isinstance(how, str) and how.lower().startswith(_MOVED):
        raise LanguageModelError(
            f"{adapter.path}: init_lora_weights={how!r} changes the base's weights, so the adapter does not fit the"
            " base itself; save it converted (path_initial_model_for_weight_conversion)"
        )


def _term(
    adapter: AdapterCheckpoint,
    base: LanguageModel,
    name: str,
    part: Mapping[str, Tensor],
    modules: Mapping[str, Any],
) -> LowRank:
    layer = modules.get(name)
    if layer is None:
        raise LanguageModelError(
            f"{adapter.path}: has a term for {name!r}, but {base.name!r} has no such layer; it is another base's"
        )
    if not isinstance(layer, nn.Linear) and not is_transposed(layer):
        raise LanguageModelError(
            f"{adapter.path}: has a term for {name!r}, a {type(layer).__name__}; Linear and Conv1D are supported"
        )
    tied = [n for n, each in modules.items() if getattr(each, "weight", None) is layer.weight and n != name]
    if tied:
        raise LanguageModelError(
            f"{adapter.path}: has a term for {name!r}, which in {base.name!r} is tied to {tied[0]!r}; merge the"
            " adapter with peft and give whole models"
        )
    if "lora_A" not in part or "lora_B" not in part:
        raise LanguageModelError(f"{adapter.path}: of the term for {name!r}, A or B is missing")
    a, b = part["lora_A"], part["lora_B"]
    shape = tuple(weight_of(layer).shape)
    if a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1] or (b.shape[0], a.shape[1]) != shape:
        raise LanguageModelError(
            f"{adapter.path}: the term for {name!r} is {list(b.shape)} times {list(a.shape)}, but the layer of"
            f" {base.name!r} is {list(shape)}; it is another base's"
        )
    for value in part.values():
        if not bool(torch.isfinite(value).all()):
            raise LanguageModelError(f"{adapter.path}: the term for {name!r} has values that are not finite")
    config, rank = adapter.config, a.shape[0]
    alpha = float(_by_pattern(config.get("alpha_pattern") or {}, name, config["lora_alpha"]))
    scaling = alpha / math.sqrt(rank) if config.get("use_rslora") else alpha / rank
    return LowRank(a, b, scaling, part.get("lora_magnitude_vector"))


def _by_pattern(patterns: Mapping[str, Any], name: str, usual: Any) -> Any:
    """The value of the first pattern that a layer's name ends in, as peft matches them."""
    for pattern, value in patterns.items():
        if re.match(rf"(.*\.)?({pattern})$", name):
            return value
    return usual


def _replaced(
    adapter: AdapterCheckpoint, base: LanguageModel, values: Mapping[str, Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """Biases and modules that were trained whole (``modules_to_save``) and differ from the base's."""
    own = dict(base.module.named_parameters(remove_duplicate=False))
    for name, value in values.items():
        if name not in own or own[name].shape != value.shape:
            known = f"has the shape {list(own[name].shape)} there" if name in own else "is no parameter of it"
            raise LanguageModelError(f"{adapter.path}: {name!r} does not fit {base.name!r}: it {known}")
        if torch.equal(value.to(own[name].dtype), own[name]):
            continue
        tied = [other for other, each in own.items() if each is own[name] and other != name]
        if tied:
            raise LanguageModelError(
                f"{adapter.path}: {name!r} was trained, but in {base.name!r} it is tied to {tied[0]!r}; merge the"
                " adapter with peft and give whole models"
            )
        yield name, value


def _whole(adapter: AdapterCheckpoint, base: LanguageModel) -> Changes:
    places: dict[str, Any] = {}
    for path in adapter.files:
        opened: Any = safe_open(path, "pt")
        places |= dict.fromkeys(opened.keys(), opened)
    own = dict(base.module.named_parameters(remove_duplicate=False))
    first = {id(value): name for name, value in reversed(own.items()) if name in places}
    missing = [name for name, value in own.items() if id(value) not in first]
    more = [name for name in places if name not in own and name not in base.module.state_dict()]
    if missing or more:
        what = f"lacks {missing[0]!r}" if missing else f"has {more[0]!r}, which the base does not"
        raise LanguageModelError(f"{adapter.path}: {what}: {base.name!r} is another model")
    layers, others = {}, {}
    for name in first.values():
        value = places[name].get_tensor(name)
        if value.shape != own[name].shape:
            raise LanguageModelError(
                f"{adapter.path}: {name!r} has the shape {list(value.shape)}, but {list(own[name].shape)} in"
                f" {base.name!r}"
            )
        if torch.equal(value.to(own[name].dtype), own[name].cpu()):
            continue
        layer = _layer_of(name, base)
        (others if layer is None else layers)[layer or name] = tensors_hash([(name, value)])
    transposed = {name for name in layers if is_transposed(base.module.get_submodule(name))}
    return _Whole(places, layers, others, transposed)


def _layer_of(name: str, base: LanguageModel) -> str | None:
    """The Linear or Conv1D layer that a parameter is the weight of."""
    owner, _, last = name.rpartition(".")
    layer = base.module.get_submodule(owner)
    return owner if last == "weight" and (isinstance(layer, nn.Linear) or is_transposed(layer)) else None


def _term_hash(term: LowRank) -> str:
    tensors = [("a", term.a), ("b", term.b)]
    more = [] if term.magnitude is None else [("m", term.magnitude)]
    return joined_hash(tensors_hash([*tensors, *more]), repr(term.scaling))
