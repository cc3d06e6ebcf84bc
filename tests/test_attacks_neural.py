"""The neural attack on records: what it may learn from, what it must not see, and what it says when it cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from discreet._find import SpecError, spec
from discreet.attacks import attack, parse
from discreet.attacks.neural import Neural
from discreet.exposure import expose
from discreet.knowledge import know_half
from discreet.learners._evidence import Evidence
from discreet.learners.neural_blackbox import NeuralBlackbox
from discreet.records import Record, RecordError
from discreet.stats import auc

BLACK = "neural(kind='blackbox(posterior=(32,), label=(8,), fusion=(16,), epochs=25, lr=0.005)')"
WHITE = "neural(kind='whitebox(gradient=(16,), epochs=12)')"


def bank(
    seed: int = 0,
    leak: float = 2.5,
    *,
    runs: int = 4,
    samples: int = 400,
    classes: int = 3,
    variants: tuple[str, ...] = ("sign",),
) -> Record:
    """Independent halves; a member's true logit is higher by ``leak``, in every variant; a fifth is public."""
    rng = np.random.default_rng(seed)
    member = rng.random((runs, samples)) < 0.5
    public = np.arange(samples) % 5 == 0
    member[:, public] = False
    label = rng.integers(0, max(2, classes), samples)
    outputs = rng.normal(size=(runs, 1, samples, classes)) + 0.3 * rng.normal(
        size=(runs, len(variants), samples, classes)
    )
    shift = leak * member[:, None]
    if classes == 1:
        outputs[..., 0] += np.where(label == 1, 1, -1) * (1 + shift)
    else:
        outputs[..., np.arange(samples), label] += 1 + shift
    rows = runs * len(variants)
    return Record(
        run=tuple(f"{run}" for run in range(runs) for _ in variants),
        step=np.ones(rows),
        variant=variants * runs,
        sample=np.arange(samples),
        signals={
            "loss": np.ones((rows, samples)),
            "outputs": outputs.reshape(rows, samples, classes),
            "hidden": np.abs(rng.normal(size=(rows, samples, 4))),
            "label": label,
            "public": public.astype(np.int8),
        },
        axes={"outputs": ("row", "sample", "class"), "hidden": ("row", "sample", "feature")},
        member=member,
    )


def changed(record: Record, **signals: np.ndarray | None) -> Record:
    """With other signals; None takes one out."""
    kept = {name: values for name, values in (dict(record.signals) | signals).items() if values is not None}
    axes = {n: a for n, a in record.axes.items() if n in kept and len(a) == kept[n].ndim}
    return replace(record, signals=kept, axes=axes)


def strength(record: Record, method: str, **options) -> float:
    found = expose(record, method, "sign", **options)
    return auc(found.scores, found.member, keep=found.keep).value


@pytest.mark.parametrize("method", [BLACK, WHITE])
@pytest.mark.parametrize("sign", [1, -1])
def test_learns_from_the_known_half_or_from_other_runs(method: str, sign: int) -> None:
    record = bank(leak=2.5 * sign)
    assert strength(record, method, runs=["0"]) > 0.8
    assert strength(know_half(record, 1), method, runs=["0"]) > 0.8


@pytest.mark.parametrize("classes", [1, 3])
def test_the_defaults(classes: int) -> None:
    record = know_half(bank(samples=250, classes=classes), 0)
    for kind in ("neural", "neural(kind='whitebox')"):
        assert strength(record, kind, runs=["0"]) > 0.75


def test_the_known_half_looks_leaky_even_where_nothing_leaks() -> None:
    record = know_half(bank(1, leak=0.0, samples=800, runs=2), 0)
    method = (
        "neural(kind='blackbox(posterior=(32,), label=(8,), fusion=(16,), epochs=80, lr=0.01, held_out=0.0)')"
    )
    found = expose(record, method, "sign")
    assert auc(found.scores, found.member, keep=found.keep, level=0.999).covers(0.5)
    known = np.stack([record.signal("known")[int(record.rows(run=run)[0])] for run in found.runs]) >= 0
    assert not (known & found.keep).any()
    assert auc(found.scores, found.member, keep=known, level=0.999).low > 0.6


