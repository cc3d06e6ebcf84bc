"""The synthetic study and the theorem's: end to end on a few runs, killed and resumed, and each part by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discreet._json import dumps, loads
from discreet.baseline import BEST, CANONICAL, KINDS, Discriminator, baseline, judge, split_runs
from discreet.cli import entry
from discreet.data.mixture import Mixture
from discreet.estimate import Estimate
from discreet.indicator import measure_run
from discreet.ranking import rank
from discreet.stability import Curve
from discreet.store import Store
from discreet.studies import synthetic as study
from discreet.studies import synthetic_attack, synthetic_command, synthetic_unit, theorem
from discreet.studies.optimum import optimum
from discreet.studies.synthetic import SCALES, Scale, map_settings, synthetic
from discreet.studies.synthetic_attack import GRID, Attack
from discreet.studies.synthetic_claims import _verdict, claims
from discreet.studies.synthetic_found import MapRow, Synthetic, agreement, mean_over, needed, trend
from discreet.studies.synthetic_page import _needed, to_json, to_markdown
from discreet.studies.synthetic_setting import FULL, NAMES, SETS, Setting
from discreet.studies.synthetic_unit import Made, make, quantized, samples
from discreet.trajectory import Trajectory

SMALL = Setting(width=8, n=16, epochs=3, evaluation=50)
TINY = Scale(
    2, 8, 50, Attack(1, 2, (7,), 1, Discriminator(epochs=1)), 2, 8, 50, sets=((6, 1.5), (8, 2.0)), chunk=2
)


@pytest.fixture
def _short_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "map_settings", lambda s: (s.at(depth=0), s.at(granularity="tensor")))


class Killed(Exception):
    pass


def killed_after(share: float) -> Callable[[str, float], None]:
    def progress(doing: str, done: float) -> None:
        if done >= share:
            raise Killed(doing)

    return progress


@pytest.mark.slow
@pytest.mark.usefixtures("_short_map")
def test_a_study_that_is_killed_and_resumed_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = synthetic(tmp_path / "whole", scale=TINY, setting=SMALL, workers=1)
    told = dumps(to_json(found))
    for share in (0.2, 0.7):  # while training, and while attacking
        with pytest.raises(Killed):
            synthetic(tmp_path / "killed", scale=TINY, setting=SMALL, workers=2, progress=killed_after(share))
    assert not (tmp_path / "killed" / "study.json").exists()
    monkeypatch.setitem(SCALES, "small", TINY)
    page = synthetic_command.run(
        tmp_path / "killed",
        "small",
        ["width=8", "n=16", "epochs=3"],
        workers=2,
    )
    assert (tmp_path / "killed" / "study.json").read_text("utf-8") == told
    assert page == to_markdown(found) == (tmp_path / "killed" / "study.md").read_text("utf-8")
    for figure in ("figure-1", "figure-2", "figure-7", "figure-8", "figure-13", "map"):
        assert (tmp_path / "killed" / f"{figure}.svg").read_bytes().startswith(b"<svg")
        assert (tmp_path / "killed" / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
    seconds = Store(tmp_path / "whole").manifest["sessions"][-1]["seconds"]
    assert {"training", "quantizing", "measuring losses", "computing r", "discriminators"} <= set(seconds)
    assert "seconds" not in told
    _check(found)


def _check(found: Synthetic) -> None:
    told = loads(dumps(to_json(found)))
    assert [each["name"] for each in told["sets"]] == ["6 modes, sigma 1.5", "8 modes, sigma 2"]
    first = told["sets"][0]
    assert {each["variant"] for each in first["ranking"]["variants"]} == set(NAMES)
    kinds = {each["kind"] for each in first["security"]}
    assert kinds == {"full", "black-box", "loss-only", CANONICAL, BEST, "loss threshold"}
    assert all(0 <= each["mis"]["low"] <= each["mis"]["high"] <= 1 for each in first["security"])
    assert {each["mis"]["n"] for each in first["security"]} == {8}
    assert first["chosen"].keys() == NAMES.keys()
    assert all(len(each) == 2 for each in first["chosen"].values())  # one a fold
    assert len(told["map"]) == 2
    assert told["map"][0]["setting"]["depth"] == 0
    assert {each["verdict"] for each in told["claims"]} <= {"holds", "does not", "cannot tell"}
    assert len(told["claims"]) == 8
    below = [
        {v["variant"] for v in each["ranking"]["variants"] if "below-resolution" in v["diagnostics"]}
        for each in told["sets"]
    ]
    others = [name for name in NAMES if name not in (FULL, "1.58b 90%")]
    both = sum("1.58b 90%" in each and name in each for each in below for name in others)
    assert f"in {both} of all pairs both r lie below the resolution" in told["claims"][2]["found"]
    assert both
    assert told["trend"] is None or -1 <= told["trend"]["value"] <= 1
    assert len(first["curves"]["sign"]["evaluation"]) == 3
    with pytest.raises(ValueError, match="scale: expected one of small, paper, got 'huge'"):
        synthetic("nowhere", scale="huge")


def test_scales_that_cannot_be_are_refused() -> None:
    good = Scale(2, 8, 50, Attack(), 2, 8, 50)
    for message, changed in {
        r"attacked: expected at least 6 \(the runs for r are among them\), got 5": {"runs": 6, "attacked": 5},
        r"map_attacked: expected at least 6 .*, got 5": {"map_runs": 6, "map_attacked": 5},
        "attacked: expected enough runs for 5 folds, got 4": {"attacked": 4},
        "map_attacked: expected enough runs for 5 folds, got 4": {"map_attacked": 4},
        "sizes: expected enough runs for 2 folds, got 3": {"attack": Attack(sizes=(8, 3))},
        "runs: expected at least 2, got 1": {"runs": 1},
        r"map_runs: expected at least 2 \(or 0: no map\), got 1": {"map_runs": 1},
        "map_runs: expected at least 2 .*, got -1": {"map_runs": -1},
        "evaluation: expected at least 2, got 1": {"evaluation": 1},
        "map_evaluation: expected at least 2, got 1": {"map_evaluation": 1},
        "chunk: expected at least 1, got 0": {"chunk": 0},
        "draws: expected at least 0, got -1": {"attack": Attack(draws=-1)},
        "seeds: expected at least 1, got 0": {"attack": Attack(seeds=0)},
        "folds: expected at least 1, got 0": {"attack": Attack(folds=0)},
        r"sets: expected at least one, and none twice, got \(\)": {"sets": ()},
        "sets: expected at least one, and none twice, got .*8": {"sets": ((8, 2.0), (8, 2.0))},
        "modes, features: expected at least 2 and at least 1, got 1 and 128": {"sets": ((1, 2.0),)},
    }.items():
        with pytest.raises(ValueError, match=f"^{message}"):
            synthetic("nowhere", scale=replace(good, **changed))
    with pytest.raises(ValueError, match="lr: expected a positive number"):
        synthetic("nowhere", scale=good, setting=Setting(lr=0.0))
    assert not Path("nowhere").exists()


@pytest.mark.slow
def test_one_data_set_alone_and_no_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCALES, "tiny", TINY)
    options = ["sets=8x2", "map_runs=0", "width=8", "n=16", "epochs=3", "draws=0"]
    page = synthetic_command.run(tmp_path, "tiny", options)
    told = loads((tmp_path / "study.json").read_text("utf-8"))
    assert [each["name"] for each in told["sets"]] == ["8 modes, sigma 2"]
    assert told["map"] == []
    assert told["trend"] is None
    assert "The map" not in page


def test_a_run_is_the_same_whichever_others_come_with_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    many, few = make(store, SMALL, range(5), True), make(store, SMALL, [3, 4], True)
    last = make(store, SMALL, [4], False)
    for name in SMALL.specs:
        for run in ("3", "4"):
            a, b = many.indicators[name][run], few.indicators[name][run]
            assert a.status == b.status
            assert a.best == b.best
            assert np.allclose(a.losses, b.losses, rtol=1e-4)
        assert np.allclose(many.loss[name][3:], few.loss[name], rtol=1e-3, atol=1e-5)
        assert np.allclose(last.loss[name][0], few.loss[name][1], rtol=1e-3, atol=1e-5)
    assert not last.indicators
    again = make(store, SMALL, range(5), True)
    assert again.indicators["sign"]["2"].r == many.indicators["sign"]["2"].r


def test_what_is_kept_of_a_run_is_what_its_losses_give(tmp_path: Path) -> None:
    """Against torch's own optimiser and modules, one run and one variant."""
    import torch

    from discreet.model_seeds import Orders, init_seed

    made = make(Store(tmp_path), SMALL, [2], True)
    x, y = (torch.from_numpy(each) for each in samples(SMALL, 2))
    seen, answer = (torch.from_numpy(each) for each in SMALL.mixture.draw(50, stream=0))
    torch.manual_seed(init_seed(SMALL.training_seed, 2))
    net = SMALL.network.module()
    optimizer = torch.optim.Adam(net.parameters(), 1e-4)
    bce = torch.nn.functional.binary_cross_entropy_with_logits
    orders, losses = Orders(SMALL.training_seed, [2], 16), []
    for _ in range(3):
        for rows in torch.from_numpy(orders.next()[0]).split(8):
            optimizer.zero_grad()
            bce(net(x[rows])[:, 0], y[rows].float()).backward()
            optimizer.step()
        with torch.no_grad():
            losses.append(bce(net(seen)[:, 0], answer.float(), reduction="none").numpy())
    wanted = measure_run(Trajectory(np.array(losses)))
    kept = made.indicators[FULL]["2"]
    assert kept.r == pytest.approx(wanted.r, rel=1e-3)
    assert (kept.best, kept.decider, kept.samples) == (wanted.best, wanted.decider, 50)
    own = bce(net(x)[:, 0], y.float(), reduction="none").detach().numpy()
    assert np.allclose(made.loss[FULL][0], own, atol=1e-5)
    assert made.training[0, 0, -1] == pytest.approx(own[:16].mean(), abs=1e-5)
    signs = quantized(SMALL, made.params)["sign"]
    assert set(signs["0.weight"].unique().tolist()) == {-1.0, 1.0}


