"""``discreet audit --hf``: its options, checked before anything long begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.audit import Audit

__all__ = ["audit_hf", "check_no_hf", "refuse_with_hf"]


def refuse_with_hf(path: Path | None, *, init: bool, time_budget: float | None, backend: str) -> None:
    """Refuse what --hf does not go with.

    Raises:
        ValueError: Such an option is given.
    """
    given = {
        "a spec or run directory": path is not None,
        "--init": init,
        "--time-budget": time_budget is not None,
        "--backend": backend != "local",
    }
    for name, there in given.items():
        if there:
            raise ValueError(f"--hf: it does not go with {name}; see discreet audit --help")


def check_no_hf(**given: Any) -> None:
    """Refuse options that are for --hf alone.

    Raises:
        ValueError: Such an option is given.
    """
    for name, value in given.items():
        if value:
            raise ValueError(f"--{name.replace('_', '-')}: it is for --hf MODEL, which is not given")


def audit_hf(
    model: str,
    texts: Mapping[str, Path | None],
    folder: Path,
    *,
    calibration: Path | None,
    quantizers: Sequence[str] | None,
    attacks: Sequence[str] | None,
    columns: tuple[str | None, str | None],
    whole: bool,
    on_long: str,
    most: int | None,
    revision: str | None,
    trust_remote_code: bool,
    device: str | None,
    precision: str | None,
    workers: int | None,
) -> Audit:
    """Audit a fine-tuned language model; see ``discreet.auditing_language``.

    Raises:
        ValueError: An option is missing or cannot be read.
    """
    for name, value in texts.items():
        if value is None:
            raise ValueError(f"--{name}: it is needed with --hf; see discreet audit --help")
    if precision not in (None, "full", "mixed"):
        raise ValueError(f"--precision: expected full or mixed, got {precision!r}")
    if on_long not in ("refuse", "split", "cut"):
        raise ValueError(f"--on-long: expected refuse, split or cut, got {on_long!r}")
    from discreet.attack_specs import split_specs
    from discreet.cli import output

    output.check_folder(folder)
    from discreet.auditing_language import VARIANTS, Texted, audit_language

    wanted = [spec for text in quantizers or () for spec in split_specs(text, "--quantizer")] or list(
        VARIANTS
    )
    variants = ["full", *(spec for spec in dict.fromkeys(wanted) if spec != "full")]
    chosen = [spec for text in attacks or () for spec in split_specs(text)] or ["all"]
    prompt, answer = columns
    texted = Texted(
        Path(str(texts["members"])),
        Path(str(texts["nonmembers"])),
        calibration,
        prompt,
        answer,
        not whole,
        on_long,
        most,
    )
    with output.progress() as progress:
        found = audit_language(
            folder,
            model,
            Path(str(texts["adapter"])),
            texted,
            variants=variants,
            attacks=chosen,
            revision=revision,
            trust_remote_code=trust_remote_code,
            dtype="bfloat16" if precision == "mixed" else "float32",
            device=device or "cpu",
            workers=workers,
            progress=progress,
        )
    output.say(*(f"{name}: {count:,}" for name, count in found.data.counts.items() if count))
    return found
