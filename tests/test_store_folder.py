"""Artefacts that are folders: made once, made anew when a file is missing or altered, and never half there."""

from __future__ import annotations

from pathlib import Path

import pytest

from discreet.store import Store, StoreError
from discreet.store.folder import is_there, make_folder


class Writer:
    """Counts how often it wrote."""

    def __init__(self, fails: bool = False) -> None:
        self.calls, self.fails = 0, fails

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        (folder / "deep").mkdir()
        (folder / "deep" / "a.txt").write_text("a")
        if self.fails:
            raise ValueError("no")
        (folder / "b.txt").write_text("b")


def test_it_is_made_once_and_anew_when_altered(tmp_path: Path) -> None:
    store, write = Store(tmp_path / "run"), Writer()
    key = store.key("models/tiny.json", seed=1)
    assert not is_there(store, key)
    folder = make_folder(store, key, write)
    assert make_folder(store, key, write) == folder
    assert sorted(p.name for p in folder.rglob("*.txt")) == ["a.txt", "b.txt"]
    assert write.calls == 1
    for number, spoil in enumerate(
        [
            lambda: (folder / "b.txt").write_text("c"),
            lambda: (folder / "deep" / "a.txt").unlink(),
            lambda: (folder / "more.txt").write_text("more"),
            lambda: store.path(key).write_text("{}"),
        ],
        2,
    ):
        spoil()
        assert not is_there(store, key)
        assert make_folder(store, key, write) == folder
        assert write.calls == number
        assert sorted(p.name for p in folder.rglob("*.txt")) == ["a.txt", "b.txt"]


def test_made_anew_with_other_bytes_it_is_there_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "run")
    key = store.key("models/tiny.json", seed=1)
    for text in ("one", "two"):
        folder = make_folder(store, key, lambda aside, text=text: (aside / "a.txt").write_text(text))
        assert is_there(store, key)
        assert (folder / "a.txt").read_text() == text
        (folder / "a.txt").write_text("spoilt")


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "run")
    key = store.key("models/tiny.json", seed=1)
    with pytest.raises(ValueError, match="no"):
        make_folder(store, key, Writer(fails=True))
    assert not is_there(store, key)
    assert not list((tmp_path / "run" / "models").iterdir())
    with pytest.raises(StoreError, match="nothing was written into the folder"):
        make_folder(store, key, lambda folder: None)
    with pytest.raises(StoreError, match=r"expected the key of a folder to end in \.json"):
        make_folder(store, store.key("models/tiny.txt"), Writer())


def test_what_a_killed_process_left_is_cleared(tmp_path: Path) -> None:
    store = Store(tmp_path / "run")
    key = store.key("models/tiny.json", seed=1)
    folder = store.path(key).with_suffix("")
    left = folder.with_name(f".{folder.name}-99999999")
    left.mkdir(parents=True)
    (left / "half.txt").write_text("half")
    make_folder(store, key, Writer())
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, store.path(key).name]