def test_no_sample_is_in_two_runs_and_half_are_members() -> None:
    rows = np.concatenate(
        [samples(SMALL, run)[0] for run in range(6)] + [SMALL.mixture.draw(50, stream=0)[0]]
    )
    assert len(np.unique(rows, axis=0)) == len(rows) == 6 * 32 + 50


def test_clusters_are_as_they_are_said_to_be() -> None:
    mixture = Mixture(8, 0.5, seed=3)
    centres, labels = mixture.clusters()
    assert labels.sum() == 4
    assert centres.std() == pytest.approx(0.3, rel=0.1)
    x, y = mixture.draw(4000, stream=1)
    nearest = np.square(x[:, None] - centres[None]).sum(axis=2).argmin(axis=1)
    assert np.mean(labels[nearest] == y) > 0.99
    assert (x - centres[nearest]).std() == pytest.approx(0.5, rel=0.02)
    assert np.array_equal(mixture.draw(10, stream=1)[0], x[:10])
    assert not np.array_equal(mixture.draw(10, stream=2)[0], x[:10])
    assert Mixture(7, 1.0).clusters()[1].sum() == 3
    assert all(0 < Mixture(3, 1.0, labels="coins", seed=s).clusters()[1].sum() < 3 for s in range(20))
    for message, wrong in {
        "modes, features: expected at least 2 and at least 1, got 1 and 128": {"modes": 1},
        "sigma, spread: expected positive numbers, got 0.0 and 0.3": {"sigma": 0.0},
        "labels: expected one of halves, coins, got 'x'": {"labels": "x"},
    }.items():
        with pytest.raises(ValueError, match=message):
            Mixture(**{"modes": 8, "sigma": 2.0, **wrong})


