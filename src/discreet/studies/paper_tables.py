"""Tables 3, 4 and 5 of "An Indicator of Membership Inference Security in Post-Training Quantized Models", whole."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

__all__ = ["METRICS", "PaperCell", "paper_tables"]

METRICS = ("auroc", "r2", "spearman")


@dataclass(frozen=True)
class PaperCell:
    """One printed cell.

    Attributes:
        table: Number of the table: 3 (AUROC), 4 (R2), 5 (Spearman).
        value: The printed value, minus infinity where the paper prints that for an R2 below -1.
        share: Share of the original as printed, as a fraction; an average over embedders of each embedder's ratio.
    """

    table: int
    value: float
    share: float


@cache
def paper_tables() -> Mapping[tuple[str, str, str], PaperCell]:
    """All cells by metric, task and variant; variants are the spec strings of this package's quantizers.

    Example:
        >>> cell = paper_tables()["auroc", "AMES", "sign"]
        >>> cell.table, cell.value, cell.share
        (3, 0.773, 0.89)
    """
    text = resources.files("discreet.studies").joinpath("molecules_paper.csv").read_text("utf-8")
    return {
        (row["metric"], row["task"], row["variant"]): PaperCell(
            int(row["table"]),
            float(row["value"]),
            float(row["percent_of_original"]) / 100
            if math.isfinite(float(row["percent_of_original"]))
            else float(row["percent_of_original"]),
        )
        for row in csv.DictReader(io.StringIO(text))
    }
