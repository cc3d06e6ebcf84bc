"""An audit as one run of an MLflow experiment: parameters, metrics with the ends of their intervals, files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from discreet._json import loads
from discreet.audit import Analysis, Audit

__all__ = ["log_run", "metrics_of", "params_of"]

_TAG = "discreet.audit_sha256"
_LONGEST = 500  # of a parameter's value; MLflow's older servers take no more
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\- /]+")


def log_run(run_dir: str | Path, uri: str | None = None, experiment: str = "discreet") -> tuple[str, bool]:
    """Log a run directory; if the same audit is there already, bring its files and the gate's answer up to date.

    Args:
        run_dir: A folder with an ``audit.json``; ``report.html`` goes with it if it is there, and ``gate.json`` if it
            is no older than the audit.
        uri: Tracking URI, such as ``sqlite:///mlflow.db`` or that of a server; None: as MLflow is set up.
        experiment: Its name; made if it is missing.

    Returns:
        The id of the run, and whether it was made now.

    Raises:
        AuditError: The audit cannot be read.
        ModuleNotFoundError: MLflow is missing (the extra ``mlflow``).
        ValueError: MLflow cannot log there.
    """
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    folder = Path(run_dir)
    audit = Audit.load(folder / "audit.json")
    digest = hashlib.sha256((folder / "audit.json").read_bytes()).hexdigest()
    verdict = _verdict(folder)
    told = None if verdict is None else loads(verdict.read_bytes())
    files = [folder / "audit.json", folder / "report.html", *([] if verdict is None else [verdict])]
    try:
        client = MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(experiment)
        number = found.experiment_id if found is not None else client.create_experiment(experiment)
        same = client.search_runs([number], f"tags.`{_TAG}` = '{digest}' and attributes.status = 'FINISHED'")
        if same:
            name = same[0].info.run_id
        else:
            name = client.create_run(number, run_name=folder.resolve().name, tags={_TAG: digest}).info.run_id
            for key, value in params_of(audit).items():
                client.log_param(name, key, value)
            for key, value in metrics_of(audit.analyses[0]).items():
                client.log_metric(name, key, value)
        if isinstance(told, Mapping):
            client.set_tag(name, "discreet.gate", str(told.get("outcome")))
        for file in filter(Path.is_file, files):
            client.log_artifact(name, str(file))
        if not same:
            client.set_terminated(name)
    except MlflowException as error:
        raise ValueError(f"mlflow: {' '.join(str(error).split())}") from error
    return name, not same


def params_of(audit: Audit) -> dict[str, str]:
    """What the figures were made with, by dotted names; ``variant.NAME`` is what a name in the metrics stands for."""
    analysis = audit.analyses[0]
    ranking = analysis.ranking
    found: dict[str, Any] = {
        "title": audit.title,
        "analysis": analysis.name,
        "level": ranking.level,
        "statistic": ranking.statistic,
        "seed": audit.provenance.seed,
    }
    found |= {f"version.{name}": version for name, version in audit.provenance.versions.items()}
    found |= {f"data.{each.name}": each.sha256 for each in audit.provenance.data}
    found |= {f"count.{name}": count for name, count in audit.data.counts.items()}
    found |= dict(_flat(audit.settings, "settings"))
    if audit.blind is not None:
        found["split"] = "confounded" if audit.blind.confounded else "no sign of confounding"
    found |= {f"variant.{short}": long for long, short in _names(analysis).items()}
    return {_safe(name): str(value)[:_LONGEST] for name, value in found.items() if value is not None}


def metrics_of(analysis: Analysis) -> dict[str, float]:
    """Every number: ``VARIANT/r``, ``VARIANT/ATTACK/auc``, …, each with ``_low``, ``_high`` and its n."""
    names, found = _names(analysis), dict[str, float | None]()
    for row in analysis.ranking.variants:
        place = names[row.variant]
        found |= _ends(f"{place}/r", row.r, row.low, row.high)
        found |= {f"{place}/r_samples": row.samples, f"{place}/runs": row.runs, f"{place}/rank": row.rank}
        found |= {f"{place}/n_train_r": row.n_train_r}
    for row in analysis.attacks:
        place = f"{names[row.variant]}/{_safe(row.attack)}/{_safe(row.metric)}"
        found |= _ends(place, row.value, row.low, row.high)
        found |= {f"{place}_members": row.members, f"{place}_nonmembers": row.nonmembers}
    for row in analysis.performance:
        place = f"{names[row.variant]}/{_safe(row.metric)}"
        found |= _ends(place, row.value, row.low, row.high) | {f"{place}_n": row.n}
    for row in analysis.storage:
        found |= {
            f"{names[row.variant]}/bits_per_weight": row.bits_per_weight,
            f"{names[row.variant]}/bytes": row.bytes,
        }
    return {name: float(value) for name, value in found.items() if value is not None}


def _ends(name: str, value: float | None, low: float | None, high: float | None) -> dict[str, float | None]:
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _names(analysis: Analysis) -> dict[str, str]:
    """A name that MLflow takes for each variant, no two alike."""
    names: dict[str, str] = {}
    for row in analysis.ranking.variants:
        short = base = _safe(row.variant).strip("_/. ") or "variant"
        number = 1
        while short in names.values():
            number += 1
            short = f"{base}_{number}"
        names[row.variant] = short
    return names


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name)[:200]


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield path, ", ".join(map(str, value))
    else:
        yield path, value


def _verdict(folder: Path) -> Path | None:
    """The gate's answer, if it judged this audit."""
    gate, audit = folder / "gate.json", folder / "audit.json"
    return gate if gate.is_file() and gate.stat().st_mtime_ns >= audit.stat().st_mtime_ns else None