@pytest.mark.parametrize(
    "other",
    [{"sigma": 3.0}, {"modes": 9}, {"spread": 0.5}, {"labels": "coins"}, {"seed": 4}, {"features": 127}],
)
def test_mixtures_that_differ_in_anything_share_nothing(other: dict[str, float | str]) -> None:
    one = Mixture(8, 2.0, seed=3)
    two = replace(one, **other)
    width = min(one.features, two.features)
    a, b = one.clusters()[0][:, :width] / one.spread, two.clusters()[0][:8, :width] / two.spread
    assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.15
    a, b = (each.draw(200, stream=2)[0][:, :width].ravel() for each in (one, two))
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.1
    assert one.entropy != two.entropy
    assert replace(two, sigma=np.float64(two.sigma)).entropy == two.entropy


def test_data_sets_have_starts_and_orders_of_their_own(tmp_path: Path) -> None:
    seeds = [SMALL.at(modes=modes, sigma=sigma).training_seed for modes, sigma in SETS]
    assert len(set(seeds)) == 9
    assert SMALL.at(lr=1e-3, width=9, batch_size=4).training_seed == SMALL.training_seed
    assert 0 <= min(seeds) <= max(seeds) < 2**63
    still = SMALL.at(lr=1e-30)  # stays at its start
    one, two = (make(Store(tmp_path), each, [0], False).params for each in (still, still.at(sigma=3.0)))
    assert not any(bool((one[name] == two[name]).all()) for name in one)


