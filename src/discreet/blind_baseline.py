"""A classifier that sees no model: can members be told from non-members by what they are alone?

Attacks are judged on the difference between members and non-members. If the two were not drawn alike (newer texts,
another source, other lengths), that difference is there before any model, and a high AUC of an attack is no
evidence of a leak. After the bag-of-words classifier of Meeus et al., "SoK: Membership Inference Attacks on LLMs are
Rushing Nowhere (and How to Fix It)" (2025), and Das et al., "Blind Baselines Beat Membership Inference Attacks for
Foundation Models" (2024).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet._types import Bool, Float, Int
from discreet.audit_leaks import Blind
from discreet.duplicate_texts import text_families
from discreet.exposure import judged
from discreet.labelled import check_level
from discreet.records import Record

__all__ = ["blind_baseline", "blind_or_why", "out_of_fold"]

_COLUMNS = 2**16
_HOW = "out-of-fold logistic regression, logit DeLong with twice the variance"


def blind_baseline(
    record: Record, *, run: str | None = None, level: float = 0.95, folds: int = 5, seed: int = 0
) -> Blind:
    """Tell members from non-members by the texts alone, out of fold.

    Hashed counts of words, word pairs and character 2- to 4-grams and a few sizes go to a logistic regression, those
    of prompts (signal ``prompt``) beside those of answers; without texts, the signal ``features`` goes there. What is
    judged is what attacks are judged on: no public sample, none outside the pool, no text that stands on both sides.
    Families and copies of a text stay in one fold, and scores are compared as ranks within their fold. Each run is
    judged with classifiers of its own.

    An out-of-fold AUC of nothing scatters more than its DeLong variance says: each pair of samples counts twice, once
    with either in training. For a linear score that is exactly a factor of 2, which the interval allows for. It also
    falls below 1/2 more often than not, because what a fold has too much of the others lack; so only a low end
    above 1/2 says something, and the high end is at least 1/2.

    Args:
        record: Measurements with membership, and the signal ``text`` or ``features`` [sample, feature].
        run: The run to judge; all of them when None: the mean over runs, with a mean interval, as if averaging bought
            nothing.
        level: Confidence level of the interval.
        folds: Parts, each judged by a classifier of the others.
        seed: Of the parts.

    Raises:
        ModuleNotFoundError: scikit-learn is missing.
        RecordError: No membership, or neither texts nor features.
        ValueError: Too few members or non-members for so many folds.

    Example:
        >>> text = np.array([f"{'old' if i % 2 else 'new'} item {i}" for i in range(200)])
        >>> record = Record(
        ...     run=("a",), step=np.ones(1), variant=("full",), sample=np.arange(200),
        ...     signals={"loss": np.ones((1, 200)), "text": text}, member=(np.arange(200) % 2 == 0)[None],
        ... )
        >>> found = blind_baseline(record)
        >>> found.auc, found.confounded
        (1.0, True)
    """
    check_level(level)
    if record.member is None:
        raise record.error("no membership: nobody can say who is to be told from whom")
    runs = record.runs if run is None else (run,)
    member, keep = judged(record, runs)
    of, x = _inputs(record)
    family = text_families(record)
    asked: dict[tuple[bytes, bytes], tuple[float, float, float]] = {}
    rows = []
    for y, k in zip(member, keep, strict=True):
        # The halves of a pair ask one question, turned round.
        key = (k.tobytes(), min((y & k).tobytes(), (~y & k).tobytes()))
        if key not in asked:
            asked[key] = _one(x, y, k, family, folds, seed, level)
        rows.append(asked[key])
    found = np.array(rows)
    value, low, high = (float(np.sort(column).mean()) for column in found.T)
    counts = (int((member & keep).sum()), int((~member & keep).sum()))
    return Blind(of, value, low, max(high, 0.5), level, low > 0.5, *counts, len(runs), _HOW)


def blind_or_why(
    record: Record, *, run: str | None = None, level: float = 0.95, seed: int = 0
) -> tuple[Blind | None, str]:
    """The baseline of a record with texts, or in words why there is none; neither for a record without texts."""
    if "text" not in record.signals:
        return None, ""
    try:
        return blind_baseline(record, run=run, level=level, seed=seed), ""
    except (ModuleNotFoundError, ValueError) as error:
        return None, f"whether the texts alone tell members from non-members was not checked: {error}"


def out_of_fold(x: Any, y: Bool[np.ndarray, " n"], fold: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Rank of each row within its fold, from 0 to 1, by a classifier that did not see the fold.

    Args:
        x: Rows of features, a matrix or a sparse one.
        y: The two classes.
        fold: Number of each row's fold.
    """
    from scipy.stats import rankdata
    from sklearn.linear_model import LogisticRegression

    found = np.empty(len(y))
    for each in np.unique(fold):
        out = fold == each
        model = LogisticRegression(solver="liblinear", dual=True, max_iter=10_000, tol=0.01, random_state=0)
        model.fit(x[np.flatnonzero(~out)], y[~out])
        found[out] = rankdata(model.decision_function(x[np.flatnonzero(out)])) / (out.sum() + 1)
    return found


