"""One pass over texts: log-probabilities of their tokens, and what the whole distribution says of each.

From these every attack on texts is computed: LOSS, zlib and Min-K% take the log-probabilities, Min-K%++ ("Min-K%++:
Improved Baseline for Pre-Training Data Detection from Large Language Models", equation 3) their mean and deviation
under the model as well, others the rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from discreet._types import Float, Int
from discreet.llm._head import hidden_and_head, whole_logits
from discreet.llm.encoding import Encoded
from discreet.llm.model import LanguageModel, LanguageModelError
from discreet.records.laws import quoted

__all__ = ["TokenSignals", "losses", "token_signals"]

BATCH_TOKENS = 2048
_LOGITS = 1 << 24  # that are made at once: 64 MiB of float32
_CACHED = 1 << 17  # that statistics pass over while they are in the processor's cache


@dataclass(frozen=True, eq=False)
class TokenSignals:
    """What a model says of each scored token, texts one after the other.

    Attributes:
        offsets: Text i has the tokens ``offsets[i]:offsets[i + 1]``.
        logp: l_t = log p of the token that is there, in nats.
        mean: mu_t = sum over the vocabulary of p log p, what l_t is on average under the model.
        std: sigma_t = sqrt(sum p (log p - mu_t)^2); 0 where all tokens that have any probability are equally
            likely.
        rank: How many tokens are likelier than the one that is there; 0 for the likeliest.
    """

    offsets: Int[np.ndarray, " bound"]
    logp: Float[np.ndarray, " token"]
    mean: Float[np.ndarray, " token"]
    std: Float[np.ndarray, " token"]
    rank: Int[np.ndarray, " token"]

    @property
    def loss(self) -> Float[np.ndarray, " sample"]:
        """Mean of -log p over the scored tokens of each text, in nats."""
        return _means(self.logp, self.offsets)


def token_signals(
    model: LanguageModel | nn.Module, encoded: Encoded, *, batch_tokens: int = BATCH_TOKENS
) -> TokenSignals:
    """Measure every scored token.

    Texts of like length share a batch, padded behind; results are in the order of the texts. Beside the
    decoder's own, memory is that of 2^24 logits, whatever the vocabulary and the length of the texts; except of a
    model whose head cannot be told from its decoder (``hidden_and_head`` gives None): it makes the logits of whole
    texts, so that memory is that of the vocabulary times the longest text at least. A batch of one gives what a
    large batch gives within 1e-4 in float32 (matrix products round differently).

    Args:
        model: A model; its device and type are used.
        encoded: Texts that were encoded for it.
        batch_tokens: At most so many tokens in a batch, padding included, or one text.

    Raises:
        LanguageModelError: Log-probabilities that are not finite, as of a token that the model rules out; the text is
            named.
    """
    logp, mean, std, rank = _visit(model, encoded, _statistics, 4, batch_tokens)
    single = [values.astype(np.float32) for values in (logp, mean, std)]
    return TokenSignals(encoded.offsets, single[0], single[1], single[2], rank.astype(np.int32))


def losses(
    model: LanguageModel | nn.Module, encoded: Encoded, *, batch_tokens: int = BATCH_TOKENS
) -> Float[np.ndarray, " sample"]:
    """Mean of -log p over the scored tokens of each text, in nats, and nothing else.

    Raises:
        LanguageModelError: As in ``token_signals``.
    """
    (logp,) = _visit(model, encoded, _log_probabilities, 1, batch_tokens)
    return _means(logp, encoded.offsets)


def batches(
    lengths: Int[np.ndarray, " window"], batch_tokens: int, *, by_length: bool = True
) -> list[Int[np.ndarray, " chosen"]]:
    """Windows that are measured together: as many as fit when all are padded to the longest.

    Example:
        >>> [batch.tolist() for batch in batches(np.array([5, 1, 2, 4]), 8)]
        [[0], [3, 2], [1]]
    """
    order = np.argsort(-lengths, kind="stable") if by_length else np.arange(len(lengths))
    found: list[list[int]] = []
    longest = 0
    for window in order.tolist():
        longest = max(longest, int(lengths[window])) if found and found[-1] else int(lengths[window])
        if found and longest * (len(found[-1]) + 1) <= batch_tokens:
            found[-1].append(window)
        else:
            found.append([window])
            longest = int(lengths[window])
    return [np.array(batch) for batch in found]


Measure = Callable[[Tensor, Tensor], Tensor]
"""Logits [position, token] and the tokens that are there to figures [figure, position], float64."""


def _visit(
    model: LanguageModel | nn.Module, encoded: Encoded, measure: Measure, figures: int, batch_tokens: int
) -> Float[np.ndarray, "figure token"]:
    """Figures of every scored token, in the order of the texts."""
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens: expected at least 1, got {batch_tokens}")
    module: Any = model.module if isinstance(model, LanguageModel) else model
    device, lengths = next(module.parameters()).device, encoded.lengths
    scored = lengths - encoded.first
    starts = [0, *np.cumsum(scored).tolist()]  # windows of a text follow each other, as its tokens do
    found = np.empty((figures, starts[-1]))
    with torch.no_grad(), _evaluating(module):
        parts = hidden_and_head(module, torch.from_numpy(encoded.window(0)).to(device))
        if parts is None:
            batch_tokens = min(batch_tokens, max(1, _LOGITS // len(module.get_input_embeddings().weight)))
        for batch in batches(lengths, batch_tokens):
            ids, mask = _padded(encoded, batch, device)
            where, targets = _scored(encoded, batch, ids)
            places = np.concatenate([np.arange(starts[w], starts[w + 1]) for w in batch.tolist()])
            if parts is None:
                logits = whole_logits(module, ids, mask).flatten(0, 1)[where]
                values = measure(logits, targets)
            else:
                given = parts[0](ids, mask).flatten(0, 1)[where]
                step = max(1, _LOGITS // _width(module))
                pieces = zip(given.split(step), targets.split(step), strict=True)
                values = torch.cat([measure(parts[1](piece), target) for piece, target in pieces], dim=1)
            found[:, places] = values.cpu().numpy()
    _check_finite(found, encoded)
    return found


def _width(module: Any) -> int:
    """Tokens that the head tells apart."""
    return int(module.get_output_embeddings().weight.shape[0])


def _padded(
    encoded: Encoded, batch: Int[np.ndarray, " chosen"], device: torch.device
) -> tuple[Int[Tensor, "window position"], Int[Tensor, "window position"] | None]:
    """Token ids with any id behind the shorter windows, and which of them are text (None: all)."""
    lengths = encoded.lengths[batch]
    ids = np.zeros((len(batch), int(lengths.max())), np.int64)
    for row, window in enumerate(batch.tolist()):
        ids[row, : lengths[row]] = encoded.window(window)
    mask = np.arange(ids.shape[1]) < lengths[:, None]
    moved = torch.from_numpy(ids).to(device)
    return moved, None if mask.all() else torch.from_numpy(mask.astype(np.int64)).to(device)


def _scored(
    encoded: Encoded, batch: Int[np.ndarray, " chosen"], ids: Tensor
) -> tuple[Int[Tensor, " token"], Int[Tensor, " token"]]:
    """Where the predictions of scored tokens are in the flat batch, and the tokens themselves."""
    width = ids.shape[1]
    places = [
        row * width + np.arange(int(encoded.first[window]), int(encoded.lengths[window]))
        for row, window in enumerate(batch.tolist())
    ]
    at = torch.from_numpy(np.concatenate(places)).to(ids.device)
    return at - 1, ids.flatten()[at]


def _log_probabilities(logits: Float[Tensor, "position vocabulary"], targets: Tensor) -> Tensor:
    return -functional.cross_entropy(_wide(logits), targets, reduction="none").double()[None]


def _statistics(
    logits: Float[Tensor, "position vocabulary"], targets: Int[Tensor, " position"]
) -> Float[Tensor, "4 position"]:
    """l_t, mu_t, sigma_t and the rank, in passes over few enough logits to stay in the processor's cache."""
    step = max(1, _CACHED // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    pieces = zip(logits.split(step), targets.split(step), strict=True)
    return torch.cat([_statistics_of(_wide(piece), target) for piece, target in pieces], dim=1)


def _statistics_of(z: Float[Tensor, "position vocabulary"], target: Int[Tensor, " position"]) -> Tensor:
    found = _moments(z, target)
    if bool(torch.isfinite(found).all()) or not bool(torch.isneginf(z).any()):
        return found
    # tokens that cannot occur have no share in any sum, but 0 times infinity is no number
    found = _moments(z.clamp(min=z.amax(1, keepdim=True) - 1e4), target)
    ruled_out = torch.isneginf(z.gather(1, target[:, None])[:, 0])
    found[0, ruled_out] = -torch.inf  # as in a loss: such a token is there all the same
    return found


def _moments(z: Float[Tensor, "position vocabulary"], target: Int[Tensor, " position"]) -> Tensor:
    own, top = z.gather(1, target[:, None]), z.amax(1, keepdim=True)
    room = torch.empty_like(z)
    rank = torch.gt(z, own, out=room).sum(1)
    share = torch.softmax(z, dim=1)
    log_total = -share.amax(1).double().log()  # the largest share is 1 / sum exp(z - top)
    away = torch.sub(z, top, out=room)
    mean = torch.linalg.vecdot(share, away).double()
    # sigma from what is left after the mean is taken off, since a difference of squares would cancel
    away -= mean[:, None].to(away.dtype)
    variance = torch.linalg.vecdot(share.mul_(away), away).double()
    logp = (own - top).double()[:, 0] - log_total
    return torch.stack([logp, mean - log_total, variance.clamp_(min=0).sqrt_(), rank.double()])


def _wide(logits: Tensor) -> Tensor:
    """Logits in float32 at least."""
    return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()


def _means(
    logp: Float[np.ndarray, " token"], offsets: Int[np.ndarray, " bound"]
) -> Float[np.ndarray, " sample"]:
    return -np.add.reduceat(logp.astype(np.float64), offsets[:-1]) / np.diff(offsets)


def _check_finite(found: Float[np.ndarray, "figure token"], encoded: Encoded) -> None:
    bad = np.flatnonzero(~np.isfinite(found).all(axis=0))
    if bad.size:
        text = int(np.searchsorted(encoded.offsets, bad[0], side="right")) - 1
        raise LanguageModelError(
            f"the model's log-probabilities are not finite for {bad.size} of {found.shape[1]} tokens, first in text"
            f" {text} (id {quoted(encoded.sample[text])})"
        )


class _evaluating:
    """Evaluation mode meanwhile; each part is left in the mode it had."""

    def __init__(self, module: nn.Module) -> None:
        self.was = [part for part in module.modules() if part.training]

    def __enter__(self) -> None:
        for part in self.was:
            part.training = False

    def __exit__(self, *error: object) -> None:
        for part in self.was:
            part.training = True