def test_it_does_what_the_networks_do_with_the_known_half() -> None:
    record = know_half(bank(), 0)
    known, outputs, label = (np.asarray(record.signal(name)) for name in ("known", "outputs", "label"))
    seen = Evidence(outputs[2], label, sample=record.sample)
    learner = NeuralBlackbox(posterior=(32,), label=(8,), fusion=(16,), epochs=25, lr=0.005)
    rows = np.flatnonzero(known[2] >= 0)
    expected = learner.fit(seen.take(rows), known[2, rows] == 1, seed=0).score(seen)
    assert np.array_equal(attack(record, BLACK, run="2", variant="sign").values, expected)
    unknown = np.array(known)
    unknown[2] = -1
    other = attack(changed(record, known=unknown), BLACK, run="2", variant="sign").values
    assert not np.array_equal(other, expected)
    assert np.array_equal(other, attack(changed(record, known=None), BLACK, run="2", variant="sign").values)


def test_it_learns_nothing_from_public_samples_or_from_unknown_ones() -> None:
    record = bank()
    outputs, public = np.array(record.signal("outputs")), record.signal("public") == 1
    outputs[:, public] *= -3
    for one, two in (
        (record, changed(record, outputs=outputs)),
        (know_half(record, 0), know_half(changed(record, outputs=outputs), 0)),
    ):
        before, after = (attack(each, BLACK, run="1", variant="sign").values for each in (one, two))
        assert np.array_equal(before[~public], after[~public])
        assert not np.array_equal(before[public], after[public])
        assert np.array_equal(Neural().untouched(one.blind("1"), 1), public)


def test_without_public_samples_nothing_that_other_runs_tell_is_untouched() -> None:
    record = changed(bank(), public=None)
    assert not Neural().untouched(record.blind("0"), 0).any()
    known = know_half(record, 0)
    spared = Neural().untouched(known.blind("0"), 0)
    assert spared.any()
    assert not spared[known.signal("known")[0] >= 0].any()


def test_order_of_samples_and_rows_changes_nothing() -> None:
    record = bank(variants=("full", "sign"), samples=150)
    method = (
        "neural(kind='blackbox(posterior=(16,), label=(8,), fusion=(8,), epochs=3)', start='full', most=150)"
    )
    for each in (record, know_half(record, 0)):
        got = attack(each, method, run="2", variant="sign").values
        order = np.random.default_rng(0).permutation(150)
        moved = attack(each.take_samples(order), method, run="2", variant="sign").values
        assert moved == pytest.approx(got[order], rel=1e-12, abs=1e-12)
        rows = np.random.default_rng(1).permutation(8)
        assert np.array_equal(attack(each.take_rows(rows), method, run="2", variant="sign").values, got)


def test_warm_start_learns_from_full_precision_first() -> None:
    record = bank(variants=("full", "sign"))
    outputs = np.array(record.signal("outputs"))
    own = record.rows("sign")
    outputs[own] = outputs[own] // 0.5 * 0.5  # a coarser twin
    record = replace(record, signals={**record.signals, "outputs": outputs})
    settings = "posterior=(32,), label=(8,), fusion=(16,), epochs=25, lr=0.005, patience=0"
    cold = f"neural(kind='blackbox({settings.replace('epochs=25', 'epochs=2')})')"
    warm = f"neural(kind='blackbox({settings}, tune=2)', start='full')"
    for each in (record, know_half(record, 0)):
        assert strength(each, warm, runs=["0"]) > max(0.8, strength(each, cold, runs=["0"]) - 0.02)
        same = (
            attack(each, each_method, run="0", variant="full").values
            for each_method in (warm, warm.replace("full", ""))
        )
        assert np.array_equal(*same)


def test_warm_start_is_fine_tuning() -> None:
    record = know_half(bank(variants=("full", "sign"), samples=200), 0)
    known, label = np.asarray(record.signal("known")[2]), record.signal("label")
    assert (record.run[2], record.variant[2:4]) == ("1", ("full", "sign"))
    full, sign = (Evidence(record.signal("outputs")[row], label, sample=record.sample) for row in (2, 3))
    learner = NeuralBlackbox(posterior=(32,), label=(8,), fusion=(16,), epochs=8, tune=2)
    rows = np.flatnonzero(known >= 0)
    before = learner.fit(full.take(rows), known[rows] == 1, seed=3)
    after = learner.fit(sign.take(rows), known[rows] == 1, seed=3, init=before)
    method = Neural(
        "blackbox(posterior=(32,), label=(8,), fusion=(16,), epochs=8, tune=2)", start="full", seed=3
    )
    assert np.array_equal(attack(record, method, run="1", variant="sign").values, after.score(sign))
    told_less = np.array(record.signal("known"))
    told_less[3] = -1  # nothing known of the target itself: other runs teach, full precision first here too
    other = attack(changed(record, known=told_less), method, run="1", variant="sign").values
    cold = attack(changed(record, known=None), replace(method, start=""), run="1", variant="sign").values
    assert not np.array_equal(other, cold)


