"""The command line: exit codes, one-line errors, whole files, and the same JSON whatever the file kind."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from discreet._words import visible
from discreet.cli import entry
from discreet.records import Record

RUNS, STEPS, SAMPLES = 3, 5, 80
VARIANTS = ("full", "sign", "uniform(bits=4)")


def losses(seed: int = 0, variants: Sequence[str] = VARIANTS) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    base = rng.exponential(size=(RUNS, 1, SAMPLES))
    gaps = np.array([0.4, 0.2, 0.0, 0.1, 0.3])[:, None]
    noise = {v: 0.05 * rng.standard_normal((RUNS, STEPS, SAMPLES)) for v in variants}
    return {v: (base + (1 + i) * gaps + noise[v]).astype(np.float32) for i, v in enumerate(variants)}


def write_csv(path: Path, arrays: dict[str, np.ndarray], *, shuffled: bool = False) -> Path:
    rows = [
        (variant, run, step, sample, repr(float(values[run, step, sample])))
        for variant, values in arrays.items()
        for run, step, sample in np.ndindex(values.shape)
    ]
    if shuffled:  # but for the first row of each variant, which says the order of variants
        firsts = [next(row for row in rows if row[0] == variant) for variant in arrays]
        rest = [row for row in rows if row not in firsts]
        np.random.default_rng(1).shuffle(rest)
        rows = firsts + [tuple(row) for row in rest]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("variant", "run", "step", "sample", "loss"))
        writer.writerows(rows)
    return path


def record_of(arrays: dict[str, np.ndarray]) -> Record:
    rows = [(v, str(r), s) for v in arrays for r in range(RUNS) for s in range(STEPS)]
    return Record(
        run=tuple(run for _, run, _ in rows),
        step=np.array([step for *_, step in rows], np.float64),
        variant=tuple(variant for variant, *_ in rows),
        sample=np.arange(SAMPLES),
        signals={"loss": np.concatenate([values.reshape(-1, SAMPLES) for values in arrays.values()])},
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "losses.csv", losses())


@pytest.fixture
def run_dir(tmp_path: Path, table: Path) -> Path:
    """A run directory with an audit, as ``discreet rank`` would know it."""
    from discreet import rank
    from discreet.audit import Audit

    folder = tmp_path / "run"
    folder.mkdir()
    Audit.of_ranking(rank(losses()).to_json()).save(folder / "audit.json")
    return folder


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def discreet(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        code = entry.run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def shell(*arguments: object, code: str = "", **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, after some Python code."""
    script = f"{code}\nimport sys; from discreet.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        **options,
    )  # pyright: ignore[reportCallIssue, reportArgumentType]


def one_line(text: str) -> str:
    assert text.startswith("discreet: ")
    assert text.endswith("\n")
    assert len(text.splitlines()) == 1
    assert "Traceback" not in text
    return text


def test_help_names_every_command(discreet: Run) -> None:
    code, out, err = discreet("--help")
    assert (code, err) == (0, "")
    for command in (
        "demo",
        "rank",
        "attack",
        "audit",
        "quantize",
        "compress",
        "report",
        "gate",
        "status",
        "selftest",
    ):
        assert f" {command} " in out


@pytest.mark.parametrize(
    "command",
    ["demo", "rank", "attack", "audit", "quantize", "compress", "report", "gate", "status", "selftest"],
)
def test_every_command_has_an_example(discreet: Run, command: str) -> None:
    code, out, _ = discreet(command, "--help")
    assert code == 0
    assert f"discreet {command}" in out.partition("Example")[2]


def test_version(discreet: Run) -> None:
    assert discreet("--version") == (0, "discreet 0.1.0\n", "")


