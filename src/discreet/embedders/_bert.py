"""A BERT encoder from its saved weights, in torch alone: "BERT: Pre-training of Deep Bidirectional Transformers".

Post-norm layers, exact GELU, learned positions, as Hugging Face's ``BertModel`` computes them (within rounding).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

from discreet._types import Float, Int

__all__ = ["Bert"]


@dataclass(frozen=True, eq=False)
class Bert:
    """Weights by the names of ``BertModel``.

    Attributes:
        weights: ``embeddings.word_embeddings.weight`` and so on.
        heads: Attention heads.
        eps: Of the layer norms.
    """

    weights: Mapping[str, Tensor]
    heads: int
    eps: float = 1e-12

    @property
    def layers(self) -> int:
        """How many encoder layers the weights hold."""
        return sum(name.endswith("attention.self.query.weight") for name in self.weights)

    def states(self, tokens: Int[Tensor, "batch token"], pad: int) -> Float[Tensor, "batch token hidden"]:
        """Last hidden states.

        Args:
            tokens: Numbers of the tokens.
            pad: Number of the token that fills up and is not attended to.
        """
        seen = (tokens != pad)[:, None, None, :]
        word, place, kind = (
            self.weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        x = self._norm("embeddings", word[tokens] + place[: tokens.shape[1]] + kind[0])
        for layer in range(self.layers):
            name = f"encoder.layer.{layer}"
            q, k, v = (
                self._linear(f"{name}.attention.self.{part}", x)
                .unflatten(-1, (self.heads, -1))
                .transpose(1, 2)
                for part in ("query", "key", "value")
            )
            mixed = scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(-2)
            x = self._norm(
                f"{name}.attention.output", x + self._linear(f"{name}.attention.output.dense", mixed)
            )
            wide = gelu(self._linear(f"{name}.intermediate.dense", x))
            x = self._norm(f"{name}.output", x + self._linear(f"{name}.output.dense", wide))
        return x

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, name: str, x: Tensor) -> Tensor:
        name = f"{name}.LayerNorm"
        return layer_norm(
            x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], self.eps
        )
