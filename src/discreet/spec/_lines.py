"""The line that each key of a TOML file is on, which Python's reader does not tell."""

from __future__ import annotations

import re

__all__ = ["lines_of"]

_TABLE = re.compile(r"\s*\[\[?\s*(.+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")
# Strings and comments, whose brackets count for nothing; a triple quote may stay open.
_SKIP = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|' + r"'''.*?'''|" + r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'|#[^\n]*", re.DOTALL
)


def lines_of(text: str) -> dict[tuple[str, ...], int]:
    """Lines, counted from 1, of tables and keys, by their path.

    Example:
        >>> lines_of('[train]\\nepochs = 3  # [no table]\\n[a.b]\\nc = [\\n  "x = 1",\\n]\\nd = 2')
        {('train',): 1, ('train', 'epochs'): 2, ('a', 'b'): 3, ('a', 'b', 'c'): 4, ('a', 'b', 'd'): 7}
    """
    blank = _SKIP.sub(_without, text)
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    depth = 0
    for number, (line, bare) in enumerate(zip(text.split("\n"), blank.split("\n"), strict=True), start=1):
        if depth == 0 and bare.strip():
            if named := _TABLE.match(bare):
                table = _parts(line[named.start(1) : named.end(1)])
                found.setdefault(table, number)
                continue
            if (key := _KEY.match(line)) and bare[key.end() - 1] == "=":  # which in a string is blanked out
                found.setdefault((*table, *_parts(key.group(1))), number)
                bare = bare[bare.find("=") :]
        depth += sum(bare.count(each) for each in "[{") - sum(bare.count(each) for each in "]}")
    return found


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(path))


def _without(found: re.Match[str]) -> str:
    """As many characters and lines, nothing in them that means anything."""
    text = found.group()
    filler = " " if text.startswith("#") else "_"
    return "".join("\n" if letter == "\n" else filler for letter in text)