def _planted(order: list[float]) -> tuple:
    """Variants whose r rises in the order given, and attacks that succeed less and less."""
    rng = np.random.default_rng(0)
    base = rng.exponential(size=(6, 1, 800))
    gaps = np.array([0.3, 0.0, 0.15])[:, None]
    losses = {
        name: base + scale * gaps + 0.1 * rng.standard_normal((6, 3, 800))
        for name, scale in zip("abcd", order, strict=True)
    }
    member = np.tile([True, False], (40, 20))
    security = {
        name: judge((rng.random((1, *member.shape)) < np.where(member, hit, 1 - hit)), member)
        for name, hit in zip("abcd", (0.9, 0.8, 0.7, 0.6), strict=True)
    }
    return rank(losses), security


def test_agreement_of_planted_orders() -> None:
    same, reverse = agreement(*_planted([1.0, 2.0, 3.0, 4.0])), agreement(*_planted([4.0, 3.0, 2.0, 1.0]))
    assert same is not None
    assert reverse is not None
    assert (same.value, reverse.value, same.n) == (1.0, -1.0, 4)
    assert same.low > 0.5
    assert reverse.high < -0.5
    ranking, security = _planted([1.0, 2.0, 3.0, 4.0])
    assert agreement(ranking, {name: security[name] for name in "ab"}) is None
    constant = rank({name: np.ones((3, 3, 50)) for name in "abcd"})
    assert agreement(constant, security) is None
    rng = np.random.default_rng(0)
    late, middle = np.array([3.0, 2.0, 1.0]), np.array([2.0, 1.0, 3.0])
    at, edges = optimum(
        rank(
            {
                name: gaps[:, None] + rng.random((2, 3, 50))
                for name, gaps in ((FULL, late), ("a", middle), ("b", late))
            }
        )
    )
    assert at == (0.75, 1.0)
    assert edges == 0.5


def test_the_curve_of_r_is_of_the_quantizers_and_on_the_grid_of_the_others() -> None:
    rng = np.random.default_rng(0)
    base, gaps = rng.exponential(size=(7, 1, 400)), np.array([0.3, 0.0, 0.15])[:, None]
    losses = {
        name: base + scale * gaps + 2.0 * rng.standard_normal((7, 3, 400))
        for name, scale in (("a", 1.0), ("b", 1.2), ("c", 1.1), (FULL, 90.0))
    }
    curve = study.r_stability(rank(losses))
    assert curve.runs == (4, 6, 7)
    assert curve == study.r_stability(rank({name: losses[name] for name in "abc"}))
    assert curve.spearman[0] < rank(losses).stability().subset_vs_all.spearman[3]  # full lifts it
    assert set(Attack().sizes) <= set(GRID)


