"""Attacks on texts: closed forms, naive loops, odd lengths, missing signals, memory-mapped records."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from discreet.attacks import attack, parse
from discreet.attacks._tokens import fewest, lowest_sums
from discreet.attacks.text_quantile import TextQuantile
from discreet.exposure import expose
from discreet.learners import parse as parse_learner
from discreet.learners._design import Scale
from discreet.learners._predictors import LocationScale
from discreet.learners.ensemble import Merged, MergedCurves
from discreet.records import Record, RecordError
from discreet.stats import auc
from discreet.text_features import compressed, ngrams, sizes

NAMES = ("logp", "logp_mean", "logp_std")


def texts(lengths: list[int], *, runs: int = 4, seed: int = 0) -> Record:
    """Random token signals of texts of these lengths; the loss is their mean, as measured."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    shape = (runs, int(offsets[-1]))
    logp = -rng.exponential(2.0, shape)
    loss = -np.stack([logp[:, a:b].mean(axis=1) for a, b in pairwise(offsets)], 1)
    member = rng.random((runs, len(lengths))) < 0.5
    member[1::2] = ~member[::2]
    words = np.array([f"text {i} " * length for i, length in enumerate(lengths)])
    return Record(
        run=tuple(f"r{i}" for i in range(runs)),
        step=np.ones(runs),
        variant=("full",) * runs,
        sample=np.arange(len(lengths)),
        signals={
            "loss": loss,
            "logp": logp,
            "logp_mean": -rng.exponential(2.0, shape),
            "logp_std": rng.uniform(0.5, 2.0, shape),
            "rank": rng.integers(0, 5, shape),
            "offsets": offsets,
            "text": words,
            "zlib_bytes": compressed(words),
            "pretrained_loss": loss[0] + 0.1,
        },
        axes={**dict.fromkeys((*NAMES, "rank"), ("row", "token")), "offsets": ("bound",)},
        member=member,
    )


def scores(record: Record, method: str, run: str = "r1") -> np.ndarray:
    return attack(record, method, run=run, variant="full").values


def without(record: Record, *names: str) -> Record:
    return replace(record, signals={n: s for n, s in record.signals.items() if n not in names}, axes={
        n: a for n, a in record.axes.items() if n not in names
    })  # fmt: skip


def one(**signals: list[float]) -> Record:
    """One model, one text."""
    count = len(signals["logp"])
    return Record(
        run=("r1",),
        step=np.ones(1),
        variant=("full",),
        sample=np.arange(1),
        signals={
            **{name: np.array([values]) for name, values in signals.items()},
            "loss": np.array([[-np.mean(signals["logp"])]]),
            "offsets": np.array([0, count]),
        },
        axes={**dict.fromkeys(signals, ("row", "token")), "offsets": ("bound",)},
    )


def tokens_of(record: Record, name: str, run: int) -> list[list[float]]:
    bounds = record.signal("offsets").tolist()
    return [record.signal(name)[run, a:b].tolist() for a, b in pairwise(bounds)]


# --- closed forms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logp", "k", "expected"),
    [
        ([-1, -2, -3, -4, -5], 0.2, -5.0),
        ([-3, -2, -1], 0.2, -3.0),  # one token at least
        ([-1, -2, -3, -4, -5, -6], 0.2, -5.5),  # rounded up
        ([-7], 0.2, -7.0),
        ([-1, -2, -3], 1.0, -2.0),
    ],
)
def test_min_k_of_a_few_tokens(logp: list[float], k: float, expected: float) -> None:
    assert scores(one(logp=logp), f"mink(k={k})") == [expected]


def test_min_k_plus_plus_of_two_tokens() -> None:
    """p = (0.8, 0.2): the likelier token is half a deviation above what was expected, the other two below."""
    p = np.array([0.8, 0.2])
    mu = float((p * np.log(p)).sum())
    sigma = math.sqrt(float((p * np.log(p) ** 2).sum()) - mu**2)
    for token, expected in ((0, 0.5), (1, -2.0)):
        record = one(logp=[math.log(p[token])], logp_mean=[mu], logp_std=[sigma])
        assert scores(record, "minkpp") == pytest.approx([expected])


