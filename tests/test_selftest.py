"""The command: all pass here, a wrong indicator or a broken attack is found, messages and exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from discreet.cli import entry
from discreet.records import Record
from discreet.selfcheck import closed

Run = Callable[..., tuple[int, str, str]]
SMALL = ("--samples", 80, "--features", 8, "--runs", 6)


@pytest.fixture
def discreet(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        code = entry.run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A user's own: losses and margins of complementary runs, nothing else."""
    rng = np.random.default_rng(0)
    member = rng.random((8, 300)) < 0.5
    member[1::2] = ~member[::2]
    logit = rng.normal(1, 1, 300) + 0.5 * rng.normal(size=(8, 300)) + 0.4 * member
    return Record(
        run=tuple(f"{i}" for i in range(8)),
        step=np.ones(8),
        variant=("sign",) * 8,
        sample=np.arange(300),
        signals={"loss": np.logaddexp(0, -logit), "margin": logit},
        member=member,
    ).save(tmp_path / "mine.safetensors")


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some attacks that fit nothing, and no molecules."""
    monkeypatch.setattr("discreet.attacks.names", lambda: ("attack_p", "loss", "rmia"))
    monkeypatch.delitem(closed._CHECKS, "molecules of the demo")


def test_everything_passes_here(discreet: Run, fast: None) -> None:
    code, out, err = discreet("selftest", *SMALL)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert "passed" in next(line for line in lines if line.startswith("indicator"))
    for case in ("no leak", "planted leak"):
        for attack in ("attack_p", "loss", "rmia"):
            assert "passed: AUC " in next(line for line in lines if line.startswith(f"{case}: {attack}"))
    assert "Attacks: 80 samples of 8 features, 6 networks, 3 variants." in out
    assert "with a chance of 1% at most, all attacks and variants together" in out


@pytest.mark.slow
def test_every_attack_passes_at_the_usual_sizes(discreet: Run) -> None:
    from discreet.attacks import names

    code, out, err = discreet("selftest")
    assert (code, err) == (0, "")
    for name in names():
        assert out.count(f": {name} ") == 2


def test_own_record(discreet: Run, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed, "_CHECKS", {})
    before = record.read_bytes()
    code, out, err = discreet("selftest", record)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert "passed" in next(line for line in lines if line.startswith("planted leak: lira"))
    for name, wanted in (("quantile", "features"), ("neural", "outputs")):
        line = next(line for line in lines if line.startswith(f"no leak: {name}"))
        assert "left out: " in line
        assert wanted in line or "public" in line
    assert "/tmp" not in out
    assert "Attacks: 300 samples, 1 of 1 variants, 8 of 8 runs attacked." in out
    assert record.read_bytes() == before


def test_a_wrong_indicator_is_found(
    discreet: Run, fast: None, monkeypatch: pytest.MonkeyPatch, record: Path
) -> None:
    import dataclasses

    import discreet as package

    right = package.indicator

    def wrong(losses: np.ndarray) -> object:
        found = right(losses)
        assert found.r is not None
        return dataclasses.replace(found, r=found.r * (1 + 1e-9))

    monkeypatch.setattr(package, "indicator", wrong)
    monkeypatch.setattr("discreet.attacks.names", lambda: ("loss",))
    code, out, err = discreet("selftest", record)
    assert code == 2
    assert "failed: ArithmeticError: r is" in out
    assert err == "discreet: 1 of 8 checks failed: indicator, against exact fractions\n"


def test_an_inverted_attack_is_found(discreet: Run, fast: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.attacks.loss import Loss

    right = Loss.__call__
    monkeypatch.setattr(Loss, "__call__", lambda self, blind, row: -right(self, blind, row))
    monkeypatch.setattr("discreet.attacks.names", lambda: ("loss", "rmia"))
    code, out, err = discreet("selftest", *SMALL)
    assert code == 2
    assert "where members were planted" in out
    assert err == "discreet: 1 of 10 checks failed: planted leak: loss\n"


def test_what_is_not_installed_is_left_out(
    discreet: Run, monkeypatch: pytest.MonkeyPatch, record: Path
) -> None:
    monkeypatch.setattr("discreet.selfcheck.closed.util.find_spec", lambda name: None)
    code, out, _ = discreet("selftest")
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("attacks, with and without a leak"))
    assert 'left out: torch not installed (pip install "discreet[torch]")' in line
    assert 'left out: torch, rdkit, B3DB not installed (pip install "discreet[molecules]")' in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--samples", 30), "samples: expected an even number of at least 40, got 30"),
        (("--samples", 0), "samples: expected an even number of at least 40, got 0"),
        (("--features", 1), "features: expected at least 2, got 1"),
        (("--runs", 5), "runs: expected an even number of at least 4 (a target and its partner are not"),
        (("no.safetensors", "--runs", 4), "--runs: a record has its own sizes; expected one or the other"),
    ],
)
def test_messages(discreet: Run, arguments: tuple[object, ...], said: str) -> None:
    code, out, err = discreet("selftest", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"discreet: {said}")


def test_a_record_without_membership_is_refused(discreet: Run, tmp_path: Path) -> None:
    bare = Record(("0",), np.ones(1), ("sign",), np.arange(4), {"loss": np.ones((1, 4))})
    code, _, err = discreet("selftest", bare.save(tmp_path / "bare.safetensors"))
    assert code == 2
    assert "no membership: expected a record that says which samples trained which run" in err
