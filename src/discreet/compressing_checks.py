"""What a compress spec asks for that its data, model or folder cannot give, told before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from discreet import methods, shipping
from discreet.compressing_kept import Job
from discreet.compressors._performance import performances
from discreet.copies import digests
from discreet.ensemble import Diverged
from discreet.phase import Setting
from discreet.planned import planned_by
from discreet.release_audit import check_tests, try_tests
from discreet.spec import CalledError, CompressSpec, Loaded, Source, SpecFileError
from discreet.tried import fresh_weights

__all__ = [
    "check_audit",
    "check_folder",
    "check_jobs",
    "check_reference",
    "located",
    "try_audit",
    "try_metric",
]

WRITTEN = (
    *shipping.FILES,
    "compress.json",
    "speed.json",
    "report.html",
    "audit.json",
    "gate.json",
    "plan.json",
)
_PLACES = {
    "attribute": ("safety", "test"),
    "density": ("compress", "densities"),
    "exclude": ("compress", "exclude"),
    "include": ("compress", "include"),
    "metric": ("compress", "metric"),
    "model": ("model",),
    "narrow": ("model", "build"),
    "runs": ("safety", "test"),
    "task": ("safety", "test"),
    "x": ("data", "load"),
}
_HINTS = {
    "expected reference samples with labels": "; set [roles] reference (those that load returns have none)",
    "expected reference samples": "; set [roles] reference, or let load return reference",
    "its hidden widths multiplied": "; let build take an argument width",
}


def located(source: Source, error: Exception, *key: str) -> Exception:
    """The error with the place in the spec that can mend it, if it has none yet.

    Args:
        source: The spec.
        error: Its message begins with the name of an argument, or not.
        key: The place, where the message does not say it.
    """
    name, _, rest = str(error).partition(": ")
    if isinstance(error, CalledError) and name in _PLACES:
        return CalledError(f"{source.at(*_PLACES[name])}: {rest}", error.shown)
    if isinstance(error, SpecFileError | CalledError):
        return error
    if isinstance(error, Diverged):
        return SpecFileError(f"{source.at('train', 'lr')}: {error}")
    told = rest if name in _PLACES else str(error)
    hint = next((hint for words, hint in _HINTS.items() if words in told), "")
    return SpecFileError(f"{source.at(*_PLACES.get(name, key))}: {told}{hint}")


def check_audit(tests: Sequence[str], task: str, runs: int, source: Source) -> None:
    """Refuse attacks that the final audit cannot use.

    Raises:
        SpecFileError: They do not tell an accuracy, read classes where there are none, compare several runs where
            there is one, or none of them attacks a single model, as the files are.
    """
    where = source.at("safety", "audit")
    try:
        found = check_tests(tests, task)
    except ValueError as error:
        raise SpecFileError(f"{where}: {error}") from error
    several = [name for name, test in found.items() if "references" in test.needs]
    if several and runs < 2:
        raise SpecFileError(
            f"{where}: {several[0]} compares the models of several runs; expected [compress] runs = 2 or more, got 1"
        )
    if len(several) == len(found):
        raise SpecFileError(
            f"{where}: expected an attack of a single model among them, as the files that ship are attacked too, got"
            f" {', '.join(several)}"
        )


def check_folder(folder: Path) -> None:
    """Refuse a folder with files that would be overwritten and that no earlier call of ours has written.

    Raises:
        FileExistsError: Naming one.
    """
    by = planned_by(folder)
    earlier = by is None and ((folder / "compress.json").exists() or (folder / "models").is_dir())
    if (folder / "manifest.json").exists() and (by == "compress" or earlier):
        return
    for name in WRITTEN:
        if (folder / name).exists():
            raise FileExistsError(
                17,
                f"discreet compress did not write the {name} in it, and would write over it; give another --folder",
                str(folder),
            )


def check_jobs(source: Source, jobs: Sequence[Job], setting: Callable[[float], Setting]) -> None:
    """Refuse a method that this model and these data cannot have, at any of its densities.

    What it is compared with is not among it: that fails alone.

    Raises:
        SpecFileError: Naming the key.
    """
    for job in jobs:
        if job.part == "control":
            continue
        try:
            methods.check(job.method, setting(job.density))
        except ValueError as error:
            raise located(source, error, "compress", "method") from error


def try_audit(source: Source, tests: Sequence[str], setting: Setting) -> None:
    """Refuse attacks of the final audit that refuse the model or the data, as untrained models show.

    Raises:
        SpecFileError: Naming the key.
    """
    try:
        try_tests(tests, setting)
    except ValueError as error:
        raise SpecFileError(f"{source.at('safety', 'audit')}: {error}") from error


def try_metric(source: Source, setting: Setting) -> None:
    """Refuse a metric of the user's that raises or gives no scores on what an untrained model says.

    Args:
        source: The spec.
        setting: The task; its metric is a function of the user's.

    Raises:
        SpecFileError, CalledError: Naming the key.
    """
    alone = replace(setting, roles=setting.roles.of(0))
    try:
        performances(alone, alone.model, {"": fresh_weights(alone)})
    except ValueError as error:
        raise located(source, error, "compress", "metric") from error


def check_reference(spec: CompressSpec, source: Source, data: Loaded) -> None:
    """Refuse reference samples that play another part too, or that come twice.

    Raises:
        SpecFileError: Naming the key.
    """
    if data.reference is None:
        return
    if spec.roles.reference:
        raise SpecFileError(
            f"{source.at('roles', 'reference')}: expected 0, as load returns reference samples of its own, got"
            f" {spec.roles.reference}"
        )
    known = set(digests(data.x))
    copies = [row for row, each in enumerate(digests(data.reference.to(data.x.dtype))) if each in known]
    if copies:
        raise SpecFileError(
            f"{source.at('data', 'load')}: reference: expected inputs that are not among the samples, which members"
            f" and attackers' non-members are drawn from; {len(copies)} rows are copies of some, the first is row"
            f" {copies[0]}"
        )
