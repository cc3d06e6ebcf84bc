"""The unit of the synthetic study's work: a few runs of one setting, trained side by side and measured.

Checkpoints are measured as they arise and not kept; kept are what r and its interval need, the last checkpoint, and
the losses of its members and of as many fresh samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor

from discreet.fingerprint import fingerprints
from discreet.indicator import RunIndicator, measure_run
from discreet.losses import LOSSES
from discreet.measure import inputs, measure_stack
from discreet.mlp import MLP
from discreet.quantizers import quantize_stack
from discreet.store import Store
from discreet.studies.synthetic_setting import FULL, Setting
from discreet.training import train
from discreet.trajectory import Trajectory

__all__ = ["Made", "make", "quantized", "samples"]

_EVALUATION = 0
_FIELDS = tuple(field.name for field in fields(RunIndicator))
Stack = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Made:
    """What some runs left behind.

    Attributes:
        runs: Their numbers.
        indicators: By variant and run number (as text); empty where only the last checkpoint was wanted.
        loss: By variant, losses of the last checkpoint on members and non-members [run, row].
        params: The last checkpoint in full precision, a stack.
        training: Mean training loss of each variant after each epoch [variant, run, epoch]; empty as above.
    """

    runs: tuple[int, ...]
    indicators: Mapping[str, Mapping[str, RunIndicator]]
    loss: Mapping[str, np.ndarray]
    params: Stack
    training: np.ndarray


def make(
    store: Store,
    setting: Setting,
    runs: Sequence[int],
    trajectory: bool,
    tick: Callable[[], None] = lambda: None,
    seconds: Callable[[str, float], None] = lambda what, much: None,
) -> Made:
    """Train and measure some runs on one core, unless the store has them.

    Args:
        store: The run directory.
        setting: What to train.
        runs: Numbers of the runs; each is the same whichever others come with it.
        trajectory: Whether every checkpoint is measured, for r.
        tick: Called after each epoch; what it raises ends the work.
        seconds: Told what core time went on: that of the one thread that works.
    """
    content = {
        "setting": setting.to_json(),
        "seed": setting.training_seed,
        "runs": list(runs),
        "trajectory": trajectory,
        "variants": setting.specs,
        "versions": {name: metadata.version(name) for name in ("discreet", "torch")},
    }
    kind = "trajectory" if trajectory else "last"
    key = store.key(f"{kind}/{setting.name} runs {runs[0]}-{runs[-1]}.safetensors", **content)
    path = store.make(key, lambda aside: _Work(setting, tuple(runs), trajectory, tick, seconds).save(aside))
    return _read(path, setting, tuple(runs))


def samples(setting: Setting, run: int) -> tuple[np.ndarray, np.ndarray]:
    """A run's members, and after them as many fresh non-members that no other run shares: x and y."""
    drawn = [setting.mixture.draw(setting.n, stream=2 * run + part) for part in (2, 3)]
    return np.concatenate([x for x, _ in drawn]), np.concatenate([y for _, y in drawn])


def quantized(setting: Setting, params: Mapping[str, Tensor]) -> dict[str, Mapping[str, Tensor]]:
    """Every variant of a stack."""
    return {
        name: quantize_stack(params, spec) if name != FULL else params for name, spec in setting.specs.items()
    }


