"""Methods by one string: how they are read, and what is said when they cannot be."""

from __future__ import annotations

import pytest

from discreet import methods
from discreet.compressors.kd import KD
from discreet.compressors.prune import Prune
from discreet.defences.dmp import DMP
from discreet.defences.re2 import Re2
from discreet.methods import Method, SpecError, fit, parse
from tests.compression import setting


def test_a_method_is_a_compressor_and_its_defences_in_order() -> None:
    assert parse("prune") == Method(Prune())
    assert parse(" prune + dmp(keep=0.5) + re2 ") == Method(Prune(), (DMP(keep=0.5), Re2()))
    assert parse("kd(epochs=30)+re2(beta=1e+0)").compressor == KD(epochs=30)
    assert parse("matched(target='set')+re2").defences == (Re2(),)
    assert parse(parse("prune")) == parse("prune")


@pytest.mark.parametrize(
    "spec",
    ["dense", "prune+dmp", "kd(epochs=3)+dpsgd(noise=0.5)", "matched(target='rigl')+advreg(alpha=3)+l2"],
)
def test_the_string_of_a_method_is_read_as_the_same_method(spec: str) -> None:
    assert parse(str(parse(spec))) == parse(spec)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("prun+dmp", r"unknown compressor 'prun'; did you mean 'prune'\?"),
        ("prune+dpm", r"unknown defence 'dpm'; did you mean 'dmp'\?"),
        ("dmp", r"'dmp': 'dmp' is a defence; a method begins with a compressor, for example 'dense\+dmp'"),
        ("prune+kd", r"'prune\+kd': 'kd' is a compressor; only the first part may be one"),
        ("prune+dmp+dmp(keep=0.5)", r"the defence 'dmp' is named twice"),
        ("prune+", r"method must read compressor or compressor\+defence\+…, got 'prune\+'"),
        ("", r"method must read compressor"),
        ("kd(epoch=3)", r"kd has no field 'epoch'; did you mean 'epochs'\?"),
        ("kd(epochs=0)", r"'kd\(epochs=0\)': epochs: expected at least 1, or None, got 0"),
        ("prune(lr=0)", r"lr: expected above 0, or None, got 0"),
        ("early(by='luck')", r"by: expected one of loss, performance, got 'luck'"),
        ("matched(target='prun')", r"unknown compressor 'prun'"),
        ("rigl(grow='fast')", r"unknown grow_rule 'fast'"),
        ("mia_prune(rounds=0)", r"rounds: expected at least 1, got 0"),
        ("mia_prune(tolerance=-1)", r"tolerance: expected 0 or more, got -1"),
        ("dense+re2(beta=-1)", r"beta: expected 0 or more, got -1"),
    ],
)
def test_what_is_wrong_is_said(spec: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        parse(spec)


def test_an_outcome_names_its_method_in_full_and_progress_is_told() -> None:
    told: list[tuple[str, float]] = []
    done = fit("prune(epochs=1)+re2", setting(1), progress=lambda what, share: told.append((what, share)))
    assert done.method == "prune(epochs=1, lr=None)+re2(beta=0.1)"
    assert {what for what, _ in told} == {"training the big model", "fine-tuning"}
    assert told[-1] == ("fine-tuning", 1.0)
    assert methods.fit("prune(epochs=1)+re2", setting(1)).method == done.method
