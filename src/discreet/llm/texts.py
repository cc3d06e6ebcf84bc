"""Texts that a language model is asked about: read from files, with a prompt or without, by their ids."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from discreet._find import near
from discreet.duplicate_texts import plain
from discreet.records.laws import RecordError, ids, quoted

__all__ = ["TextError", "Texts", "apart", "joined", "read_texts"]

PROMPTS = ("prompt", "instruction", "question", "input")
ANSWERS = ("completion", "response", "answer", "output")
IDS = ("id", "sample")
ROLES = ("system", "user", "assistant", "tool")
_LONGEST = 1 << 30


class TextError(ValueError):
    """Texts that cannot be read or scored; the message names the file and row, or the text."""


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts in order.

    Attributes:
        sample: Their ids, whole numbers or text, each once.
        prompt: What comes before the answer; empty where the whole text is scored.
        answer: What is scored. The whole text is prompt and answer, with nothing put between them.
        messages: Of chats: all messages, the last one the assistant's, whose content is ``answer``. The
            tokenizer's template then makes the text. Empty for plain texts.
        where: Where each was read, such as ``"train.jsonl, line 3"``; empty where that is not known.

    Example:
        >>> texts = Texts.of(["CCO is ethanol"])
        >>> len(texts), texts.prompt, texts.answer
        (1, ('',), ('CCO is ethanol',))
    """

    sample: np.ndarray
    prompt: tuple[str, ...]
    answer: tuple[str, ...]
    messages: tuple[tuple[Mapping[str, Any], ...], ...] = ()
    where: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sizes = {len(self.sample), len(self.prompt), len(self.answer)}
        if len(sizes | {len(each) for each in (self.messages, self.where) if each}) > 1:
            raise TextError(
                f"expected one id, prompt and answer a text, got {len(self.sample)}, {len(self.prompt)} and"
                f" {len(self.answer)}"
            )
        if not self.answer:
            raise TextError("expected at least one text, got none")
        try:
            object.__setattr__(self, "sample", ids(np.asarray(self.sample)))
        except RecordError as error:
            raise TextError(str(error)) from None

    def __len__(self) -> int:
        return len(self.answer)

    @classmethod
    def of(
        cls, answer: Sequence[str], prompt: Sequence[str] | None = None, sample: Sequence[Any] | None = None
    ) -> Texts:
        """Texts from lists; ids are 0, 1, 2, … when none are given."""
        made = np.arange(len(answer)) if sample is None else np.asarray(sample)
        return cls(made, tuple(prompt) if prompt is not None else ("",) * len(answer), tuple(answer))

    @property
    def whole(self) -> tuple[str, ...]:
        """Prompt and answer of each."""
        return tuple(before + after for before, after in zip(self.prompt, self.answer, strict=True))

    def take(self, index: Iterable[int] | np.ndarray) -> Texts:
        """The texts of some numbers, in that order; a mask takes those where it is true."""
        places = np.asarray(list(index) if not isinstance(index, np.ndarray) else index)
        places = np.flatnonzero(places) if places.dtype == bool else places.astype(int)
        return replace(
            self,
            sample=self.sample[places],
            prompt=tuple(self.prompt[i] for i in places),
            answer=tuple(self.answer[i] for i in places),
            messages=tuple(self.messages[i] for i in places) if self.messages else (),
            where=tuple(self.where[i] for i in places) if self.where else (),
        )


def joined(*parts: Texts) -> Texts:
    """Several collections as one; ids are kept where no two are alike, else numbered anew.

    Raises:
        TextError: Chats beside plain texts.
    """
    if len({bool(part.messages) for part in parts}) > 1:
        raise TextError("chats and plain texts cannot be scored together: give one or the other")
    kinds = {part.sample.dtype.kind for part in parts}
    sample = np.concatenate([part.sample for part in parts]) if len(kinds) == 1 else np.arange(0)
    if len(np.unique(sample)) < sum(map(len, parts)):
        sample = np.arange(sum(map(len, parts)))
    return Texts(
        sample,
        sum((part.prompt for part in parts), ()),
        sum((part.answer for part in parts), ()),
        sum((part.messages for part in parts), ()),
        sum((part.where for part in parts), ()) if all(part.where for part in parts) else (),
    )


