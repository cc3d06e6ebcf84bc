"""From what a spec names to samples and a model, checked before anything long begins."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet._types import Bool, Float, Int, Num
from discreet.initial import Architecture
from discreet.mlp import MLP
from discreet.spec._errors import CalledError, SpecFileError
from discreet.spec.calls import Named, named
from discreet.spec.reading import Source
from discreet.spec.sections import Data, Model
from discreet.spec.trying import check_classes, try_model

__all__ = ["BUILT_IN", "Loaded", "load_data", "load_model"]

KEYS = ("x", "y", "group", "attribute", "reference")


@dataclass(frozen=True, eq=False)
class Loaded:
    """Samples.

    Attributes:
        x: Inputs.
        y: Labels.
        group: Samples of one group play one part; None: each is alone.
        attribute: A private attribute of each sample, or None.
        reference: Inputs without labels, or None.
        about: Where they came from.
        notes: What a reader must know.
    """

    x: Num[Tensor, " sample *rest"] | Bool[Tensor, " sample *rest"]
    y: Num[Tensor, " sample *target"]
    group: Int[np.ndarray, " sample"] | None = None
    attribute: np.ndarray | None = None
    reference: Num[Tensor, " row *rest"] | Bool[Tensor, " row *rest"] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def real(self) -> Loaded:
        """The same with inputs that are real numbers (float32), as linear layers take them."""
        reference = None if self.reference is None else self.reference.float()
        return replace(self, x=self.x.float(), reference=reference)

    def drawn(self, samples: int, seed: int) -> Loaded:
        """So many samples at random, in their order; whole groups may be cut."""
        rows = np.sort(np.random.default_rng([seed, 7]).permutation(len(self.y))[:samples])
        at = torch.from_numpy(rows)
        cut = {
            name: None if (v := getattr(self, name)) is None else v[rows] for name in ("group", "attribute")
        }
        return Loaded(
            self.x[at], self.y[at], **cut, reference=self.reference, about=self.about, notes=self.notes
        )


def load_data(section: Data, source: Source, *, seed: int = 0, key: str = "data") -> Loaded:
    """The samples that a spec's section names.

    Args:
        section: The section.
        source: The spec, for messages, and for where its modules are.
        seed: Of which samples are taken, if not all are.
        key: Name of the section.

    Raises:
        SpecFileError: No such data set or function.
        CalledError: The function raised, or returned something else.
    """
    if ":" in section.load:
        loaded = _own(named(section.load, source, key, "load"), section.options)
    elif section.load in BUILT_IN:
        if section.options:
            raise SpecFileError(
                f"{source.at(key, 'options')}: expected none for the data set {section.load!r}"
            )
        loaded = BUILT_IN[section.load]()
    else:
        from discreet._find import near

        known = ", ".join(BUILT_IN)
        raise SpecFileError(
            f"{source.at(key, 'load')}: expected one of {known}, or package.module:function, got {section.load!r}"
            f"{near(section.load, BUILT_IN)}"
        )
    if section.samples > len(loaded.y):
        raise SpecFileError(
            f"{source.at(key, 'samples')}: expected at most the {len(loaded.y)} that there are, got {section.samples}"
        )
    taken = loaded.drawn(section.samples, seed) if section.samples else loaded
    if len(taken.y) < 2:
        raise SpecFileError(
            f"{source.at(key, 'samples' if section.samples else 'load')}: expected at least 2 samples, got"
            f" {len(taken.y)}"
        )
    return taken


def load_model(
    section: Model, source: Source, data: Loaded, loss: str, *, key: str = "model"
) -> tuple[Architecture, Callable[[float], Architecture] | None, tuple[str, ...]]:
    """The model that a spec's section names, tried on two samples.

    Args:
        section: The section.
        source: The spec.
        data: Samples, for the number of inputs and outputs, and to try it on.
        loss: ``"bce"``, ``"ce"`` or ``"mse"``.
        key: Name of the section.

    Returns:
        The model; narrower ones of its kind, if it can be made so; notes.

    Raises:
        SpecFileError: No such function, or a perceptron on inputs that are no rows of features.
        CalledError: The function raised, returned no module, or the module failed on two samples.
    """
    if not section.build:
        if data.x.ndim != 2:
            raise SpecFileError(
                f"{source.at(key, 'hidden')}: a perceptron takes rows of features, samples have shape"
                f" {list(data.x.shape[1:])}; give build"
            )
        outputs = int(data.y.max()) + 1 if loss == "ce" else 1 if data.y.ndim == 1 else data.y.shape[1]
        check_classes(data.y, source, loss, outputs)
        try:
            return MLP((data.x.shape[1], *section.hidden, outputs), section.activation), None, ()
        except ValueError as error:
            raise SpecFileError(f"{source.at(key, 'activation')}: {error}") from error
    build = named(section.build, source, key, "build")
    try_model(build, section.options, data.x, data.y, loss, source)
    make = partial(build.function, **section.options)
    wide = "width" in inspect.signature(build.function).parameters
    narrow = (lambda share: partial(make, width=share)) if wide else None
    return make, narrow, (build.note,) if build.note else ()


def _own(load: Named, options: Mapping[str, Any]) -> Loaded:
    """What a function returns, after a second call to see whether it returns the same."""
    found, again = (
        _called(load, options, "to load the data"),
        _called(load, options, "to load the data again"),
    )
    if len(found.y) != len(again.y):
        raise load.wrong("the same samples each time", f"{len(found.y)} at first and then {len(again.y)}")
    if _digest(found) != _digest(again):
        raise CalledError(
            f"{load.where}: {load.path} gives other values, or the same in another order, when it is called again;"
            " give a seed to what it draws, and switch augmentation and shuffling off: members must be measured as"
            " they were trained on, and a stopped audit goes on with the samples it began with"
        )
    return found


def _digest(loaded: Loaded) -> str:
    whole = hashlib.sha256()
    for value in (loaded.x, loaded.y, loaded.reference, loaded.group, loaded.attribute):
        if value is not None:
            array = np.ascontiguousarray(value.numpy() if isinstance(value, Tensor) else value)
            whole.update(f"{array.dtype}{array.shape}".encode())
            whole.update(array.data if array.dtype != object else repr(array.tolist()).encode())
    return whole.hexdigest()


def _called(load: Named, options: Mapping[str, Any], why: str) -> Loaded:
    told = _parts(load, load(why, options))
    x, y = (_tensor(load, name, told[name]) for name in ("x", "y"))
    if not len(x) == len(y) > 0:
        raise load.wrong("as many labels as inputs, at least one", f"{len(y)} labels for {len(x)} inputs")
    if x.is_floating_point() and not bool(x.isfinite().all()):
        raise load.wrong("finite inputs", f"{int((~x.isfinite()).sum())} that are NaN or infinite")
    _check_complete(load, "y", y.numpy())
    extra: dict[str, Any] = {}
    for name in ("group", "attribute"):
        if told.get(name) is not None:
            extra[name] = _values(load, name, told[name], len(x))
    if told.get("reference") is not None:
        extra["reference"] = _tensor(load, "reference", told["reference"])
        if extra["reference"].shape[1:] != x.shape[1:]:
            raise load.wrong(
                f"reference: inputs of shape {list(x.shape[1:])}", f"{list(extra['reference'].shape[1:])}"
            )
    return Loaded(x, y, **extra, about={"source": load.path}, notes=(load.note,) if load.note else ())


def _values(load: Named, name: str, given: Any, samples: int) -> np.ndarray:
    """One value a sample, none missing, which can be told apart."""
    found = np.asarray(given)
    if found.shape != (samples,):
        got = f"{len(found)}" if found.ndim == 1 else f"shape {list(found.shape)}"
        raise load.wrong(f"{name}: one value for each of {samples} samples", got)
    _check_complete(load, name, found)
    try:
        np.unique(found)
    except TypeError:
        kinds = " beside ".join(dict.fromkeys(type(value).__name__ for value in found))
        raise load.wrong(f"{name}: values of one kind", kinds) from None
    return found


def _check_complete(load: Named, name: str, values: np.ndarray) -> None:
    """Refuse values that are missing, NaN or infinite: as labels they are none, and as groups they would be one."""
    if values.dtype == object:
        bad = np.array([_is_missing(value) for value in values], bool)
    elif values.dtype.kind in "fc":
        bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    else:
        bad = values != values if values.dtype.kind in "mM" else np.zeros(0, bool)  # NaT is not itself
    at = np.flatnonzero(bad)
    if len(at):
        raise load.wrong(
            f"{name}: finite values, none missing", f"{values[at[0]]} at position {at[0]} ({len(at)} such)"
        )


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True  # pandas.NA, which is neither


def _parts(load: Named, given: Any) -> dict[str, Any]:
    if isinstance(given, torch.utils.data.Dataset):
        return dict(zip(("x", "y"), _dataset(load, given), strict=True))
    if isinstance(given, list | tuple) and len(given) == 2:
        return {"x": given[0], "y": given[1]}
    if not isinstance(given, Mapping) or not {"x", "y"} <= set(given) <= set(KEYS):
        got = (
            f"a dict of {', '.join(map(str, given))}" if isinstance(given, Mapping) else type(given).__name__
        )
        raise load.wrong(f"a Dataset, a pair of inputs and labels, or a dict of {', '.join(KEYS)}", got)
    return dict(given)


def _dataset(load: Named, dataset: Any) -> tuple[Tensor, Tensor]:
    """All items, after a look whether a second reading gives the same."""

    if isinstance(dataset, torch.utils.data.IterableDataset):
        dataset = Named(lambda: list(dataset), f"reading the Dataset of {load.path}", load.where)(
            "to have its samples"
        )

    def items(many: int) -> tuple[Tensor, Tensor]:
        pairs = [dataset[at] for at in range(many)]
        return (
            torch.stack([torch.as_tensor(pair[0]) for pair in pairs]),
            torch.stack([torch.as_tensor(pair[1]) for pair in pairs]),
        )

    read = partial(
        Named(items, f"reading the Dataset of {load.path}", load.where), "to have its samples in memory"
    )
    many = len(dataset)
    if not many:
        raise load.wrong("a Dataset with items", "an empty one")
    head, again, whole = (read({"many": each}) for each in (min(many, 32), min(many, 32), many))
    for one, other in ((head, again), (head, tuple(each[: len(head[1])] for each in whole))):
        if not all(torch.equal(a, b) for a, b in zip(one, other, strict=True)):
            raise CalledError(
                f"{load.where}: the Dataset of {load.path} gives other values at a second reading; switch"
                " augmentation and shuffling off: members must be measured as they were trained on"
            )
    return whole


def _tensor(load: Named, name: str, value: Any) -> Tensor:
    try:
        found = (
            value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
        )  # tables of pandas too
    except (TypeError, ValueError, RuntimeError) as error:
        raise load.wrong(f"{name}: numbers", f"{type(value).__name__} ({error})") from error
    found = found.detach().cpu()
    return found.float() if found.dtype in (torch.float16, torch.bfloat16, torch.float64) else found


def _is_locked(array: Tensor | np.ndarray) -> bool:
    return isinstance(array, np.ndarray) and not array.flags.writeable


def _tab20() -> Loaded:
    from discreet.data import tab20

    return _samples(tab20.load())


def _fashion() -> Loaded:
    from discreet.data import fashion

    return _samples(fashion.load())


def _adult() -> Loaded:
    from discreet.data import adult

    return _samples(adult.load())


def _b3db() -> Loaded:
    from discreet.data import b3db

    found = b3db.load()
    x = torch.from_numpy(found.fingerprint.astype(np.float32))
    about = {"source": b3db.SOURCE, "licence": b3db.LICENCE, "sha256": b3db.SHA256}
    return Loaded(x, torch.from_numpy(found.permeable.astype(np.int64)), found.family, about=about)


def _samples(found: Any) -> Loaded:
    x: Float[np.ndarray, "sample feature"] = found.x
    about = {"source": found.source, "licence": found.licence, "sha256": dict(found.sha256)}
    return Loaded(torch.from_numpy(x), torch.from_numpy(found.y), about=about)


BUILT_IN: Mapping[str, Callable[[], Loaded]] = {
    "tab20": _tab20,
    "fashion": _fashion,
    "adult": _adult,
    "b3db": _b3db,
}
