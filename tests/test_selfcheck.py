"""Copies of a record whose answer is known, and attacks that must not pass on them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from discreet._types import Float
from discreet.exposure import expose
from discreet.records import Record, RecordError
from discreet.selfcheck.judging import NO_LEAK, PLANTED, judge, level_for
from discreet.selfcheck.planted import plant, shuffled
from discreet.selfcheck.texts import with_texts
from discreet.stats import auc

POOL, PUBLIC, RUNS = 240, 120, 8


def measured(seed: int = 0, *, leak: float = 1.0, marked: bool = True, classes: int = 3) -> Record:
    """Complementary pairs with every signal; the leak is the record's own."""
    rng = np.random.default_rng(seed)
    n = POOL + PUBLIC
    member = np.zeros((RUNS, n), bool)
    for pair in range(RUNS // 2):
        member[2 * pair, rng.permutation(POOL)[: POOL // 2]] = True
    member[1::2, :POOL] = ~member[::2, :POOL]
    label = rng.integers(0, classes, n)
    outputs = rng.normal(size=(n, classes)) + 0.5 * rng.normal(size=(RUNS, n, classes))
    outputs[:, np.arange(n), label] += leak * member
    top = outputs - outputs.max(axis=-1, keepdims=True)
    log_p = top - np.log(np.exp(top).sum(axis=-1, keepdims=True))
    loss = -log_p[:, np.arange(n), label]
    others = np.where(np.arange(classes) == label[:, None], -np.inf, outputs)
    told = np.where((rng.random((RUNS, n)) < 0.2) & (np.arange(n) < POOL), member, -1).astype(np.int8)
    signals = {
        "loss": loss.astype(np.float32),
        "margin": outputs[:, np.arange(n), label] - others.max(axis=-1),
        "confidence": -np.log(np.expm1(loss)),
        "entropy": -(np.exp(log_p) * log_p).sum(axis=-1),
        "correct": (outputs.argmax(axis=-1) == label).astype(np.int8),
        "outputs": outputs,
        "label": label,
        "known": told,
    }
    if marked:
        signals["public"] = (np.arange(n) >= POOL).astype(np.int8)
    return Record(
        run=tuple(f"{i}" for i in range(RUNS)),
        step=np.ones(RUNS),
        variant=("sign",) * RUNS,
        sample=np.arange(n) + 7,
        signals=signals,
        axes={"outputs": ("row", "sample", "class")},
        member=member,
        calibration=(rng.random((RUNS, 1, n)) < 0.05) & (np.arange(n) < POOL),
    )


@pytest.mark.parametrize("marked", [True, False])
def test_shuffling_keeps_the_design_and_the_measurements(marked: bool) -> None:
    record = measured(marked=marked)
    made = shuffled(record, 3)
    before, after = np.asarray(record.member), np.asarray(made.member)
    assert (after.sum(axis=1) == before.sum(axis=1)).all()
    assert not (after == before).all(axis=1).any()
    assert [made.partners(run) for run in made.runs] == [record.partners(run) for run in record.runs]
    assert not after[:, POOL:].any()
    assert np.asarray(made.signal("public")).tolist() == [0] * POOL + [1] * PUBLIC
    for name in set(record.signals) - {"known", "public"}:
        assert np.array_equal(made.signal(name), record.signal(name))
    known = np.asarray(made.signal("known"))
    assert (known == np.asarray(record.signal("known"))).mean() < 0.9
    assert np.array_equal(known == 1, (known >= 0) & after)
    assert record.calibration is not None
    assert made.calibration is not None
    assert (made.calibration.sum(axis=2) == record.calibration.sum(axis=2)).all()
    assert not np.array_equal(made.calibration, record.calibration)
    assert shuffled(record, 3) == made
    assert shuffled(record, 4) != made


def test_shuffling_removes_the_leak() -> None:
    record = measured(leak=3.0)
    assert auc(*parts(record)[:2], keep=parts(record)[2]).low > 0.7
    made = shuffled(record, 0)
    assert auc(*parts(made)[:2], keep=parts(made)[2], level=0.999).covers(0.5)


def parts(record: Record, method: str = "loss") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    exposure = expose(record, method, "sign")
    return exposure.scores, exposure.member, exposure.keep


def test_planting_raises_the_true_logit_in_every_signal_alike() -> None:
    record = measured(leak=0.0)
    made = plant(record, 1.5)
    hit = np.asarray(record.member)
    rise = 1.5 * np.asarray(record.signal("confidence")).std(axis=1).mean()
    outputs, label = np.asarray(made.signal("outputs")), np.asarray(record.signal("label"))
    n = np.arange(len(label))
    before = np.asarray(record.signal("outputs"))
    assert outputs[:, n, label] - before[:, n, label] == pytest.approx(rise * hit)
    for name in ("margin", "confidence"):
        assert np.asarray(made.signal(name)) - record.signal(name) == pytest.approx(rise * hit)
    # Losses agree with the raised outputs, in the dtype that they had.
    top = outputs - outputs.max(axis=-1, keepdims=True)
    log_p = top - np.log(np.exp(top).sum(axis=-1, keepdims=True))
    assert made.signal("loss").dtype == np.float32
    assert np.asarray(made.signal("loss")) == pytest.approx(-log_p[:, n, label], rel=1e-4, abs=1e-6)
    assert (np.asarray(made.signal("entropy"))[hit] < np.asarray(record.signal("entropy"))[hit]).all()
    assert (np.asarray(made.signal("correct"))[hit] == 1).all()
    for name in ("loss", "entropy", "correct"):
        assert np.array_equal(np.asarray(made.signal(name))[~hit], np.asarray(record.signal(name))[~hit])
    assert auc(*parts(made)[:2], keep=parts(made)[2]).low > 0.7


@pytest.mark.parametrize("kind", ["one logit", "queries", "regression", "densities"])
def test_planting_other_kinds_of_records(kind: str) -> None:
    rng = np.random.default_rng(1)
    member = rng.random((4, 200)) < 0.5
    logit = rng.normal(size=(4, 200))
    label = rng.integers(0, 2, 200)
    signals: dict[str, np.ndarray] = {"loss": np.logaddexp(0, -logit), "label": label}
    axes: dict[str, tuple[str, ...]] = {}
    if kind == "one logit":
        signals |= {"margin": logit, "outputs": (logit * (2 * label - 1))[:, :, None]}
        axes = {"outputs": ("row", "sample", "class")}
    elif kind == "queries":
        signals = {
            name: np.stack([values, values], axis=1)
            for name, values in {"loss": signals["loss"], "margin": logit}.items()
        }
        axes = dict.fromkeys(signals, ("row", "query", "sample"))
    elif kind == "regression":
        signals |= {"loss": logit**2, "absolute_error": np.abs(logit)}
    else:
        signals |= {"loss": logit}
    record = Record(tuple("abcd"), np.ones(4), ("sign",) * 4, np.arange(200), signals, axes, member)
    made = plant(record)
    wide = member if kind != "queries" else np.repeat(member[:, None], 2, axis=1)
    loss, before = np.asarray(made.signal("loss")), np.asarray(record.signal("loss"))
    assert (loss[wide] < before[wide]).all()
    assert np.array_equal(loss[~wide], before[~wide])
    if kind == "one logit":
        outputs = np.asarray(made.signal("outputs"))[:, :, 0] * (2 * label - 1)
        assert outputs == pytest.approx(np.asarray(made.signal("margin")))
        assert loss == pytest.approx(np.logaddexp(0, -outputs))


@dataclass(frozen=True)
class Honest:
    """Minus the loss."""

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        return -blind.signal("loss")[row].astype(np.float64)


@dataclass(frozen=True)
class Inverted:
    """The wrong sign."""

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        return blind.signal("loss")[row].astype(np.float64)


@dataclass(frozen=True)
class Counting:
    """In how many other runs a sample was: harmless while a target's partner is hidden too."""

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        return -np.asarray(blind.member).sum(axis=0).astype(np.float64)


@dataclass(frozen=True)
class Constant:
    """Says nothing."""

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        return np.zeros(blind.n_samples)


@dataclass(frozen=True)
class Crashing:
    """Raises what no attack should."""

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        raise KeyError("oops")


@dataclass(frozen=True)
class Empty:
    """Gives no numbers."""

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        return np.full(blind.n_samples, np.nan)


def outcomes(case: str, *methods: object, lenient: bool = False) -> list[str]:
    silent = shuffled(measured(), 0)
    record = silent if case == NO_LEAK else plant(silent)
    return [each.outcome for each in judge(record, case, methods, variants=("sign",), lenient=lenient)]  # type: ignore[arg-type]


def test_an_honest_attack_passes_both() -> None:
    assert outcomes(NO_LEAK, Honest())[0].startswith("passed: AUC 0.")
    assert outcomes(PLANTED, Honest())[0].startswith("passed: AUC 0.")


def test_an_inverted_attack_fails() -> None:
    found = outcomes(PLANTED, Inverted())[0]
    assert found.startswith("failed: AUC 0.")
    assert found.endswith(" on sign, where members were planted")


def test_an_attack_that_says_nothing_fails() -> None:
    found = outcomes(PLANTED, Constant())[0]
    assert found.startswith("failed: AUC 0.500 [")


def test_an_attack_that_peeks_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcomes(NO_LEAK, Counting())[0].startswith("passed")

    def careless(self: Record, run: str) -> Record:
        line = self.member_runs.index(run)
        assert self.calibration is not None
        return replace(
            self,
            member=np.delete(np.asarray(self.member), line, axis=0),
            calibration=np.delete(self.calibration, line, axis=0),
            hidden=(run,),
        )

    monkeypatch.setattr(Record, "blind", careless)
    found = outcomes(NO_LEAK, Counting())[0]
    assert found.startswith("failed: AUC 1.000 [")
    assert found.endswith(" on sign, where nobody is a member")


def test_a_crash_and_scores_that_are_no_numbers_fail_and_the_rest_is_judged() -> None:
    crash, empty, honest = outcomes(NO_LEAK, Crashing(), Empty(), Honest())
    assert crash == "failed: KeyError: 'oops'"
    assert empty.startswith("failed: ValueError: ")
    assert "expected finite scores, got nan" in empty
    assert honest.startswith("passed")


def test_missing_signals_are_left_out_of_a_users_record_only() -> None:
    (strict,) = outcomes(NO_LEAK, "quantile")
    (lenient,) = outcomes(NO_LEAK, "quantile", lenient=True)
    assert strict.startswith("failed: features: this attack learns")
    assert lenient.startswith("left out: features: this attack learns")
    assert outcomes(NO_LEAK, "lora")[0].startswith("failed: unknown attack 'lora'; did you mean 'lira'?")


def test_planting_in_losses_plants_in_the_tokens_of_texts() -> None:
    rng = np.random.default_rng(0)
    member = np.array([[True, False] * 20])
    plain = Record(
        ("0",), np.ones(1), ("full",), np.arange(40), {"loss": rng.exponential(size=(1, 40))}, member=member
    )
    record = with_texts(plain, 0)
    made = plant(record)
    starts = record.signal("offsets")[:-1]
    for each in (record, made):
        total = np.add.reduceat(each.signal("logp")[0], starts)
        assert -total / np.diff(record.signal("offsets")) == pytest.approx(each.signal("loss")[0])
    assert not np.allclose(made.signal("loss"), record.signal("loss"))


def test_level_is_shared_among_intervals() -> None:
    assert level_for(1) == 0.99
    assert (1 - level_for(25)) * 25 == pytest.approx(0.01)


def test_messages() -> None:
    bare = Record(("0",), np.ones(1), ("sign",), np.arange(4), {"entropy": np.ones((1, 4))})
    for change in (plant, lambda record: shuffled(record, 0)):
        with pytest.raises(RecordError, match=r"^no membership: expected a record that says which samples"):
            change(bare)
    with pytest.raises(
        RecordError, match=r"^no signal to plant a leak in: expected loss, margin or confidence$"
    ):
        plant(replace(bare, member=np.ones((1, 4), bool)))
    with pytest.raises(
        RecordError, match=r"^member: expected at least two samples that took part in a run, got 0$"
    ):
        shuffled(replace(bare, member=np.zeros((1, 4), bool)), 0)


@pytest.mark.slow
def test_false_alarms_are_rare() -> None:
    """Over many shuffles, a sound attack fails no more often than the level says."""
    failed = 0
    for seed in range(60):
        silent = shuffled(measured(seed % 5, leak=2.0), seed)
        failed += sum(each.failed for each in judge(silent, NO_LEAK, ["loss", "lira"], variants=("sign",)))
    assert failed <= 4  # 0.6 expected at most