def test_the_best_constant_knows_how_many_samples_have_a_label() -> None:
    assert study._constant_loss(SMALL) == np.log(2)
    odd = SMALL.at(modes=3)
    assert study._constant_loss(odd) == pytest.approx(np.log(3) - 2 / 3 * np.log(2))
    coins = [SMALL.at(modes=4, labels="coins", seed=seed) for seed in range(8)]
    for each in coins:
        share = each.mixture.clusters()[1].mean()
        _, labels = each.mixture.draw(2000, stream=0)
        assert labels.mean() == pytest.approx(share, abs=0.04)
        assert study._constant_loss(each) == pytest.approx(
            -np.mean(np.log(np.where(labels == 1, share, 1 - share))), abs=0.04
        )
    assert min(map(study._constant_loss, coins)) < 0.6
    # a network that says nothing of its input, between the two constants: ln 2 = 0.693 and 0.637
    run = measure_run(Trajectory(0.67 + 0.01 * np.random.default_rng(0).random((3, 50))))
    made = Made((0,), {name: {"0": run} for name in odd.specs}, {}, {}, np.zeros((9, 1, 3)))
    for ranking in study._rankings(odd, [made]):
        assert all("worse-than-constant" in each.diagnostics for each in ranking.indicators)


def test_how_many_runs_a_curve_needs() -> None:
    def curve(*values: float) -> Curve:
        return Curve(tuple(range(1, len(values) + 1)), values, values, values)

    assert needed(curve(0.1, 0.95, 0.8, 0.92, 0.93, 1.0)) == 4
    assert needed(curve(0.1, 0.2, 1.0)) is None  # all runs agree with themselves
    assert needed(curve()) is None
    whole = Attack(sizes=(2, 3, 99), draws=4).curve(5, lambda runs: np.arange(3.0) * len(runs), 0)
    assert whole.runs == (2, 3, 5)
    assert whole.spearman == (1.0, 1.0, 1.0)
    assert needed(curve(0.95, 0.95, 1.0)) == 1
    assert _needed(curve(0.95, 0.95, 1.0)) == "1 (fewest tried)"
    assert _needed(curve(0.1, 0.95, 1.0)) == "2"
    assert _needed(curve(0.1, 0.2, 1.0)) == "not reached"
    noisy = Attack(sizes=(2,), draws=3).curve(5, lambda runs: np.zeros(3), 0)
    assert noisy.spearman[0] == 0.0


def test_verdicts_follow_their_rules() -> None:
    assert _verdict(10, 0, 0) == "holds"
    assert _verdict(9, 0, 1) == "holds"
    assert _verdict(8, 0, 2) == "cannot tell"
    assert _verdict(9, 1, 0) == "does not"
    assert _verdict(99, 1, 0) == "cannot tell"
    assert _verdict(0, 0, 0) == "cannot tell"

    def close(*values: float) -> str:
        mean = mean_over([Estimate(v, v, v, 8, 0.95) for v in values])
        return claims([], {("mean", BEST): mean})[0].verdict

    assert close(0.8, 0.85, 0.9, 0.84) == "holds"
    assert close(0.1, 0.0, 0.2, 0.1) == "does not"
    assert close(0.1, 0.9, 0.8, 0.95) == "cannot tell"
    assert close(0.9) == "cannot tell"
    assert mean_over([None, None]) is None
    by_r = [each for each in claims([], {}) if each.said.endswith("by r (section 4.1)")]
    assert len(by_r) == 2
    for each in by_r:  # more runs do not help r below its resolution
        assert "more evaluation samples for pairs of which both r lie below the resolution" in each.rule
        assert "in 0 of all pairs both r lie below the resolution" in each.found


