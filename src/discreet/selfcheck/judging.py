"""Every attack on a record whose answer is known in advance: no leak at all, or one that was planted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from discreet import _find, attacks
from discreet._find import SpecError
from discreet.attacks import Attack
from discreet.estimate import Estimate
from discreet.exposure import expose
from discreet.records import Record, RecordError, read
from discreet.stats import auc

__all__ = ["FALSE_ALARM", "NO_LEAK", "PLANTED", "Finding", "judge", "level_for"]

FALSE_ALARM = 0.01
"""Chance that a sound installation fails any of the intervals of a record without a leak."""

NO_LEAK, PLANTED = "no leak", "planted leak"


@dataclass(frozen=True)
class Finding:
    """What one attack made of one record.

    Attributes:
        case: ``"no leak"`` or ``"planted leak"``.
        attack: Name or spec string of the attack.
        outcome: ``"passed: …"``, ``"failed: …"`` or ``"left out: …"``, with the reason or the figures.
    """

    case: str
    attack: str
    outcome: str

    @property
    def failed(self) -> bool:
        """Whether the attack did not do what it should."""
        return self.outcome.startswith("failed")


def judge(
    record: Record,
    case: str,
    methods: Sequence[Attack | str] | None = None,
    *,
    variants: Sequence[str],
    runs: Sequence[str] | None = None,
    lenient: bool = False,
) -> list[Finding]:
    """Write a record to a file, read it back, and run every attack on it as an audit would.

    An attack that fits a model to every target is tried on one run and the last variant alone.

    Args:
        record: Measurements with membership.
        case: What is in it: ``NO_LEAK`` (every interval of the AUC must cover 0.5) or ``PLANTED`` (every interval
            must lie above).
        methods: Attacks or spec strings; by default all of the room by name.
        variants: The variants to attack.
        runs: The runs to attack; all when None.
        lenient: Leave out an attack whose signals the record lacks, and say which; otherwise that is a failure.
    """
    chosen = attacks.names() if methods is None else methods
    level = level_for(len(chosen) * len(variants))
    with TemporaryDirectory() as folder:
        kept = read(record.save(Path(folder, "record.safetensors")))
        return [
            Finding(case, name, _outcome(kept, case, method, variants, runs, level, lenient))
            for method in chosen
            for name in [method if isinstance(method, str) else _find.spec(method, "discreet.attacks")]
        ]


def level_for(intervals: int) -> float:
    """Level at which some of so many intervals misses with a chance of ``FALSE_ALARM`` at most (Bonferroni).

    Example:
        >>> level_for(40)
        0.99975
    """
    return 1 - FALSE_ALARM / intervals


def _outcome(
    record: Record,
    case: str,
    method: Attack | str,
    variants: Sequence[str],
    runs: Sequence[str] | None,
    level: float,
    lenient: bool,
) -> str:
    try:
        attack = attacks.parse(method) if isinstance(method, str) else method
    except SpecError as error:
        return f"left out: {error}" if "not installed" in str(error) else f"failed: {error}"
    asked = variants
    if hasattr(attack, "variants"):  # takes all variants together: says the same whichever it is asked about
        asked = variants[:1]
    elif hasattr(attack, "untouched"):  # fits something anew for every target, which takes its time
        asked, runs = variants[-1:], (record.member_runs if runs is None else runs)[:1]
    found = {}
    for variant in asked:
        try:
            exposure = expose(record, attack, variant, runs=runs)
            found[variant] = auc(exposure.scores, exposure.member, keep=exposure.keep, level=level)
        except ModuleNotFoundError as error:
            return f"left out: {error.name} is not installed"
        except SpecError as error:
            return f"left out: {error}" if "not installed" in str(error) else f"failed: {error}"
        except RecordError as error:
            return (
                f"left out: {_unsourced(error, record)}"
                if lenient
                else f"failed: {_unsourced(error, record)}"
            )
        except Exception as error:  # a broken attack may raise anything; the others are still to be judged
            return f"failed: {type(error).__name__}: {error}"
    return _verdict(case, found)


def _verdict(case: str, found: dict[str, Estimate]) -> str:
    """Judge by the variant that speaks loudest against the attack."""
    if case == NO_LEAK:
        bad = {variant: each for variant, each in found.items() if not each.covers(0.5)}
        worst = max(bad or found, key=lambda variant: abs(found[variant].value - 0.5))
        said = "where nobody is a member"
    else:
        bad = {variant: each for variant, each in found.items() if each.low <= 0.5}
        worst = min(bad or found, key=lambda variant: found[variant].value)
        weak = found[worst].value > 0.5
        said = (
            "not told from 0.5: a broken attack, or too few runs and samples"
            if weak
            else "where members were planted"
        )
    estimate = found[worst]
    figures = f"AUC {estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}] on {worst}"
    return f"failed: {figures}, {said}" if bad else f"passed: {figures}"


def _unsourced(error: RecordError, record: Record) -> str:
    """The message without the name of a temporary file."""
    return str(error).removeprefix(f"{record.source}: ")
