"""An audit as one self-contained HTML file, and its figures as files. It shows numbers and computes none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from discreet._json import save
from discreet.audit import Audit

__all__ = ["render", "write"]


def render(audit: Audit) -> str:
    """Return the page: no script, nothing fetched, the same text for the same audit.

    Args:
        audit: what to show; its first analysis is the headline, the others are folded.
    """
    from discreet.report.page import page, sections, views

    return page(audit, [(view, sections(view)) for view in views(audit)])


def write(
    audit: Audit,
    path: str | Path,
    figures_dir: str | Path | None = None,
    formats: Sequence[str] = ("svg", "png"),
) -> tuple[Path, ...]:
    """Write the page, and the figures as files too where a folder is given.

    Args:
        audit: what to show.
        path: the HTML file; it appears whole or not at all.
        figures_dir: a folder, made if it is missing, for files such as ``1-ranking.svg`` (the number is that of
            the analysis).
        formats: ``"svg"``, ``"png"`` or both.

    Returns:
        The files written, the page first.

    Raises:
        ValueError: for an unknown format.
        OSError: naming the file, if it cannot be written.
    """
    from discreet.report.drawing import picture
    from discreet.report.page import page, sections, views

    for kind in formats:
        if kind not in ("svg", "png"):
            raise ValueError(f'formats: expected "svg" or "png", got {kind!r}')
    built = [(view, sections(view)) for view in views(audit)]
    written = [save(path, page(audit, built))]
    if figures_dir is not None:
        folder = Path(figures_dir)
        folder.mkdir(parents=True, exist_ok=True)
        for i, (_, parts) in enumerate(built, 1):
            for figure in (figure for part in parts for figure in part.figures):
                for kind in formats:
                    written.append(save(folder / f"{i}-{figure.name}.{kind}", picture(figure, kind)))
    return tuple(written)