def test_settings_that_share_samples_are_one_draw_of_the_trend() -> None:
    """Sixteen settings of each of four data sets are four independent things, however finely they agree."""

    def row(sigma: float, at: float, value: float) -> MapRow:
        each = Estimate(value, -1.0, 1.0, 8, 0.95)
        return MapRow(SMALL.at(sigma=sigma), (at, at), 0.0, {"mean": each}, {}, {})

    rng = np.random.default_rng(0)
    # within a data set neither moves; between the four they go apart
    rows = [
        row(sigma, 0.2 * sigma + 0.01 * rng.random(), value + 0.01 * rng.random())
        for sigma, value in ((1.0, 0.5), (2.0, 0.7), (3.0, 0.1), (4.0, 0.2))
        for _ in range(16)
    ]
    found = trend([], rows)
    assert found is not None
    assert found.value < -0.4
    assert found.covers(0.5)
    assert found.n == 64
    assert "over 4 data sets" in found.method
    assert trend([], rows[:48]) is None  # three data sets
    assert trend([], []) is None


def test_settings_and_their_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert len(SETS) == 9
    assert len(map_settings(Setting())) == 16
    assert {each.depth for each in map_settings(Setting(depth=2))} == {0, 1}
    settings, mapped = study._settings(SCALES["paper"], Setting())
    assert len(mapped) == 15
    assert not {each.at(evaluation=20_000) for each in mapped} & set(settings)
    assert len(study._settings(replace(SCALES["paper"], sets=((6, 1.5),)), Setting())[1]) == 16
    assert Setting(depth=0).network.widths == (128, 1)
    assert Setting(depth=2, width=5).network.widths == (128, 5, 5, 1)
    assert Setting().specs["1.58b 90%"] == "ternary(zeros=0.9)"
    tensor = Setting(granularity="tensor").specs
    assert tensor["sign"] == "sign(granularity='tensor')"
    assert tensor["5 bits"] == "uniform(bits=5, granularity='tensor')"
    assert tensor[FULL] == "full"
    scale, changed = synthetic_command.settings_of("paper", ["width=512", "lr=1e-3", "labels=coins"], seed=4)
    assert (changed.width, changed.lr, changed.labels, changed.seed) == (512, 1e-3, "coins", 4)
    assert scale == SCALES["paper"]
    scale, _ = synthetic_command.settings_of("paper", ["sets=8x2,16x1.5", "runs=20", "map_runs=0", "draws=1"])
    assert scale.sets == ((8, 2.0), (16, 1.5))
    assert (scale.runs, scale.attacked, scale.map_runs, scale.attack.draws) == (20, 300, 0, 1)
    assert scale.attack.sizes == SCALES["paper"].attack.sizes
    for message, texts in {
        r"--set: expected FIELD=VALUE with one of spread, .* got 'sigma=3'": ["sigma=3"],
        r"--set: expected FIELD=VALUE .* got 'width'": ["width"],
        r"--set: expected int for width, got 'wide'": ["width=wide"],
        r"--set: expected distinct modes x sigma for sets, got '8'": ["sets=8"],
        r"--set: expected distinct modes x sigma for sets, got '8x2,8x2.0'": ["sets=8x2,8x2.0"],
    }.items():
        with pytest.raises(ValueError, match=message):
            synthetic_command.settings_of("small", texts)
    for message, wrong in {
        "depth: expected 0 or more hidden layers, got -1": {"depth": -1},
        "granularity: expected model or tensor, got 'row'": {"granularity": "row"},
        "epochs: expected at least 2, got 1": {"epochs": 1},
        "lr: expected a positive number, got 0.0": {"lr": 0.0},
        "batch_size: expected at least 1, got 0": {"batch_size": 0},
        "sigma, spread: expected positive numbers, got 2.0 and 0.0": {"spread": 0.0},
    }.items():
        with pytest.raises(ValueError, match=message):
            Setting(**wrong)
    folder = ["--folder", str(tmp_path / "none")]
    assert entry.run(["study", "attacks", "--set", "width=3", *folder]) == 2
    assert "have settings, got attacks" in " ".join(capsys.readouterr().err.split())
    assert entry.run(["study", "synthetic", "--set", "width=x", *folder]) == 2
    assert "expected int for width, got 'x'" in capsys.readouterr().err


