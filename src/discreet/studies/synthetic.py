"""Does r rank quantizers as the MIS does? Gaussian clusters, where fresh samples cost nothing.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", sections 4.1 and 12, with the
discriminator of section 11 as the baseline, and a map of the settings that the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from threading import Event, Lock
from typing import Any, TypeVar

import numpy as np

from discreet._spread import Stopped, spread
from discreet.baseline import split_runs, threshold
from discreet.baseline.security import Security
from discreet.ranking import Ranking, rank_runs
from discreet.stability import Curve
from discreet.store import Store
from discreet.studies.optimum import optimum
from discreet.studies.synthetic_attack import GRID, Attack, attack
from discreet.studies.synthetic_claims import claims
from discreet.studies.synthetic_found import (
    MapRow,
    SetFound,
    Synthetic,
    agreement,
    mean_over,
    trend,
)
from discreet.studies.synthetic_setting import FULL, SETS, Setting
from discreet.studies.synthetic_unit import Made, make

__all__ = ["SCALES", "Scale", "map_settings", "r_stability", "synthetic"]

Progress = Callable[[str, float], None]
Item = TypeVar("Item")
_POINTS = 200
_SUBSETS = 10  # of each size, for the curve of the threshold, which costs little
_FOLDS = 5  # of the loss threshold


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Attributes:
        runs: Runs of each data set whose trajectories give r.
        attacked: Runs that the baseline learns from and is judged on; the first ``runs`` of them are the same.
            Without a trajectory a run is cheap, and the MIS needs many.
        evaluation: Samples that r is measured on.
        sets: Data sets: modes and sigma.
        attack: How the baseline is trained and how its stability is drawn.
        map_runs: As ``runs``, for each setting of the map; 0: no map.
        map_attacked: As ``attacked``.
        map_evaluation: As ``evaluation``.
        chunk: Runs trained side by side.
    """

    runs: int
    attacked: int
    evaluation: int
    attack: Attack
    map_runs: int
    map_attacked: int
    map_evaluation: int
    sets: tuple[tuple[int, float], ...] = SETS
    chunk: int = 8


SCALES: Mapping[str, Scale] = {
    "small": Scale(16, 100, 4096, Attack(seeds=2, draws=0), 8, 80, 2048),
    "paper": Scale(300, 300, 20_000, Attack(seeds=2, draws=5), 100, 300, 20_000),
}


def map_settings(setting: Setting) -> tuple[Setting, ...]:
    """The settings of the map: depth and width, batch size, spread of the centres, rate and granularity.

    The easiest and the hardest data set are there with other batches and rates: whether the data or the place of the
    lowest loss decides shows where the one is moved and the other is not.
    """
    nets = ({"depth": 0}, {"depth": 1, "width": 128})
    grid = [
        setting.at(**net, batch_size=batch, spread=spread, lr=1e-4, granularity="tensor")
        for net, batch, spread in product(nets, (8, 32), (0.3, 1.0))
    ]
    wide = [
        setting.at(depth=1, width=512, batch_size=8, spread=spread, lr=1e-4, granularity="tensor")
        for spread in (0.3, 0.5)
    ]
    more = [
        setting.at(depth=1, width=128, batch_size=8, lr=1e-4, granularity="model"),
        setting.at(depth=1, width=128, batch_size=8, lr=1e-3, granularity="tensor"),
    ]
    easy, hard = {"modes": 6, "sigma": 1.5}, {"modes": 16, "sigma": 3.0}
    more += [setting.at(**easy, depth=1, width=128, batch_size=batch) for batch in (2, 4)]
    more += [
        setting.at(**easy, depth=1, width=128, batch_size=8, lr=3e-4),
        setting.at(**hard, depth=1, width=128, batch_size=64),
    ]
    return tuple(dict.fromkeys([*grid, *wide, *more]))


def synthetic(
    folder: str | Path,
    *,
    scale: Scale | str = "small",
    setting: Setting = Setting(),  # noqa: B008 (frozen)
    workers: int | None = None,
    progress: Progress = lambda doing, share: None,
) -> Synthetic:
    """Train, measure r, attack, and compare; what is finished in ``folder`` is not done again.

    Args:
        folder: The run directory.
        scale: A scale or its name.
        setting: What the paper leaves open, and the seed; modes, sigma and evaluation size are the scale's.
        workers: Threads; None: one a core. Results do not depend on it.
        progress: Called with what is being done, and the share of all work that is done.

    Raises:
        ValueError: An unknown scale, or a size or setting that cannot be; the message names the field.
        StoreError: The directory is in use or cannot be written.
    """
    if isinstance(scale, str):
        if scale not in SCALES:
            raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {scale!r}")
        scale = SCALES[scale]
    settings, mapped = _settings(scale, setting)
    store = Store(folder)
    with store.lock():
        return _Study(store, scale, setting, workers, progress).run(settings, mapped)


