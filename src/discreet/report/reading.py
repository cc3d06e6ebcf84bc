"""How to read the numbers, on one screen."""

from __future__ import annotations

from discreet.report.markup import Markup, join, node
from discreet.report.view import Section

__all__ = ["reading"]

_GAP = "<mo>[</mo><msub><mi>L</mi><mi>k</mi></msub><mo>−</mo><msub><mi>L</mi><mo>∗</mo></msub><mo>]</mo>"
# Def. 3.5 of "An Indicator of Membership Inference Security in Post-Training Quantized Models".
_FORMULA = Markup(
    '<math display="block"><mi>r</mi><mo>=</mo><mfrac><mn>1</mn><mn>2</mn></mfrac><mspace width="0.25em"></mspace>'
    "<munder><mi>min</mi><mrow><mi>k</mi><mo>≠</mo><mo>∗</mo></mrow></munder>"
    '<mspace width="0.2em"></mspace>'
    f"<mfrac><msup><mrow><mo>(</mo><mi>E</mi>{_GAP}<mo>)</mo></mrow><mn>2</mn></msup>"
    f"<mrow><mi>Var</mi>{_GAP}</mrow></mfrac></math>"
)

_TERMS = (
    (
        "r, the indicator",
        "For one training run: L∗ are the per-sample losses of the quantized checkpoint with the lowest mean loss, "
        "Lₖ those of any other distinct one. If the mean gap is large against its spread, training picks the same "
        "discrete model whatever the single record, and that model gives little away about it. A larger r means "
        "harder to attack. r is an indicator, no proof: it was derived for large training sets (Theorem 3.4).",
    ),
    (
        "Interval",
        "It covers the choice of runs and of evaluation samples. Numbers without one are not worth comparing.",
    ),
    (
        "Resolution",
        "With n evaluation samples, an r below z²/(2n) cannot be told from 0, where z is the normal quantile of the "
        "interval's level. Only more evaluation samples lower it.",
    ),
    (
        "Not told apart",
        "The data do not say which of two variants has the larger r. It does not mean that they are equal, and "
        "neither may be called the safer one.",
    ),
    (
        "n_train·r",
        "The theorem's bound on what an attacker gains falls like exp(−n_train·r), where n_train is the number of "
        "training records. Where n_train·r is not well above 1 the theorem is silent.",
    ),
    (
        "Comparable",
        "r depends on how many distinct checkpoints a trajectory holds, and how far apart they are. Compare "
        "variants only on the same checkpoints of the same runs.",
    ),
    (
        "Unranked",
        "An r that is undefined (quantization left one model only) or infinite (constant differences) is no sign "
        "of safety; such variants have no rank.",
    ),
)


def reading() -> Section:
    """The section that answers: what do these words mean?"""
    terms = [part for term, text in _TERMS for part in (node("dt", term), node("dd", text))]
    return Section("reading", "How to read this", join(_FORMULA, node("dl", *terms, class_="terms")))