def apart(members: Texts, others: Texts) -> tuple[Texts, Texts, dict[str, int]]:
    """Leave out what would be judged on both sides, and repeats on either.

    Two texts are the same if they agree, prompt and all, but for white space and how Unicode writes a letter,
    wherever the prompt ends. A text that is on both sides is left out of both: the model was trained on it, so as a
    non-member it is a wrong answer. Of repeats on one side the first is kept.

    Returns:
        What is left of members and of others, and how many texts each rule took: ``shared`` (texts of either
        side that also occur on the other), ``repeated_members``, ``repeated_nonmembers``.

    Raises:
        TextError: Nothing is left of one side.

    Example:
        >>> left, right, counts = apart(Texts.of(["a b", "c", "c"]), Texts.of(["a  b", "d"]))
        >>> left.answer, right.answer, counts
        (('c',), ('d',), {'shared': 2, 'repeated_members': 1, 'repeated_nonmembers': 0})
    """
    keys = [[plain(text) for text in texts.whole] for texts in (members, others)]
    common = set(keys[0]) & set(keys[1])
    counts = {"shared": sum(key in common for side in keys for key in side)}
    kept = []
    for name, texts, side in (("members", members, keys[0]), ("nonmembers", others, keys[1])):
        first = {key: place for place, key in reversed(list(enumerate(side)))}
        own = sorted(place for key, place in first.items() if key not in common)
        counts[f"repeated_{name}"] = sum(key not in common for key in side) - len(own)
        if not own:
            raise TextError(f"{name}: no text is left: all {len(texts)} are also on the other side")
        kept.append(texts.take(own))
    return kept[0], kept[1], counts


def read_texts(path: str | Path, *, prompt: str | None = None, answer: str | None = None) -> Texts:
    """Read texts from a table.

    Columns: ``text``; or a prompt (``prompt``, ``instruction``, ``question``, ``input``) and an answer
    (``completion``, ``response``, ``answer``, ``output``); or a chat as ``messages`` (a list of ``{"role",
    "content"}``, the last by the assistant). A column ``id`` or ``sample`` gives ids, else they are 0, 1, 2,
    …

    Args:
        path: ``.jsonl`` (one object a line), ``.csv`` (UTF-8, with a header) or ``.parquet``.
        prompt: The column of prompts, where it has another name.
        answer: The column of what is scored, where it has another name.

    Raises:
        TextError: The file, the row or the column, and what was expected.
    """
    path = Path(path)
    rows = _rows(path)
    if not rows:
        raise TextError(f"{path}: no texts in it")
    columns = list(dict.fromkeys(name for _, row in rows for name in row))
    if "messages" in columns and prompt is None and answer is None:
        return _chats(path, rows, columns)
    before, after = _columns(path, columns, prompt, answer)
    given = [(where, row.get(after), "" if before is None else row.get(before)) for where, row in rows]
    for where, said, asked in given:
        for name, value in ((after, said), (before, asked)):
            if not isinstance(value, str):
                got = "nothing" if value is None else f"{type(value).__name__} {quoted(value)}"
                raise TextError(f"{path}, {where}: expected text in {name!r}, got {got}")
    prompts = tuple(str(asked) for _, _, asked in given)
    answers = tuple(str(said) for _, said, _ in given)
    return Texts(_ids(path, rows, columns), prompts, answers, where=_places(path, rows))


