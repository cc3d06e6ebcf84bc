"""The demo: which compression of a model that predicts blood-brain-barrier permeability leaks least?

A study like section 4.3 of "An Indicator of Membership Inference Security in Post-Training Quantized Models", on
fingerprints instead of learned embeddings. It is not tuned until anything agrees: it shows what the indicator can
and cannot tell with this many runs and molecules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import numpy as np

from discreet._words import interval, number, whole
from discreet.audit import Analysis, Audit, Data, Dataset, Provenance
from discreet.correlation import spearman
from discreet.data import b3db
from discreet.quantizers import PRESETS
from discreet.records import read_all
from discreet.runs.analysis import Evidence, analyse, look_beside
from discreet.runs.following import FULL
from discreet.store import Store
from discreet.studies.plan import Material, Plan, prepare
from discreet.studies.work import do_pairs, keys_of, storage
from discreet.summary import pairs_told_apart, summarize

__all__ = ["demo"]

Progress = Callable[[str, float], None]
_PRESETS = {
    "paper": "All parameters become codes, biases too, and nothing is scaled, as in the paper's Table 2.",
    "scaled": "Weights become codes with one scale per output channel (their mean magnitude), biases stay: "
    "what one would ship.",
}
_PACKAGES = ("discreet", "numpy", "scipy", "torch", "rdkit", "qc-b3db")


def demo(
    run_dir: str | Path,
    *,
    plan: Plan = Plan(),  # noqa: B008 (frozen)
    workers: int | None = None,
    progress: Progress = lambda doing, share: None,
) -> Audit:
    """Train, quantize, measure, rank and report; what is finished in ``run_dir`` is not done again.

    Leaves there ``trajectory/`` and ``release/`` (records in parts, for ``discreet rank``), ``weights/`` (the shipped
    checkpoints, for ``discreet quantize``), ``audit.json``, ``report.html`` and ``manifest.json``.

    Args:
        run_dir: The run directory; made if it is missing.
        plan: Settings.
        workers: How many pairs of runs at a time; None: one a core. The bytes do not depend on it.
        progress: Called with what is being done, and the share of all work that is done.

    Returns:
        The audit, as written to ``audit.json``: the same bytes for the same plan on the same machine.

    Raises:
        MoleculesError: RDKit or ``qc-b3db`` is not installed.
        StoreError: The directory is in use or cannot be written.
        ValueError: ``workers`` below 1.
    """
    from discreet.report import write

    store = Store(run_dir)
    with store.lock():
        progress("reading molecules", 0.0)
        material = prepare(plan)
        keys = [keys_of(store, plan, material, pair) for pair in range(plan.runs // 2)]
        doing = f"training and measuring {plan.runs} runs"
        do_pairs(
            store,
            plan,
            material,
            keys,
            workers=workers,
            progress=lambda share: progress(doing, 0.05 + 0.8 * share),
        )
        progress("measuring sizes", 0.85)
        sizes = storage(store, plan, material, keys[0])
        progress("ranking", 0.87)
        evidence = Evidence(
            read_all([store.path(key.followed) for key in keys]),
            read_all([store.path(key.release) for key in keys]),
            sizes,
            full=FULL,
            level=plan.level,
            seed=plan.seed,
        )
        audit = _audit(plan, material, evidence)
        progress("writing the report", 0.95)
        audit.save(store.folder / "audit.json")
        write(audit, store.folder / "report.html")
        progress("done", 1.0)
    return audit


def _audit(plan: Plan, material: Material, evidence: Evidence) -> Audit:
    analyses = tuple(_analyses(plan, evidence))
    shipped = {
        run: int(evidence.release.step[evidence.release.rows(run=run)[0]]) for run in evidence.release.runs
    }
    return Audit(
        "Blood-brain-barrier permeability: eight quantizers of a two-layer network",
        analyses,
        summary=(*summarize(analyses[0]), *_across(analyses)),
        settings={
            **asdict(plan),
            "shares": list(plan.shares),
            "optimizer": "adam",
            "presets": {name: list(specs) for name, specs in PRESETS.items()},
            "shipped checkpoint by run": shipped,
        },
        provenance=Provenance(
            plan.seed,
            {name: metadata.version(name) for name in _PACKAGES},
            (Dataset(b3db.NAME, b3db.SHA256, b3db.LICENCE, b3db.SOURCE),),
        ),
        data=Data(material.counts),
        notes=tuple(_notes(plan, material, shipped)),
    )


def _analyses(plan: Plan, evidence: Evidence) -> Iterator[Analysis]:
    for preset, words in _PRESETS.items():
        beside = look_beside(evidence, (FULL, *PRESETS[preset]))
        for every in (1, plan.every):
            spacing = "every epoch" if every == 1 else f"every {every} epochs"
            yield analyse(
                evidence,
                beside,
                name=f"{preset} preset, {spacing}",
                note=f"{words} r is taken over the checkpoints of {spacing}.",
                every=every,
                curves=every == 1,
            )


def _across(analyses: Sequence[Analysis]) -> Iterator[str]:
    """What the same runs say under other settings: whether the order holds."""
    for analysis in analyses[1:]:
        apart, pairs = pairs_told_apart(analysis)
        first = next(row for row in analysis.ranking.ranked if not row.is_reference)
        yield (
            f"Under other settings ({analysis.name}), {apart} of {pairs} pairs are told apart, `{first.variant}` has "
            "the largest r, and the Spearman correlation of the order of the quantizers with the one above is "
            f"{_agreement(analyses[0], analysis)}."
        )


def _agreement(one: Analysis, other: Analysis) -> str:
    """Spearman correlation of two orders by r; quantizers of two presets go by their place in the preset."""
    columns = []
    for analysis in (one, other):
        r = {row.variant: row.r for row in analysis.ranking.ranked}
        columns.append([r.get(row.variant) for row in analysis.storage if row.variant != FULL])
    both = [(a, b) for a, b in zip(*columns, strict=True) if a is not None and b is not None]
    if len(both) < 2 or any(len(set(column)) == 1 for column in zip(*both, strict=True)):
        return "no defined value"
    found = spearman(*(np.array(column) for column in zip(*both, strict=True)))
    return f"{number(found.value, 2)} ({interval(found.low, found.high, lambda end: number(end, 2))})"


def _notes(plan: Plan, material: Material, shipped: dict[str, int]) -> Iterator[str]:
    steps, training = sorted(shipped.values()), len(material.training)
    yield (
        f"Each of {plan.runs} runs trains on half of {whole(training)} molecules, {whole(material.n_train)} of them; "
        "runs come in pairs with complementary halves, so each molecule is a member of half of the runs."
    )
    yield (
        f"Shipped is each run's checkpoint of lowest loss on {whole(len(material.validation))} validation molecules "
        f"that nothing else uses (epochs {steps[0]} to {steps[-1]} of {plan.epochs}). AUROC, sizes and attacks are "
        "of that checkpoint; r is taken over all checkpoints. Bands in the training curves span all runs."
    )
    yield (
        f"r and AUROC are measured on {whole(len(material.evaluation))} molecules that no run trained on. Families "
        "of stereoisomers stay together in every split, and only one of each family is evaluated: otherwise an "
        "evaluation molecule could be a training molecule but for its chirality."
    )
    yield (
        "What would tell more variants apart: more evaluation molecules where r is below the resolution (more runs "
        f"do not help there, and the table has {whole(material.counts['families of stereoisomers'])} families in "
        "all), more runs elsewhere."
    )
    yield (
        "In the paper preset an unscaled sign or ternary network has losses of tens of nats, and its r then says "
        "little: compare it with the scaled preset before reading anything into its place."
    )