def test_a_prediction_without_spread_expects_its_tokens_and_only_them() -> None:
    uniform = one(logp=[-math.log(50)], logp_mean=[-math.log(50)], logp_std=[0.0])
    sure = one(logp=[-1e-9], logp_mean=[0.0], logp_std=[0.0])
    wrong = one(logp=[-90.0], logp_mean=[0.0], logp_std=[0.0])
    assert scores(uniform, "minkpp") == [0.0]
    assert scores(sure, "minkpp") == pytest.approx([0.0], abs=1e-4)
    assert scores(wrong, "minkpp") == pytest.approx([-9e5])


@pytest.mark.parametrize(
    ("k", "count", "expected"), [(0.28, 25, 7), (0.2, 15, 3), (0.1, 30, 3), (0.2, 1, 1), (1.0, 9, 9)]
)
def test_shares_are_rounded_up_in_decimal(k: float, count: int, expected: int) -> None:
    assert fewest(k, np.array([count])).tolist() == [expected]


# --- naive loops ----------------------------------------------------------------------------------------------------

LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 1, 250]


@pytest.mark.parametrize("k", [0.05, 0.2, 0.5, 1.0])
def test_min_k_as_a_loop_would(k: float) -> None:
    record = texts(LENGTHS)
    naive, standard = [], []
    for logp, mu, sigma in zip(*(tokens_of(record, name, 1) for name in NAMES), strict=True):
        take = max(1, math.ceil(round(k * len(logp), 9)))
        naive.append(sum(sorted(logp)[:take]) / take)
        z = sorted((a - b) / c for a, b, c in zip(logp, mu, sigma, strict=True))
        standard.append(sum(z[:take]) / take)
    assert scores(record, f"mink(k={k})") == pytest.approx(naive, rel=1e-12)
    assert scores(record, f"minkpp(k={k})") == pytest.approx(standard, rel=1e-12)


def test_all_tokens_make_the_loss() -> None:
    record = texts(LENGTHS)
    assert scores(record, "mink(k=1.0)") == pytest.approx(scores(record, "loss"), rel=1e-12)


def test_zlib_and_pretrained_as_a_loop_would() -> None:
    record = texts(LENGTHS)
    loss, text = record.signal("loss")[1], record.signal("text").tolist()
    size = [len(zlib.compress(each.encode())) for each in text]
    naive = [sum(logp) / n for logp, n in zip(tokens_of(record, "logp", 1), size, strict=True)]
    assert scores(record, "zlib") == pytest.approx(naive, rel=1e-12)
    assert scores(without(record, "zlib_bytes"), "zlib") == pytest.approx(naive, rel=1e-12)
    assert scores(record, "zlib(total='mean')") == pytest.approx(-loss / size, rel=1e-12)
    assert scores(record, "pretrained") == pytest.approx(record.signal("pretrained_loss") - loss, rel=1e-12)


@pytest.mark.parametrize("k", [1.0, 0.3])
def test_combined_as_a_loop_would(k: float) -> None:
    """Run r1's partner r0 is not among its references; texts that r2 and r3 share out have one reference each."""
    record = texts(LENGTHS)
    member, size = np.asarray(record.member), record.signal("zlib_bytes")

    def total(run: int, at: int) -> float:
        logp = sorted(tokens_of(record, "logp", run)[at])
        return sum(logp[: max(1, math.ceil(round(k * len(logp), 9)))])

    naive = []
    for at in range(len(LENGTHS)):
        outside = [run for run in (2, 3) if not member[run, at]]
        naive.append((total(1, at) - sum(total(run, at) for run in outside) / len(outside)) / size[at])
    assert scores(record, f"combined(k={k})") == pytest.approx(naive, rel=1e-9)
    whole = scores(record, f"combined(zlib=False, k={k})")
    assert whole / size == pytest.approx(naive, rel=1e-9)


def test_combined_without_a_part_is_the_other_attack() -> None:
    record = texts(LENGTHS)
    assert scores(record, "combined(reference=False)") == pytest.approx(scores(record, "zlib"), rel=1e-12)
    by_token = scores(record, "combined(zlib=False)") / np.array(LENGTHS)
    assert by_token == pytest.approx(scores(record, "reference"), rel=1e-9)