def test_at_most_so_many_answers_are_drawn_evenly() -> None:
    record = bank(runs=6)
    method = Neural(most=200)
    drawn = method._drawn(record.blind("0"), 0)
    member = np.concatenate([each for _, _, each in drawn])
    assert (member.sum(), (~member).sum()) == (100, 100)
    assert len(drawn) == 5
    for row, own, inside in drawn:
        assert np.array_equal(record.membership(record.run[row])[own], inside)
        assert not record.signal("public")[own].any()
        assert len(own) == len(set(own.tolist())) > 20


def test_calibration_samples_are_not_learnt_from() -> None:
    record = bank(runs=3)
    calibration = np.zeros((3, 1, 400), bool)
    calibration[:, :, :40] = True
    record = replace(record, calibration=calibration)
    told = know_half(record, 0).signal("known")
    assert (told[:, :40] == -1).all()
    drawn = Neural()._drawn(record.blind("0"), 0)
    assert all((own >= 40).all() for _, own, _ in drawn)


@pytest.mark.parametrize("kind", ["blackbox", "whitebox"])
def test_signals_that_are_missing_or_malformed(kind: str) -> None:
    record, method = bank(), f"neural(kind='{kind}(epochs=1)')"

    def error(each: Record, match: str, method: str = method) -> None:
        with pytest.raises(RecordError, match=match):
            attack(each, method, run="0", variant="sign")

    error(
        changed(record, outputs=None),
        r"outputs: this attack needs the signal \[row, sample, class\].*no such",
    )
    error(changed(record, outputs=np.ones((4, 400))), "outputs: this attack needs .* got axes row, sample")
    error(changed(record, label=None), r"label: this attack needs the signal \[sample\]")
    error(
        changed(record, label=np.array(["a", "b", "c", "a"] * 100)),
        "label: expected the classes 0 to 2, .* <U1",
    )
    error(
        changed(record, label=np.array([3, 7] * 200)),
        "label: expected the classes 0 to 2, .* got 3 for sample number 0",
    )
    if kind == "whitebox":
        error(changed(record, hidden=None), r"hidden: this attack needs the signal \[row, sample, unit\]")
    else:
        assert attack(changed(record, hidden=None), method, run="0", variant="sign").values.shape == (400,)
    error(replace(record, member=None), "no membership: this attack needs to know")
    error(record.take_rows([0]), "this attack needs references: no other run has this variant")
    error(record, "no variant 'full'", f"neural(kind='{kind}', start='full')")


def test_knowledge_that_is_malformed() -> None:
    record = bank()
    known = np.full((4, 400), -1, np.int8)

    def error(known: np.ndarray, match: str) -> None:
        with pytest.raises(RecordError, match=match):
            attack(changed(record, known=known), BLACK, run="0", variant="sign")

    only = known.copy()
    only[0, np.flatnonzero(record.membership("0"))[:20]] = 1
    error(
        only,
        "known: run '0': expected members and non-members to learn from, got 20 members and 0 non-members",
    )
    only[0][only[0] == 1] = 0
    error(only, "got 0 members and 20 non-members")
    error(known[0], "known: expected the axes row, sample, got sample")
    error(known - 1, r"known: expected 1 \(member\), 0 \(non-member\) or -1")
    member = np.asarray(record.member)
    used = replace(record, calibration=member[:, None])  # every member calibrated: nobody is known to be one
    with pytest.raises(
        RecordError, match=r"the other runs of variant 'sign': expected members and .* got 0 members"
    ):
        attack(used, BLACK, run="0", variant="sign")


