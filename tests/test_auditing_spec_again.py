"""``discreet audit SPEC.toml`` once more in its folder: after edits of spec or code, and beside old verdicts."""

from __future__ import annotations

import json
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from tests.own_code import QUANTIZER

pytestmark = pytest.mark.skipif(util.find_spec("torch") is None, reason="needs discreet[torch]")

if util.find_spec("torch") is not None:
    from discreet.auditing_spec.panels import contents_of
    from discreet.auditing_spec.preparing import prepare
    from discreet.records import read_all
    from discreet.spec import AuditSpec, read
    from discreet.store import Store, StoreError
    from tests.test_auditing_spec import CODE, SPEC, carry_out, folder, no_page, write

    __all__ = ["folder", "no_page"]

SMALL = SPEC.replace("runs = 4", "runs = 2").replace('"loss", "attack_p"', '"loss"')
LEARNS = "'loss', \"neural('blackbox(epochs=1)', most=100)\""
OWN = (
    QUANTIZER
    + """
@dataclass(frozen=True)
class Guess:
    def __call__(self, blind, row):
        return -blind.signal("loss")[row]
"""
)


def figures(done: Any) -> dict[tuple[str, str], float]:
    """The AUC of each attack on each variant."""
    (analysis,) = done.audit.analyses
    return {(row.attack, row.variant): row.value for row in analysis.attacks if row.metric == "auc"}


def test_another_attack_may_need_more_signals(folder: Path, no_page: None) -> None:
    first = figures(carry_out(write(folder, spec=SMALL)))
    found = carry_out(write(folder, spec=SMALL.replace('"loss"', LEARNS)))
    assert len(list((folder / "run" / "release").glob("run*.safetensors"))) == 4
    assert {key: value for key, value in figures(found).items() if key in first} == first
    assert figures(carry_out(write(folder, spec=SMALL))) == first


def test_shadows_become_runs(folder: Path, no_page: None) -> None:
    carry_out(write(folder, spec=SPEC.replace("runs = 4", "runs = 2\nshadows = 2")))
    found = carry_out(write(folder, spec=SPEC))
    assert found.audit.analyses[0].ranking.variants[0].runs == 4
    assert found.audit.to_json() == carry_out(folder / "spec.toml", "fresh").audit.to_json()


@pytest.mark.parametrize("attack", ["loss", "all"])
def test_what_onnx_runtime_made_is_kept_by_what_was_measured(folder: Path, attack: str) -> None:
    pytest.importorskip("onnxruntime")

    def keys(names: str) -> list[tuple[str, ...]]:
        text = SPEC.replace('fit = "mine:fit"', "epochs = 2").replace('"loss", "attack_p"', names)
        text = text.replace("[variants]", '[variants]\nonnxruntime = ["dynamic"]')
        spec, source = read(write(folder, spec=text), AuditSpec)
        units = prepare(spec, source, Store(folder / "kept"), 1).units
        return [(*unit.release, *unit.trajectory) for unit in units]

    same = attack == "loss"
    plain, other = keys('"loss"'), keys(f'"loss", "{attack}"')
    for one, two in zip(plain, other, strict=True):
        assert [a == b for a, b in zip(one, two, strict=True)] == [same, same, same, True, True, True]


def test_quantizers_and_attacks_of_ones_own_are_known_by_their_code(folder: Path, no_page: None) -> None:
    spec = SMALL.replace("\"sign(scale='absmean')\"", '"own = mine:Mine"').replace(
        '"loss"', '"loss", "mine:Guess"'
    )
    first = carry_out(write(folder, CODE + OWN, spec))
    weights = set((folder / "run" / "weights").iterdir())
    assert carry_out(write(folder, CODE + OWN, spec)).audit == first.audit
    other = carry_out(write(folder, CODE + OWN.replace("2 * groups", "9 * groups"), spec))
    assert figures(other)["loss", "full"] == figures(first)["loss", "full"]
    assert figures(other)["loss", "own"] != figures(first)["loss", "own"]
    turned = carry_out(write(folder, CODE + OWN.replace("return -blind", "return blind"), spec))
    for variant in ("full", "own"):
        changed = figures(turned)["mine:Guess", variant]
        assert changed == pytest.approx(1 - figures(first)["mine:Guess", variant])
    assert set((folder / "run" / "weights").iterdir()) == weights


