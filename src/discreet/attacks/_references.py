"""What an attacker's own models say: statistics of the target and of comparable models of other runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float, Int
from discreet.attacks._draws import draws
from discreet.records import Record
from discreet.records.laws import quoted

__all__ = ["SIGNALS", "References", "check_choice", "read_statistic", "references"]

SIGNALS = ("confidence", "loss", "margin")

# Below this a loss of float64 log-probabilities is rounding; confidence is then 36.8.
_SMALLEST_LOSS = 1e-16


@dataclass(frozen=True, eq=False)
class References:
    """Models of the target's variant from other runs.

    Attributes:
        rows: Their rows in the blind record.
        inside: Where the sample trained the reference.
        outside: Where it neither trained the reference nor calibrated its quantizer.
    """

    rows: Int[np.ndarray, " reference"]
    inside: Bool[np.ndarray, "reference sample"]
    outside: Bool[np.ndarray, "reference sample"]

    @property
    def used(self) -> Bool[np.ndarray, "reference sample"]:
        """Where it did either; everywhere for a sample of which no reference did."""
        either = self.inside | self.outside
        return either | ~either.any(axis=0)

    def drawn(self, blind: Record, count: int | None, seed: int) -> References:
        """Some of the references, drawn by the names of their runs: the same ones in whatever order rows come.

        Args:
            blind: The blind record they are from.
            count: How many; all when None.
            seed: Of the draw. A larger count adds to the references of a smaller one.

        Raises:
            RecordError: There are fewer.
        """
        if count is None:
            return self
        if count > len(self.rows):
            raise blind.error(
                f"references: expected at most {len(self.rows)}, as many as other runs have a model of variant "
                f"{quoted(blind.variant[int(self.rows[0])])}, got {count}"
            )
        order = np.argsort(draws(np.array([blind.run[int(row)] for row in self.rows]), seed), kind="stable")
        taken = np.sort(order[:count])
        return References(self.rows[taken], self.inside[taken], self.outside[taken])

    def mean_outside(
        self, values: Float[np.ndarray, "reference *query sample"]
    ) -> Float[np.ndarray, "*query sample"]:
        """Mean of each sample over the references that did not train on it.

        A sample that every reference trained on gets its mean inside, less what training adds on
        average over the other samples; so it is no outlier, and its own score still decides.
        """
        return _borrowed(values, self.outside, self.inside)

    def mean_inside(
        self, values: Float[np.ndarray, "reference *query sample"]
    ) -> Float[np.ndarray, "*query sample"]:
        """Mean of each sample over the references that trained on it; borrowed as for the mean outside."""
        return _borrowed(values, self.inside, self.outside)


def references(blind: Record, row: int) -> References:
    """Find the references of a target: the same variant in every other run, at the target's step.

    A run without that step serves with its only row of the variant (runs may stop at different steps).

    Raises:
        RecordError: No membership, no other run has the variant, a run's row is ambiguous, or no reference serves
            any sample.
    """
    if blind.member is None:
        raise blind.error("no membership: this attack needs to know what the other runs trained on")
    variant, step = blind.variant[row], blind.step[row]
    rows = []
    for run in blind.member_runs:
        own = blind.rows(variant, run)
        at_step = own[blind.step[own] == step]
        if at_step.size:
            rows.append(int(at_step[0]))
        elif own.size == 1:
            rows.append(int(own[0]))
        elif own.size:
            raise blind.error(
                f"run {run!r} has {own.size} rows of variant {variant!r}, but none at the target's step {step:g}"
            )
    if not rows:
        raise blind.error(
            "this attack needs references: no other run has this variant; record several runs, trained on"
            " other halves"
        )
    lines = [blind.member_runs.index(blind.run[number]) for number in rows]
    inside = np.asarray(blind.member)[lines]
    outside = ~inside
    if blind.calibration is not None:
        outside = outside & ~blind.calibration[lines, blind.variants.index(variant)]
    if not (inside | outside).any():
        raise blind.error(
            "this attack needs references, as many for members as for others, and this design leaves none"
        )
    return References(np.array(rows), inside, outside)


def read_statistic(
    blind: Record, rows: Int[np.ndarray, " row"], name: str
) -> Float[np.ndarray, "row query sample"]:
    """Read a statistic in which higher means "fits better", one entry for each query of a sample.

    ``"loss"`` is -loss in nats; ``"margin"`` the recorded margin; ``"confidence"`` the logit of the true
    label's probability p, log p - log(1 - p) = -log(exp(loss) - 1) (Carlini et al., "Membership Inference
    Attacks From First Principles" (2022)), from the cross-entropy loss, without rounding a
    probability to 1; a recorded ``confidence`` is read as it is. The loss of a text is a mean over its tokens, so
    p is the geometric mean of their probabilities; at losses above 1 nat confidence is all but -loss.

    Raises:
        RecordError: No such signal, or ``"confidence"`` of a loss below 0.
    """
    recorded = name == "margin" or (name == "confidence" and "confidence" in blind.signals)
    source = name if recorded else "loss"
    values = np.asarray(blind.signal(source)[rows], dtype=np.float64)
    axes = blind.axes[source]
    if axes not in (("row", "sample"), ("row", "query", "sample")):
        raise blind.error(f"{source}: expected axes row, (query,) sample, got {', '.join(axes)}")
    if name == "loss":
        values = -values
    elif name == "confidence" and not recorded:
        if (values < 0).any():
            raise blind.error(
                f"confidence: expected losses of at least 0, got {values.min():g}; use signal='loss'"
            )
        values = _confidence(np.maximum(values, _SMALLEST_LOSS))
    return values.reshape(len(rows), -1, values.shape[-1])


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a field value that is none of the choices."""
    if value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(choices)}, got {value!r}")


def _confidence(loss: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    # log(exp(loss) - 1) without overflow of the exponential.
    return -(loss + np.log(-np.expm1(-loss)))


def _borrowed(
    values: Float[np.ndarray, "reference *query sample"],
    mine: Bool[np.ndarray, "reference sample"],
    other: Bool[np.ndarray, "reference sample"],
) -> Float[np.ndarray, "*query sample"]:
    own, theirs = _masked_mean(values, mine), _masked_mean(values, other)
    has, spare = mine.any(axis=0), other.any(axis=0)
    if has.all():
        return own
    both = has & spare
    if both.any():
        shift = (own - theirs)[..., both].mean(axis=-1, keepdims=True)
    else:
        shift = (
            own[..., has].mean(axis=-1, keepdims=True) if has.any() else theirs.mean(axis=-1, keepdims=True)
        )
        shift = shift - theirs[..., spare].mean(axis=-1, keepdims=True)
    # A sample that calibrated every reference is inside none and outside none.
    return np.where(has, own, np.where(spare, theirs + shift, values.mean(axis=0)))


def _masked_mean(
    values: Float[np.ndarray, "reference *query sample"], mask: Bool[np.ndarray, "reference sample"]
) -> Float[np.ndarray, "*query sample"]:
    """Mean over the references in the mask, 0 where there are none."""
    wide = mask if values.ndim == 2 else mask[:, None, :]
    return (values * wide).sum(axis=0) / np.maximum(mask.sum(axis=0), 1)