def test_options_that_ask_for_what_is_done_anyway_pass(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = ["--folder", str(tmp_path / "none")]
    usual = ["--scale", "small", "--workers", "1", "--backend", "local"]
    for name in ("predictors", "candidates"):
        assert entry.run(["study", name, *usual, "--set", "epochs=0", *folder]) == 2
        assert "epochs: expected at least 2, got 0" in " ".join(capsys.readouterr().err.split())
    for option, value in (("--scale", "paper"), ("--workers", "2"), ("--backend", "ray")):
        assert entry.run(["study", "predictors", option, value, *folder]) == 2
        assert f"{option}: only the stud" in " ".join(capsys.readouterr().err.split())
    assert not list((tmp_path / "none").iterdir())


def test_seconds_are_those_of_the_core_and_not_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waiting(work: Callable) -> Callable:
        def slept(*given: object, **named: object) -> object:
            time.sleep(1.0)
            return work(*given, **named)

        return slept

    monkeypatch.setattr(synthetic_unit, "train", waiting(synthetic_unit.train))
    monkeypatch.setattr(synthetic_attack, "baseline", waiting(synthetic_attack.baseline))
    store, took = Store(tmp_path), dict[str, float]()

    def count(what: str, much: float) -> None:
        took[what] = took.get(what, 0.0) + much

    made = [make(store, SMALL, range(8), True, seconds=count)]
    how = Attack(1, 2, (7,), 0, Discriminator(epochs=1))
    found, _ = synthetic_attack.attack(store, SMALL, made, how, count)
    assert 0 < took["training"] < 1
    assert 0 < took["discriminators"] < 1
    # and what the best attack took is read from what it accuses
    runs = synthetic_attack._runs(SMALL, made)
    kinds = [*KINDS, CANONICAL]
    options = {"discriminator": how.discriminator, "seeds": 1, "folds": 2, "seed": SMALL.training_seed}
    told = baseline(runs, kinds=kinds, workers=1, **options)
    for variant, each in synthetic_attack.chosen(found, SMALL, 8, 2).items():
        assert len(each) == 2
        assert all(kind in one.split(" or ") for kind, one in zip(told.chosen[variant], each, strict=True))
        for fold, one in enumerate(each):
            for kind in set(kinds) - set(one.split(" or ")):
                rows = split_runs(8, folds=2, seed=SMALL.training_seed)[fold].test
                assert (
                    found[kind, variant].accuracy[:, rows].tolist()
                    != found[BEST, variant].accuracy[:, rows].tolist()
                )


@pytest.mark.slow
def test_the_theorem_on_exact_classes_and_real_trajectories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale = theorem.Scale((16, 32), 2, 60, ((10, 100, 40_000), (10, 50)))
    monkeypatch.setitem(theorem.SCALES, "tiny", scale)
    page = theorem.run(tmp_path, "tiny")
    told = loads((tmp_path / "study.json").read_text("utf-8"))
    assert page == (tmp_path / "study.md").read_text("utf-8") == theorem.run(tmp_path, "tiny")
    rows = {(row["name"], row["n"]): row for row in told["exact"]}
    assert ("two values, gap 0.2", 40_000) not in rows  # exp(-816) is no number
    for row in rows.values():
        assert 0 <= row["by_loss"] <= row["leak"] * (1 + 1e-9) < 1
        assert row["rate"] > row["r"]
    assert {row["n"] for row in told["trajectories"]} == {16, 32}
    for row in told["trajectories"]:
        assert row["scaled"] == pytest.approx(row["gap"] * row["n"] ** 0.5)
        assert 0 <= row["tail"] <= 1
        assert 0 <= row["decided_low"] <= 1
