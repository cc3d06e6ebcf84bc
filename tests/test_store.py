"""The run directory: kept by content, sound or made again, one process at a time."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.store import Store, StoreError, content_hash

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def spell(value: Any) -> str:
    """An independent way to say when two values are one content: types, then values, keys sorted."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{k!r}:{spell(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(spell, value)) + "]"
    return f"{type(value).__name__}({value!r})"


@given(PLAIN, PLAIN)
def test_equal_content_and_only_that_has_equal_hashes(one: Any, two: Any) -> None:
    assert (content_hash(one) == content_hash(two)) == (spell(one) == spell(two))


def test_the_order_of_keys_does_not_matter_and_that_of_lists_does() -> None:
    assert content_hash({"a": 1, "b": {"c": 2, "d": 3}}) == content_hash({"b": {"d": 3, "c": 2}, "a": 1})
    assert content_hash([1, 2]) != content_hash([2, 1])
    assert content_hash([1, 2]) == content_hash((1, 2))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (1, 1.0), (1, True), (0, False), (None, "None"), ("1", 1), (b"a", "a"), ([], {}), ("", None), (0.0, -0.0),
        ([[1], 2], [[1, 2]]), (["a", "bsc"], ["asb", "c"]), ({"a": "b"}, ["a", "b"]), ([[], []], [[[]]]),
        (255, -1), (2**64, 2**72), (np.zeros(2), np.zeros(2, np.float32)), (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(0), np.zeros((0, 1))), (np.arange(3), [0, 1, 2]), (np.array(1), 1),
        (np.array(["a"]), np.array([b"a"])),
    ],
)  # fmt: skip
def test_contents_that_differ_have_other_hashes(one: Any, two: Any) -> None:
    assert content_hash(one) != content_hash(two)


