"""Train an attack network on balanced batches, choose its epoch by held-out answers, and score with it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from discreet._spread import one_torch_thread
from discreet._types import Bool, Float
from discreet.learners._balanced import balanced, held_out
from discreet.learners._evidence import Evidence
from discreet.optimizers import SLOTS, step_of
from discreet.recipe import Recipe

__all__ = ["Attacker", "Learner", "Streams", "check_settings", "fit"]

Streams = dict[str, Tensor]

_CHUNK = 512


@runtime_checkable
class Learner(Protocol):
    """Settings that the neural attackers share, and what tells them apart."""

    @property
    def epochs(self) -> int: ...
    @property
    def tune(self) -> int: ...
    @property
    def lr(self) -> float: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def held_out(self) -> float: ...
    @property
    def patience(self) -> int: ...
    @property
    def weight_std(self) -> float | None: ...

    def streams(self, evidence: Evidence, scale: float | None) -> tuple[Streams, float]:
        """The network's inputs in float64, and the scale they were divided by (measured when None)."""
        ...

    def network(self, streams: Streams) -> nn.Module:
        """An untrained network, ``Streams -> logit [n]``, for inputs of these widths."""
        ...


@dataclass(frozen=True, eq=False)
class Attacker:
    """A trained attack network.

    Attributes:
        learner: The settings it was trained with.
        network: Its weights, float32.
        scale: What the gradient stream is divided by, from the samples it was first trained on.
        widths: Columns of each stream.
        history: Balanced cross-entropy in nats of the held-out samples, before training (if it began from
            another attacker) and after each epoch; empty where nothing was held out.
        epoch: Epochs of training behind the weights that were kept, counted in this fit.
    """

    learner: Learner
    network: nn.Module
    scale: float
    widths: dict[str, int]
    history: tuple[float, ...]
    epoch: int

    def score(self, evidence: Evidence) -> Float[np.ndarray, " sample"]:
        """Logit of the probability that each sample was trained on; higher = more likely member.

        Computed in float64, so that no logit saturates and a sample's score does not depend on the others.

        Raises:
            ValueError: Other numbers of classes or hidden features than it was trained on.
        """
        network = copy.deepcopy(self.network).double()
        scores = []
        with one_torch_thread(), torch.no_grad():
            for start in range(0, len(evidence), _CHUNK):
                part = evidence.take(np.arange(start, min(start + _CHUNK, len(evidence))))
                streams, _ = self.learner.streams(part, self.scale)
                _check_widths(streams, self.widths)
                scores.append(network(streams).numpy())
        return np.concatenate(scores) if scores else np.empty(0)


def fit(
    learner: Learner,
    evidence: Evidence,
    member: np.ndarray,
    seed: int,
    init: Attacker | None,
) -> Attacker:
    """Train on samples whose answers are known.

    The same seed gives the same bits, whatever the order of the samples (their ids settle it) and the number
    of torch's threads.
    """
    member = np.asarray(member)
    if member.dtype != np.bool_ or member.shape != (len(evidence),):
        raise ValueError(
            f"member: expected {len(evidence)} true or false values, got {member.dtype} {list(member.shape)}"
        )
    if member.all() or not member.any():
        raise ValueError(
            f"member: expected members and non-members, got {int(member.sum())} of {len(member)} members"
        )
    order = evidence.order()
    evidence, member = evidence.take(order), member[order]
    scale = None if init is None else init.scale
    streams, scale = learner.streams(evidence, scale)
    if init is not None:
        _check_widths(streams, init.widths)
    streams = {name: values.float() for name, values in streams.items()}

    with one_torch_thread(), torch.enable_grad():
        network, history, epoch = _train(learner, streams, member, seed, init)
    widths = {name: values.shape[1] for name, values in streams.items()}
    return Attacker(learner, network, scale, widths, history, epoch)


def _train(
    learner: Learner, streams: Streams, member: Bool[np.ndarray, " sample"], seed: int, init: Attacker | None
) -> tuple[nn.Module, tuple[float, ...], int]:
    choosing, drawing, starting = np.random.SeedSequence(seed).spawn(3)
    out = held_out(member, learner.held_out, np.random.default_rng(choosing))
    rows, rng = np.flatnonzero(~out), np.random.default_rng(drawing)
    if init is None:
        network = learner.network(streams)
        _initialise(network, learner.weight_std, int(starting.generate_state(1)[0]))
    else:
        network = copy.deepcopy(init.network).requires_grad_(True)
    watch = _Watch(network, _rows(streams, np.flatnonzero(out)), member[out], learner.patience)
    if init is not None:
        watch(0)
    descend = _Descent(network, learner.lr)
    wide = torch.from_numpy(member)
    for epoch in range(1, 1 + (learner.epochs if init is None else learner.tune)):
        for batch in balanced(member[rows], learner.batch_size, rng):
            own = rows[batch]
            descend(_cross_entropy(network(_rows(streams, own)), wide[own]).mean())
        if watch(epoch):
            break
    return watch.best()