def test_the_error_zone_as_a_loop_would() -> None:
    record = texts(LENGTHS)
    rank = record.signal("rank")
    member, naive, bounds = np.asarray(record.member), [], record.signal("offsets").tolist()
    for at, (a, b) in enumerate(pairwise(bounds)):
        outside = [run for run in (2, 3) if not member[run, at]]
        up = down = 0.0
        for token in range(a, b):
            logp = record.signal("logp")[:, token]
            gain = logp[1] - sum(logp[run] for run in outside) / len(outside)
            if rank[1, token] > 0:
                up, down = up + max(gain, 0), down + max(-gain, 0)
        naive.append((up - down) / (up + down) if down else 1.0)
    found = scores(record, "ezmia")
    assert found == pytest.approx(naive, rel=1e-9)
    assert 1.0 in naive
    assert min(naive) < 0
    all_right = replace(record, signals={**record.signals, "rank": np.zeros_like(rank)})
    assert (scores(all_right, "ezmia") == 1).all()  # nothing wrong: the most suspicious of all


def test_the_lowest_of_texts_of_any_lengths() -> None:
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 200, 500)
    values = rng.normal(size=counts.sum())
    take = np.array([rng.integers(1, n + 1) for n in counts])
    cuts = np.split(values, np.cumsum(counts)[:-1])
    naive = [np.sort(part)[:n].sum() for part, n in zip(cuts, take, strict=True)]
    assert lowest_sums(values, counts, take) == pytest.approx(naive, rel=1e-12)


# --- in pieces, from files, in any order ----------------------------------------------------------------------------


IN_PIECES = ("ezmia", "mink", "minkpp", "zlib", "combined", "combined(k=0.5)")


def test_pieces_and_files_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = texts(LENGTHS)
    whole = {name: scores(record, name) for name in IN_PIECES}
    record.save(tmp_path / "r.safetensors")
    monkeypatch.setattr("discreet.attacks._tokens._TOKENS", 40)
    opened = Record.open(tmp_path / "r.safetensors")
    for name, found in whole.items():
        assert np.array_equal(scores(opened, name), found), name


@pytest.mark.parametrize("method", [*IN_PIECES, "pretrained"])
def test_order_of_texts_and_models_is_nothing(method: str) -> None:
    record = texts(LENGTHS)
    found = scores(record, method)
    order = np.random.default_rng(1).permutation(len(LENGTHS))
    assert scores(record.take_samples(order), method) == pytest.approx(found[order], rel=1e-12)
    assert scores(record.take_rows([2, 3, 1, 0]), method) == pytest.approx(found, rel=1e-12)