def test_ten_records_and_a_class_that_is_not_known() -> None:
    record = know_half(bank(samples=12), 0)
    assert np.isfinite(attack(record, BLACK, run="0", variant="sign").values).all()
    record = bank()
    known, member, label = np.full((4, 400), -1, np.int8), record.membership("0"), record.signal("label")
    told = (np.arange(400) % 5 > 2) & (label != 2)
    known[0, told] = member[told]
    scores = attack(changed(record, known=known), BLACK, run="0", variant="sign").values
    unseen = (label == 2) & (record.signal("public") == 0)
    assert auc(scores[unseen], member[unseen]).value > 0.7


def test_specs() -> None:
    assert parse("neural") == Neural() == parse("neural()")
    assert parse(spec(parse(BLACK), "discreet.attacks")) == parse(BLACK)
    for text, message in (
        (
            "neural(kind='blackbocks')",
            "kind: expected one of blackbox, whitebox, got 'blackbocks'; did you mean",
        ),
        ("neural(kind='blackbox(epoch=3)')", "kind: .*has no field 'epoch'; did you mean 'epochs'"),
        ("neural(kind='whitebox(epochs=0)')", "epochs: expected at least 1, got 0"),
        ("neural(most=1)", "most: expected at least 2, got 1"),
        ("neural(seed=-1)", "seed: expected at least 0, got -1"),
    ):
        with pytest.raises(SpecError, match=message):
            parse(text)


def test_known_halves_are_halves_of_members_and_of_the_others() -> None:
    record = bank(2, samples=997)
    told = know_half(record, 5)
    known, public = told.signal("known"), record.signal("public") == 1
    assert known.dtype == np.int8
    assert told.axes["known"] == ("row", "sample")
    for row, run in enumerate(record.run):
        member = record.membership(run)
        assert (known[row][public] == -1).all()
        assert np.array_equal(known[row] == 1, member & (known[row] >= 0))
        for kind in (member, ~member & ~public):
            assert abs(2 * (known[row][kind] >= 0).sum() - kind.sum()) <= 1


def test_known_halves_say_nothing_about_the_labels_of_the_others() -> None:
    record = bank(3, samples=600, runs=40, classes=12)
    known, label = know_half(record, 0).signal("known"), np.asarray(record.signal("label"))
    member = np.asarray(record.member)
    share = [
        np.array([(row[label == each] == 1).sum() / (row[label == each] >= 0).sum() for each in range(12)])[
            label
        ]
        for row in known
    ]
    assert auc(
        np.array(share), member, keep=(known < 0) & (record.signal("public") == 0), level=0.999
    ).covers(0.5)


def test_known_halves_are_drawn_for_each_run_and_from_ids() -> None:
    record = bank(variants=("full", "sign"))
    known = know_half(record, 0).signal("known")
    assert np.array_equal(known[0], known[1])  # one run, one knowledge
    share = ((known[0] >= 0) & (known[2] >= 0))[record.signal("public") == 0].mean()
    assert 0.15 < share < 0.35  # other runs' halves are drawn apart, ...
    member = np.asarray(record.member)
    twins = know_half(replace(record, member=member[[0, 0, 2, 3]]), 0).signal("known")
    assert not np.array_equal(twins[0], twins[2])  # ... even if they were trained on the same samples
    order = np.random.default_rng(0).permutation(400)
    assert np.array_equal(know_half(record.take_samples(order), 0).signal("known"), known[:, order])
    assert np.array_equal(know_half(record.take_rows([2, 3, 0, 1]), 0).signal("known"), known[[2, 3, 0, 1]])
    assert not np.array_equal(know_half(record, 1).signal("known"), known)
    assert know_half(know_half(record, 1), 0) == know_half(record, 0)
    assert know_half(changed(record, label=None), 0).signal("known").shape == (8, 400)
    with pytest.raises(RecordError, match="no membership"):
        know_half(replace(record, member=None), 0)


@pytest.mark.slow
@pytest.mark.parametrize("method", [BLACK, WHITE, BLACK.replace("epochs=25", "epochs=25, held_out=0.0")])
def test_nothing_is_found_over_seeds(method: str) -> None:
    for known in (True, False):
        values = []
        for seed in range(12):
            record = bank(100 + seed, leak=0.0, runs=3, samples=250)
            values.append(strength(know_half(record, seed) if known else record, method, runs=["0"]))
        assert abs(np.mean(values) - 0.5) < 4 * np.std(values) / np.sqrt(12) + 1e-9