class _Descent:
    """Adam, by the function behind ``torch.optim.Adam``, whose first step loads two seconds of compiler."""

    def __init__(self, network: nn.Module, lr: float) -> None:
        self.live = dict(network.named_parameters())
        self.params = {name: value.detach() for name, value in self.live.items()}
        self.moments = {
            slot: {name: torch.zeros_like(value) for name, value in self.params.items()}
            for slot in SLOTS["adam"]
        }
        self.update, self.count = step_of(Recipe(optimizer="adam", lr=lr)), 0

    def __call__(self, loss: Tensor) -> None:
        gradients = torch.autograd.grad(loss, list(self.live.values()))
        self.count += 1
        with torch.no_grad():
            self.update(self.params, dict(zip(self.params, gradients, strict=True)), self.moments, self.count)


class _Watch:
    """Keeps the weights of the epoch with the least held-out cross-entropy; the last ones if nothing is held out."""

    def __init__(
        self, network: nn.Module, streams: Streams, member: Bool[np.ndarray, " sample"], patience: int
    ) -> None:
        self.network, self.streams, self.member = network, streams, torch.from_numpy(member)
        self.patience = patience
        self.history: list[float] = []
        self.epoch, self.least, self.kept = 0, math.inf, copy.deepcopy(network.state_dict())

    def __call__(self, epoch: int) -> bool:
        """Look at the network after an epoch; whether to stop."""
        if not len(self.member):
            self.epoch, self.kept = epoch, self.network.state_dict()
            return False
        with torch.no_grad():
            parts = torch.arange(len(self.member)).split(_CHUNK)
            logits = torch.cat([self.network(_rows(self.streams, part.numpy())) for part in parts])
            losses = _cross_entropy(logits, self.member)
            value = (losses[self.member].mean() + losses[~self.member].mean()).item() / 2
        self.history.append(value)
        if value < self.least:
            self.epoch, self.least = epoch, value
            self.kept = copy.deepcopy(self.network.state_dict())
        return bool(self.patience) and epoch - self.epoch >= self.patience

    def best(self) -> tuple[nn.Module, tuple[float, ...], int]:
        self.network.load_state_dict(self.kept)
        return self.network.requires_grad_(False), tuple(self.history), self.epoch


def check_settings(learner: Learner) -> None:
    """Refuse settings out of range.

    Raises:
        ValueError: Which one, and what was expected.
    """
    ranges: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
        ("epochs", lambda value: value >= 1, "at least 1"),
        ("tune", lambda value: value >= 0, "at least 0"),
        ("lr", lambda value: 0 < value < math.inf, "a positive number"),
        ("batch_size", lambda value: value >= 2, "at least 2"),
        ("held_out", lambda value: 0 <= value < 1, "a share from 0 up to, but not, 1"),
        ("patience", lambda value: value >= 0, "at least 0"),
        ("weight_std", lambda value: value is None or 0 < value < math.inf, "None or a positive number"),
    )
    for name, fits, expected in ranges:
        if not fits(getattr(learner, name)):
            raise ValueError(f"{name}: expected {expected}, got {getattr(learner, name)!r}")


def _initialise(network: nn.Module, std: float | None, seed: int) -> None:
    """Normal weights and zero biases.

    When ``std`` is None as in He et al., "Delving Deep into Rectifiers" (2015), Eq. 10, but for the last layer,
    which begins at 0: a network that has learnt little then says nothing, not something at random.
    """
    generator = torch.Generator().manual_seed(seed)
    *_, last = (parameter for parameter in network.parameters() if parameter.ndim > 1)
    for parameter in network.parameters():
        if parameter.ndim < 2 or (parameter is last and std is None):
            nn.init.zeros_(parameter)
        elif std is None:
            nn.init.kaiming_normal_(parameter, nonlinearity="relu", generator=generator)
        else:
            nn.init.normal_(parameter, 0.0, std, generator=generator)


def _cross_entropy(logit: Float[Tensor, " n"], member: Bool[Tensor, " n"]) -> Float[Tensor, " n"]:
    return softplus(torch.where(member, -logit, logit))


def _rows(streams: Streams, rows: np.ndarray) -> Streams:
    index = torch.from_numpy(rows)
    return {name: values[index] for name, values in streams.items()}


def _check_widths(streams: Streams, widths: dict[str, int]) -> None:
    for name, values in streams.items():
        if values.shape[1] != widths[name]:
            raise ValueError(
                f"evidence: the attacker was trained with {widths[name]} columns in its {name} stream, "
                f"got {values.shape[1]}"
            )
