"""SafeCompress beside dense training of as many epochs (the paper: 3.98 h to 1.05 h); the share of its attacks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from discreet.methods import fit
from discreet.phase import Setting
from discreet.safety import Case, Found, parse
from discreet.studies.compression_tasks import setting

RUNS = 4
TESTS = ("modified", "basket", "blackbox(learner='neural_blackbox(epochs=20)')")
_attacking = 0.0


@dataclass(frozen=True)
class Timed:
    """A safety test whose processor time is added up."""

    test: str

    @property
    def needs(self) -> frozenset[str]:
        """Those of the test."""
        return parse(self.test).needs

    def __call__(
        self, cases: Sequence[Case], *, seeds: Sequence[int], init: Sequence[Found] | None = None
    ) -> list[Found]:
        """The test."""
        global _attacking
        start = time.process_time()
        found = parse(self.test)(cases, seeds=seeds, init=init)
        _attacking += time.process_time() - start
        return found


def main() -> None:
    """Print the ratios, in processor time."""
    global _attacking
    torch.set_num_threads(1)
    for name in ("tab20", "fashion", "b3db"):
        given = setting(name, runs=RUNS, density=0.1)
        dense = seconds("dense", given)
        print(f"{name}: dense {dense:.1f} s for {RUNS} models of {given.recipe.epochs} epochs")
        for test in TESTS if name == "tab20" else TESTS[:2]:
            _attacking = 0.0
            spec = f"safecompress(rule='tm', test={f'{__name__}:Timed({test!r})'!r})"
            whole = seconds(spec, given)
            print(
                f"{name}: SafeCompress with {test.partition('(')[0]} takes {whole / dense:.2f} times as long, attacks"
                f" {100 * _attacking / whole:.0f} % of that"
            )


def seconds(method: str, given: Setting) -> float:
    """Of processor time."""
    start = time.process_time()
    fit(method, given)
    return time.process_time() - start


if __name__ == "__main__":
    import sys

    sys.modules["safecompress_bench"] = sys.modules["__main__"]
    __name__ = "safecompress_bench"
    main()
