"""``discreet status``: how far a run directory is, and whether what it holds is sound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from discreet.store import Store

__all__ = ["status"]

_PAGES = ("audit.json", "report.html", "gate.json")


def status(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", show_default=False, help="A run directory.")],
) -> None:
    """Say what a run directory holds, whether it is sound, and who worked on it. Changes nothing.

    [bold]Example[/bold]

    discreet status discreet-demo

    Of a directory of discreet audit SPEC.toml or discreet compress it also says what is left, and about how long that
    takes.
    """
    from discreet.cli.output import say, table
    from discreet.store import Store

    if not run_dir.is_dir():
        raise ValueError(
            f"{run_dir}: {'a file' if run_dir.exists() else 'no such folder'}; expected a run directory"
        )
    if not (run_dir / "manifest.json").is_file():
        raise ValueError(f"{run_dir}: no manifest.json in it, so this is no run directory")
    store = Store(run_dir)
    planned = list(_planned(run_dir))
    if planned:
        say(*planned)
    table(("folder", "files", "bytes", "damaged"), list(_folders(store)), right=("files", "bytes", "damaged"))
    say(*_shipped(run_dir), *(f"{name}: {_judged(run_dir, name)}" for name in _PAGES))
    say(*(_session(session) for session in store.manifest["sessions"][-3:]))


def _planned(run_dir: Path) -> Iterator[str]:
    """What is done and left of a spec, if there is a plan."""
    if not (run_dir / "plan.json").is_file():
        return
    from discreet._words import listing
    from discreet.planned import planned
    from discreet.store import Store

    found = planned(Store(run_dir))
    units = len(found.done) + len(found.left) + len(found.failed)
    yield f"done: {len(found.done)} of {units} units of work"
    if found.left:
        took = "nothing was timed yet" if found.seconds is None else f"about {_duration(found.seconds)}"
        yield f"left: {listing(found.left, 8)} ({took})"
    yield from (f"failed: {name}: {reason}" for name, reason in found.failed.items())
    if found.stage:
        yield found.stage


def _shipped(run_dir: Path) -> Iterator[str]:
    """The files of a compression that ship, and whether they are those that were audited."""
    from discreet._json import loads
    from discreet._words import whole

    told = run_dir / "compress.json"
    shipped = loads(told.read_bytes()).get("shipped") if told.is_file() else None
    for each in shipped["files"] if shipped else ():
        path = run_dir / each["name"]
        bytes_ = path.stat().st_size if path.is_file() else None
        size = "not there" if bytes_ is None else f"{whole(bytes_)} bytes"
        expected = "" if bytes_ == each["bytes"] else f", {whole(each['bytes'])} bytes when it was audited"
        yield f"ships {each['name']}: {size}{expected}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{seconds / 3600:.1f} h"


def _folders(store: Store) -> list[tuple[str, ...]]:
    """Artefacts by folder: how many, how large, and how many no longer match their checksums."""
    found: dict[str, list[Path]] = {}
    for path in sorted(store.folder.rglob("*")):
        parts = path.relative_to(store.folder).parts
        if path.is_file() and len(parts) > 1 and not any(part.startswith(".") for part in parts):
            found.setdefault("/".join(parts[:-1]), []).append(path)
    return [
        (
            folder,
            f"{len(paths)}",
            f"{sum(path.stat().st_size for path in paths):,}",
            f"{sum(not _sound(_nearest(store, path), path) for path in paths)}",
        )
        for folder, paths in found.items()
    ]


def _nearest(store: Store, path: Path) -> Store:
    """The store that keeps a file: a run directory may have another one in it."""
    from discreet.store import Store

    inside = [place for place in path.parents if place.is_relative_to(store.folder) and place != store.folder]
    return next((Store(place) for place in inside if (place / "manifest.json").is_file()), store)


def _sound(store: Store, path: Path) -> bool:
    from discreet.store import StoreError

    try:
        return store.has(path.relative_to(store.folder).as_posix())
    except StoreError:
        return True  # a file that the store did not make


def _judged(run_dir: Path, name: str) -> str:
    from discreet._json import loads

    path = run_dir / name
    if not path.is_file():
        return "not there"
    if name != "gate.json":
        return f"{path.stat().st_size:,} bytes"
    audit = run_dir / "audit.json"
    if not audit.is_file() or audit.stat().st_mtime_ns > path.stat().st_mtime_ns:
        return "older than the audit: judge again"
    verdict = loads(path.read_bytes())
    if not isinstance(verdict, dict):
        return "not passed"
    if verdict.get("passed") is True:
        return "passed"
    return "undecided" if verdict.get("outcome") == "undecided" else "failed"


def _session(session: dict[str, Any]) -> str:
    ended = session.get("ended")
    return f"worked on from {session.get('started')} " + (
        f"to {ended}"
        if ended
        else f"by process {session.get('pid')} on {session.get('host')}, not ended in order"
    )
