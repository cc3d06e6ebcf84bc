"""Closed cases: small inputs whose results are known exactly."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from importlib import util
from pathlib import Path

__all__ = ["NEEDS", "closed_cases", "missing"]

NEEDS = {"torch": ("torch",), "molecules": ("torch", "rdkit", "B3DB")}
"""Modules of each extra."""


def closed_cases() -> list[tuple[str, str]]:
    """Run every closed case.

    Returns:
        What was checked, and "passed", "failed: …" or "left out: …".
    """
    return [(what, _outcome(check, needs)) for what, (check, needs) in _CHECKS.items()]


def missing(extra: str) -> str:
    """Why something that needs an extra is left out; nothing if it is installed."""
    names = [name for name in NEEDS.get(extra, ()) if util.find_spec(name) is None]
    return f'left out: {", ".join(names)} not installed (pip install "discreet[{extra}]")' if names else ""


def _outcome(check: Callable[[], None], needs: str) -> str:
    absent = missing(needs)
    if absent:
        return absent
    try:
        check()
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"
    return "passed"


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ArithmeticError(what)


def _indicator() -> None:
    """r of small whole losses against exact fractions (Def. 3.5)."""
    import numpy as np

    from discreet import indicator

    losses = [[3, 5, 2, 8, 4, 1], [1, 4, 2, 6, 3, 2], [2, 4, 1, 7, 5, 2]]
    best = min(losses, key=sum)
    exact = min(_ratio([a - b for a, b in zip(row, best, strict=True)]) for row in losses if row is not best)
    found = indicator(np.array(losses, np.float64))
    _require(found.r is not None and abs(found.r - float(exact)) < 1e-12, f"r is {found.r}, expected {exact}")


def _ratio(gaps: list[int]) -> Fraction:
    mean = Fraction(sum(gaps), len(gaps))
    return mean**2 / (2 * (Fraction(sum(gap * gap for gap in gaps), len(gaps)) - mean**2))


def _interval() -> None:
    """Gaussian losses whose true r is known: 1/2 · 0.1² / 0.02."""
    import numpy as np

    from discreet import indicator

    gaps = np.array([0.3, 0.0, 0.1])[None, :, None]
    found = indicator(1 + gaps + 0.1 * np.random.default_rng(0).standard_normal((4, 3, 500)))
    holds = found.low is not None and found.high is not None and found.low < 0.25 < found.high
    _require(holds, f"the interval {found.low} to {found.high} misses 0.25")


def _auc() -> None:
    """Three of four pairs won, one tied."""
    import numpy as np

    from discreet.stats import auc

    found = auc(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False])).value
    _require(found == 0.875, f"the AUC is {found}, expected 0.875")


def _files() -> None:
    """A record and a table of the same numbers are read as the same."""
    from tempfile import TemporaryDirectory

    import numpy as np

    from discreet.records import read

    with TemporaryDirectory() as folder:
        values = np.array([[0.1, 0.7], [1 / 3, 0.2]])
        lines = [f"sign,0,{step},{i},{float(values[step, i])}" for step, i in np.ndindex(2, 2)]
        table = Path(folder, "losses.csv")
        table.write_text("\n".join(["variant,run,step,sample,loss", *lines]))
        from_table = read(table)
        from_record = read(from_table.save(Path(folder, "losses.safetensors")))
        same = np.array_equal(from_record.signal("loss"), values) and from_record.sample.tolist() == [0, 1]
        _require(same, "the losses read back differ")


def _quantizers() -> None:
    """Every quantizer of the presets, packed and unpacked again."""
    from tempfile import TemporaryDirectory

    import torch

    from discreet.quantizers import PRESETS, Quantized, quantize

    state = {"0.weight": torch.linspace(-1, 1, 96).reshape(8, 12) ** 3, "0.bias": torch.linspace(-1, 2, 8)}
    with TemporaryDirectory() as folder:
        path = Path(folder, "packed.safetensors")
        for spec in (spec for specs in PRESETS.values() for spec in specs):
            done = quantize(state, spec)
            done.save(path)
            again = Quantized.load(path).dense
            same = all(torch.equal(again[name], value) for name, value in done.dense.items())
            _require(same, f"{spec} reads back differently")


def _training() -> None:
    """Two models trained together come out as each alone."""
    import numpy as np
    import torch

    from discreet.mlp import MLP
    from discreet.recipe import Recipe
    from discreet.training import train

    x = torch.sin(torch.arange(320, dtype=torch.float64)).reshape(40, 8)
    y, halves = (x[:, 0] > 0).long(), np.arange(40).reshape(2, 20)
    recipe = Recipe(epochs=3, batch_size=8)
    both = train(MLP((8, 4, 1)), x, y, halves, recipe, workers=1)
    alone = train(MLP((8, 4, 1)), x, y, halves[1:], recipe, model_ids=[1], workers=1)
    apart = max(float((both[name][1] - value[0]).abs().max()) for name, value in alone.items())
    _require(apart < 1e-9, f"parameters differ by {apart}")


def _molecules() -> None:
    """The molecules of the demo are there and are the expected ones."""
    from discreet.data import b3db

    counts = b3db.load(bits=256).counts
    _require(counts["rows"] == 7807, f"the table has {counts['rows']} rows")


_CHECKS: dict[str, tuple[Callable[[], None], str]] = {
    "indicator, against exact fractions": (_indicator, ""),
    "interval, on losses of known r": (_interval, ""),
    "AUC with a tie": (_auc, ""),
    "record and table": (_files, ""),
    "quantizers, packed and back": (_quantizers, "torch"),
    "training together and alone": (_training, "torch"),
    "molecules of the demo": (_molecules, "molecules"),
}
