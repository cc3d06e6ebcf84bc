"""What the baseline learns from: members and fresh non-members of independent runs, under every variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from discreet._types import Bool, Float, Num

__all__ = ["Runs"]


@dataclass(frozen=True, eq=False)
class Runs:
    """Rows of independent training runs: as many members as non-members each, and no sample in two runs.

    Attributes:
        x: Inputs of each run's rows.
        member: Whether the run trained on the row.
        loss: By variant, the loss of the run's model on the row, in nats, 0 or more.
        weights: By variant, the run's flattened parameters (see ``canonical.flat``); empty: attacks on weights are
            not possible. Read one variant at a time, so it may be a mapping that makes them when asked.
        ordered: The same with hidden units in canonical order (see ``canonical``), for the kind of attack that reads
            them; empty: it is not possible.

    Raises:
        ValueError: Shapes that do not fit, a run with more members than others, a loss that is negative or not
            finite, or a sample that two rows share.
    """

    # shapes are checked below, with messages
    x: Num[np.ndarray, ...]  # [run, row, feature]
    member: Bool[np.ndarray, ...]  # [run, row]
    loss: Mapping[str, Float[np.ndarray, ...]]  # [run, row]
    weights: Mapping[str, np.ndarray]  # [run, parameter]
    ordered: Mapping[str, np.ndarray] = field(default_factory=dict)  # [run, parameter]

    def __post_init__(self) -> None:
        shape = self.member.shape
        if self.x.ndim != 3 or self.x.shape[:2] != shape or self.member.dtype != bool:
            raise ValueError(
                "x, member: expected shapes [run, row, feature] and [run, row] of booleans, got"
                f" {list(self.x.shape)} and {list(shape)} of {self.member.dtype}"
            )
        inside = self.member.sum(axis=1)
        uneven = np.flatnonzero(2 * inside != shape[1])
        if len(uneven):
            run = int(uneven[0])
            raise ValueError(
                "member: expected as many members as non-members in each run, got"
                f" {inside[run]} of {shape[1]} rows in run {run}"
            )
        if not self.loss:
            raise ValueError("loss: expected at least one variant, got none")
        for variant, loss in self.loss.items():
            if loss.shape != shape:
                raise ValueError(f"loss of {variant!r}: expected shape {list(shape)}, got {list(loss.shape)}")
            if not (np.isfinite(loss) & (loss >= 0)).all():
                run, row = np.argwhere(~(np.isfinite(loss) & (loss >= 0)))[0]
                raise ValueError(
                    f"loss of {variant!r}: expected finite numbers of at least 0, got {loss[run, row]} in run {run},"
                    f" row {row}"
                )
        for name, given in (("weights", self.weights), ("ordered", self.ordered)):
            missing = [variant for variant in self.loss if given and variant not in given]
            if missing:
                raise ValueError(f"{name}: expected every variant or none, {missing[0]!r} is missing")
        self._check_fresh()

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants."""
        return tuple(self.loss)

    def take(self, runs: np.ndarray) -> Runs:
        """Some of the runs only, by their positions."""
        return Runs(
            self.x[runs],
            self.member[runs],
            {name: loss[runs] for name, loss in self.loss.items()},
            _Taken(self.weights, runs),
            _Taken(self.ordered, runs),
        )

    def _check_fresh(self) -> None:
        seen: dict[bytes, tuple[int, int]] = {}
        for run, rows in enumerate(np.ascontiguousarray(self.x)):
            for row, values in enumerate(rows):
                first = seen.setdefault(values.tobytes(), (run, row))
                if first != (run, row):
                    raise ValueError(
                        "x: expected samples that no other row has (else what is judged was trained on), got the same"
                        f" in run {first[0]}, row {first[1]} and run {run}, row {row}"
                    )


class _Taken(Mapping[str, np.ndarray]):
    """The weights of some runs, cut out when they are asked for."""

    def __init__(self, weights: Mapping[str, np.ndarray], runs: np.ndarray) -> None:
        self._weights, self._runs = weights, runs

    def __getitem__(self, name: str) -> np.ndarray:
        return self._weights[name][self._runs]

    def __iter__(self):
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)
