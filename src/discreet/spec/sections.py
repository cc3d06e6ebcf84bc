"""The sections that specs are made of; each is a frozen dataclass, and its keys are the fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from discreet import methods, safety, selection_rules
from discreet.quantizers import parse as parse_quantizer
from discreet.sparse.counts import check_density
from discreet.spec.training import Train

__all__ = [
    "Budget",
    "Compress",
    "CompressSpec",
    "Data",
    "Export",
    "Model",
    "Roles",
    "Safety",
    "Select",
    "Train",
]


@dataclass(frozen=True)
class Model:
    """The big model: a function of yours that makes one, or the widths of a perceptron.

    Attributes:
        build: Dotted path of a function that returns a new, untrained torch module each time it is called, as
            "package.module:function". If it takes an argument width, it is called with shares of the full width for
            students of distillation.
        hidden: Instead of build: widths of the hidden layers of a perceptron.
        activation: Of that perceptron: "relu", "tanh" or another one that discreet.mlp knows.
        options: Arguments for build, by name.
    """

    build: str = ""
    hidden: tuple[int, ...] = ()
    activation: str = "relu"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if bool(self.build) == bool(self.hidden):
            got = "both" if self.build else "neither"
            raise ValueError(f"build: expected either build or hidden, got {got}")
        if self.hidden and min(self.hidden) < 1:
            raise ValueError(f"hidden: expected widths of at least 1, got {list(self.hidden)}")
        if self.hidden and self.options:
            raise ValueError("options: expected none, as they are arguments of build, which is not given")


@dataclass(frozen=True)
class Data:
    """The samples: a data set by name, or a function of yours.

    Attributes:
        load: "tab20", "fashion", "adult" or "b3db", or the dotted path of a function that returns a torch Dataset,
            inputs and labels, or a dict with x, y and, if there are any, group (samples of one group stay together),
            attribute (a private one, for tests that infer it) and reference (inputs without labels, for dmp).
        samples: Use so many, drawn at random; 0 for all.
        options: Arguments for that function, by name.
    """

    load: str
    samples: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.samples < 0:
            raise ValueError(f"samples: expected 0 or more, got {self.samples}")


@dataclass(frozen=True)
class Roles:
    """How many samples play each part in a run; 0 takes a share of those that there are.

    Attributes:
        fit: Training samples, the members; 40 %.
        loop: Members, and as many non-members, on whom candidates are attacked while the model trains; 10 %.
        audit: Members, and as many non-members, of the final audit; 25 %.
        validation: On whom candidates' task performance is compared; 10 %.
        test: On whom the final task performance is measured; 15 %.
        reference: For dmp, which does not look at their labels, and for advreg, which does: samples that nothing else
            uses; none unless given here. Those that load returns instead have no labels.
    """

    fit: int = 0
    loop: int = 0
    audit: int = 0
    validation: int = 0
    test: int = 0
    reference: int = 0

    def __post_init__(self) -> None:
        for name in ("fit", "loop", "audit", "validation", "test", "reference"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected 0 or more, got {getattr(self, name)}")


@dataclass(frozen=True)
class Compress:
    """How the model is made small, and what it is compared with.

    Attributes:
        method: A compressor, or one with defences, such as "safecompress", "set" or "prune+dmp".
        densities: Shares of the weights that are kept, one model for each; the first is the one that ships.
        runs: How often all is repeated, with other samples in each part and other seeds.
        seed: Of everything.
        controls: What it is compared with, at the first density. Without them a figure says little.
        random_control: For safecompress: the same with candidates picked at random, which tells what the tests do.
        metric: Task performance: "accuracy", "auroc", "r2" or the dotted path of a function; empty for the usual one.
        include: Patterns of the tensors to mask; empty for the weights of linear and convolution layers.
        exclude: Patterns of tensors that stay dense.
    """

    method: str = "safecompress"
    densities: tuple[float, ...] = (0.1,)
    runs: int = 3
    seed: int = 0
    controls: tuple[str, ...] = ("dense", "early", "matched", "static", "set")
    random_control: bool = True
    metric: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, specs in (("method", [self.method]), ("controls", self.controls)):
            for spec in specs:
                _parsed(name, methods.parse, spec)
        if not self.densities or len(set(self.densities)) < len(self.densities):
            raise ValueError(f"densities: expected at least one, none twice, got {list(self.densities)}")
        for density in self.densities:
            _parsed("densities", check_density, density)
        if self.runs < 1:
            raise ValueError(f"runs: expected at least 1, got {self.runs}")
        if self.seed < 0:
            raise ValueError(f"seed: expected 0 or more, got {self.seed}")


@dataclass(frozen=True)
class Safety:
    """Attacks: those that judge candidates while the model trains, and those of the final audit.

    Attributes:
        test: The safety test of the candidates (safecompress alone uses it); it never sees the audit's samples.
        audit: Attacks of the final audit; in each run the strongest one counts.
    """

    test: str = "basket"
    audit: tuple[str, ...] = ("modified", "loss", "odds")

    def __post_init__(self) -> None:
        _parsed("test", safety.parse, self.test)
        if not self.audit:
            raise ValueError("audit: expected at least one attack, got none")
        for spec in self.audit:
            _parsed("audit", safety.parse, spec)


@dataclass(frozen=True)
class Select:
    """Which candidate goes on (safecompress alone).

    Attributes:
        rule: "constrained", "tm" (the paper's), "least", "indicator" or "random".
        patience: Rounds without a better score after which a run stops; 0 for never.
    """

    rule: str = "constrained"
    patience: int = 0

    def __post_init__(self) -> None:
        _parsed("rule", selection_rules.parse, self.rule)
        if self.patience < 0:
            raise ValueError(f"patience: expected 0 or more, got {self.patience}")


@dataclass(frozen=True)
class Budget:
    """How long it may take.

    Attributes:
        minutes: No further training or round is begun after so many, once there is a model; 0 for no limit. The next
            call goes on.
    """

    minutes: float = 0.0

    def __post_init__(self) -> None:
        if not self.minutes >= 0:
            raise ValueError(f"minutes: expected 0 or more, got {self.minutes}")


@dataclass(frozen=True)
class Export:
    """Files of the model that ships: that of the first run at the first density.

    Attributes:
        formats: Any of "sparse" (a small file, reloaded exactly), "dense" (plain safetensors) and "onnx".
        values: Type of the values in the sparse file: "" as trained, "float16" or "bfloat16" (then outputs change).
        quantizer: A quantizer for the weights in use, such as "uniform(bits=4)"; its file is audited too.
        batch_sizes: Records at a time for which speed is measured; empty to measure none.
    """

    formats: tuple[Literal["sparse", "dense", "onnx"], ...] = ("sparse", "dense", "onnx")
    values: Literal["", "float16", "bfloat16"] = ""
    quantizer: str = ""
    batch_sizes: tuple[int, ...] = (1, 64)

    def __post_init__(self) -> None:
        if "sparse" not in self.formats:
            raise ValueError("formats: expected sparse among them: it is the file that is audited")
        if self.quantizer:
            _parsed("quantizer", parse_quantizer, self.quantizer)
        if self.batch_sizes and min(self.batch_sizes) < 1:
            raise ValueError(f"batch_sizes: expected at least 1 each, got {list(self.batch_sizes)}")


@dataclass(frozen=True)
class CompressSpec:
    """What discreet compress is to do.

    Attributes:
        data: See its keys.
        model: See its keys.
        train: How the big model is trained.
        roles: See its keys.
        compress: See its keys.
        safety: See its keys.
        select: See its keys.
        budget: See its keys.
        export: See its keys.
    """

    data: Data
    model: Model
    train: Train = field(default_factory=Train)
    roles: Roles = field(default_factory=Roles)
    compress: Compress = field(default_factory=Compress)
    safety: Safety = field(default_factory=Safety)
    select: Select = field(default_factory=Select)
    budget: Budget = field(default_factory=Budget)
    export: Export = field(default_factory=Export)


def _parsed(name: str, parse: Any, spec: Any) -> None:
    try:
        parse(spec)
    except ValueError as error:
        raise ValueError(f"{name}: {str(error).removeprefix('density: ')}") from error
