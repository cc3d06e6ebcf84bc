"""Samples that the attacker knows to be non-members, and what each of them is used for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Int, Num
from discreet.attacks._draws import draws
from discreet.records import Record
from discreet.records.laws import quoted

__all__ = ["Roles", "features", "known_answers", "labels", "public_samples", "roles", "texts"]


@dataclass(frozen=True, eq=False)
class Roles:
    """Public samples, each with one role; the others have none.

    Attributes:
        fit: Those that a learner is chosen and fitted on.
        calibrate: Those that no fit sees, so that their scores are like those of fresh non-members.
        order: Numbers of the ``fit`` samples, shuffled by their ids.
    """

    fit: Bool[np.ndarray, " sample"]
    calibrate: Bool[np.ndarray, " sample"]
    order: Int[np.ndarray, " fit"]


def public_samples(blind: Record) -> Bool[np.ndarray, " sample"]:
    """Samples that the attacker may learn from as non-members.

    Those that the signal ``public`` marks; without it, those that took part in no run whose membership is known.
    These are non-members of the target too where runs draw from one pool and the rest is set aside; where
    each run draws its own, some may be the target's members: the attack is weaker, and p-values are too large
    as long as members score higher.

    Raises:
        RecordError: The signal is malformed or marks a known member, or nothing says who is no member.
    """
    if "public" in blind.signals:
        return _marked(blind)
    if blind.member is None or not len(blind.member):
        raise blind.error(
            "public: nothing says which samples are non-members for sure; expected the signal 'public' "
            "[sample], 0 or 1, or the membership of other runs"
        )
    took_part = np.asarray(blind.member).any(axis=0)
    if blind.calibration is not None:
        took_part = took_part | blind.calibration.any(axis=(0, 1))
    if took_part.all():
        raise blind.error(
            "public: every sample took part in some other run; expected some that did not, or the signal 'public' "
            "[sample]"
        )
    return np.logical_not(took_part)


def known_answers(blind: Record, rows: Int[np.ndarray, " row"]) -> Int[np.ndarray, "row sample"]:
    """What the attacker knows of the models in some rows: 1 a member, 0 no member, -1 unknown.

    Raises:
        RecordError: The signal ``known`` is malformed.
    """
    if blind.axes["known"] != ("row", "sample"):
        raise blind.error(f"known: expected the axes row, sample, got {', '.join(blind.axes['known'])}")
    known = np.asarray(blind.signal("known")[rows])
    if not np.isin(known, (-1, 0, 1)).all():
        raise blind.error("known: expected 1 (member), 0 (non-member) or -1 (unknown), got other numbers")
    return known


def roles(blind: Record, calibrate: float, seed: int) -> Roles:
    """Split public samples by id: the same ids play the same roles in whatever order, and mostly
    whatever others there are.

    Args:
        blind: The blind record.
        calibrate: Share of public samples that no fit sees.
        seed: Of the split.
    """
    public = np.flatnonzero(public_samples(blind))
    drawn = public[np.argsort(draws(blind.sample[public], seed), kind="stable")]
    count = round(calibrate * len(drawn))
    parts = [np.zeros(blind.n_samples, dtype=bool) for _ in range(2)]
    parts[0][drawn[count:]] = True
    parts[1][drawn[:count]] = True
    return Roles(parts[0], parts[1], drawn[count:])


def features(blind: Record) -> Num[np.ndarray, " sample *feature"]:
    """What may be known of a sample apart from the models: inputs, or features computed from them.

    Raises:
        RecordError: No signal ``features``, or one that is not [sample, feature, …].
    """
    if "features" not in blind.signals:
        raise blind.error(
            "features: this attack learns from the samples; expected the signal 'features' [sample, feature]"
        )
    found, axes = blind.signal("features"), blind.axes["features"]
    if axes[0] != "sample" or len(axes) < 2 or found.dtype.kind not in "biuf":
        raise blind.error(
            f"features: expected numbers with the axes sample, feature, …, got {found.dtype}, {', '.join(axes)}"
        )
    return np.asarray(found)


def labels(blind: Record) -> np.ndarray:
    """The class of each sample.

    Raises:
        RecordError: No signal ``label``, or one that is not [sample] or holds no classes.
    """
    if "label" not in blind.signals:
        raise blind.error("label: expected the signal 'label' [sample]; use label=False to do without")
    found, axes = np.asarray(blind.signal("label")), blind.axes["label"]
    if axes != ("sample",):
        raise blind.error(f"label: expected the axes sample, got {', '.join(axes)}")
    if found.dtype.kind == "f" and not (found == np.floor(found)).all():
        raise blind.error(
            "label: expected classes, whole numbers or text, got fractions; use label=False to do without"
        )
    return found


def texts(blind: Record) -> np.ndarray:
    """What each sample says, fixed-width unicode.

    Raises:
        RecordError: No signal ``text`` of that kind.
    """
    if "text" not in blind.signals:
        raise blind.error("text: this attack learns from the texts; expected the signal 'text' [sample]")
    found = np.asarray(blind.signal("text"))
    if found.dtype.kind != "U":
        raise blind.error(f"text: expected text with the axes sample, got {found.dtype}")
    return found


def _marked(blind: Record) -> Bool[np.ndarray, " sample"]:
    values, axes = np.asarray(blind.signal("public")), blind.axes["public"]
    if axes != ("sample",) or not np.isin(values, (0, 1)).all():
        raise blind.error(
            f"public: expected 0 or 1 with the axes sample, got {values.dtype}, {', '.join(axes)}"
        )
    public = values.astype(bool)
    if blind.member is not None:
        clash = np.asarray(blind.member) & public
        if clash.any():
            line, sample = (int(at[0]) for at in np.nonzero(clash))
            raise blind.error(
                f"public: sample {quoted(blind.sample[sample])} is a member of run {blind.member_runs[line]!r}; "
                "expected samples that no run trained on"
            )
    return public