def _rows(path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """Each row, and what to call it in a message."""
    kind = path.suffix.lower()
    if kind not in (".jsonl", ".csv", ".parquet"):
        raise TextError(f"{path}: expected a .jsonl, .csv or .parquet file")
    try:
        if kind == ".parquet":
            from pyarrow import parquet

            table = parquet.read_table(path)
            _once(path, table.column_names)
            return [(f"row {at}", row) for at, row in enumerate(table.to_pylist())]
        content = path.read_bytes().decode("utf-8-sig")  # as it is: a text may hold any line end
    except TextError:
        raise
    except UnicodeDecodeError as error:
        raise TextError(
            f"{path}: expected UTF-8, got the byte {error.object[error.start]:#x} at {error.start}"
        ) from None
    except (OSError, ValueError) as error:
        raise TextError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if kind == ".jsonl":
        return [
            (f"line {at}", _object(path, at, line))
            for at, line in enumerate(content.split("\n"), 1)
            if line.strip()
        ]
    csv.field_size_limit(_LONGEST)
    return _table(path, content)


def _object(path: Path, at: int, line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        why = f"{error.msg} at {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise TextError(
            f"{path}, line {at}: expected one JSON object, but it cannot be read: {why}"
        ) from None
    if not isinstance(row, dict):
        raise TextError(f"{path}, line {at}: expected one JSON object, got {type(row).__name__}")
    return row


def _table(path: Path, content: str) -> list[tuple[str, Mapping[str, Any]]]:
    try:
        head, *rows = list(csv.reader(io.StringIO(content, newline=""))) or [[]]
    except csv.Error as error:
        raise TextError(f"{path}: cannot be read as a table: {error}") from None
    _once(path, head)
    found = []
    for at, row in enumerate(rows, 1):
        if not row:
            continue
        if len(row) != len(head):
            raise TextError(f"{path}, row {at}: expected {len(head)} values as in the header, got {len(row)}")
        found.append((f"row {at}", dict(zip(head, row, strict=True))))
    return found


def _once(path: Path, columns: Sequence[str]) -> None:
    for name in columns:
        if columns.count(name) > 1:
            raise TextError(f"{path}: there are {columns.count(name)} columns {name!r}; keep one")


def _places(path: Path, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[str, ...]:
    return tuple(f"{path}, {where}" for where, _ in rows)


def _columns(
    path: Path, columns: Sequence[str], prompt: str | None, answer: str | None
) -> tuple[str | None, str]:
    """Names of the columns of the prompt (if any) and of the answer."""
    for name in (prompt, answer):
        if name is not None and name not in columns:
            raise TextError(
                f"{path}: no column {name!r}{near(name, columns)}; there are {', '.join(columns)}"
            )
    if answer is not None and answer == prompt:
        raise TextError(
            f"{path}: expected another column of answers than of prompts, got {answer!r} for both"
        )
    if answer is not None:
        return prompt, answer
    asked = [prompt] if prompt else [name for name in PROMPTS if name in columns]
    said = [name for name in ANSWERS if name in columns]
    if "text" in columns and not prompt and not (asked and said):
        return None, "text"
    if "text" not in columns and len(asked) == 1 and len(said) == 1:
        return asked[0], said[0]
    raise TextError(
        f"{path}: cannot tell which columns are meant among {', '.join(columns)}; expected text, or prompt and"
        " completion, or messages; name others with prompt and answer"
    )


def _chats(path: Path, rows: Sequence[tuple[str, Mapping[str, Any]]], columns: Sequence[str]) -> Texts:
    chats = []
    for where, row in rows:
        chat = row.get("messages")
        sound = isinstance(chat, list) and all(
            isinstance(each, dict) and isinstance(each.get("content"), str) and each.get("role") in ROLES
            for each in chat
        )
        if not sound or not chat or chat[-1]["role"] != "assistant":
            raise TextError(
                f"{path}, {where}: expected messages as a list of objects with role ({', '.join(ROLES)}) and content,"
                " the last one by the assistant"
            )
        chats.append(tuple({"role": each["role"], "content": each["content"]} for each in chat))
    prompts = tuple(json.dumps(list(chat[:-1]), ensure_ascii=False) for chat in chats)
    answers = tuple(chat[-1]["content"] for chat in chats)
    return Texts(_ids(path, rows, columns), prompts, answers, tuple(chats), _places(path, rows))


def _ids(path: Path, rows: Sequence[tuple[str, Mapping[str, Any]]], columns: Sequence[str]) -> np.ndarray:
    column = next((name for name in IDS if name in columns), None)
    if column is None:
        return np.arange(len(rows))
    values = [row.get(column) for _, row in rows]
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    try:
        return ids(np.array(values if whole else [str(value) for value in values]))
    except RecordError as error:
        raise TextError(f"{path}, column {column!r}: {error}") from None
