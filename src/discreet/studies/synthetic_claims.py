"""What the paper says of its synthetic experiments, held against what was measured.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", sections 4.1 and 14.2. The rule of
each verdict stands beside it; "cannot tell" says what would tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, cast

import numpy as np

from discreet.baseline import BEST
from discreet.estimate import Estimate
from discreet.studies.synthetic_found import SetFound, mean_over, needed
from discreet.studies.synthetic_setting import FULL, NAMES

__all__ = ["Claim", "claims"]

Verdict = Literal["holds", "does not", "cannot tell"]
_CLOSE = 0.7
_ENOUGH = 300
_QUANTIZERS = tuple(name for name in NAMES if name != FULL)


@dataclass(frozen=True)
class Claim:
    """One claim.

    Attributes:
        said: What the paper says, and where.
        verdict: Whether it was found here.
        found: The numbers.
        rule: What the verdict rests on, and what would tell.
    """

    said: str
    verdict: Verdict
    found: str
    rule: str

    def to_json(self) -> dict[str, str]:
        """Plain JSON values."""
        return asdict(self)


def claims(sets: Sequence[SetFound], average: Mapping[tuple[str, str], Estimate | None]) -> tuple[Claim, ...]:
    """All claims.

    Args:
        sets: The data sets.
        average: Mean agreement over them by statistic and kind of attack.
    """
    top, rest = ("1.58b 90%",), tuple(name for name in _QUANTIZERS if name != "1.58b 90%")
    fine = ("4 bits", "5 bits")
    coarse = tuple(name for name in _QUANTIZERS if name not in fine)
    return (
        _close(average.get(("mean", BEST))),
        _order(sets, "1.58b 90 % is the most private, by the MIS (section 4.1)", top, rest, _by_mis),
        _order(sets, "1.58b 90 % is the most private, by r (section 4.1)", top, rest, _by_r),
        _order(sets, "4 and 5 bits are the least private, by the MIS (section 4.1)", coarse, fine, _by_mis),
        _order(sets, "4 and 5 bits are the least private, by r (section 4.1)", coarse, fine, _by_r),
        *_runs_needed(sets),
        _low_losses(sets),
    )


def _close(found: Estimate | None) -> Claim:
    said = "r ranks quantizers nearly as the MIS does: Spearman 0.86 on average over nine data sets (section 4.1)"
    rule = (
        f"holds: the interval over data sets lies above {_CLOSE}; does not: below it; what would tell: more"
        " evaluation samples where r is below its resolution, else more runs"
    )
    if found is None:
        return Claim(said, "cannot tell", "fewer than two data sets", rule)
    verdict: Verdict = (
        "holds" if found.low >= _CLOSE else "does not" if found.high < _CLOSE else "cannot tell"
    )
    beside = "inside" if found.covers(0.86) else "outside"
    told = f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})".replace("-", "−")
    return Claim(said, verdict, f"{told}; 0.86 lies {beside}", rule)


def _by_mis(found: SetFound, a: str, b: str) -> int | None:
    gap = found.security[BEST, a].less(found.security[BEST, b])
    return 1 if gap.low > 0 else -1 if gap.high < 0 else 0


def _by_r(found: SetFound, a: str, b: str) -> int | None:
    for pair in found.ranking.pairwise:
        if {pair.safer, pair.than} == {a, b}:
            if pair.probability is None:
                return None
            return 0 if not pair.told_apart else 1 if pair.safer == a else -1
    return None


def _order(sets: Sequence[SetFound], said: str, above: Sequence[str], below: Sequence[str], compare) -> Claim:
    """Whether each of some quantizers is above each of others, pair by pair and data set by data set."""
    seen = Counter(compare(found, a, b) for found in sets for a in above for b in below)
    pairs = seen[1] + seen[-1] + seen[0]
    rule = (
        "holds: 90 % of the pairs are told apart this way and none the other way; does not: over 5 % are told apart"
        " the other way; what would tell: more "
    )
    found = f"of {pairs} pairs {seen[1]} are told apart this way, {seen[-1]} the other way, {seen[0]} not"
    if compare is _by_r:
        # no number of runs tells two values of r apart that the evaluation sample cannot tell from 0
        rule += (
            "evaluation samples for pairs of which both r lie below the resolution, more runs for the others"
        )
        both = sum(
            _unresolved(each, a) and _unresolved(each, b) for each in sets for a in above for b in below
        )
        found += f"; in {both} of all pairs both r lie below the resolution"
    else:
        rule += "runs"
    if seen[None]:
        found += f"; {seen[None]} pairs without a finite r left out"
    return Claim(said, _verdict(seen[1], seen[-1], seen[0]), found, rule)


def _unresolved(found: SetFound, name: str) -> bool:
    return "below-resolution" in found.ranking[name].diagnostics


def _verdict(right: int, wrong: int, not_told: int) -> Verdict:
    """What pairs told apart this way, the other way, and not at all amount to."""
    pairs = right + wrong + not_told
    if not pairs:
        return "cannot tell"
    if wrong > 0.05 * pairs:
        return "does not"
    return "holds" if not wrong and right >= 0.9 * pairs else "cannot tell"


def _runs_needed(sets: Sequence[SetFound]) -> Iterable[Claim]:
    for what, wanted, curves in (
        ("r", 15, [each.stability for each in sets]),
        ("the baseline MIS", 150, [each.attack_stability for each in sets]),
    ):
        drawn = [curve for curve in curves if len(curve.runs) > 1]
        runs = min((curve.runs[-1] for curve in drawn), default=0)
        counts = [needed(curve) for curve in drawn]
        reached = [count for count in counts if count is not None]
        found, verdict = "not drawn at this scale", cast("Verdict", "cannot tell")
        if drawn:
            middle = float(np.median([runs if count is None else count for count in counts]))
            found = f"a median of {middle:g} of {runs} runs; before the last in {len(reached)} of {len(drawn)} sets"
            fewest = sum(count == curve.runs[0] for count, curve in zip(counts, drawn, strict=True))
            if fewest:
                found += f"; in {fewest} the fewest tried ({drawn[0].runs[0]}), so it may be fewer"
            if runs >= _ENOUGH:
                verdict = "holds" if wanted / 2 <= middle <= 2 * wanted else "does not"
        yield Claim(
            f"The ranking by {what} agrees with that of 300 runs (Spearman 0.9) after about {wanted} runs"
            " (section 4.1, Figure 2)",
            verdict,
            found,
            f"holds: half to twice as many; what would tell: {_ENOUGH} runs, since a subset agrees with all the"
            " sooner the fewer they are",
        )


def _low_losses(sets: Sequence[SetFound]) -> Claim:
    shares: list[Estimate | None] = []
    for each in sets:
        low = total = 0
        for name in _QUANTIZERS:
            found = each.ranking.lambda_by_rank(name)
            quarter = max(1, len(found.rank) // 4)
            low, total = low + int(found.deciding[:quarter].sum()), total + found.runs
        if total:
            shares.append(Estimate(low / total, 0.0, 1.0, total, 0.95))
    said = "Checkpoints of low loss decide r (section 14.2, Figure 13, which supports A2b)"
    rule = "holds: the quarter of candidates of lowest loss decides most runs (chance: a quarter), over data sets"
    found = mean_over(shares)
    if found is None:
        return Claim(said, "cannot tell", "fewer than two data sets", rule)
    verdict: Verdict = "holds" if found.low > 0.5 else "does not" if found.high < 0.5 else "cannot tell"
    return Claim(said, verdict, f"a share of {_told(found)} of the runs", rule)


def _told(found: Estimate) -> str:
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})".replace("-", "−")