# --- what is missing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gone", "method", "words"),
    [
        ("logp", "mink", r"logp: this attack reads the signal 'logp' \[row, token\]; .*discreet.llm"),
        ("logp_std", "minkpp", "logp_std: .*discreet.llm"),
        (
            "pretrained_loss",
            "pretrained",
            r"pretrained_loss: .*before fine-tuning.*discreet\.llm\.losses\(base, encoded\)",
        ),
    ],
)
def test_a_missing_signal_is_named_and_where_it_comes_from(gone: str, method: str, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        scores(without(texts(LENGTHS), gone), method)


def test_records_without_tokens() -> None:
    plain = without(texts(LENGTHS), *NAMES, "rank", "offsets")
    for method in ("zlib", "combined"):
        with pytest.raises(
            RecordError, match=r"offsets: this attack needs the number of tokens.*discreet.llm"
        ):
            scores(plain, method)
    with pytest.raises(RecordError, match=r"zlib_bytes: this attack needs the signal 'zlib_bytes'"):
        scores(without(texts(LENGTHS), "text", "zlib_bytes"), "zlib")


def test_records_that_are_not_about_texts_are_refused_in_the_same_words() -> None:
    kept = {"loss": texts(LENGTHS).signal("loss")}
    plain = replace(texts(LENGTHS), signals=kept, axes={})
    said = set()
    for method in ("ezmia", "mink", "minkpp", "zlib", "pretrained", "combined", "text_quantile"):
        with pytest.raises(
            RecordError, match=r"no texts: .*signals logp, offsets, text.*discreet.llm.release"
        ) as error:
            scores(plain, method)
        said.add(str(error.value))
    assert len(said) == 1


def test_a_text_without_tokens_is_named() -> None:
    record = texts([3, 2])
    empty = replace(
        record,
        sample=np.arange(3),
        signals={"loss": np.ones((4, 3)), "logp": record.signal("logp"), "offsets": np.array([0, 3, 3, 5])},
        axes={"logp": ("row", "token"), "offsets": ("bound",)},
        member=None,
    )
    with pytest.raises(RecordError, match=r"offsets: sample '1' has no scored token \(1 such"):
        scores(empty, "mink")


def test_odd_signals_are_refused() -> None:
    record = texts([3, 2])
    wrong = replace(record, signals={**record.signals, "zlib_bytes": np.array([0, 5])})
    with pytest.raises(RecordError, match="zlib_bytes: expected whole numbers above 0"):
        scores(wrong, "zlib")
    known = {"public": np.array([1, 1], np.int8)}
    record = replace(record, signals={**record.signals, **known}, member=None)
    for text, words in ((np.arange(2.0), "text: expected text"), (None, "text: this attack learns from")):
        odd = without(record, "text")
        odd = odd if text is None else replace(odd, signals={**odd.signals, "text": text})
        with pytest.raises(RecordError, match=words):
            scores(odd, "text_quantile")


def test_a_token_that_is_not_finite_is_refused_where_nothing_was_checked(tmp_path: Path) -> None:
    """Sorted, a NaN would be the highest of its text and never count."""
    record = texts([300, 200])
    path = tmp_path / "r.safetensors"
    record.save(path)
    value = np.array([record.signal("logp")[1, 7]]).tobytes()
    path.write_bytes(path.read_bytes().replace(value, np.array([np.nan]).tobytes(), 1))
    with pytest.raises(RecordError, match="logp: a value of variant 'full' is NaN"):
        scores(Record.open(path), "mink")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("mink(k=0.0)", "k: expected a share above 0"),
        ("minkpp(k=1.5)", "k: expected a share above 0"),
        ("zlib(total='all')", "total: expected one of sum, mean"),
        ("combined(k=2.0)", "k: expected a share"),
        ("text_quantile(columns=0)", "columns: expected at least 1"),
        ("lira(references=0)", "references: expected at least 1"),
        ("lira(seed=-1)", "seed: expected at least 0"),
    ],
)
def test_a_bad_field_is_named(spec: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(spec)


# --- LiRA on texts --------------------------------------------------------------------------------------------------


def test_lira_with_some_references_is_lira_on_a_record_with_them() -> None:
    record = texts([5] * 40, runs=12)
    found = scores(record, "lira(mode='offline', references=4)")
    more = scores(record, "lira(mode='offline', references=4, seed=1)")
    assert not np.array_equal(found, more)
    few, all_of_them = "lira(mode='offline', references=4)", "lira(mode='offline', references=10)"
    others = range(2, 12)  # r0 is the partner of the target, r1
    fitting = [
        taken
        for taken in combinations(others, 4)
        if np.allclose(scores(record.take_rows([0, 1, *taken]), "lira(mode='offline')"), found)
    ]
    assert len(fitting) == 1
    assert scores(record.take_rows(np.arange(12)[::-1]), few) == pytest.approx(found)
    assert np.array_equal(scores(record, all_of_them), scores(record, "lira(mode='offline')"))


def test_more_references_than_there_are() -> None:
    with pytest.raises(RecordError, match=r"references: expected at most 2, as many as other runs .*got 3"):
        scores(texts(LENGTHS), "lira(mode='offline', references=3)")


@pytest.mark.parametrize("signal", ["loss", "confidence"])
def test_lira_needs_no_margin(signal: str) -> None:
    """Losses of texts are means over tokens: both statistics find members that fit better by 0.3 nats."""
    rng = np.random.default_rng(3)
    record = texts([5] * 300, runs=8, seed=3)
    member = np.asarray(record.member)
    loss = rng.normal(3.0, 1.0, 300).clip(0.5) + 0.2 * rng.normal(size=member.shape) - 0.3 * member
    record = replace(record, signals={**record.signals, "loss": np.abs(loss)})
    for mode in ("online", "offline"):
        e = expose(record, f"lira(mode={mode!r}, signal={signal!r})", "full")
        assert auc(e.scores, e.member, keep=e.keep).low > 0.7


# --- quantiles of texts ---------------------------------------------------------------------------------------------


def molecules(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Strings, and a difficulty that can be read off them."""
    rng = np.random.default_rng(seed)
    length, rare = rng.integers(5, 60, n), rng.random(n)
    words = [
        "".join(rng.choice(list("CNOcn1"), int(size), p=[1 - 0.8 * r, *[0.16 * r] * 5]))
        for size, r in zip(length, rare, strict=True)
    ]
    return np.array(words), 1.0 + 2.5 * rare


def test_quantiles_of_texts_find_more_than_the_loss() -> None:
    n, rng = 1500, np.random.default_rng(0)
    words, difficulty = molecules(1, n)
    public = np.arange(n) % 3 == 0
    member = (rng.random((2, n)) < 0.5) & ~public
    loss = difficulty + 0.15 * rng.normal(size=(2, n)) - 0.25 * member
    record = Record(
        run=("a", "b"),
        step=np.ones(2),
        variant=("full",) * 2,
        sample=np.arange(n),
        signals={"loss": np.abs(loss), "text": words, "public": public.astype(np.int8)},
        member=member,
    )
    found = {}
    for name in ("loss", "text_quantile"):
        e = expose(record, name, "full")
        found[name] = auc(e.scores, e.member, keep=e.keep).value
    assert found["loss"] < 0.62
    assert found["text_quantile"] > found["loss"] + 0.08


def test_quantiles_know_how_many_tokens_a_text_has() -> None:
    record, method = texts([3, 7, 1, 30, 12]), parse("text_quantile")
    assert isinstance(method, TextQuantile)
    assert method.known(record)[:, -1].tolist() == np.log1p([3, 7, 1, 30, 12]).tolist()
    alone = method.known(without(record, "logp", "logp_mean", "logp_std", "rank", "offsets"))
    assert np.array_equal(alone, method.known(record)[:, :-1])


def test_members_of_an_ensemble_are_merged_by_their_moments() -> None:
    def member(mu: float) -> LocationScale:
        scale = Scale(np.array(0.0), np.array(1.0))
        return LocationScale(np.array([0.99]), scale, lambda x, y: np.tile([mu, 0.0], (len(x), 1)))

    both = Merged(np.array([0.99]), (member(0.0), member(1.0)))
    x = np.zeros((1, 1))
    assert both.quantiles(x, None)[0, 0] == pytest.approx(3.10094, abs=1e-5)
    assert both.score(x, None, np.array([2.0])) == pytest.approx([(2 - 0.5) / math.sqrt(1.25)])


def test_ensembles_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="ensemble of ensembles"):
        parse_learner("ensemble(learner='ensemble')")
    with pytest.raises(ValueError, match="share: expected"):
        parse_learner("ensemble(share=0.0)")


def test_curves_of_an_ensemble_are_averaged_level_by_level() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    s = x[:, 0] + rng.normal(size=200)
    learner = parse_learner("ensemble(learner='lightgbm(trees=5)', size=3, share=0.5)")
    found = learner.fit(x, None, s, levels=np.array([0.5, 0.9]), seed=0)
    assert isinstance(found, MergedCurves)
    each = [member.quantiles(x, None) for member in found.members]
    assert not np.allclose(each[0], each[1])  # each saw other rows
    assert found.quantiles(x, None) == pytest.approx((each[0] + each[1] + each[2]) / 3)
    assert found.score(x[:1], None, found.quantiles(x[:1], None)[:, 1]) == pytest.approx([1.2816], abs=1e-4)


# --- features of texts ----------------------------------------------------------------------------------------------


def test_sizes_of_a_text() -> None:
    text = "Ab 1,\té日\n"
    (found,) = sizes(np.array([text]))
    n = len(text)
    small, plain = len(zlib.compress(text.encode())), len(text.encode())
    shares = [1 / n, 1 / n, 3 / n, 1 / n, 2 / n]
    expected = [math.log1p(n), math.log(small), small / plain, len(set(text)) / n, math.log(n / 4), *shares]
    assert found == pytest.approx(expected)
    assert np.isfinite(sizes(np.array(["", "a"]))).all()


def test_grams_are_counted_in_every_text_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    words = np.array(["CCO", "", "OCC", "CCO", "a much longer text than the others"])
    found = ngrams(words, 16)
    assert np.array_equal(found[0], found[3])
    assert not np.allclose(found[0], found[2])  # the same letters in another order
    assert (found[1] == 0).all()
    assert np.linalg.norm(found[[0, 2, 4]], axis=1) == pytest.approx(1)
    assert ngrams(words[:1], 16) == pytest.approx(found[:1])  # however wide the array
    monkeypatch.setattr("discreet.text_features._LETTERS", 40)
    assert np.array_equal(ngrams(words, 16), found)
    assert np.array_equal(sizes(words), sizes(words[::-1])[::-1])