def _one(
    x: Any,
    member: Bool[np.ndarray, " sample"],
    keep: Bool[np.ndarray, " sample"],
    family: Int[np.ndarray, " sample"] | None,
    folds: int,
    seed: int,
    level: float,
) -> tuple[float, float, float]:
    """AUC of one run, and its interval."""
    from scipy import stats

    from discreet.auc import auc

    rows = np.flatnonzero(keep)
    y = member[rows]
    group = np.arange(len(rows)) if family is None else np.unique(family[rows], return_inverse=True)[1]
    fold = _deal(group, y, folds, seed)
    wide = 2 * stats.norm.cdf(math.sqrt(2) * stats.norm.ppf((1 + level) / 2)) - 1
    cluster = None if family is None else group
    found = auc(out_of_fold(x[rows], y, fold), y, level=float(wide), cluster=cluster)
    return found.value, found.low, found.high


def _deal(
    group: Int[np.ndarray, " n"], y: Bool[np.ndarray, " n"], folds: int, seed: int
) -> Int[np.ndarray, " n"]:
    """Deal groups into folds, the largest first, each to the fold that has least of what it has most of.

    Raises:
        ValueError: A class has fewer groups than there are folds.
    """
    size = np.bincount(group)
    inside = np.bincount(group, weights=y).astype(np.int64)
    mostly = (2 * inside > size).astype(np.int64)
    for name, number in (("members", (inside > 0).sum()), ("non-members", (inside < size).sum())):
        if number < 2 * folds:
            raise ValueError(
                f"expected at least {2 * folds} independent {name} for {folds} folds, got {number}"
            )
    held = np.zeros((folds, 2), dtype=np.int64)
    place = np.empty(len(size), dtype=np.int64)
    for each in np.lexsort((np.random.default_rng(seed).permutation(len(size)), -size)).tolist():
        kind = mostly[each]
        place[each] = np.lexsort((held.sum(axis=1), held[:, kind]))[0]
        held[place[each]] += (size[each] - inside[each], inside[each])
    return place[group]


def _inputs(record: Record) -> tuple[str, Any]:
    """What is known of samples without a model: a sparse matrix of texts, or standardised features."""
    if "text" in record.signals and np.asarray(record.signal("text")).dtype.kind == "U":
        return "text", _bags(record)
    if "features" not in record.signals or record.axes["features"] != ("sample", "feature"):
        raise record.error(
            "text: a baseline without a model needs the signal 'text' [sample], or 'features' [sample, feature]"
        )
    return "features", _standard(np.asarray(record.signal("features"), dtype=np.float64))


def _bags(record: Record) -> Any:
    """Of texts, and of the prompts that they answer, since a model's loss on an answer depends on the prompt."""
    bag = _bag(np.asarray(record.signal("text")))
    if "prompt" not in record.signals or np.asarray(record.signal("prompt")).dtype.kind != "U":
        return bag
    from scipy import sparse

    return sparse.hstack([bag, _bag(np.asarray(record.signal("prompt")))]).tocsr()


def _bag(texts: np.ndarray) -> Any:
    """Hashed counts, a row of length 1 for words and for characters each, beside standardised sizes."""
    from scipy import sparse

    from discreet.text_features import sizes

    try:
        from sklearn.feature_extraction.text import HashingVectorizer
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "the baseline without a model needs scikit-learn: pip install 'discreet[llm]' or scikit-learn alone"
        ) from None
    about: dict[str, Any] = {
        "n_features": _COLUMNS,
        "alternate_sign": False,
        "norm": "l2",
        "lowercase": False,
    }
    words = HashingVectorizer(analyzer="word", ngram_range=(1, 2), token_pattern=r"\S+", **about)
    letters = HashingVectorizer(analyzer="char", ngram_range=(2, 4), **about)
    found = texts.tolist()
    parts = [words.transform(found), letters.transform(found), sparse.csr_matrix(_standard(sizes(texts)))]
    return sparse.hstack(parts).tocsr()


def _standard(values: Float[np.ndarray, "sample feature"]) -> Float[np.ndarray, "sample feature"]:
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(
        spread > 1e-12 * (1 + np.abs(values).max(axis=0)), spread, 1.0
    )
