"""What sections 4.2 and 13 of "An Indicator of Membership Inference Security in Post-Training Quantized Models" say
about language models, claim by claim: holds, does not, cannot tell, with the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from discreet._words import number
from discreet.estimate import Estimate
from discreet.studies.claim import Claim, Verdict
from discreet.studies.language_found import ATTACKS, BEFORE, FIGURE_11, FULL, METRICS, REFERENCES, Found

__all__ = ["claims", "cleaned"]

_NEAR = 0.05
"""An AUC is near chance if it is told to be within this of 1/2."""
_MORE = "more quantizers, runs or texts"


def claims(found: Found) -> tuple[Claim, ...]:
    """Judge every claim; none about leaks where the texts alone tell members from others."""
    if found.blind.confounded:
        said = "Attacks find members."
        why = f"texts alone tell them from others: AUC {number(found.blind.auc)} without any model"
        return (Claim(said, "sec. 4.2", "cannot tell", why, "another way to draw members"),)
    return tuple(_judged(found))


def _judged(found: Found) -> Iterator[Claim]:
    alone = [attack for attack in found.attacks if attack not in REFERENCES and attack not in BEFORE]
    yield _near_chance(found, alone)
    yield _references_compete(found, alone)
    yield _follows(
        found,
        "Higher r goes with less that the best attack finds.",
        "Fig. 3 and 10",
        ["best"],
        METRICS,
    )
    yield _follows(
        found, "r orders quantizers as attacks with references do.", "sec. 13.3", list(REFERENCES), ("auc",)
    )
    yield _follows(
        found,
        "Quantizers that LiRA attacks most easily have the lowest r.",
        "Fig. 4",
        [attack for attack in REFERENCES if attack.startswith("lira")],
        ("tpr@0.1", "tpr@0.05", "tpr@0.01"),
    )
    yield _unrelated(found, alone)
    yield _full(found)


def _near_chance(found: Found, alone: Sequence[str]) -> Claim:
    told = {(a, v): found.figures[a, v, "auc"] for a in alone for v in found.compressed}
    near = sum(e.high <= 0.5 + _NEAR and e.low >= 0.5 - _NEAR for e in told.values())
    beyond = sum(e.low > 0.5 + _NEAR for e in told.values())
    verdict = _majority(near, beyond, len(told))
    numbers = (
        f"{near} of {len(told)} pairs of attack and quantizer are told to be within {_NEAR:g} of 1/2, {beyond} to be "
        f"above; AUC from {number(min(e.value for e in told.values()))} to "
        f"{number(max(e.value for e in told.values()))}{_before(found)}"
    )
    return Claim(
        "Attacks without reference models are near chance.",
        "sec. 13.2 and 13.3",
        verdict,
        numbers,
        _needs(verdict),
    )


def _before(found: Found) -> str:
    """What the attack finds that is counted on neither side."""
    told = [found.figures[a, v, "auc"].value for a in BEFORE if a in found.attacks for v in found.compressed]
    return f"; with the model before fine-tuning, which counts on neither side, {_span(told)}" if told else ""


def _references_compete(found: Found, alone: Sequence[str]) -> Claim:
    gains = {}
    for variant in found.compressed:
        best, other = (
            max(of, key=lambda a: found.figures[a, variant, "auc"].value)
            for of in ([a for a in found.attacks if a in REFERENCES], alone)
        )
        gains[variant] = found.less(best, other, variant)
    better, worse = sum(e.low > 0 for e in gains.values()), sum(e.high < 0 for e in gains.values())
    verdict = _majority(better, worse, len(gains))
    numbers = (
        f"the best attack with references less the best without, in AUC: {_span([e.value for e in gains.values()])}; "
        f"better on {better} of {len(gains)} quantizers, worse on {worse}"
    )
    return Claim(
        "Only attacks with reference models compete.", "sec. 13.2", verdict, numbers, _needs(verdict)
    )


def _follows(found: Found, says: str, where: str, attacks: Sequence[str], metrics: Sequence[str]) -> Claim:
    """Holds where most correlations are told to be below 0, does not where most are told to be above."""
    told = [e for a in attacks for m in metrics if (e := found.agreements[a, m]) is not None]
    down, up = sum(e.high < 0 for e in told), sum(e.low > 0 for e in told)
    verdict = _majority(down, up, len(told))
    numbers = (
        f"Spearman correlation over {len(found.compressed)} quantizers {_span([e.value for e in told])}; told to be "
        f"below 0 in {down} of {len(told)}, above in {up}"
        if told
        else "no correlation over so few quantizers"
    )
    return Claim(says, where, verdict, numbers, _needs(verdict))


def _unrelated(found: Found, alone: Sequence[str]) -> Claim:
    """Only a narrow interval around 0 would show that there is no relation; that of 11 quantizers is wide."""
    told = [e for a in alone for m in FIGURE_11 if (e := found.agreements[a, m]) is not None]
    related = sum(not e.low <= 0 <= e.high for e in told)
    verdict: Verdict = "does not" if 2 * related > len(told) else "cannot tell"
    numbers = (
        f"Spearman correlation {_span([e.value for e in told])}; told from 0 in {related} of {len(told)}"
        if told
        else "no correlation over so few quantizers"
    )
    return Claim(
        "r is unrelated to what the other attacks find.", "sec. 13.3", verdict, numbers, _needs(verdict)
    )


def _full(found: Found) -> Claim:
    """The paper draws full precision as a line; whether quantizing made a model safer is asked of each quantizer."""
    best = {v: found.figures[found.best(v, "auc"), v, "auc"].value for v in found.variants}
    attack = found.best(FULL, "auc")
    e = found.exposures[attack, FULL]
    told = [_paired(found, attack, v) for v in found.compressed]
    safer, worse = sum(e.high < 0 for e in told), sum(e.low > 0 for e in told)
    verdict = _majority(safer, worse, len(told))
    numbers = (
        f"AUC of the best attack {number(best[FULL])} on full precision, "
        f"{_span([best[v] for v in found.compressed])} on quantizers; {safer} of {len(found.compressed)} are told to "
        f"leak less by {ATTACKS[attack]}, {worse} to leak more ({e.members:,} members judged); that attack is the "
        "best on full precision, which favours quantizers"
    )
    return Claim(
        "Quantized models leak less than full precision.", "Fig. 3", verdict, numbers, _needs(verdict)
    )


def _paired(found: Found, attack: str, variant: str) -> Estimate:
    from discreet.attacked import dependence
    from discreet.stats import compare

    one, full = found.exposures[attack, variant], found.exposures[attack, FULL]
    cluster = dependence(found.measured.release)
    return compare(
        one.scores, full.scores, one.member, keep=one.keep & full.keep, cluster=cluster, replicates=200
    ).auc


def _majority(yes: int, no: int, of: int) -> Verdict:
    return "holds" if 2 * yes > of else "does not" if 2 * no > of else "cannot tell"


def _needs(verdict: Verdict) -> str:
    return _MORE if verdict == "cannot tell" else ""


def _span(values: Sequence[float]) -> str:
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low} to {high}"


def cleaned(variant: str) -> str:
    """A variant as a table names it.

    Example:
        >>> cleaned("bnb4(kind='nf4')"), cleaned("gptq(bits=4)"), cleaned("full")
        ('bitsandbytes nf4', 'GPTQ 4 bits', 'full precision')
    """
    name, _, rest = variant.rstrip(")").partition("(")
    bits = rest.partition("bits=")[2].partition(",")[0]
    known = {
        "gptq": "GPTQ",
        "hqq": "HQQ",
        "intx": "torchao",
        "bnb8": "bitsandbytes 8 bits",
        FULL: "full precision",
    }
    if name == "bnb4":
        return f"bitsandbytes {rest.partition(chr(39))[2].partition(chr(39))[0] or 'nf4'}"
    if name in known:
        return f"{known[name]} {bits} bits" if bits else known[name]
    return variant
