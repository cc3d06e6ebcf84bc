"""The privacy section of a model card: what was measured, with intervals and n, and what cannot be claimed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from discreet._words import interval, listing, number, percent, visible, whole
from discreet.audit import Analysis, Attack, Audit, Ranked
from discreet.diagnostics import ADVICE
from discreet.gate import Verdict
from discreet.guarantee import AGAINST, guarantee
from discreet.report.model_index import chosen, front_matter, model_index, worst
from discreet.summary import confounding

__all__ = ["model_card", "privacy"]


def model_card(
    audit: Audit, variants: Sequence[str] = (), *, name: str | None = None, verdict: Verdict | None = None
) -> str:
    """Metadata and text, to be put into a card.

    Args:
        audit: What was measured; its headline is taken.
        variants: Those that ship; all when none is named.
        name: Of the model; the audit's title when None.
        verdict: Of the gate, if it judged this audit.

    Raises:
        ValueError: A variant that the audit lacks.
    """
    return f"{front_matter(model_index(audit, variants, name))}\n\n{privacy(audit, variants, verdict)}"


def privacy(audit: Audit, variants: Sequence[str] = (), verdict: Verdict | None = None) -> str:
    """The section in Markdown."""
    analysis, rows = audit.analyses[0], chosen(audit, variants)
    parts = [
        "## Privacy of the training records",
        "What this model gives away about which records it was trained on, as measured"
        f" ({percent(analysis.ranking.level, 0)} intervals).",
        *([f"**{_text(confounding(audit.blind))}**"] if audit.blind and audit.blind.confounded else []),
        "\n".join(_table(rows, analysis, void=audit.blind is not None and audit.blind.confounded)),
        "### How it was measured",
        "\n".join(f"- {line}" for line in _how(rows, audit)),
        *(
            ["### The release gate", "\n".join(f"- {_text(line)}" for line in _gate(verdict))]
            if verdict
            else []
        ),
        "### What cannot be claimed",
        "\n".join(f"- {line}" for line in _not_claimed(rows, analysis)),
    ]
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Ranked], analysis: Analysis, *, void: bool = False) -> Iterator[str]:
    head = ("variant", "r, higher is safer", "best attack: AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR")
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        told = f"{number(row.r)} ({interval(row.low, row.high)})" if row.status == "ok" else f"{row.status}"
        found = [
            "no evidence (confounded split)" if void else _figure(analysis, row.variant, metric)
            for metric in ("auc", "tpr@0.01", "tpr@0.001")
        ]
        counts = f"n = {whole(row.samples)}, {whole(row.runs)} run{'s' * (row.runs != 1)}"
        yield f"| {' | '.join((_text(row.variant), f'{told}; {counts}', *found))} |"


def _figure(analysis: Analysis, variant: str, metric: str) -> str:
    row = worst(analysis, variant, metric)
    if row is None:
        some = any((each.variant, each.metric) == (variant, metric) for each in analysis.attacks)
        return "not resolvable" if some else "not measured"
    realised = row.more.get("realised_fpr")
    at = f", realised FPR {percent(realised, 2)}" if isinstance(realised, int | float) else ""
    return f"{number(row.value)} ({interval(row.low, row.high)}){at}; {_text(row.attack)}, {_records(row)}"


def _records(row: Attack) -> str:
    if row.members is None or row.nonmembers is None:
        return "n not given"
    return f"n = {whole(row.members)} + {whole(row.nonmembers)}"


def _how(rows: Sequence[Ranked], audit: Audit) -> Iterator[str]:
    analysis, versions = audit.analyses[0], audit.provenance.versions
    tool = f"discreet {versions['discreet']}" if "discreet" in versions else "discreet"
    attacks = list(dict.fromkeys(row.attack for row in analysis.attacks))
    yield (
        "r is the membership-inference indicator (Definition 3.5 of *An Indicator of Membership Inference Security "
        f"in Post-Training Quantized Models*), the {analysis.ranking.statistic} over training runs, on samples that "
        f"no run was trained on; n is their number. Computed by {tool}."
    )
    if attacks:
        yield (
            f"Attacks: {listing([_text(name) for name in attacks])}. For each figure the attack that reaches most is "
            "shown; n is members + non-members judged, over all runs. The false positive rate asked for is a ceiling."
        )
    if epsilon := _epsilon(analysis):
        yield f"The training was differentially private for each record: {epsilon}, {AGAINST}."
    for data in audit.provenance.data:
        licence = f", {_text(data.licence)}" if data.licence else ""
        yield f"Data: {_text(data.name)}{licence}, SHA-256 `{data.sha256}`."
    for name in dict.fromkeys(name for row in rows for name in row.diagnostics if name in ADVICE):
        whose = listing([_text(row.variant) for row in rows if name in row.diagnostics])
        yield f"`{name}` ({whose}): {ADVICE[name][0]}"


def _gate(verdict: Verdict) -> Iterator[str]:
    yield (
        f"The gate was {verdict.outcome}."
        if verdict.outcome != "undecided"
        else "The gate is undecided: not passed."
    )
    for check in verdict.checks:
        yield f"{check.outcome}: {check.requirement}: {check.reason}"


def _not_claimed(rows: Sequence[Ranked], analysis: Analysis) -> Iterator[str]:
    """What a reader might take from the figures and must not."""
    yield (
        "That an attacker can do no better: attacks find what they find, and a stronger one may find more."
        if analysis.attacks
        else "How well an attacker does: no attack was run, and r alone does not tell."
    )
    epsilon = _epsilon(analysis)
    beyond = (
        f"A guarantee beyond {epsilon}"
        if epsilon
        else "Differential privacy, or any guarantee for each record"
    )
    yield f"{beyond}: these are averages over records, and some may be far more exposed."
    yield "Anything about reconstruction, extraction, attributes, or data that leaked before the training."
    yield "The same figures for a model trained in another way, on other data, or compressed again: measure it."
    silent = [row for row in rows if "theorem-silent" in row.diagnostics or row.n_train_r is None]
    if silent:
        yield (
            f"A bound from the theorem for {_names(silent)}: at this training size it says nothing, or the size is "
            "not known, and r is a ranking only."
        )
    without = [row for row in rows if row.status != "ok"]
    if without:
        yield f"That {_names(without)} is safe: its r is {' or '.join(sorted({row.status for row in without}))}."
    pairs = analysis.ranking.pairs
    names = {row.variant for row in rows}
    unsure = [pair for pair in pairs if not pair.told_apart and {pair.safer, pair.than} & names]
    if unsure:
        shown = listing([f"{_text(pair.safer)} and {_text(pair.than)}" for pair in unsure[:5]])
        more = f", and {len(unsure) - 5} pairs more" if len(unsure) > 5 else ""
        yield f"An order, by r, of variants that the data do not tell apart: {shown}{more}."
    for metric in ("tpr@0.01", "tpr@0.001"):
        few = [
            row for row in analysis.attacks if row.metric == metric and row.more.get("resolvable") is False
        ]
        few = [row for row in few if row.variant in names]
        if few:
            needs = max(int(row.more.get("needs") or 0) for row in few)
            takes = f": that takes {whole(needs)} non-members a run" if needs else ""
            rate = percent(float(metric[4:]))
            yield f"A true positive rate at {rate} false positives where it is not resolvable{takes}."


def _epsilon(analysis: Analysis) -> str:
    """The guarantee that the training of all variants had; nothing where it had none, or is not known to."""
    told = analysis.more.get("epsilon")
    if not isinstance(told, list | tuple) or len(told) != 2:
        return ""
    return guarantee(told) if all(isinstance(each, int | float) for each in told) else ""


def _names(rows: Sequence[Ranked]) -> str:
    return listing([_text(row.variant) for row in rows])


def _text(name: str) -> str:
    """A name as Markdown text that cannot break a table or a list."""
    shown = visible(name)
    for sign in "\\|*_`<>[]":
        shown = shown.replace(sign, f"\\{sign}")
    return shown
