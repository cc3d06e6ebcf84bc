"""A plain safetensors file, for readers that know nothing of masks: as large as if no weight were 0."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from discreet.artefacts._file import plain, write

__all__ = ["save_dense"]


def save_dense(
    path: str | Path, state: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> int:
    """Write every tensor under its own name; tied ones are written once for each name.

    Args:
        path: Where; the file appears whole or not at all.
        state: Tensors of one model.
        metadata: Text for the header.

    Returns:
        Bytes on disk.

    Raises:
        ArtefactError: A type that safetensors does not hold, or a file that cannot be written.

    Example:
        >>> import tempfile, torch
        >>> save_dense(Path(tempfile.mkdtemp()) / "model.safetensors", {"w": torch.zeros(1000)})
        4104
    """
    alone = {name: tensor.detach().cpu().clone() for name, tensor in state.items()}
    data = plain(alone, {"format": "pt", **(metadata or {})})
    write(path, data)
    return len(data)
