"""What the study of language models found: r of every variant, what each attack finds, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from discreet.agreement import agreement
from discreet.attacked import dependence, expose_one
from discreet.audit_leaks import Blind
from discreet.average_precision import average_precision
from discreet.blind_baseline import blind_baseline
from discreet.estimate import Estimate
from discreet.exposure import Exposure
from discreet.ranking import Ranking, rank
from discreet.runs.units import do_units
from discreet.stats import auc, compare, tpr_at_fpr
from discreet.studies.language import Language

__all__ = ["ATTACKS", "BEFORE", "FIGURE_11", "FPRS", "FULL", "METRICS", "REFERENCES", "Found", "find"]

FULL = "full"
REFERENCES = {
    "reference": "LOSS + ref",
    "combined(zlib=True, reference=True)": "LOSS + zlib + ref",
    "lira(mode='offline', signal='loss')": "LiRA offline",
}
"""Attacks that compare with other runs' models, by their names in the paper."""
BEFORE = {"pretrained": "LOSS + model before"}
"""An attack that compares with the one model that fine-tuning began from: no model of another run, and yet no attack
on one model alone."""
ATTACKS = {
    "loss": "LOSS",
    "mink": "min-k 20 %",
    "minkpp": "min-k++ 20 %",
    "zlib": "LOSS + zlib",
    **BEFORE,
    "text_quantile": "quantile ensemble",
    **REFERENCES,
}
"""All attacks (section 13.2 and more), by spec."""
FPRS = (0.2, 0.15, 0.1, 0.05, 0.03, 0.01)
METRICS = ("auc", "average precision", *(f"tpr@{fpr:g}" for fpr in FPRS))
"""Figures of merit of Figures 3 and 10."""
FIGURE_11 = ("average precision", "auc", "tpr@0.15", "tpr@0.1")
"""Those of Figure 11."""


@dataclass(frozen=True, eq=False)
class Found:
    """Figures of the study.

    Attributes:
        measured: What it measured.
        ranking: r of every variant.
        exposures: Scores by attack and variant.
        figures: By attack, variant and metric.
        blind: Whether texts alone tell members from others.
    """

    measured: Language
    ranking: Ranking
    exposures: Mapping[tuple[str, str], Exposure]
    figures: Mapping[tuple[str, str, str], Estimate]
    blind: Blind

    @property
    def attacks(self) -> tuple[str, ...]:
        """Specs of the attacks that ran."""
        return tuple(dict.fromkeys(attack for attack, _ in self.exposures))

    @property
    def variants(self) -> tuple[str, ...]:
        """Full precision first."""
        return self.measured.scale.variants

    @property
    def compressed(self) -> tuple[str, ...]:
        """All variants but full precision, of which the theorem says nothing."""
        return tuple(variant for variant in self.variants if variant != FULL)

    def best(self, variant: str, metric: str) -> str:
        """The attack that finds most; picked on the texts on which it is judged, so its figure is a little high."""
        return max(self.attacks, key=lambda attack: self.figures[attack, variant, metric].value)

    @cached_property
    def agreements(self) -> Mapping[tuple[str, str], Estimate | None]:
        """Spearman correlation of r with a metric of an attack, or of the best one (``"best"``), over quantizers."""
        found = {}
        for metric in METRICS:
            for attack in (*self.attacks, "best"):
                values = {
                    variant: self.figures[
                        self.best(variant, metric) if attack == "best" else attack, variant, metric
                    ].value
                    for variant in self.compressed
                }
                found[attack, metric] = agreement(self.ranking, values)
        return found

    def less(self, attack: str, other: str, variant: str) -> Estimate:
        """AUC of an attack less that of another one on the same texts."""
        one, two = self.exposures[attack, variant], self.exposures[other, variant]
        cluster = dependence(self.measured.release)
        return compare(
            one.scores, two.scores, one.member, keep=one.keep & two.keep, cluster=cluster, replicates=200
        ).auc


def find(
    measured: Language,
    workers: int | None = 1,
    progress: Callable[[float], None] = lambda share: None,
) -> Found:
    """Rank, attack and judge.

    Args:
        measured: What was measured.
        workers: Attacks at a time; None: one a core. Results do not depend on it.
        progress: Called with the share that is done.
    """
    scale, release = measured.scale, measured.release
    ranking = rank(measured.trajectory, n_train=measured.parts.trained, seed=measured.seed)
    family = dependence(release)
    exposures: dict[tuple[str, str], Exposure] = {}
    figures: dict[tuple[str, str, str], Estimate] = {}
    jobs = [(attack, variant) for attack in ATTACKS for variant in scale.variants]

    def work(job: tuple[str, str], tick: Callable[..., None]) -> None:
        tick(0)
        e = exposures[job] = expose_one(release, *job)
        told = {"keep": e.keep, "cluster": family}
        figures[*job, "auc"] = auc(e.scores, e.member, **told)
        figures[*job, "average precision"] = average_precision(e.scores, e.member, **told)
        for fpr in FPRS:
            figures[*job, f"tpr@{fpr:g}"] = tpr_at_fpr(e.scores, e.member, fpr, **told).tpr
        tick()

    do_units(jobs, work, len(jobs), workers=workers, progress=progress)
    # Threads end in any order.
    exposures = {job: exposures[job] for job in jobs}
    figures = {(*job, metric): figures[*job, metric] for job in jobs for metric in METRICS}
    return Found(measured, ranking, exposures, figures, blind_baseline(release))
