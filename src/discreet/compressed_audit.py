"""What a compression is worth as an ``Audit``: gates, model cards and trackers read it like any other.

The first analysis has the files that ship, each as it was read back and attacked; the second the models of all runs,
by method. There is no ranking by r: of each run one model is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from discreet import __version__
from discreet._audit_laws import SHARES
from discreet._find import bare
from discreet.audit import Analysis, Audit, Data, Performance, Provenance, Ranked, RankTable, Storage
from discreet.audit_leaks import Attack, Paired
from discreet.guarantee import AGAINST, guarantee
from discreet.requirement import OF_ATTACKS, OF_RANKING, OF_STORAGE
from discreet.roc import allowed, smallest_sample
from discreet.summary import summarize

__all__ = ["FILES", "METHODS", "STRONGEST", "audit_of", "names_of"]

Plain = Mapping[str, Any]
FILES, METHODS = "files", "methods"
STRONGEST = "strongest"
"""In each run the attack of greatest accuracy, which is at least 0.5; AUC and rates are its own."""


def names_of(jobs: Sequence[Plain]) -> list[str]:
    """A short name for each method at a density, none twice.

    Args:
        jobs: Each with its ``part``, ``method`` and ``density``.

    Example:
        >>> names_of([{"part": "method", "method": "set(grow='random')", "density": 0.1}])
        ['set at 0.1']
    """

    def named(job: Plain, method: str) -> str:
        return f"{method} at {job['density']:g}" + (
            " (candidates at random)" if job["part"] == "random" else ""
        )

    short = [named(job, bare(job["method"])) for job in jobs]
    return [
        name if short.count(name) == 1 else named(job, job["method"])
        for name, job in zip(short, jobs, strict=True)
    ]


def audit_of(told: Plain) -> Audit:
    """The audit of what ``compress.json`` holds.

    Args:
        told: Its content.
    """
    analyses = tuple(_analyses(told))
    shipped, epsilon = told["shipped"], told["units"][0]["epsilon"]
    private = [f"What ships was trained with {guarantee(epsilon)}, {AGAINST}"] if epsilon else []
    return Audit(
        f"A compressed model: {names_of(told['units'])[0]}",
        analyses,
        summarize(analyses[0]),
        settings=told["spec"],
        provenance=Provenance(told["spec"]["compress"]["seed"], {"discreet": __version__}),
        data=Data(dict(told["roles"])),
        notes=(*private, *told["notes"], *(shipped["notes"] if shipped else ())),
    )


def _analyses(told: Plain) -> Iterator[Analysis]:
    runs, roles, metric = told["spec"]["compress"]["runs"], told["roles"], _metric(told["metric"])
    shipped = told["shipped"]
    if shipped is not None:
        files = {each["name"]: each for each in shipped["files"] if "audit" in each}
        weights, full = (shipped["weights"][name] for name in ("parameters", "parameters_full"))
        yield Analysis(
            FILES,
            _table(list(files), 1, roles["test"]),
            "The files that ship, of the first run, each as it was read back. Intervals are over the records of its"
            " audit and its test.",
            performance=tuple(_performance(files, metric, roles["test"])),
            storage=tuple(
                Storage(name, 8 * each["bytes"] / weights, each["bytes"], bytes_full=4 * full)
                for name, each in files.items()
            ),
            attacks=tuple(_attacks(files, 1, roles["audit"])),
            more={"epsilon": list(epsilon)} if (epsilon := told["units"][0]["epsilon"]) else {},
        )
    units = dict(zip(names_of(told["units"]), told["units"], strict=True))
    yield Analysis(
        METHODS,
        _table(list(units), runs, roles["test"]),
        "The models of all runs before they are written to files. Where there are several runs, intervals are over"
        " the runs.",
        performance=tuple(_performance(units, metric, roles["test"])),
        attacks=tuple(_attacks(units, runs, roles["audit"])),
        paired=tuple(_paired(units)),
    )


def _metric(name: str) -> str:
    """The metric's name in a requirement; a function of one's own by its own name, if that means nothing else."""
    own = name.partition(":")[2]
    taken = (*SHARES, *OF_RANKING, *OF_ATTACKS, *OF_STORAGE)
    return f"own_{own}" if own in taken else own or name


def _table(names: Sequence[str], runs: int, samples: int) -> RankTable:
    empty = dict.fromkeys(
        ("r", "r_median", "low", "high", "candidates", "n_train_r", "resolution", "rank", "rank_low", "rank_high")
    )  # fmt: skip
    rows = (
        Ranked(
            name,
            "undefined",
            runs=runs,
            runs_undefined=runs,
            runs_infinite=0,
            checkpoints=1.0,
            samples=samples,
            diagnostics=(),
            **empty,
        )
        for name in names
    )
    return RankTable("discreet.rank/1", 0.95, "mean", tuple(rows), ())


def _performance(found: Mapping[str, Plain], metric: str, samples: int) -> Iterator[Performance]:
    for name, each in found.items():
        if each["audit"]:
            yield Performance(name, metric, *_ends(each["audit"]["task"]), n=samples)


def _attacks(found: Mapping[str, Plain], runs: int, panel: int) -> Iterator[Attack]:
    """Every figure of every attack; one half of the panel teaches, the other judges."""
    judged = panel // 2  # members, and as many non-members
    for variant, each in found.items():
        audit = each["audit"]
        if not audit:
            continue

        def row(attack: str, metric: str, told: Plain, variant: str = variant, **more: Any) -> Attack:
            return Attack(
                variant,
                attack,
                metric,
                *_ends(told),
                members=runs * judged,
                nonmembers=runs * judged,
                runs=runs,
                rule=told["method"],
                more={"n": 2 * judged} | more,
            )

        for attack, told in audit["attacks"].items():
            yield row(attack, "balanced_accuracy", told)
        yield row(STRONGEST, "balanced_accuracy", audit["mia"])
        yield row(STRONGEST, "auc", audit["auc"])
        for rate, told in audit["tpr"].items():
            fpr = float(rate)
            rests = {"resolvable": allowed(fpr, judged) > 0, "needs": smallest_sample(fpr)}
            yield row(STRONGEST, f"tpr@{fpr:g}", told, fpr=fpr, **rests)


def _paired(units: Mapping[str, Plain]) -> Iterator[Paired]:
    first = next(iter(units))
    for name, unit in units.items():
        if unit["beside"]:
            value, low, high = _ends(unit["beside"]["mia"])
            answer = "less" if high < 0 else "more" if low > 0 else "not told apart"
            yield Paired(first, name, STRONGEST, "balanced_accuracy", value, low, high, answer)


def _ends(told: Plain) -> tuple[float, float, float]:
    return told["value"], told["low"], told["high"]
