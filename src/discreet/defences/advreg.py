"""Adversarial regularisation: Nasr et al., "Machine Learning with Membership Privacy using Adversarial
Regularization" (2018), Algorithm 1.

The adversary is a network that sees probabilities and label. It is trained beside the model, on the model's members
and on reference samples with their labels, and its weights are part of the stack, as buffers: a state that is saved
holds it, and no mask or weight decay reaches it. It goes when the training ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import logsigmoid

from discreet._types import Float, Int, Num
from discreet.defences._check import check_range
from discreet.defences._gradients import Stack, losses_of, prepared, seen, sole, stacked
from discreet.defences._modules import put_in
from discreet.defences._objective import classes, label, objective
from discreet.defences._streams import OUTSIDERS
from discreet.defences.dmp import DMP
from discreet.initial import as_model
from discreet.model_seeds import stream
from discreet.outputs import columns
from discreet.phase import Phase, Setting, fresh_phase
from discreet.training_paths import Batch, Gradients
from discreet.training_paths.choice import traits

__all__ = ["AdvReg"]

NAME = "adversary"


@dataclass(frozen=True)
class AdvReg:
    """Train against an attacker: the loss gets the mean log probability of membership that it gives to members.

    Attributes:
        alpha: Weight of that term.
        steps: Steps of the attacker (Adam) before each step of the model.
        warmup: Epochs before attacker and term set in.
        lr: Of the attacker.
        width: Of the attacker's first hidden layers; the later ones have half of it.
    """

    alpha: float | int = 1.0
    steps: int = 2
    warmup: int = 0
    lr: float | int = 1e-3
    width: int = 64

    def __post_init__(self) -> None:
        check_range("alpha", self.alpha, 0)
        check_range("steps", self.steps, 1)
        check_range("warmup", self.warmup, 0)
        check_range("lr", self.lr, 0, above=True)
        check_range("width", self.width, 2)

    @property
    def needs_teacher(self) -> bool:
        """No."""
        return False

    def check(self, setting: Setting) -> None:
        """Refuse a setting without classes, or without reference samples whose labels are known.

        Raises:
            ValueError: Saying which.
        """
        if setting.kind not in ("bce", "ce"):
            raise ValueError(f"advreg: expected a task with classes (bce or ce), got {setting.kind}")
        if not setting.roles.reference.shape[1]:
            raise ValueError(
                "advreg: expected reference samples with labels, which are no members, to train the attacker on; the"
                " roles deal none"
            )
        if not setting.roles.labelled:
            raise ValueError(
                "advreg: expected reference samples with labels, as the attacker reads them; those given have none"
            )

    def apply(self, phase: Phase) -> Phase:
        """See ``Defence``.

        Raises:
            ValueError: No reference samples, no classes, a training without members, or a second defence that makes
                the steps itself.
        """
        sole("advreg", phase)
        self.check(phase.setting)
        outputs = traits(as_model(phase.model), phase.x).outputs

        def insert(module: nn.Module) -> None:
            if hasattr(module, NAME):
                raise ValueError(f"advreg: the module has a part named {NAME!r} already")
            module.add_module(NAME, _Carrier(max(2, outputs), self.width))

        changed = put_in(phase, insert)
        return replace(changed, steps=self.gradients, finish=(*phase.finish, _strip))

    def gradients(self, phase: Phase) -> Gradients:
        """See ``Phase.steps``."""
        if isinstance(objective(phase).target, DMP):
            raise ValueError("advreg: dmp trains on no members, there is nobody to hide")
        losses, train = losses_of(phase), _Attack(self, phase)

        def value(outputs: Tensor, y: Tensor, fixed: Stack, batch: Batch) -> Tensor:
            loss = losses(outputs, y, batch.epoch.number).mean()
            if batch.epoch.number <= self.warmup:
                return loss
            return loss + self.alpha * logsigmoid(train.judge(_read(fixed, "w"), outputs, label(y))).mean()

        main = stacked(phase, value)

        def gradients(params: Stack, batch: Batch) -> Stack:
            batch = seen(phase, batch)
            if batch.epoch.number > self.warmup:
                for number in range(self.steps):
                    train.step(params, batch, number)
            return main(params, batch)

        return gradients


class _Attack:
    """The attacker of one phase; its weights are in the stack."""

    def __init__(self, defence: AdvReg, phase: Phase) -> None:
        setting = phase.setting
        plain = fresh_phase(setting)
        self.defence, self.phase = defence, phase
        self.x, self.y = plain.x, plain.y
        self.outsiders = setting.roles.reference
        self.module = prepared(phase.model, phase.x).eval()
        with torch.random.fork_rng(devices=[]):
            self.network = _Network(max(2, traits(as_model(phase.model), phase.x).outputs), defence.width)
        self.network.to(next(self.module.parameters()).dtype)

    def judge(
        self, weights: Mapping[str, Tensor], outputs: Float[Tensor, "batch out"], y: Num[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Logit of membership."""
        return functional_call(self.network, dict(weights), (classes(outputs), y.long()))

    def step(self, params: Stack, batch: Batch, number: int) -> None:
        """One step of Adam on the gain: Nasr et al., eq. 6; in place."""
        with torch.no_grad():
            inside = self._outputs(params, batch.x)
            others = self._others(batch, number)
            outside = self._outputs(params, others.x)
        weights = _read(params, "w")

        def loss(weights: Stack, inside: Tensor, y_in: Tensor, outside: Tensor, y_out: Tensor) -> Tensor:
            members = logsigmoid(self.judge(weights, inside, label(y_in))).mean()
            return -(members + logsigmoid(-self.judge(weights, outside, y_out)).mean()) / 2

        slopes = vmap(grad(loss))(weights, inside, batch.y, outside, others.y)
        count = params[f"{NAME}.count"].add_(1)
        first, second = _read(params, "m"), _read(params, "v")
        for name, slope in slopes.items():
            times = count.view(-1, *[1] * (slope.ndim - 1))
            first[name].mul_(0.9).add_(slope, alpha=0.1)
            second[name].mul_(0.999).addcmul_(slope, slope, value=0.001)
            size = (second[name] / (1 - 0.999**times)).sqrt_().add_(1e-8)
            weights[name].sub_(first[name] / (1 - 0.9**times) / size, alpha=self.defence.lr)

    def _outputs(self, params: Stack, x: Num[Tensor, " model batch *features"]) -> Tensor:
        def one(params: Stack, x: Tensor) -> Tensor:
            return columns(functional_call(self.module, params, (x,)))

        return vmap(one)(params, x)

    def _others(self, batch: Batch, number: int) -> Batch:
        """As many reference samples, as they would be seen in training."""
        epoch, size = batch.epoch, min(batch.x.shape[1], self.outsiders.shape[1])
        rows = [self._drawn(model, size, (epoch.number, batch.number, number)) for model in epoch.models]
        places = torch.from_numpy(np.stack(rows))
        others = Batch(self.x[places], self.y[places], places, epoch, batch.number)
        return seen(self.phase, others)

    def _drawn(self, model: int, size: int, when: tuple[int, int, int]) -> Int[np.ndarray, " batch"]:
        own = self.outsiders[model]
        draw = stream(self.phase.setting.seed, model, OUTSIDERS, *when)
        return own[draw.choice(len(own), size, replace=False)]


