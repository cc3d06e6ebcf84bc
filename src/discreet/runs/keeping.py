"""What some runs leave in the store: their trajectory, the weights that ship, and their release record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, stack

from discreet.records import Record
from discreet.runs.following import Trained
from discreet.store import Store

__all__ = ["RunKeys", "keep_runs", "load_weights"]

Shipped = dict[str, Tensor]


@dataclass(frozen=True)
class RunKeys:
    """Keys of what some runs leave in the store.

    Attributes:
        trajectory: Of their trajectory; None for runs that are not followed.
        weights: Of each run's shipped checkpoint.
        release: Of their release record.
    """

    trajectory: str | None
    weights: tuple[str, ...]
    release: str

    @property
    def followed(self) -> str:
        """Key of the trajectory of runs that are followed.

        Raises:
            ValueError: They are not.
        """
        if self.trajectory is None:
            raise ValueError("trajectory: expected runs that are followed")
        return self.trajectory

    @property
    def trained(self) -> tuple[str, ...]:
        """What is there once the runs are trained."""
        return (*self.weights, *(() if self.trajectory is None else (self.trajectory,)))

    @property
    def all(self) -> tuple[str, ...]:
        """What is there once the runs are done."""
        return (*self.trained, self.release)


def keep_runs(
    store: Store,
    keys: RunKeys,
    train: Callable[[], Trained],
    release: Callable[[Shipped, Sequence[float]], Record],
) -> bool:
    """Train and measure some runs, unless that is done, and keep what they leave.

    Args:
        store: The run directory.
        keys: Where.
        train: Trains them.
        release: Measures their shipped checkpoints, one model a run, of these steps.

    Returns:
        Whether they were trained now.
    """
    now = not all(store.has(key) for key in keys.trained)
    if now:
        trained = train()
        for row, key in enumerate(keys.weights):
            weights = {name: value[row].contiguous() for name, value in trained.shipped.items()}
            data = save(weights, {"step": f"{trained.steps[row]:.17g}"})
            store.make(key, lambda aside, data=data: aside.write_bytes(data))
        if keys.trajectory is not None:
            store.make(keys.trajectory, trained.followed.save)

    def write(aside: Path) -> None:
        weights, steps = zip(*(load_weights(store.path(key)) for key in keys.weights), strict=True)
        shipped = {name: stack([each[name] for each in weights]) for name in weights[0]}
        release(shipped, steps).save(aside)

    store.make(keys.release, write)
    return now


def load_weights(path: Path) -> tuple[Shipped, float]:
    """A run's shipped weights, and the step they are from."""
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, float(file.metadata()["step"])  # noqa: SIM118
