"""The sparse container beside a plain safetensors file of the same model: bytes, and time until it can be used.

Each load is the first of a process of its own, as when a model is served: memory that an earlier load has left behind
would flatter the copy. The files are in the system's cache.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from discreet.artefacts import load_sparse, save_sparse

LAYERS, SHAPE, TURNS = 5, (512, 512 * 9), 7
LOADS: dict[str, Callable[[str], object]] = {
    "plain": lambda path: {name: value.clone() for name, value in load_file(path).items()},
    "sparse": load_sparse,
}


def main() -> None:
    """Print sizes, and the ratio of the median times to load, and copy, all of it."""
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp())
    for density in (0.01, 0.05, 0.1, 0.2, 0.5):
        masks = {f"{i}.weight": torch.rand(SHAPE) < density for i in range(LAYERS)}
        state = {name: torch.randn(SHAPE).masked_fill_(~mask, 0) for name, mask in masks.items()}
        saved = save_sparse(folder / "sparse", state, masks)
        save_file(state, folder / "plain")
        found = {form: [once(form, folder) for _ in range(TURNS)] for form in LOADS}
        wall, core = (
            {form: sorted(v[at] for v in found[form])[TURNS // 2] for form in LOADS} for at in (0, 1)
        )
        print(
            f"density {density:4}: {saved.bytes / saved.used:5.2f} bytes a weight in use,"
            f" {saved.dense / saved.bytes:4.1f} times smaller; loaded in {wall['sparse'] / wall['plain']:.1f} times"
            f" the {1000 * wall['plain']:.0f} ms of loading and copying the plain file,"
            f" {core['sparse'] / core['plain']:.1f} times by core time"
        )


def once(form: str, folder: Path) -> tuple[float, float]:
    """Seconds, and processor seconds, of a first load."""
    command = [sys.executable, __file__, form, str(folder / form)]
    wall, core = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(wall), float(core)


def load(form: str, path: str) -> None:
    """Load once and print what it took; small things first, so that nothing is imported within the time."""
    torch.set_num_threads(1)
    small = Path(tempfile.mkdtemp()) / form
    state = {"w": torch.eye(64)}
    save_file(state, small) if form == "plain" else save_sparse(small, state)
    LOADS[form](str(small))
    wall, core = time.perf_counter(), time.process_time()
    LOADS[form](path)
    print(time.perf_counter() - wall, time.process_time() - core)


if __name__ == "__main__":
    load(*sys.argv[1:]) if len(sys.argv) == 3 else main()