def _settings(scale: Scale, setting: Setting) -> tuple[tuple[Setting, ...], tuple[Setting, ...]]:
    """The data sets' settings and the map's; what cannot be is refused here, before hours of training."""
    attack = scale.attack
    for name, value, least in (
        ("runs", scale.runs, 2),
        ("evaluation", scale.evaluation, 2),
        ("map_runs", scale.map_runs or 2, 2),
        ("map_evaluation", scale.map_evaluation, 2),
        ("chunk", scale.chunk, 1),
        ("draws", attack.draws, 0),
        ("seeds", attack.seeds, 1),
        ("folds", attack.folds, 1),
        ("attacked", scale.attacked, scale.runs),
        ("map_attacked", scale.map_attacked, scale.map_runs),
    ):
        if value < least:
            why = " (the runs for r are among them)" if name.endswith("attacked") else ""
            why = " (or 0: no map)" if name == "map_runs" else why
            raise ValueError(f"{name}: expected at least {least}{why}, got {value}")
    if not scale.sets or len(set(scale.sets)) < len(scale.sets):
        raise ValueError(f"sets: expected at least one, and none twice, got {scale.sets}")
    _check_folds("attacked", scale.attacked, max(_FOLDS, attack.folds))
    if scale.map_runs:
        _check_folds("map_attacked", scale.map_attacked, _FOLDS)
    for size in attack.sizes if attack.draws else ():
        _check_folds("sizes", size, attack.folds)
    settings = tuple(
        setting.at(modes=modes, sigma=sigma, evaluation=scale.evaluation) for modes, sigma in scale.sets
    )
    mapped = map_settings(setting.at(evaluation=scale.map_evaluation)) if scale.map_runs else ()
    # a setting of the map that is a data set's would count twice in what is said of both
    mapped = tuple(each for each in mapped if each.at(evaluation=scale.evaluation) not in settings)
    for each in (*settings, *mapped):
        _ = each.mixture, each.network, each.recipe  # each refuses what it cannot be
    return settings, mapped


def _check_folds(name: str, runs: int, folds: int) -> None:
    try:
        split_runs(runs, folds=folds)
    except ValueError:
        raise ValueError(f"{name}: expected enough runs for {folds} folds, got {runs}") from None


class _Study:
    def __init__(
        self, store: Store, scale: Scale, setting: Setting, workers: int | None, progress: Progress
    ) -> None:
        self.store, self.scale, self.setting = store, scale, setting
        self.workers, self.progress = workers, progress
        self.seconds: dict[str, float] = {}
        self.lock = Lock()

    def run(self, settings: Sequence[Setting], mapped: Sequence[Setting]) -> Synthetic:
        scale = self.scale
        jobs = [(each, *part) for each in settings for part in self._chunks(scale.runs, scale.attacked)]
        jobs += [
            (each, *part) for each in mapped for part in self._chunks(scale.map_runs, scale.map_attacked)
        ]
        self._spread("training and measuring", jobs, lambda job, tick: self._make(*job, tick=tick), 0.0, 0.6)
        found = self._spread("attacking", settings, lambda each, tick: self._set(each), 0.6, 0.95)
        rows = self._spread("the map of settings", mapped, lambda each, tick: self._row(each), 0.95, 1.0)
        self.store.note(seconds={name: round(value, 1) for name, value in sorted(self.seconds.items())})
        keys = dict.fromkeys(key for each in found for key in each.agreement)
        average = {key: mean_over([each.agreement[key] for each in found]) for key in keys}
        given = {k: v for k, v in self.setting.to_json().items() if k not in ("modes", "sigma", "evaluation")}
        about = asdict(scale) | {"setting": given}
        return Synthetic(
            about,
            tuple(found),
            average,
            tuple(rows),
            trend(found, rows, seed=self.setting.seed),
            claims(found, average),
        )

    def _chunks(self, runs: int, attacked: int) -> list[tuple[range, bool]]:
        size = self.scale.chunk
        parts = [(range(at, min(at + size, runs)), True) for at in range(0, runs, size)]
        return parts + [
            (range(at, min(at + 4 * size, attacked)), False) for at in range(runs, attacked, 4 * size)
        ]

    def _make(
        self, setting: Setting, runs: range, whole: bool, tick: Callable[[], None] = lambda: None
    ) -> Made:
        return make(self.store, setting, runs, whole, tick, self._count)

    def _count(self, what: str, much: float) -> None:
        with self.lock:
            self.seconds[what] = self.seconds.get(what, 0.0) + much

    def _made(self, setting: Setting, runs: int, attacked: int) -> list[Made]:
        return [self._make(setting, *part) for part in self._chunks(runs, attacked)]

    def _set(self, setting: Setting) -> SetFound:
        scale = self.scale
        made = self._made(setting, scale.runs, scale.attacked)
        ranking, median = _rankings(setting, made)
        told, curve = attack(self.store, setting, made, scale.attack, self._count)
        simple = _thresholds(setting, made)
        security = {**told, **{("loss threshold", name): each for name, each in simple.items()}}
        kinds = dict.fromkeys(kind for kind, _ in security)
        agreements = {
            (statistic, kind): agreement(
                by, {v: each for (k, v), each in security.items() if k == kind}, seed=setting.seed
            )
            for statistic, by in (("mean", ranking), ("median", median))
            for kind in kinds
        }
        points, labels = setting.mixture.draw(_POINTS, stream=0)
        return SetFound(
            setting,
            ranking,
            median,
            security,
            agreements,
            r_stability(ranking),
            curve,
            _threshold_stability(setting, made, scale.attack),
            _curves(setting, made),
            _plane(points),
            labels,
        )

    def _row(self, setting: Setting) -> MapRow:
        made = self._made(setting, self.scale.map_runs, self.scale.map_attacked)
        ranking, median = _rankings(setting, made)
        simple = _thresholds(setting, made)
        at, edges = optimum(ranking)
        agreements = {
            name: agreement(by, simple, seed=setting.seed)
            for name, by in (("mean", ranking), ("median", median))
        }
        mis = {name: each.mis for name, each in simple.items()}
        return MapRow(setting, at, edges, agreements, mis, {name: ranking[name].r for name in setting.specs})

    def _spread(
        self,
        doing: str,
        items: Sequence[Item],
        work: Callable[[Item, Callable[[], None]], Any],
        start: float,
        end: float,
    ) -> list[Any]:
        """Work on several items at a time; Ctrl-C, or one that fails, stops the others after their epoch."""
        stop, done = Event(), 0

        def tick() -> None:
            if stop.is_set():
                raise Stopped

        def one(item: Item) -> Any:
            nonlocal done
            tick()
            try:
                found = work(item, tick)
            except BaseException:
                stop.set()
                raise
            with self.lock:
                done += 1
                self.progress(doing, start + (end - start) * done / len(items))
            return found

        # The pool is left to a thread of its own, so that Ctrl-C reaches this one while the pool waits.
        with ThreadPoolExecutor(1) as helper:
            pool = helper.submit(spread, one, items, self.workers)
            try:
                return pool.result()
            except BaseException:
                stop.set()
                raise