def test_arrays_hash_by_value_dtype_and_shape_only() -> None:
    values = np.arange(12.0).reshape(3, 4)
    expected = content_hash(values)
    assert content_hash(values.astype(">f8")) == expected
    assert content_hash(np.asfortranarray(values)) == expected
    assert content_hash(np.repeat(values, 2, axis=1)[:, ::2]) == expected
    assert content_hash(values + 1e-12) != expected
    assert content_hash([np.int64(3), np.float64(0.5), np.bool_(True)]) == content_hash([3, 0.5, True])
    assert content_hash(np.array(5)) == content_hash(np.array(5))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, {2}]}, "content.a[1]: cannot hash set; expected dicts, lists, NumPy arrays,"),
        ({"a": {1: 2}}, "content.a: expected text as the key of a mapping, got 1"),
        (np.array([None]), "content: cannot hash an array of object"),
        (1j, "content: cannot hash complex"),
    ],
)
def test_what_cannot_be_hashed_is_named(value: Any, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        content_hash(value)
    assert str(caught.value).startswith(text)


def text(content: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(content)

    return write


def boom(path: Path) -> None:
    path.write_text("half")
    raise RuntimeError("training failed")


def never(path: Path) -> None:
    pytest.fail(f"made again: {path}")


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a run directory but the manifest and the lock."""
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {name: data for name, data in found.items() if name not in ("manifest.json", ".lock")}


def test_work_is_done_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "run")
    key = store.key("trajectory/run-3.txt", seed=1)
    assert not store.has(key)
    path = store.make(key, text("losses"))
    assert path == store.path(key) == tmp_path / "run" / key
    assert key.startswith("trajectory/run-3-")
    assert key.endswith(".txt")
    assert store.make(key, never) == path
    assert Store(tmp_path / "run").make(key, never).read_text() == "losses"
    assert store.key("trajectory/run-3.txt", seed=2) != key
    assert store.key("release/run-3.txt", seed=1) != key
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_checksums_are_in_the_format_of_sha256sum(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for unit in range(3):
        store.make(store.key(f"a/b/unit {unit}", unit=unit), text(str(unit)))
    notes = sorted((tmp_path / ".checksums").rglob("*.sha256"))
    lines = "".join(note.read_text() for note in notes)
    done = subprocess.run(
        ["sha256sum", "-c"], input=lines, cwd=tmp_path, text=True, capture_output=True, check=True
    )
    assert done.stdout.count(": OK\n") == 3


@pytest.mark.parametrize(
    "harm",
    [
        lambda path, note: path.write_text("loss"),
        lambda path, note: path.write_text(""),
        lambda path, note: path.write_text("lossez"),
        lambda path, note: path.unlink(),
        lambda path, note: note.unlink(),
        lambda path, note: note.write_text(""),
        lambda path, note: note.write_text(note.read_text()[:40]),
        lambda path, note: note.write_bytes(b"\xff" * 80),
        lambda path, note: note.write_text(note.read_text().replace("run-3", "run-4")),
    ],
)
def test_what_is_truncated_altered_or_unproven_is_made_again(
    tmp_path: Path, harm: Callable[[Path, Path], object]
) -> None:
    store = Store(tmp_path)
    key = store.key("run-3.txt", seed=1)
    path = store.make(key, text("losses"))
    sound = files(tmp_path)
    harm(path, tmp_path / ".checksums" / f"{key}.sha256")
    for again in (store, Store(tmp_path)):
        assert not again.has(key)
    store.make(key, text("losses"))
    assert store.has(key)
    assert files(tmp_path) == sound


def test_an_alteration_that_keeps_size_and_time_is_seen_by_the_next_process(tmp_path: Path) -> None:
    store = Store(tmp_path)
    key = store.key("run-3.txt", seed=1)
    path = store.make(key, text("losses"))
    times = path.stat()
    path.write_text("LOSSES")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not store.has(key)  # the change time differs
    assert not Store(tmp_path).has(key)


@given(st.text(max_size=200))
def test_any_words_make_a_key_inside_the_directory(words: str) -> None:
    store = Store("/run")
    key = store.key(words, a=1)
    path = store.path(key)
    assert path.is_relative_to("/run")
    assert ".." not in path.parts
    assert all(0 < len(part) < 120 and not part.startswith(".") for part in key.split("/"))
    assert key != store.key(words + "x", a=1)


@pytest.mark.parametrize("key", ["../../etc/passwd", "a", "", f"/a-{'0' * 32}", f".checksums/a-{'0' * 32}"])
def test_what_is_no_key_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(StoreError, match="is no key of a store"):
        Store(tmp_path).path(key)


def test_names_that_files_cannot_have(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for words in (
        "<script>/\n" + "x" * 10_000,
        "../../up.txt",
        "/absolute",
        ".hidden",
        "",
        "run 1.5.safetensors",
    ):
        key = store.key(words, a=1)
        assert store.make(key, text("x")).read_text() == "x"
    assert store.key("trajectory/uniform(bits=4).npz").split("-")[0] == "trajectory/uniform(bits=4)"
    assert store.key("vector(size=1.5)").split("-")[0] == "vector(size=1.5)"


def test_content_that_cannot_be_a_key(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"key of 'a': content\.content\.recipe: cannot hash object"):
        Store(tmp_path).key("a", recipe=object())


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    key = store.key("run-3.txt", seed=1)
    with pytest.raises(RuntimeError, match="training failed"):
        store.make(key, boom)
    with pytest.raises(StoreError, match="nothing was written at the path that was given"):
        store.make(key, lambda path: None)
    with pytest.raises(FileNotFoundError, match="no-such-input"):
        store.make(key, lambda path: Path("/no-such-input").read_text())
    assert files(tmp_path) == {}
    assert not store.has(key)
    path = store.make(key, text("losses"))
    path.write_text("broken")
    with pytest.raises(RuntimeError):
        store.make(key, boom)
    assert path.read_text() == "broken"  # never half a new one


def test_threads_may_make_artefacts_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    keys = [store.key(f"u/{i % 10}", unit=i % 10) for i in range(40)]
    threads = [threading.Thread(target=store.make, args=(key, text(key))) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(Store(tmp_path).has(key) and store.path(key).read_text() == key for key in keys)


def test_keeping_one_more_costs_the_same(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for unit in range(200):
        store.make(store.key("u/x", unit=unit), text("x"))
    touched = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    store.make(store.key("u/x", unit=200), text("x"))
    assert {p: p.stat().st_mtime_ns for p in touched} == touched
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == len(touched) + 2


def run(code: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    script = "import os, sys\nfrom pathlib import Path\nfrom discreet.store import Store, StoreError\n"
    return subprocess.run(
        [sys.executable, "-c", script + textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        check=check,
        timeout=60,
    )


LOCK = """
try:
    with Store(sys.argv[1]).lock():
        print("locked", end="")
except StoreError as error:
    print(error, end="")
"""


def test_two_processes_cannot_share_a_directory(tmp_path: Path) -> None:
    with Store(tmp_path).lock():
        told = run(LOCK, str(tmp_path)).stdout
        assert told.startswith(f"{tmp_path}: in use by process {os.getpid()} on ")
        with (
            pytest.raises(StoreError, match=rf"in use by this process \({os.getpid()}\)"),
            Store(tmp_path).lock(),
        ):
            pass
    assert run(LOCK, str(tmp_path)).stdout == "locked"
    with Store(tmp_path).lock():
        pass


def test_the_lock_of_a_killed_process_is_free_and_its_drafts_are_cleared(tmp_path: Path) -> None:
    code = """
    import signal
    store = Store(sys.argv[1])
    def die(path):
        path.write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)
    with store.lock():
        store.make(store.key("run-3.txt", seed=1), die)
    """
    assert run(code, str(tmp_path), check=False).returncode == -signal.SIGKILL
    assert len(files(tmp_path)) == 1  # the draft
    assert json.loads((tmp_path / ".lock").read_text())["pid"] > 0
    with Store(tmp_path).lock() as store:
        assert files(tmp_path) == {}
        sessions = store.manifest["sessions"]
        assert [s["ended"] for s in sessions] == [None, None]
        store.make(store.key("run-3.txt", seed=1), text("losses"))


def test_drafts_of_living_processes_are_left_alone(tmp_path: Path) -> None:
    parts = tmp_path / ".parts"
    parts.mkdir()
    (parts / f".{os.getppid()}-abc.part").write_text("x")
    (parts / ".x-abc.part").write_text("x")
    with Store(tmp_path).lock():
        assert [p.name for p in parts.iterdir()] == [f".{os.getppid()}-abc.part"]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_worker_does_not_keep_the_lock(tmp_path: Path) -> None:
    code = """
    import time
    store = Store(sys.argv[1])
    with store.lock():
        ready, tell = os.pipe()
        worker = os.fork()
        if worker == 0:
            os.write(tell, b"1")  # it runs, so it has let go of what it inherited
            time.sleep(60)
            os._exit(0)
        os.read(ready, 1)
        print(worker, flush=True)
        os.kill(os.getpid(), 9)
    """
    script = "import os, sys\nfrom discreet.store import Store\n" + textwrap.dedent(code)
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    process.stdout.close()
    process.wait()
    try:
        with Store(tmp_path).lock():
            pass
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_forked_child_that_unwinds_leaves_the_lock_to_its_parent(tmp_path: Path) -> None:
    code = """
    store = Store(sys.argv[1])
    with store.lock():
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        try:
            with Store(sys.argv[1]).lock():
                print("lost", end="")
        except StoreError:
            print("kept", len(store.manifest["sessions"]), store.manifest["sessions"][0]["ended"], end="")
    """
    assert run(code, str(tmp_path)).stdout == "kept 1 None"


def test_the_manifest_holds_what_nothing_else_may(tmp_path: Path) -> None:
    store = Store(tmp_path / "run")
    with store.lock():
        store.make(store.key("a/b.txt", a=1), text("x"))
        store.note(data="/data/molecules.csv", counts=(1, 2))
        store.note(more=1)
    with store.lock():
        pass
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["schema"] == "discreet.manifest/1"
    first, second = manifest["sessions"]
    assert (first["data"], first["counts"], first["more"]) == ("/data/molecules.csv", [1, 2], 1)
    assert first["started"] <= first["ended"] <= second["started"] <= second["ended"]
    assert first["versions"]["numpy"] == np.__version__
    assert (first["pid"], first["folder"]) == (os.getpid(), str(tmp_path / "run"))
    others = b"".join(files(tmp_path / "run").values())
    assert first["host"].encode() not in others
    assert str(tmp_path).encode() not in others
    assert (tmp_path / "run" / ".lock").read_bytes() == b""
    with pytest.raises(StoreError, match="only a session that holds the lock can be noted"):
        store.note(a=1)


def test_a_manifest_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"schema": "other"}')
    with pytest.raises(
        StoreError, match=r"cannot read the manifest: expected the schema 'discreet\.manifest/1'"
    ):
        _ = Store(tmp_path).manifest
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match="cannot read the manifest: not JSON"), Store(tmp_path).lock():
        pass
    (tmp_path / "manifest.json").unlink()
    with (
        Store(tmp_path).lock() as store,
        pytest.raises(StoreError, match=r"manifest\.json: cannot write: Object of"),
    ):
        store.note(x=object())


def test_errors_of_the_work_pass_through_the_lock(tmp_path: Path) -> None:
    with pytest.raises(PermissionError, match="the caller's own"), Store(tmp_path).lock() as store:
        raise PermissionError("the caller's own")
    assert store.manifest["sessions"][0]["ended"] is not None


def test_a_folder_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    store = Store(tmp_path / "run")
    with pytest.raises(StoreError, match="run: cannot create the folder: File exists"), store.lock():
        pass
    assert not store.has(store.key("a"))
    with pytest.raises(StoreError, match="cannot create the folder: Not a directory"):
        store.make(store.key("a/b"), text("x"))


UNWRITABLE = """
import resource
import discreet.store
if sys.argv[2] == "nobody":
    if os.geteuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
store = Store(sys.argv[1])
key = store.key("run-3.bin", seed=1)
make = lambda: store.make(key, lambda path: path.write_bytes(bytes(300_000)))
for work in (make, lambda: store.lock().__enter__()):
    try:
        work()
        print("done")
    except StoreError as error:
        print(error)
"""


@pytest.mark.parametrize("how", ["nobody", "full"])
def test_a_directory_that_cannot_be_written(how: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "run"
        for part in ("", ".parts", ".checksums"):
            (folder / part).mkdir()
            (folder / part).chmod(0o555 if how == "nobody" else 0o755)
        key = Store(folder).key("run-3.bin", seed=1)
        made, locked = run(UNWRITABLE, str(folder), how).stdout.splitlines()
        reason = "Permission denied" if how == "nobody" else "File too large"
        assert made == f"{folder}/{key}: cannot write: {reason}; nothing half-written is left"
        assert locked == (f"{folder}/.lock: cannot lock: Permission denied" if how == "nobody" else "done")
        assert files(folder) == {}
        for part in (".parts", ".checksums", ""):
            (folder / part).chmod(0o755)