def test_nothing_asked_shows_help_and_is_not_done(discreet: Run) -> None:
    code, out, _ = discreet()
    assert code == 2
    assert "Commands" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("frobnicate",), "No such command 'frobnicate'"),
        (("rank",), "Missing argument"),
        (("rank", "x.csv", "--no-such"), "No such option"),
        (("rank", "x.csv", "--level", "high"), "Invalid value for '--level'"),
        (("rank", "x.csv", "--statistic", "mode"), "Invalid value for '--statistic'"),
        (("rank", "no.csv"), "no.csv: no such file"),
        (("rank", "no.pkl"), "expected a file that ends in .safetensors"),
        (("gate", "nowhere", "--require", "r > 1"), "nowhere/audit.json: No such file"),
        (("report", "nowhere"), "nowhere/audit.json: No such file"),
        (("status", "nowhere"), "nowhere: no such folder"),
    ],
)
def test_everything_else_is_2_and_one_line(discreet: Run, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = discreet(*arguments)
    assert (code, out) == (2, "")
    assert words in one_line(err)


def test_a_bad_level_is_an_error_of_one_line(discreet: Run, table: Path) -> None:
    code, _, err = discreet("rank", table, "--level", 2)
    assert code == 2
    assert "level must lie between 0 and 1" in one_line(err)


def test_debug_shows_the_traceback_wherever_it_stands(discreet: Run) -> None:
    for arguments in (("--debug", "rank", "no.csv"), ("rank", "no.csv", "--debug")):
        code, _, err = discreet(*arguments)
        assert code == 2
        assert "Traceback" in err
        assert err.splitlines()[-1] == "discreet: no.csv: no such file"


def test_an_error_with_line_breaks_and_escapes_stays_on_its_line(discreet: Run) -> None:
    code, _, err = discreet("rank", "a\nb\x1b[31m.csv")
    assert code == 2
    assert "\x1b" not in one_line(err)
    assert visible("\x1b") in err


def test_a_fault_says_that_it_is_one(discreet: Run, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RecursionError("deep")

    monkeypatch.setattr("discreet.records.read_all", broken)
    code, _, err = discreet("rank", table)
    assert code == 2
    assert "unexpected RecursionError: deep (a fault of discreet; --debug shows where)" in one_line(err)


def test_the_same_numbers_give_the_same_json_whatever_the_file(discreet: Run, tmp_path: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    arrays = losses()
    plain = write_csv(tmp_path / "a.csv", arrays)
    shuffled = write_csv(tmp_path / "b.csv", arrays, shuffled=True)
    np.savez(tmp_path / "c.npz", **{name: values for name, values in arrays.items()})  # noqa: C416
    record_of(arrays).save(tmp_path / "d.safetensors")
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(shuffled), tmp_path / "e.parquet")
    written = []
    for name in ("a.csv", "b.csv", "c.npz", "d.safetensors", "e.parquet"):
        code, _, err = discreet("rank", tmp_path / name, "--json", tmp_path / f"{name}.json")
        assert (code, err) == (0, "")
        written.append((tmp_path / f"{name}.json").read_bytes())
    assert len(set(written)) == 1
    real = shell("rank", plain, "--json", "-")
    assert (real.returncode, real.stderr) == (0, "")
    assert real.stdout.encode() == written[0]


def test_json_to_stdout_is_json_alone(discreet: Run, table: Path) -> None:
    code, out, err = discreet("rank", table, "--json", "-", "--n-train", 1000)
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert (code, err) == (0, "")
    assert found["schema"] == "discreet.rank/1"
    assert [row["rank"] for row in found["variants"]] == [1, 2, 3]
    assert found["variants"][0]["n_train_r"] == pytest.approx(1000 * found["variants"][0]["r"])


def test_level_and_statistic_are_passed_on(discreet: Run, table: Path) -> None:
    found = json.loads(discreet("rank", table, "--json", "-", "--level", 0.8, "--statistic", "median")[1])
    assert (found["level"], found["statistic"]) == (0.8, "median")


def test_several_files_are_one_record(discreet: Run, tmp_path: Path) -> None:
    record = record_of(losses())
    for run in record.runs:
        record.take_rows(record.rows(run=run)).save(tmp_path / f"{run}.safetensors")
    record.save(tmp_path / "whole.safetensors")
    parts = discreet("rank", *(tmp_path / f"{run}.safetensors" for run in record.runs), "--json", "-")
    assert parts == discreet("rank", tmp_path / "whole.safetensors", "--json", "-")


def test_the_table_is_readable(discreet: Run, table: Path) -> None:
    code, out, _ = discreet("rank", table)
    assert code == 0
    head, *rows = out.splitlines()
    assert head.split()[:3] == ["rank", "variant", "r"]
    assert {name for name in VARIANTS if any(name in row for row in rows[:3])} == set(VARIANTS)
    assert "told apart" in out
    assert "few-runs: Fewer than 15 runs" in out
    assert "full-precision-reference" in out


def test_names_from_files_are_shown_and_never_obeyed(discreet: Run, tmp_path: Path) -> None:
    names = ("[bold red]a[/]", "b\n\x1b[2Jc", ":smile:", "x" * 10_000)
    path = write_csv(tmp_path / "names.csv", losses(variants=names))
    code, out, err = discreet("rank", path, "--report", tmp_path / "page.html")
    assert (code, err) == (0, "")
    assert "[bold red]a[/]" in out
    assert ":smile:" in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) < 3000


def test_report_is_written(discreet: Run, table: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert discreet("rank", table, "--report", page)[0] == 0
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_rank_runs_without_torch(table: Path) -> None:
    done = shell("rank", table, "--json", "-", code="import sys; sys.modules['torch'] = None")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["variants"]


def test_quantize_without_torch_names_the_extra(tmp_path: Path) -> None:
    arguments = (
        "quantize",
        tmp_path / "m.safetensors",
        "--quantizer",
        "sign",
        "--out",
        tmp_path / "o.safetensors",
    )
    done = shell(*arguments, code="import sys; sys.modules['torch'] = None")
    assert done.returncode == 2
    assert 'pip install "discreet[torch]"' in one_line(done.stderr)


def test_help_is_light() -> None:
    heavy = ("torch", "scipy.stats", "pyarrow", "matplotlib", "rich.progress", "rdkit")
    code = f"import atexit, sys; atexit.register(lambda: print([m for m in {heavy} if m in sys.modules]))"
    assert shell("--help", code=code).stdout.splitlines()[-1] == "[]"


def test_a_closed_pipe_is_2_and_silent(table: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    script = "from discreet.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "rank", str(table)], stdout=writer, stderr=subprocess.PIPE, timeout=300
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (2, b"")


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_output_folders_are_checked_before_the_work(
    discreet: Run, tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discreet.records.read_all", lambda paths: pytest.fail("the work began"))
    code, _, err = discreet("rank", "some.csv", option, tmp_path / "missing" / "out")
    assert code == 2
    assert "the folder to write into does not exist" in one_line(err)
    code, _, err = discreet("rank", "some.csv", option, tmp_path)
    assert code == 2
    assert "expected a file to write, got a folder" in one_line(err)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Root may write anywhere, so be someone else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs users")
def test_a_read_only_folder_as_an_ordinary_user(discreet: Run, run_dir: Path, table: Path) -> None:
    with TemporaryDirectory() as base:  # every user may look into it, unlike into pytest's
        closed = Path(base, "closed")
        closed.mkdir()
        Path(base).chmod(0o755)
        copy = Path(base, "losses.csv")
        copy.write_bytes(table.read_bytes())
        Path(base, "audit.json").write_bytes((run_dir / "audit.json").read_bytes())
        page = Path(base, "open", "page.html")
        page.parent.mkdir()
        page.parent.chmod(0o777)
        jobs = (
            ("rank", copy, "--json", closed / "a.json"),
            ("rank", copy, "--report", closed / "a.html"),
            ("demo", closed / "run"),
            ("demo", closed),
            ("report", base, "--out", page, "--figures", closed),
            ("report", base, "--out", closed / "a.html"),
        )
        assert discreet("rank", copy, "--json", closed / "a.json")[0] == 0  # all modules are loaded now
        (closed / "a.json").unlink()
        closed.chmod(0o555)
        for arguments in jobs:
            with ordinary_user():
                code, _, err = discreet(*arguments)
            assert code == 2
            assert "Permission denied" in one_line(err)
            assert "closed" in err
            assert "unexpected" not in err
        assert not page.exists()
        assert list(closed.iterdir()) == []


def test_quantize_writes_dense_and_packed(discreet: Run, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    from discreet.quantizers import Quantized, quantize

    torch.manual_seed(0)
    state = {"head.weight": torch.randn(4, 8), "body.weight": torch.randn(8, 8), "body.bias": torch.randn(8)}
    save_file(state, tmp_path / "model.safetensors")
    out, packed = tmp_path / "dense.safetensors", tmp_path / "packed.safetensors"
    options = ("--out", out, "--packed", packed, "--include", "*.weight", "--exclude", "head.*")
    code, said, err = discreet(
        "quantize", tmp_path / "model.safetensors", "--quantizer", "ternary(zeros=0.5)", *options
    )
    assert (code, err) == (0, "")
    assert (
        "quantized by ternary: body.weight" in said or "quantized by ternary(zeros=0.5): body.weight" in said
    )
    assert "head.weight (excluded)" in said
    dense = load_file(out)
    assert torch.equal(dense["head.weight"], state["head.weight"])
    expected = quantize({"w": state["body.weight"]}, "ternary(zeros=0.5)").dense["w"]
    assert torch.equal(dense["body.weight"], expected)
    reloaded = Quantized.load(packed).dense
    assert all(torch.equal(reloaded[name], value) for name, value in dense.items())


def test_quantize_refuses_an_unknown_quantizer(discreet: Run, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    save_file({"w": torch.ones(2, 2)}, tmp_path / "m.safetensors")
    out = tmp_path / "o.safetensors"
    code, _, err = discreet("quantize", tmp_path / "m.safetensors", "--quantizer", "sing", "--out", out)
    assert code == 2
    assert "sign" in one_line(err)
    assert not out.exists()


def test_report_of_a_run_directory(discreet: Run, run_dir: Path, tmp_path: Path) -> None:
    code, out, err = discreet("report", run_dir)
    assert (code, err) == (0, "")
    assert "report.html" in out
    assert (run_dir / "report.html").read_text("utf-8").startswith("<!doctype html>")
    code, out, _ = discreet(
        "report", run_dir, "--out", tmp_path / "other.html", "--figures", tmp_path / "figures"
    )
    assert code == 0
    assert (tmp_path / "other.html").is_file()
    assert any(path.suffix == ".png" for path in (tmp_path / "figures").iterdir())


def test_report_names_a_broken_audit(discreet: Run, run_dir: Path) -> None:
    (run_dir / "audit.json").write_text('{"schema": "other"}')
    code, _, err = discreet("report", run_dir)
    assert code == 2
    assert 'audit.json: schema: expected "discreet.audit/1"' in one_line(err)


def test_gate_judges(discreet: Run, run_dir: Path) -> None:
    code, out, err = discreet("gate", run_dir, "--require", "rank:sign < 9")
    assert (code, err) == (0, "")
    assert "passed: rank of sign" in out
    verdict = json.loads((run_dir / "gate.json").read_text())
    assert (verdict["schema"], verdict["passed"]) == ("discreet.gate/1", True)
    code, out, err = discreet("gate", run_dir, "--require", "rank:sign < 9", "--require", "r > 1000")
    assert (code, err) == (1, "")
    assert "failed: r of" in out
    assert json.loads((run_dir / "gate.json").read_text())["outcome"] == "failed"
    code, out, err = discreet("gate", run_dir, "--require", "rank:sign < 9", "--require", "auc < 0.6")
    assert (code, err) == (2, "")
    assert "cannot be judged: auc of" in out
    assert out.endswith("undecided\n")
    verdict = json.loads((run_dir / "gate.json").read_text())
    assert (verdict["outcome"], verdict["passed"]) == ("undecided", False)
    assert "gate.json: undecided" in status_of(discreet, run_dir)


def status_of(discreet: Run, run_dir: Path) -> str:
    (run_dir / "manifest.json").write_text('{"schema": "discreet.manifest/1", "sessions": []}')
    return discreet("status", run_dir)[1]


@pytest.mark.parametrize(
    ("requirement", "words"),
    [("r", "expected METRIC"), ("q < 1", "no metric 'q'"), ("r:sine > 0", "did you mean 'sign'?")],
)
def test_gate_that_cannot_judge_is_2(discreet: Run, run_dir: Path, requirement: str, words: str) -> None:
    code, _, err = discreet("gate", run_dir, "--require", requirement)
    assert code == 2
    assert words in one_line(err)
    assert not (run_dir / "gate.json").exists()


def test_gate_passes_its_options_on(discreet: Run, run_dir: Path) -> None:
    options = ("--bound", "point", "--accept", "not-converged", "--analysis", "ranking")
    assert discreet("gate", run_dir, "--require", "r > 0", *options)[0] == 0
    verdict = json.loads((run_dir / "gate.json").read_text())
    assert (verdict["bound"], verdict["accepted"], verdict["analysis"]) == (
        "point",
        ["not-converged"],
        "ranking",
    )
    assert discreet("gate", run_dir, "--require", "r > 0", "--analysis", "other")[0] == 2


def test_status_counts_what_is_sound(discreet: Run, tmp_path: Path) -> None:
    from discreet.store import Store

    store = Store(tmp_path / "run")
    with store.lock():
        keys = [store.key(f"trajectory/{i}.txt", i=i) for i in range(3)]
        for key in keys:
            store.make(key, lambda aside: aside.write_text("losses"))
    store.path(keys[1]).write_text("lo")
    code, out, err = discreet("status", store.folder)
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split() == ["trajectory", "3", "14", "1"]
    assert "audit.json: not there" in out
    assert "worked on from" in out
    within = Store(store.folder / "units")
    with within.lock():
        path = within.make(within.key("loss/0.txt", i=0), lambda aside: aside.write_text("losses"))
    for damaged in "01":
        lines = [line.split() for line in discreet("status", store.folder)[1].splitlines()[1:4]]
        assert {line[0]: line[-1] for line in lines} == {
            "trajectory": "1",
            "units/loss": damaged,
            "units": "0",
        }
        path.write_text("lo")


def test_status_of_another_folder(discreet: Run, tmp_path: Path) -> None:
    code, _, err = discreet("status", tmp_path)
    assert code == 2
    assert "no manifest.json in it, so this is no run directory" in one_line(err)


def test_no_colour_and_no_progress_off_a_terminal(table: Path) -> None:
    done = shell("rank", table)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