def _rankings(setting: Setting, made: Sequence[Made]) -> tuple[Ranking, Ranking]:
    per = {
        name: {run: each for part in made if part.indicators for run, each in part.indicators[name].items()}
        for name in setting.specs
    }
    constant = _constant_loss(setting)
    ranking = rank_runs(per, n_train=setting.n, constant_loss=constant, seed=setting.seed)
    median = rank_runs(per, statistic="median", n_train=setting.n, constant_loss=constant, seed=setting.seed)
    return ranking, median


def _constant_loss(setting: Setting) -> float:
    """Loss of the best constant prediction, in nats: the entropy of the labels, which clusters share unevenly where
    they are odd or a coin decides."""
    share = np.bincount(setting.mixture.clusters()[1]) / setting.modes
    return float(-(share * np.log(share)).sum())


def _members(setting: Setting, runs: int) -> np.ndarray:
    return np.tile(np.arange(2 * setting.n) < setting.n, (runs, 1))


def _losses(setting: Setting, made: Sequence[Made]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([each.loss[name] for each in made]) for name in setting.specs}


def _thresholds(setting: Setting, made: Sequence[Made]) -> dict[str, Security]:
    found = _losses(setting, made)
    return {
        name: threshold(loss, _members(setting, len(loss)), folds=_FOLDS, seed=setting.seed)
        for name, loss in found.items()
    }


def r_stability(ranking: Ranking) -> Curve:
    """Of the quantizers, as the curves of the MIS are, and at the same numbers of runs."""
    quantizers = tuple(each for each in ranking.indicators if each.variant != FULL)
    curve = replace(ranking, indicators=quantizers).stability().subset_vs_all
    kept = [at for at, runs in enumerate(curve.runs) if runs in GRID or runs == curve.runs[-1]]
    return Curve(**{each.name: tuple(getattr(curve, each.name)[at] for at in kept) for each in fields(Curve)})


def _threshold_stability(setting: Setting, made: Sequence[Made], how: Attack) -> Curve:
    found = _losses(setting, made)
    names = [name for name in found if name != FULL]

    def rank_by(runs: np.ndarray) -> np.ndarray:
        member = _members(setting, len(runs))
        folds = min(_FOLDS, len(runs))
        return np.array(
            [threshold(found[name][runs], member, folds=folds, seed=setting.seed).raw for name in names]
        )

    return replace(how, sizes=GRID, draws=_SUBSETS).curve(len(found[FULL]), rank_by, setting.seed)


def _curves(setting: Setting, made: Sequence[Made]) -> dict[str, tuple[tuple[float, ...], tuple[float, ...]]]:
    """Training and evaluation loss by epoch, the means over runs."""
    whole = [each for each in made if each.indicators]
    found = {}
    for at, name in enumerate(setting.specs):
        own = np.concatenate([each.training[at] for each in whole]).mean(axis=0)
        seen = np.mean([run.losses for each in whole for run in each.indicators[name].values()], axis=0)
        found[name] = tuple(own.tolist()), tuple(seen.tolist())
    return found


def _plane(points: np.ndarray) -> np.ndarray:
    """Coordinates along the two principal components, the largest entry of each positive."""
    centred = points.astype(np.float64) - points.mean(axis=0, dtype=np.float64)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    signs = np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])
    return centred @ (axes * signs[:, None]).T
