"""The units of an audit's work: one attack on one variant, done once and kept in the run directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet import attacks
from discreet._content import content_of, versions_of
from discreet._json import plain, read_as
from discreet.attacked import LeftOut, apart, dependence, expose_one, judge
from discreet.audit_leaks import Attack, Blind, RocCurve
from discreet.auditing_rows import curve, figures
from discreet.backends import Backend
from discreet.backends.keeping import make_elsewhere, moved
from discreet.blind_baseline import blind_or_why
from discreet.exposure import Exposure
from discreet.records import Record
from discreet.store import Store

__all__ = ["Unit", "Units"]

# Attacks that learn choose among these libraries; what is not installed may be used once it is.
_PACKAGES = ("discreet", "numpy", "scipy", "scikit-learn", "torch", "lightgbm", "catboost", "optuna")


@dataclass(frozen=True, eq=False)
class Unit:
    """What one attack found in one variant."""

    attack: str
    exposure: Exposure
    figures: tuple[Attack, ...]
    roc: RocCurve


@dataclass(frozen=True, eq=False)
class Units:
    """Attacks on the variants of one record, each kept under all that it depends on.

    Attributes:
        store: The run directory.
        record: Release records of all runs.
        content: Hashes of the files that the record was read from.
        level: Confidence level of all intervals.
        seed: Which halves of the rows choose and judge thresholds.
    """

    store: Store
    record: Record
    content: tuple[str, ...]
    level: float
    seed: int

    def all(
        self,
        variants: Sequence[str],
        methods: Mapping[str, bool],
        workers: int,
        progress: Callable[[str, float], None],
    ) -> tuple[tuple[Unit, ...], tuple[LeftOut, ...]]:
        """Do what is not done yet, and read the rest.

        Args:
            variants: Variants to attack.
            methods: Spec strings, and whether each may be left out where the record does not allow it.
            workers: Threads.
            progress: Called with what was done and the share that is done.

        Raises:
            RecordError: The record lacks what an attack needs that may not be left out.
        """
        jobs = [(spec, variant) for variant in variants for spec in methods]

        def work(job: tuple[str, str]) -> Unit | LeftOut:
            spec, variant = job
            why = apart(spec, variant)
            if why:
                return LeftOut(spec, variant, why)
            try:
                return self._one(spec, variant)
            except ValueError as error:
                if methods[spec]:
                    return LeftOut(spec, variant, str(error))
                raise

        with ThreadPoolExecutor(workers) as pool:
            futures = {pool.submit(work, job): job for job in jobs}
            try:
                for number, future in enumerate(as_completed(futures), 1):
                    future.result()
                    progress(f"{futures[future][0]} on {futures[future][1]}", number / len(jobs))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
            found = [future.result() for future in futures]
        units = tuple(each for each in found if isinstance(each, Unit))
        return units, tuple(each for each in found if isinstance(each, LeftOut))

    def elsewhere(
        self,
        backend: Backend,
        variants: Sequence[str],
        methods: Mapping[str, bool],
        progress: Callable[[str, float], None],
    ) -> None:
        """Do what is not done yet on a backend; ``all`` then reads it, and finds what was left out.

        Args:
            backend: Where.
            variants: Variants to attack.
            methods: See ``all``.
            progress: Called with what was done and the share that is done.
        """
        jobs = [(spec, variant) for variant in variants for spec in methods if not apart(spec, variant)]
        missing = [job for job in jobs if not self.store.has(self._key(*job))]

        def done(number: int, seconds: float) -> None:
            del seconds
            spec, variant = missing[number]
            nonlocal ready
            ready += 1
            progress(f"{spec} on {variant}", ready / len(jobs))

        ready = len(jobs) - len(missing)
        shared = (self, dict(methods))
        make_elsewhere(backend, self.store, _attack_there, shared, missing, keys=lambda job: (), done=done)

    def kept(self, kind: str, compute: Callable[[], Any], /, **content: Any) -> Any:
        """Return the JSON value that ``compute`` makes, from the store if it is there.

        Args:
            kind: What it is, in words.
            compute: Makes it.
            content: What it depends on besides the record; ``attack`` is a spec string.
        """
        key = self.store.key(f"attacks/{kind}.json", **self._about(content.get("attack")), **content)
        path = self.store.make(
            key, lambda aside: aside.write_text(json.dumps(plain(compute()), allow_nan=False), "utf-8")
        )
        return json.loads(path.read_text("utf-8"))

    def split(self) -> tuple[Blind | None, str]:
        """Whether texts alone tell members from non-members, or why that is not known; nothing without texts."""
        if "text" not in self.record.signals:
            return None, ""

        def compute() -> Any:
            blind, why = blind_or_why(self.record, level=self.level, seed=self.seed)
            return {"blind": blind, "why": why}

        found = self.kept("blind baseline", compute)
        blind = found["blind"]
        return None if blind is None else read_as(Blind, blind, "blind"), found["why"]

    def _about(self, attack: str | None) -> dict[str, Any]:
        return {
            "release": self.content,
            "level": self.level,
            "seed": self.seed,
            "method": None if attack is None else content_of(attacks.parse(attack)),
            "versions": versions_of(*_PACKAGES),
        }

    def _one(self, spec: str, variant: str) -> Unit:
        path = self.store.make(self._key(spec, variant), lambda aside: self._attack(spec, variant, aside))
        return _read(path, spec, variant)

    def _key(self, spec: str, variant: str) -> str:
        return self.store.key(
            f"attacks/{spec} {variant}.safetensors", attack=spec, variant=variant, **self._about(spec)
        )

    def _attack(self, spec: str, variant: str, path: Path) -> None:
        from safetensors.numpy import save_file

        e = expose_one(self.record, spec, variant)
        found = judge(e, dependence(self.record), level=self.level, seed=self.seed)
        told = {
            "spec": e.attack,
            "runs": e.runs,
            "copies": e.copies,
            "figures": figures(found),
            "roc": curve(spec, e),
        }
        arrays = {"scores": e.scores, "member": e.member.astype(np.uint8), "keep": e.keep.astype(np.uint8)}
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        save_file(arrays, path, {"found": json.dumps(plain(told), allow_nan=False)})


def _attack_there(told: tuple[Units, Mapping[str, bool]], job: tuple[str, str], store: Store) -> None:
    (units, methods), (spec, variant) = told, job
    try:
        moved(units, store)._one(spec, variant)
    except ValueError:
        if not methods[spec]:
            raise  # what may be left out is found anew by the process that asked, with the reason


def _read(path: Path, spec: str, variant: str) -> Unit:
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        told = json.loads(file.metadata()["found"])
        scores, member, keep = (file.get_tensor(name) for name in ("scores", "member", "keep"))
    flags = (member.astype(bool), keep.astype(bool))
    e = Exposure(told["spec"], variant, tuple(told["runs"]), scores, *flags, told.get("copies", 0))
    rows = read_as(tuple[Attack, ...], told["figures"], "figures")
    return Unit(spec, e, rows, read_as(RocCurve, told["roc"], "roc"))
