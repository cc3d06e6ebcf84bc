"""Figures of studies show the numbers that they were given, where those are; and are files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from discreet.estimate import Estimate
from discreet.release_audit import mean_of_runs
from discreet.report.drawing import Figure
from discreet.studies import (
    bias_figures,
    candidates_figures,
    predictors_figures,
    safecompress_figures,
    theorem_figures,
)
from discreet.studies.averaged import mean_interval
from discreet.studies.bias import Judged
from discreet.studies.panels import write
from discreet.studies.safecompress import Cell, SafeStudy
from discreet.studies.safecompress_plan import Row, SafeScale
from discreet.studies.theorem import exact


def points(figure: Figure, panel: int = 0) -> set[tuple[float, float]]:
    """Where marks are drawn (lines without marks are intervals)."""
    axes = figure.draw(800).axes[panel]
    return {
        (round(float(x), 6), round(float(y), 6))
        for line in axes.lines
        if line.get_marker() not in ("None", None, "")
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }


def spans(figure: Figure, panel: int = 0) -> set[tuple[float, ...]]:
    """Ends of the intervals, along the axis on which they are wide."""
    found = set()
    for line in figure.draw(800).axes[panel].lines:
        if line.get_marker() in ("None", None, "") and line.get_linestyle() == "-":
            x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
            found.add(tuple(np.round(x if np.ptp(x) > np.ptp(y) else y, 6)))
    return found


def test_the_theorems_rates() -> None:
    rows = [exact("two values, gap 0.2", n) for n in (10, 101)]
    (figure,) = theorem_figures.figures(rows)
    assert points(figure) == {(row.n, round(row.rate / row.r, 6)) for row in rows}


def test_predictors() -> None:
    found = {
        "r, mean over runs": {1: [0.2, 0.4], 8: [0.1, 0.5]},
        "AUC of the loss": {1: [0.9, 0.9], 8: [1.0, 1.0]},
    }
    (figure,) = predictors_figures.figures(found, mean_interval)
    assert {y for _, y in points(figure)} == {0.3, 0.9, 1.0}
    assert (0.9, 0.9) in spans(figure)
    assert (-0.97062, 1.0) in spans(figure)  # 0.3 and 12.706 times 0.1, cut where no correlation is
    (lone,) = predictors_figures.figures({"AUC of the loss": {1: [0.7]}}, mean_interval)
    assert points(lone) == {(round(1.04**-2, 6), 0.7)}


def test_candidates() -> None:
    table = np.array([[0.1, 0.2], [0.3, -0.4]])
    (figure,) = candidates_figures.figures(["own", "more"], table, [(0.2, -0.5, 0.9), (-0.1, -1.7, 1.5)])
    assert points(figure) == {(0, 0.1), (1, 0.2), (0, 0.3), (1, -0.4), (0.08, 0.2), (1.08, -0.1)}
    assert {(-0.5, 0.9), (-1.0, 1.0)} <= spans(figure)
    (lone,) = candidates_figures.figures(["own", "more"], table[:1], [])
    assert points(lone) == {(0, 0.1), (1, 0.2)}


def test_bias() -> None:
    rows = [
        Judged("one candidate", how, value, 0.1, 1.0, 0.95, 5)
        for how, value in (("plug-in", 1.0), ("normal", -0.5), ("split", -30.0))
    ]
    (figure,) = bias_figures.figures(rows)
    assert {x for x, _ in points(figure)} == {1.0, -0.5, -30.0}
    assert {(0.8, 1.2), (-0.7, -0.3), (-30.2, -29.8)} == spans(figure)


def cell(
    name: str, task: float, mia: float, density: float = 0.1, *, runs: int = 3, large: bool = False
) -> Cell:
    each = {
        key: mean_of_runs([Estimate(value + off, 0.0, 1.0, 1, 0.95) for off in (-0.01, 0, 0.01)]).to_json()
        for key, value in (("task", task), ("mia", mia))
    }
    return Cell(Row("tab20", name, density, runs, large), each, 1.0, 1.0, 1.0, (), None, {})


def test_compression() -> None:
    cells = (
        cell("dense", 0.6, 0.7),
        cell("SET", 0.66, 0.57),
        cell("SET", 0.65, 0.6, 0.2),
        cell("SET", 0.1, 0.9, runs=10),
        cell("SET", 0.2, 0.9, large=True),
    )
    methods, ladder = safecompress_figures.figures(
        SafeStudy(SafeScale({"tab20": 3, "b3db": 3}, True), 0, cells, ())
    )
    assert points(methods) == {(0.7, 0.6), (0.57, 0.66)}
    assert {y for _, y in points(ladder)} == {0.57, 0.6}
    assert not list(safecompress_figures.figures(SafeStudy(SafeScale({"b3db": 3}, True), 0, cells, ())))


def test_files(tmp_path: Path) -> None:
    write(tmp_path, theorem_figures.figures([exact("two values, gap 0.2", 10)]))
    assert {path.name for path in tmp_path.iterdir()} == {"rates.svg", "rates.png"}
    assert b"two values, gap 0.2" in (tmp_path / "rates.svg").read_bytes()
    assert (tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("width", [328, 800])
def test_every_kind_of_row_has_a_mark(width: int) -> None:
    from discreet.studies.safecompress_plan import METHODS

    cells = tuple(cell(name, 0.5 + 0.001 * at, 0.6) for at, name in enumerate(METHODS))
    methods, *_ = safecompress_figures.figures(SafeStudy(SafeScale({"tab20": 3}, True), 0, cells, ()))
    assert methods.draw(width).axes
    assert {y for _, y in points(methods)} == {round(0.5 + 0.001 * at, 6) for at in range(len(METHODS))}
