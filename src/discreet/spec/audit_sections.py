"""The sections of an audit's spec; each is a frozen dataclass, and its keys are the fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from discreet import attack_specs
from discreet._find import near
from discreet.device import Device
from discreet.quantizers import parse as parse_quantizer
from discreet.recipe import Recipe
from discreet.spec import sections
from discreet.spec.sections import Data
from discreet.summary import DOUBTS

__all__ = ["Attacks", "AuditSpec", "Budget", "Checkpoints", "Gate", "Model", "Split", "Train", "Variants"]

_NAMED = re.compile(r"\s*([^()=:]*[^()=:\s])\s*=\s*(.+)", re.DOTALL)
_TAKEN = {
    "full": "is full precision, which is always there; leave it out",
    "onnx": "is the name of the deployed file; take another name",
    "onnx int8 dynamic": "is a variant of ONNX Runtime's; take another name",
    "onnx int8 static": "is a variant of ONNX Runtime's; take another name",
}
_PRACTICE = "granularity='channel', scope='weights', scale='absmean'"


@dataclass(frozen=True)
class Model(sections.Model):
    """The model: a function of yours that makes one, the widths of a perceptron, or a file that is deployed.

    Attributes:
        build: Dotted path of a function that returns a new, untrained model each time it is called, as
            "package.module:function": a torch module, or a classifier with fit and predict_proba (scikit-learn,
            LightGBM, XGBoost and the like; it is attacked, and neither quantized nor ranked by r).
        onnx: A deployed ONNX file, run by ONNX Runtime, as one more variant; or a pattern of one file a run, such as
            "run*/model.int8.onnx". It needs [checkpoints] members.
        options: Arguments for build, by name.
    """

    onnx: str = ""

    def __post_init__(self) -> None:
        if not self.onnx or self.build or self.hidden:
            super().__post_init__()

    @property
    def has_weights(self) -> bool:
        """Whether there is more than a deployed file."""
        return bool(self.build or self.hidden)


@dataclass(frozen=True)
class Train(sections.Train):
    """How each run is trained: by the built-in trainer, or by a function of yours.

    Attributes:
        loss: "bce" (one logit, labels 0 and 1), "ce" (classes), "mse", or the dotted path of a function of yours that
            takes outputs [batch, out] and labels [batch] and returns the loss of each sample [batch]. With fit it
            says what is measured, "bce", "ce" or "mse", and your function trains by what it likes.
        patience: Stop a run when its loss on the validation samples has not fallen below its lowest for so many
            epochs in a row; not set: never. It needs [split] validation above 0.
        fit: Dotted path of a function (model, x, y, *, seed, checkpoint) that trains the fresh model on the inputs x
            and labels y of one run, calls checkpoint(model) after each epoch, and returns the model. Instead of it,
            the keys below tell the built-in trainer what to do.
        options: More arguments for fit, by name.
    """

    patience: int | None = None
    fit: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fit and self.own:
            raise ValueError(
                f"loss: expected bce, ce or mse, which are measured, as fit trains, got {self.loss!r}"
            )
        if not self.fit:
            if self.options:
                raise ValueError("options: expected none, as they are arguments of fit, which is not given")
            return
        for each in fields(Recipe):
            if each.name != "loss" and getattr(self, each.name) != each.default:
                raise ValueError(
                    f"{each.name}: it tells the built-in trainer what to do, but fit trains; give it to fit under"
                    " [train.options]"
                )


@dataclass(frozen=True)
class Split:
    """Who is trained on, who chooses the checkpoint that ships, and on whom all is measured, as shares of the data.

    Attributes:
        training: Samples that runs train on, each run on a half of them; the others of them are its non-members.
        validation: Samples that choose the checkpoint of each run that ships, by the lowest loss; with 0 the last
            one ships.
        evaluation: Samples that no run sees, for r and task performance.
        seed: Of everything: splits, halves, starts and orders.
    """

    training: float = 0.5
    validation: float = 0.1
    evaluation: float = 0.4
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("training", "evaluation"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name}: expected a share between 0 and 1, got {getattr(self, name)}")
        if not 0 <= self.validation < 1:
            raise ValueError(f"validation: expected a share from 0 to below 1, got {self.validation}")
        total = self.training + self.validation + self.evaluation
        if abs(total - 1) > 1e-9:
            raise ValueError(f"training: expected shares that add up to 1, got {total:g}")
        if self.seed < 0:
            raise ValueError(f"seed: expected 0 or more, got {self.seed}")

    @property
    def shares(self) -> tuple[float, float, float]:
        """For training, validation and evaluation."""
        return self.training, self.validation, self.evaluation


@dataclass(frozen=True)
class Checkpoints:
    """Instead of training: what was trained elsewhere.

    Attributes:
        files: One entry a run: a pattern of its checkpoints, such as "run1/epoch*.safetensors", which are taken in
            their natural order; the last one is what ships. Safetensors, or state dicts of torch.save.
        members: One entry a run: a file with the row numbers (from 0) of the samples that it was trained on (.npy,
            .json, .csv or .txt); or the dotted path of one function (run) that returns them. Without it nothing is
            attacked, as nobody can be judged.
    """

    files: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.files and self.members and not self.by_function and len(self.members) != len(self.files):
            raise ValueError(
                f"members: expected one entry for each of {len(self.files)} runs, or a function, got"
                f" {len(self.members)}"
            )

    @property
    def by_function(self) -> bool:
        """Whether a function of the user says who was trained on."""
        return len(self.members) == 1 and ":" in self.members[0]


@dataclass(frozen=True)
class Variants:
    """What would be shipped: the model as it is, and made smaller.

    Attributes:
        quantizers: Quantizers with their arguments, each after a name of yours if you like, as "int4 =
            uniform(bits=4)". Full precision is always there beside them, as "full".
        onnxruntime: Any of "dynamic" and "static": the shipped checkpoint exported to ONNX and made int8 by ONNX
            Runtime, as two more variants. They are attacked; r needs every checkpoint, and is not taken.
    """

    quantizers: tuple[str, ...] = (
        f"sign = sign({_PRACTICE})",
        f"ternary = ternary(zeros=0.5, {_PRACTICE})",
        f"int2 = uniform(bits=2, {_PRACTICE})",
        f"int4 = uniform(bits=4, {_PRACTICE})",
    )
    onnxruntime: tuple[Literal["dynamic", "static"], ...] = ()

    def __post_init__(self) -> None:
        names = [name for name, _ in self._pairs()]
        for name in names:
            if name in _TAKEN:
                raise ValueError(f"quantizers: {name!r} {_TAKEN[name]}")
            if names.count(name) > 1:
                raise ValueError(f"quantizers: {name!r} occurs twice")

    @property
    def named(self) -> dict[str, str]:
        """Specs of the quantizers by the names that they go by."""
        return dict(self._pairs())

    def _pairs(self) -> list[tuple[str, str]]:
        pairs = []
        for text in self.quantizers:
            name, spec = found.groups() if (found := _NAMED.fullmatch(text)) else ("", text)
            quantizer = str(_parsed("quantizers", parse_quantizer, spec))
            pairs.append((name or quantizer, quantizer))
        return pairs


@dataclass(frozen=True)
class Attacks:
    """What is tried on every variant of what ships; every run in turn is the target, the others are references.

    Attributes:
        names: Attacks with their arguments, or "all" for every one of this installation (some take long).
    """

    names: tuple[str, ...] = ("loss", "lira", "rmia", "attack_p")

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError("names: expected at least one attack, got none")
        _parsed("names", attack_specs.chosen, self.names)


@dataclass(frozen=True)
class Budget:
    """How much is done.

    Attributes:
        runs: Training runs that are followed and ranked, an even number: they come in pairs that share no sample.
        shadows: Further runs, an even number, that are not followed: references and targets for the attacks alone.
        minutes: No further run is begun after so many; 0 for no limit. The next call goes on.
    """

    runs: int = 8
    shadows: int = 0
    minutes: float = 0.0

    def __post_init__(self) -> None:
        if self.runs < 2 or self.runs % 2:
            raise ValueError(f"runs: expected an even number, at least 2, got {self.runs}")
        if self.shadows < 0 or self.shadows % 2:
            raise ValueError(f"shadows: expected an even number or 0, got {self.shadows}")
        if not self.minutes >= 0:
            raise ValueError(f"minutes: expected 0 or more, got {self.minutes}")


@dataclass(frozen=True)
class Gate:
    """What must hold; with it, discreet audit ends like discreet gate: 0 passed, 1 failed, 2 undecided.

    Attributes:
        require: Requirements, such as "tpr@1% < 0.05" or "accuracy:full > 0.8"; none: nothing is judged.
        bound: "interval": the whole interval must hold; "point": its estimate.
        accept: Diagnostics to overlook, such as "not-converged".
    """

    require: tuple[str, ...] = ()
    bound: Literal["interval", "point"] = "interval"
    accept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.accept:
            if name not in DOUBTS:
                raise ValueError(
                    f"accept: expected some of {', '.join(DOUBTS)}, got {name!r}{near(name, DOUBTS)}"
                )


@dataclass(frozen=True)
class AuditSpec:
    """What discreet audit is to do.

    Attributes:
        data: See its keys.
        model: See its keys.
        train: See its keys.
        checkpoints: See its keys.
        split: See its keys.
        variants: See its keys.
        attacks: See its keys.
        device: See its keys.
        budget: See its keys.
        gate: See its keys.
    """

    data: Data
    model: Model
    train: Train = field(default_factory=Train)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    split: Split = field(default_factory=Split)
    variants: Variants = field(default_factory=Variants)
    attacks: Attacks = field(default_factory=Attacks)
    device: Device = field(default_factory=Device)
    budget: Budget = field(default_factory=Budget)
    gate: Gate = field(default_factory=Gate)

    def __post_init__(self) -> None:
        if self.checkpoints.files and not self.model.has_weights:
            raise ValueError(
                "model: expected build or hidden, which say what the checkpoints are of, got neither"
            )
        if self.model.onnx and self.model.has_weights and not self.checkpoints.files:
            raise ValueError(
                "model: expected onnx alone, or [checkpoints] files of the model beside it, got "
                f"{'build' if self.model.build else 'hidden'} and no files"
            )
        if self.model.onnx and not self.checkpoints.members:
            raise ValueError(
                "checkpoints: expected members, which say what the deployed ONNX file was trained on, got none (to"
                " quantize what is trained here, use [variants] onnxruntime)"
            )
        if self.is_existing and self.variants.onnxruntime:
            raise ValueError("variants: expected no onnxruntime, which is for models that are trained here")
        if self.checkpoints.members and not self.is_existing:
            raise ValueError("checkpoints: expected files beside members, got none")

    @property
    def is_existing(self) -> bool:
        """Whether nothing is trained."""
        return bool(self.checkpoints.files) or bool(self.model.onnx)


def _parsed(name: str, parse: Any, spec: Any) -> Any:
    try:
        return parse(spec)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