class _Work:
    def __init__(
        self,
        setting: Setting,
        runs: tuple[int, ...],
        trajectory: bool,
        tick: Callable[[], None],
        seconds: Callable[[str, float], None],
    ) -> None:
        self.setting, self.runs, self.trajectory = setting, runs, trajectory
        self.tick, self.seconds = tick, seconds

    def save(self, path: Path) -> None:
        setting, network = self.setting, self.setting.network
        drawn = [samples(setting, run) for run in self.runs]
        x = torch.from_numpy(np.stack([each[0] for each in drawn]))
        y = torch.from_numpy(np.stack([each[1] for each in drawn]))
        shape = (len(setting.specs), len(self.runs), setting.epochs)
        losses = np.empty((*shape, setting.evaluation if self.trajectory else 0), np.float32)
        twins, training = np.zeros(shape, np.uint64), np.zeros(shape)
        seen, answer = setting.mixture.draw(setting.evaluation if self.trajectory else 1, stream=_EVALUATION)
        given = inputs(network, seen)
        started = time.thread_time()

        def note(epoch: int, params: Stack) -> None:
            nonlocal started
            self.seconds("training", time.thread_time() - started)
            started = time.thread_time()
            variants = quantized(setting, params)
            self.seconds("quantizing", time.thread_time() - started)
            started = time.thread_time()
            found = measure_stack(
                network, variants, given, answer, "bce", which=["loss"], dtype=np.float32, workers=1
            )
            losses[:, :, epoch - 1] = found["loss"].swapaxes(0, 1)
            for at, stack in enumerate(variants.values()):
                twins[at, :, epoch - 1] = fingerprints(stack, workers=1)
                training[at, :, epoch - 1] = _own_loss(network, stack, x, y)[:, : setting.n].mean(axis=1)
            self.seconds("measuring losses", time.thread_time() - started)
            self.tick()
            started = time.thread_time()

        rows = 2 * setting.n
        subsets = np.arange(setting.n) + rows * np.arange(len(self.runs))[:, None]
        last = train(
            network,
            x.flatten(0, 1),
            y.flatten(),
            subsets,
            setting.recipe,
            seed=setting.training_seed,
            model_ids=self.runs,
            workers=1,
            on_checkpoint=note if self.trajectory else None,
        )
        self.seconds("training", time.thread_time() - started)
        out = {f"params.{name}": value.numpy() for name, value in last.items()} | {"training": training}
        out["loss"] = np.stack(
            [_own_loss(network, stack, x, y) for stack in quantized(setting, last).values()]
        )
        if self.trajectory:
            started = time.thread_time()
            found = [
                [measure_run(Trajectory(*each), seed=setting.seed) for each in zip(*pair, strict=True)]
                for pair in zip(losses, twins, strict=True)
            ]
            for name in _FIELDS:
                values = [[_plain(getattr(run, name)) for run in variant] for variant in found]
                out[f"r.{name}"] = np.array(values)
            self.seconds("computing r", time.thread_time() - started)
        save_file({name: np.ascontiguousarray(value) for name, value in out.items()}, path)


def _own_loss(network: MLP, stack: Mapping[str, Tensor], x: Tensor, y: Tensor) -> np.ndarray:
    """Losses of each model on its own rows [run, row], in float64 from the outputs on."""
    weight, bias = network.layers[0]
    outputs = network.upper(stack, torch.baddbmm(stack[bias][:, None], x, stack[weight].mT))
    return LOSSES["bce"].per_sample(outputs.double(), y).numpy()


def _plain(value: Any) -> Any:
    return -1 if value is None else value


def _read(path: Path, setting: Setting, runs: tuple[int, ...]) -> Made:
    found = load_file(path)
    indicators: dict[str, dict[str, RunIndicator]] = {}
    if "r.r" in found:
        for v, name in enumerate(setting.specs):
            indicators[name] = {str(run): _indicator(found, v, at) for at, run in enumerate(runs)}
    params = {
        name.removeprefix("params."): torch.from_numpy(value)
        for name, value in found.items()
        if name.startswith("params.")
    }
    order = [name for layer in setting.network.layers for name in layer]
    return Made(
        runs,
        indicators,
        dict(zip(setting.specs, found["loss"], strict=True)),
        {name: params[name] for name in order},
        found["training"],
    )


def _indicator(found: Mapping[str, np.ndarray], variant: int, run: int) -> RunIndicator:
    values = {name: found[f"r.{name}"][variant, run] for name in _FIELDS}
    scalar = {name: value.item() for name, value in values.items() if value.ndim == 0}
    return RunIndicator(
        **{**values, **scalar, "decider": None if scalar["decider"] < 0 else scalar["decider"]}
    )
