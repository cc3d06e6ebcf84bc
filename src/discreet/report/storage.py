"""What each variant takes on disk."""

from __future__ import annotations

from discreet._words import number, percent, whole
from discreet.report.markup import join
from discreet.report.table import code, note, table
from discreet.report.view import Section, View

__all__ = ["storage"]


def storage(view: View) -> Section | None:
    """The section that answers: what does each variant weigh?"""
    found = {row.variant: row for row in view.analysis.storage}
    if not found:
        return None
    rows = []
    for name in view.in_order(found):
        row = found[name]
        share = row.bytes / row.bytes_full if row.bytes_full else None
        cells = (
            number(row.bits_per_weight),
            _size(row.bytes),
            whole(row.bytes),
            percent(share),
            whole(row.levels),
        )
        rows.append((code(view.names[name]), *cells))
    head = ("Variant", "Bits per weight", "Size", "Bytes", "Share of full", "Levels")
    words = note("Scales and other side information are counted; bytes are those of the stored file.")
    return Section(
        "storage",
        "Storage",
        join(table(f"Storage, {view.analysis.name}", head, rows, show_caption=False), words),
    )


def _size(count: int | float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{number(count) if unit != 'B' else whole(count)} {unit}"
        count /= 1024
    return f"{number(count)} TiB"
