"""What a reference model would say of each sample: a Student-t whose variance borrows from all samples.

Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments" (2004), section 6.2, for the prior; with few references a sample's own variance is hopeless.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float

__all__ = ["Predictive", "fit", "prior"]

# Of a log-tail: well before the tail itself is 0, which is at -716 or later, as SciPy's version has it.
_FAR = -600.0


@dataclass(frozen=True, eq=False)
class Predictive:
    """Location, scale and degrees of freedom (inf: normal) of one more model's statistic, by sample."""

    centre: Float[np.ndarray, "query sample"]
    scale: Float[np.ndarray, "query sample"]
    dof: Float[np.ndarray, "query sample"]

    def log_density(self, x: Float[np.ndarray, "query sample"]) -> Float[np.ndarray, "query sample"]:
        """Log-density at x."""
        from scipy import special

        z = (x - self.centre) / self.scale
        finite = np.where(np.isinf(self.dof), 1.0, self.dof)
        student = (
            special.gammaln((finite + 1) / 2)
            - special.gammaln(finite / 2)
            - np.log(finite * math.pi) / 2
            - (finite + 1) / 2 * np.log1p(z * z / finite)
        )
        normal = -(z * z + math.log(2 * math.pi)) / 2
        return np.where(np.isinf(self.dof), normal, student) - np.log(self.scale)

    def normal_score(self, x: Float[np.ndarray, "query sample"]) -> Float[np.ndarray, "query sample"]:
        """The standard normal quantile of x's lower tail: the CDF itself would saturate at 1."""
        from scipy import special

        z = (x - self.centre) / self.scale
        finite = np.where(np.isinf(self.dof), 1.0, self.dof)
        student = -np.sign(z) * special.ndtri_exp(_log_tail(np.abs(z), finite))
        return np.where(np.isinf(self.dof), z, student)


def _log_tail(
    z: Float[np.ndarray, "query sample"], dof: Float[np.ndarray, "query sample"]
) -> Float[np.ndarray, "query sample"]:
    """Log of Student-t's upper tail at z >= 0, beyond where the tail itself is 0 in floating point.

    There it is the density times (dof + z^2) / (dof z) times the hypergeometric function
    2F1(1/2, 1; dof/2 + 1; -dof / z^2), whose terms fall like 1 / z^2.
    """
    from scipy import special, stats

    near = stats.t.logsf(z, dof)
    is_far = near < _FAR
    z = np.where(is_far, z, 40.0)
    log_density = -special.betaln(0.5, dof / 2) - np.log(dof) / 2 - (dof + 1) / 2 * np.log1p(z * z / dof)
    term = np.ones_like(z)
    series = term
    for n in range(4):
        term = -term * (n + 0.5) / (n + 1 + dof / 2) * dof / (z * z)
        series = series + term
    return np.where(is_far, log_density + np.log((dof + z * z) / (dof * z)) + np.log(series), near)


def fit(
    values: Float[np.ndarray, "reference query sample"],
    mask: Bool[np.ndarray, "reference sample"],
    centre: Float[np.ndarray, "query sample"],
    variance: str,
) -> Predictive:
    """Fit each sample's distribution over the references in the mask.

    Args:
        values: The statistic of every reference.
        mask: Which references count for which sample.
        centre: Their mean, borrowed for samples without one.
        variance: ``"sample"`` (its own, plain normal, as in the paper with many shadows), ``"pooled"``
            (one for all, from residuals) or ``"bayes"`` (in between, Student-t predictive).
    """
    count = np.broadcast_to(mask.sum(axis=0), centre.shape).astype(np.float64)
    residual = (values - centre) * mask[:, None, :]
    dof = np.maximum(count - 1, 0)
    own = (residual**2).sum(axis=0) / np.maximum(dof, 1)
    total = dof.sum(axis=-1, keepdims=True)
    pooled = (own * dof).sum(axis=-1, keepdims=True) / np.maximum(total, 1)
    # With one reference a sample no residual exists: the spread between samples is all there is.
    between = values.reshape(-1, values.shape[-1]).var()
    pooled = np.where((total > 0) & (pooled > 0), pooled, between if between > 0 else 1.0)
    infinite = np.full(centre.shape, math.inf)
    if variance == "pooled":
        return Predictive(centre, np.sqrt(np.broadcast_to(pooled, centre.shape)), infinite)
    if variance == "sample":
        usable = (dof > 0) & (own > 0)
        return Predictive(centre, np.sqrt(np.where(usable, own, pooled)), infinite)
    posterior, freedom = np.empty(centre.shape), np.empty(centre.shape)
    for query in range(len(centre)):
        d0, s0 = prior(own[query], dof[query], float(pooled[query, 0]))
        if math.isinf(d0):
            posterior[query], freedom[query] = s0, math.inf
        else:
            posterior[query] = (d0 * s0 + dof[query] * own[query]) / (d0 + dof[query])
            freedom[query] = d0 + dof[query]
    return Predictive(centre, np.sqrt(posterior * (1 + 1 / np.maximum(count, 1))), freedom)


def prior(
    variance: Float[np.ndarray, " sample"], dof: Float[np.ndarray, " sample"], pooled: float
) -> tuple[float, float]:
    """Prior degrees of freedom d0 and variance s0^2 from the spread of log-variances (Smyth's d0, s0).

    Variances no more spread than chance allows give (inf, pooled): one variance for all.
    """
    from scipy import special

    known = dof > 0
    if known.sum() < 3 or not (np.median(variance[known]) > 0):
        return math.inf, pooled
    s2, d = np.maximum(variance[known], 1e-5 * np.median(variance[known])), dof[known]
    e = np.log(s2) - special.digamma(d / 2) + np.log(d / 2)
    excess = float(e.var(ddof=1) - special.polygamma(1, d / 2).mean())
    if excess <= 0:
        return math.inf, pooled
    d0 = 2 * _trigamma_inverse(excess)
    return d0, float(np.exp(e.mean() + special.digamma(d0 / 2) - math.log(d0 / 2)))


def _trigamma_inverse(y: float) -> float:
    """Solve trigamma(x) = y by Newton's method on 1 / trigamma, which is convex (Smyth, appendix)."""
    from scipy import special

    x = 0.5 + 1 / y
    for _ in range(60):
        value = float(special.polygamma(1, x))
        step = value * (1 - value / y) / float(special.polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x
