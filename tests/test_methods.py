"""Methods by one string: how they are read, and what is said when they cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from discreet import methods
from discreet.artefacts import load_sparse, save_sparse
from discreet.compressors.kd import KD
from discreet.compressors.prune import Prune
from discreet.defences.dmp import DMP
from discreet.defences.re2 import Re2
from discreet.methods import Method, SpecError, fit, parse
from tests.compression import Drifting, setting


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


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("prune+advreg+dpsgd", "dpsgd: expected a training that no other defence steps itself, got AdvReg's"),
        (
            "mia_prune+dpsgd+advreg",
            "advreg: expected a training that no other defence steps itself, got DPSGD's",
        ),
        ("prune+hamp+dmp", "dmp: hamp replaces the loss already"),
        ("set+dmp+advreg", "advreg: dmp trains on no members"),
        ("kd+distil", "distil: the training learns from a teacher already"),
        ("kd+bigpara", "bigpara: the big model's weights do not fit the model"),
        ("safecompress(growth='gap')+distil", "growth: expected fit, as a defence trains on other samples"),
        ("rigl+distil+dpsgd", "dpsgd: growth by gradient reads gradients without noise"),
        ("quantize(aware=True)+distil+re2+dpsgd", "dpsgd: expected a loss of single samples, got .*re2"),
    ],
)
def test_defences_that_do_not_go_together_are_told_before_anything_is_trained(spec: str, said: str) -> None:
    told: list[str] = []
    for refuse in (
        lambda: methods.check(spec, setting()),
        lambda: fit(spec, setting(), progress=lambda what, share: told.append(what)),
    ):
        with pytest.raises(ValueError, match=said):
            refuse()
    assert not told


def test_what_dpsgd_lacks_is_told_before_the_big_model_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"dpsgd: norm \(BatchNorm1d\) mixes the samples of a batch"):
        methods.check("prune+dpsgd", setting(model=Drifting()))
    monkeypatch.setattr("discreet.defences.dpsgd.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="dpsgd: Opacus, whose accountant it needs, is missing"):
        methods.check("prune+dpsgd", setting())


@pytest.mark.parametrize(
    "spec",
    [
        "kd(weight=0)+distil",
        "kd+dmp",
        "safecompress(growth='gap', grow=('random',))+distil",
        "safecompress(growth='gap')+re1",
        "prune+advreg+dropout",
        "static+dpsgd",
        "early+distil",
    ],
)
def test_what_goes_together_is_not_refused(spec: str) -> None:
    methods.check(spec, setting())


@pytest.mark.parametrize("spec", ["prune(epochs=1)+bigpara", "mia_prune(rounds=2, epochs=1)+bigpara"])
def test_what_begins_from_the_big_model_can_be_written(spec: str, tmp_path: Path) -> None:
    done = fit(spec, setting(dtype=torch.float32))
    state, masks = ({name: value[0] for name, value in stack.items()} for stack in (done.params, done.masks))
    save_sparse(tmp_path / "model.safetensors", state, masks)
    back = load_sparse(tmp_path / "model.safetensors")
    assert all(torch.equal(back[name], value) for name, value in state.items())
