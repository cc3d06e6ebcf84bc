"""Classifiers that are no torch modules: fitted on each run's half, and asked for margins or probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import torch

from discreet._types import Int
from discreet.auditing_spec.fitting import seeded
from discreet.auditing_spec.outputs import FLOOR, Logits, logits_of, record_of
from discreet.auditing_spec.work import OneRecordEach, Work
from discreet.model_seeds import init_seed
from discreet.records import Record
from discreet.runs.units import Tick
from discreet.spec import Named

__all__ = ["MODEL", "EstimatorUnit", "ask", "identity_of", "is_estimator"]

MODEL = "model"
"""Name of the only variant of a model that is not quantized."""
_SEEDS = ("random_state", "random_seed")
_ALIKE = 1e-4  # how near the probabilities of margins must be to those that the model tells


@dataclass(frozen=True, eq=False)
class EstimatorUnit(OneRecordEach):
    """One run of a classifier. See ``Unit``. The classifier is not kept: that takes a pickle.

    Attributes:
        work: What all units share.
        number: Of the run.
        build: Makes a new classifier.
        fit: Trains it, if the spec names a function for that.
    """

    work: Work
    number: int
    build: Named
    fit: Named | None
    ticks: int = 1

    @property
    def name(self) -> str:
        """See ``Unit``."""
        return f"run {self.number}"

    def kept(self) -> tuple[str, str]:
        """See ``OneRecordEach``."""
        store, panel = self.work.store, self.work.panel
        content = {
            "content": self.work.content,
            "subset": self.work.subset(self.number),
            "about": panel.about,
            "run": self.number,
        }
        name = f"run-{self.number}.safetensors"
        return (
            store.key(f"trajectory/{name}", evaluation=panel.evaluation, **content),
            store.key(f"release/{name}", released=panel.released, which=panel.which, **content),
        )

    def do(self, tick: Tick) -> None:
        """See ``Unit``."""
        panel, store = self.work.panel, self.work.store
        if not all(store.has(key) for key in self._kept):
            model = self._fitted()
            nobody = np.zeros(len(panel.evaluation), bool)
            parts = (
                (panel.evaluation, nobody, None),
                (panel.released, self.work.member((self.number,))[0], panel.which),
            )
            for key, told in zip(self._kept, parts, strict=True):
                record = self._record(model, *told)
                store.make(key, record.save)
        tick()

    def _fitted(self) -> Any:
        spec, data = self.work.spec, self.work.data
        seed = init_seed(spec.split.seed, self.number) % 2**31
        at = torch.from_numpy(self.work.subset(self.number))
        x, y = data.x[at].numpy(), data.y[at].numpy()

        def train() -> Any:
            with seeded(seed):
                model = self.build("to make the model", spec.model.options)
                _seed(model, seed)
                if self.fit is None:
                    return model.fit(x, y)
                options = spec.train.options
                return self.fit.function(model, x, y, seed=seed, checkpoint=lambda model: None, **options)

        how = self.build if self.fit is None else self.fit
        path = f"fit of the model of {how.path}" if self.fit is None else how.path
        model = Named(train, path, how.where)(f"to train run {self.number}")
        if not is_estimator(model):
            raise how.wrong("the classifier that is trained", type(model).__name__)
        return model

    def _record(self, model: Any, at: Int[np.ndarray, " part"], member: np.ndarray, which: Any) -> Record:
        panel = self.work.panel
        x = panel.x[torch.from_numpy(at)].numpy()
        classes = int(self.work.data.y.max()) + 1
        where = Named(
            lambda: ask(model, x, classes, panel.task), f"the model of {self.build.path}", self.build.where
        )
        with np.errstate(all="ignore"):  # what is not finite is refused by what reads it
            outputs, kind = where(f"for its outputs on {len(x)} samples")
        return record_of(
            panel, at, str(self.number), 1.0, {MODEL: outputs}, member, which=which, about={"outputs": kind}
        )


def is_estimator(model: Any) -> bool:
    """Whether a thing is a classifier that tells probabilities or margins."""
    return callable(getattr(model, "fit", None)) and any(
        callable(getattr(model, name, None)) for name in ("predict_proba", "decision_function")
    )


def identity_of(model: Any) -> dict[str, str]:
    """What a classifier is, as content for a key: its class, settings and the release of its package."""
    kind = type(model)
    package = kind.__module__.partition(".")[0]
    try:
        release = metadata.version({"sklearn": "scikit-learn"}.get(package, package))
    except metadata.PackageNotFoundError:
        release = ""
    settings = model.get_params() if callable(getattr(model, "get_params", None)) else {}
    told = {name: repr(value) for name, value in sorted(settings.items())}
    return {"class": f"{kind.__module__}.{kind.__qualname__}", "settings": str(told), "version": release}


def ask(model: Any, x: np.ndarray, classes: int, task: str) -> tuple[Logits, str]:
    """Logits of a fitted classifier, from its margins where they say what its probabilities do.

    Args:
        model: The classifier; ``classes_`` names its columns.
        x: Inputs.
        classes: How many classes there are; some may be missing from ``classes_``.
        task: ``"bce"`` or ``"ce"``.

    Returns:
        Logits, and ``"margins"`` or ``"probabilities"``.

    Raises:
        ValueError: Labels that are no classes, or outputs of another shape.
    """
    known = np.asarray(getattr(model, "classes_", np.arange(classes)))
    if known.dtype.kind not in "iuf" or not np.isin(known, np.arange(classes)).all():
        raise ValueError(f"classes_: expected numbers from 0 to {classes - 1}, got {known.tolist()[:6]}")
    told = None
    if callable(getattr(model, "predict_proba", None)):
        told = np.asarray(model.predict_proba(x), np.float64)
        if told.shape != (len(x), len(known)):
            raise ValueError(f"predict_proba: expected shape {[len(x), len(known)]}, got {list(told.shape)}")
    for margins in _margins(model, x):
        wide = np.hstack([np.zeros_like(margins), margins]) if margins.shape[1] == 1 else margins
        if wide.shape[1] == len(known) == classes and (told is None or _agree(wide, told)):
            return logits_of(wide, task, are_probabilities=False), "margins"
    if told is None:
        raise ValueError("decision_function: expected one margin a class, or one for two classes")
    full = np.full((len(x), classes), FLOOR)
    full[:, known.astype(int)] = told
    return logits_of(full, task, are_probabilities=True), "probabilities"


def _margins(model: Any, x: np.ndarray) -> Iterator[np.ndarray]:
    """What a classifier computes before it makes probabilities of it, by the ways of the usual libraries."""
    package = type(model).__module__.partition(".")[0]
    ways: Mapping[str, Callable[[], Any]] = {
        "lightgbm": lambda: model.predict(x, raw_score=True),
        "xgboost": lambda: model.predict(x, output_margin=True),
        "catboost": lambda: model.predict(x, prediction_type="RawFormulaVal"),
    }
    if package in ways:
        yield _columns(ways[package]())
    if callable(getattr(model, "decision_function", None)):
        yield _columns(model.decision_function(x))


def _columns(values: Any) -> np.ndarray:
    found = np.asarray(values, np.float64)
    return found[:, None] if found.ndim == 1 else found


def _agree(margins: np.ndarray, told: np.ndarray) -> bool:
    """Whether the softmax of margins is what the classifier tells."""
    odds = np.exp(margins - margins.max(axis=1, keepdims=True))
    return bool(np.allclose(odds / odds.sum(axis=1, keepdims=True), told, atol=_ALIKE))


def _seed(model: Any, seed: int) -> None:
    """Give a classifier the seed of its run, by the usual names of that setting."""
    if not callable(getattr(model, "get_params", None)):
        return
    names = [name for name in model.get_params() if name.rpartition("__")[2] in _SEEDS]
    if not names and type(model).__module__.partition(".")[0] == "catboost":
        names = ["random_seed"]  # it tells what it was given alone, and refuses both names
    if names:
        model.set_params(**dict.fromkeys(names, seed))