def test_libraries_that_quantize_are_part_of_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    first = contents_of({"full": "full", "one bit": "sign"})
    assert first == {"full": "full", "one bit": "sign"}
    monkeypatch.setattr("discreet.quantizers.sign.Sign.made_by", "other 2.0", raising=False)
    assert contents_of({"full": "full", "one bit": "sign"})["one bit"] != first["one bit"]


GATED = SMALL + '\n[gate]\nrequire = ["auc < 1"]\n'


def test_no_verdict_outlives_the_audit_that_it_judged(
    folder: Path, no_page: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out(write(folder, spec=GATED))
    assert (folder / "run" / "gate.json").is_file()
    with monkeypatch.context() as patched:
        patched.setattr("discreet.auditing_units.Units.all", lambda *_: pytest.fail("stopped here"))
        with pytest.raises(pytest.fail.Exception):
            carry_out(write(folder, CODE.replace("lr=0.02", "lr=0.01"), GATED))
    assert not (folder / "run" / "gate.json").exists()
    carry_out(write(folder, spec=GATED))
    assert (folder / "run" / "gate.json").is_file()
    from discreet.auditing import audit_attacks

    audit_attacks(folder / "run", ["loss"])  # another audit by the same name
    assert not (folder / "run" / "gate.json").exists()


def test_an_audit_appears_once_its_attacks_are_done(
    folder: Path, no_page: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("discreet.auditing_units.Units.all", lambda *_: pytest.fail("stopped here"))
        with pytest.raises(pytest.fail.Exception):
            carry_out(write(folder, spec=GATED))
    assert not (folder / "run" / "audit.json").exists()
    carry_out(folder / "spec.toml")
    assert json.loads((folder / "run" / "audit.json").read_text())["analyses"][0]["attacks"]


def test_nobody_comes_between_an_audit_its_attacks_and_its_verdict(
    folder: Path, no_page: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from discreet import auditing
    from discreet.auditing_spec import carrying_out

    refused: list[str] = []

    def intrude(run: Any) -> Any:
        def instead(*arguments: Any, **more: Any) -> Any:
            with pytest.raises(StoreError, match="in use by"), Store(folder / "run").lock():
                pass
            refused.append(run.__name__)
            return run(*arguments, **more)

        return instead

    for module, name in ((auditing, "release_of"), (auditing, "put"), (carrying_out, "gate")):
        monkeypatch.setattr(module, name, intrude(getattr(module, name)))
    carry_out(write(folder, spec=GATED))
    assert refused == ["release_of", "put", "gate"]


def test_the_audit_is_read_by_who_holds_the_folder(
    folder: Path, no_page: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from discreet.audit import Audit
    from discreet.auditing import audit_attacks

    carry_out(write(folder, spec=SMALL))
    read_audit = Audit.load

    def held(path: Path) -> Audit:
        with pytest.raises(StoreError, match="in use by"), Store(folder / "run").lock():
            pass
        return read_audit(path)

    monkeypatch.setattr(Audit, "load", held)
    audit_attacks(folder / "run", ["loss"])
    with pytest.raises(FileNotFoundError):
        audit_attacks(folder / "nothing", ["loss"])
    assert not (folder / "nothing").exists()


def test_what_is_released_is_what_the_audit_says(folder: Path, no_page: None) -> None:
    found = carry_out(write(folder, spec=SMALL))
    kept = found.audit.settings["release files"]
    assert sorted(kept) == sorted(
        f"release/{path.name}" for path in (folder / "run" / "release").glob("*.safetensors")
    )
    carry_out(write(folder, spec=SMALL.replace('"loss"', LEARNS)))
    assert len(list((folder / "run" / "release").glob("*.safetensors"))) == 2 * len(kept)
    assert read_all([folder / "run" / each for each in kept]).runs == ("0", "1")
