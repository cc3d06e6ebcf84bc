"""The sparse container beside a plain safetensors file of the same model: bytes, and time until it can be used."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from discreet.artefacts import load_sparse, save_sparse
from tuning.rates import timed

LAYERS, SHAPE, TURNS = 5, (512, 512 * 9), 15


def main() -> None:
    """Print sizes, and the ratio of the least times to load, and copy, all of it."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp())
    plain, sparse = folder / "plain.safetensors", folder / "sparse.safetensors"
    for density in (0.01, 0.05, 0.1, 0.2, 0.5):
        masks = {f"{i}.weight": torch.rand(SHAPE) < density for i in range(LAYERS)}
        state = {name: torch.randn(SHAPE).masked_fill_(~mask, 0) for name, mask in masks.items()}
        saved = save_sparse(sparse, state, masks)
        save_file(state, plain)
        dense = timed(lambda: {name: value.clone() for name, value in load_file(plain).items()}, TURNS)
        own = timed(lambda: load_sparse(sparse), TURNS)
        print(
            f"density {density:4}: {saved.bytes / saved.used:5.2f} bytes a weight in use,"
            f" {saved.dense / saved.bytes:4.1f} times smaller; loaded in {own.wall / dense.wall:.1f} times the"
            f" {1000 * dense.wall:.0f} ms of loading and copying the plain file, {own.core / dense.core:.1f} times by"
            " core time"
        )


if __name__ == "__main__":
    main()