class _Network(nn.Module):
    """Membership from probabilities and label: one stream for each, then both together."""

    def __init__(self, outputs: int, width: int) -> None:
        super().__init__()
        half = width // 2
        self.posterior = nn.Sequential(
            nn.Linear(outputs, width), nn.ReLU(), nn.Linear(width, half), nn.ReLU()
        )
        self.label = nn.Sequential(nn.Linear(outputs, half), nn.ReLU())
        self.fusion = nn.Sequential(nn.Linear(2 * half, half), nn.ReLU(), nn.Linear(half, 1))

    def forward(self, outputs: Float[Tensor, "batch class"], y: Int[Tensor, " batch"]) -> Tensor:
        """Logit of membership [batch]."""
        known = (y[:, None] == torch.arange(outputs.shape[-1])).to(outputs.dtype)
        streams = torch.cat([self.posterior(outputs.softmax(-1)), self.label(known)], -1)
        return self.fusion(streams)[:, 0]


class _Carrier(nn.Module):
    """Holds the attacker's weights and moments as buffers, and passes its input on."""

    def __init__(self, outputs: int, width: int) -> None:
        super().__init__()
        self.outputs, self.width = outputs, width
        self.register_buffer("count", torch.zeros(()))
        for name, value in _Network(outputs, width).named_parameters():
            for kind, start in (
                ("w", value.detach()),
                ("m", torch.zeros_like(value)),
                ("v", torch.zeros_like(value)),
            ):
                self.register_buffer(f"{kind}_{name.replace('.', '-')}", start.clone())

    def reset_parameters(self) -> None:
        """Draw weights anew from torch's global state."""
        for name, value in _Network(self.outputs, self.width).named_parameters():
            self.get_buffer(f"w_{name.replace('.', '-')}").copy_(value.detach())

    def forward(self, x: Tensor) -> Tensor:
        """Nothing happens."""
        return x


def _read(stack: Mapping[str, Tensor], kind: str) -> Stack:
    """The attacker's weights (``"w"``) or moments, by their names in the network."""
    start = f"{NAME}.{kind}_"
    return {
        name.removeprefix(start).replace("-", "."): value
        for name, value in stack.items()
        if name.startswith(start)
    }


def _strip(params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in params.items() if not name.startswith(f"{NAME}.")}
