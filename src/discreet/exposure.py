"""An attack on every run of a variant in turn: the scores and the answers, ready to be judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float
from discreet.attacks import Attack, attack, parse
from discreet.attacks._public import known_answers, public_samples
from discreet.duplicate_texts import on_both_sides, same_text
from discreet.fixed_counts import evened, outside_pool, tells_by_count
from discreet.records import Record, RecordError

__all__ = ["Exposure", "expose", "judged"]


@dataclass(frozen=True, eq=False)
class Exposure:
    """Scores of one attack on the same variant of several runs, beside the truth.

    The three arrays go to the figures of merit as they are: ``auc(e.scores, e.member, keep=e.keep)``.

    Attributes:
        attack: Spec string of the attack, with the rule it went by.
        variant: The variant attacked.
        runs: The runs attacked.
        scores: Higher = more likely member.
        member: The answer.
        keep: False for samples that are not judged: those that calibrated the target's quantizer (neither members
            nor strangers), those whose answer the attacker knows (signals ``public`` and ``known``), and texts that
            stand among both members and non-members of a run.
        copies: How many samples are such texts, in any of the runs.
    """

    attack: str
    variant: str
    runs: tuple[str, ...]
    scores: Float[np.ndarray, "run sample"]
    member: Bool[np.ndarray, "run sample"]
    keep: Bool[np.ndarray, "run sample"]
    copies: int = 0

    @property
    def members(self) -> int:
        """Members judged, summed over runs."""
        return int((self.member & self.keep).sum())

    @property
    def nonmembers(self) -> int:
        """Non-members judged, summed over runs."""
        return int((~self.member & self.keep).sum())


def expose(
    record: Record,
    method: Attack | str,
    variant: str,
    *,
    runs: Sequence[str] | None = None,
    step: float | None = None,
    of: str = "member",
) -> Exposure:
    """Attack a variant of each run, one after the other, each time blind to that run.

    Attackers that learn must be judged on other rows than they learn from: samples that the signal ``public``
    [sample] marks (non-members of every run, as the attacker knows) and those of which ``known`` [row, sample] tells
    the attacker the answer (1 or 0; -1: unknown), in any row of the target's run, are left out for all attacks. So
    are samples that none of at least four other runs trained on, or of others that are complementary pairs: who
    compares runs can see that such a sample is outside the pool that runs draw from, and would be given credit for
    it. Whether such a sample is left out depends on the other runs alone. Texts (signal ``text``) that are the same
    as one of the other answer are left out as well.

    Args:
        record: Measurements with membership.
        method: An attack or its spec string.
        variant: The variant to attack.
        runs: The runs to attack; all that have the variant when None.
        step: Step of every target; each run's last one when None.
        of: ``"member"``: can training members be told from others? ``"calibration"``: can samples that calibrated
            the target's quantizer be told from samples of the same training membership that did not?

    Raises:
        RecordError: No membership in the record, or no such run, variant or step; or ``public`` marks a member,
            or ``known`` contradicts the membership, or nothing is left to judge;
            or ``of`` asks about calibration samples and there are none, or they are of both memberships.
        ValueError: ``of`` is neither.
    """
    if of not in ("member", "calibration"):
        raise ValueError(f'of: expected "member" or "calibration", got {of!r}')
    if record.member is None:
        raise RecordError("no membership: an attack cannot be judged without knowing who was in which run")
    if runs is None:
        having = {record.run[row] for row in record.rows(variant)}
        runs = [run for run in record.runs if run in having]
    if not runs:
        raise RecordError("runs: expected at least one run to attack, got none")
    method = parse(method) if isinstance(method, str) else method
    for run in runs:
        record.trajectory(variant, run)
    seen = _seen(record, method, variant)
    found = [
        attack(_even(record, seen, run, method), method, run=run, variant=variant, step=step) for run in runs
    ]
    member, keep = judged(record, runs)
    calibrating = np.zeros_like(member)
    if record.calibration is not None:
        lines = [record.member_runs.index(run) for run in runs]
        used = record.calibration[lines][:, _looked_at(record, method, variant)]
        calibrating = np.asarray(used.any(axis=1))
    if of == "calibration":
        keep &= _alike(record, variant, member, calibrating)
        member = np.array(calibrating)
    else:
        keep &= ~calibrating
    scores = np.array([s.values for s in found])
    return Exposure(found[0].attack, variant, tuple(runs), scores, member, keep, _copies(record, runs))


def judged(
    record: Record, runs: Sequence[str]
) -> tuple[Bool[np.ndarray, "run sample"], Bool[np.ndarray, "run sample"]]:
    """Who was a member of each run, and who of them is judged whatever the variant and the attack.

    Returns:
        The membership, and False for samples whose answer is known, outside the pool or ambiguous (see
        :func:`expose`); calibration samples are still there.

    Raises:
        RecordError: As :func:`expose`.
    """
    member = np.array([record.membership(run) for run in runs])
    keep = ~(_told(record, runs, member) | np.array([outside_pool(record, run) for run in runs]))
    if not keep.any():
        raise record.error(
            "public, known: the attacker knows the answer to every sample; none is left to judge"
        )
    text = same_text(record)
    if text is not None:
        keep &= ~on_both_sides(text, member)
        if not keep.any():
            raise record.error(
                "text: every text stands among members and among non-members; none is left to judge"
            )
    return member, keep


def _copies(record: Record, runs: Sequence[str]) -> int:
    text = same_text(record)
    if text is None:
        return 0
    return int(on_both_sides(text, np.array([record.membership(run) for run in runs])).any(axis=0).sum())


def _alike(
    record: Record,
    variant: str,
    member: Bool[np.ndarray, "run sample"],
    calibrating: Bool[np.ndarray, "run sample"],
) -> Bool[np.ndarray, "run sample"]:
    """Samples of the training membership that calibration samples have, so that nothing else tells them apart."""
    if not calibrating.any():
        raise record.error(f"calibration: no sample calibrated variant {variant!r} of these runs")
    kinds = set(member[calibrating].tolist())
    if len(kinds) > 1:
        raise record.error(
            f"calibration: {int(member[calibrating].sum())} of {int(calibrating.sum())} calibration samples of "
            f"variant {variant!r} are training members and the others not; expected all or none"
        )
    return member == kinds.pop()


def _seen(record: Record, method: Attack, variant: str) -> Record:
    """The rows that an attack may read: those of other variants are only copied where it looks at several."""
    if hasattr(method, "variants"):
        return record
    names = {variant, getattr(method, "start", "") or variant}
    return record.take_rows(np.concatenate([record.rows(name) for name in sorted(names)]))


def _even(record: Record, seen: Record, run: str, method: Attack) -> Record:
    """Rows to attack a run with; the whole record knows the design, also where few runs have the variant.

    What learns from samples in no run would find none, as surplus references count as having used theirs.
    """
    dealt = tells_by_count(record, run)
    if dealt is None or (hasattr(method, "untouched") and "public" not in record.signals):
        return seen
    blind = seen.blind(run)
    return evened(blind, dealt) if blind.member_runs else blind


def _looked_at(record: Record, method: Attack, variant: str) -> list[int]:
    """Numbers of the variants that an attack reads: several where they are released together."""
    together = getattr(method, "variants", (variant,))
    return [record.variants.index(name) for name in together or record.variants]


def _told(
    record: Record, runs: Sequence[str], member: Bool[np.ndarray, "run sample"]
) -> Bool[np.ndarray, "run sample"]:
    """Samples whose answer the attacker of each run knows beforehand, from whichever of its rows."""
    told = np.zeros_like(member)
    if "public" in record.signals:
        told |= public_samples(record)
    if "known" in record.signals:
        for at, run in enumerate(runs):
            known = known_answers(record, record.rows(run=run))
            wrong = ((known >= 0) & (known != member[at])).any(axis=0)
            if wrong.any():
                sample = int(np.argmax(wrong))
                raise record.error(
                    f"known: sample {record.sample[sample]} of run {run!r} is said to be "
                    f"{'no member' if member[at, sample] else 'a member'}, and its membership says otherwise"
                )
            told[at] |= (known >= 0).any(axis=0)
    return told
