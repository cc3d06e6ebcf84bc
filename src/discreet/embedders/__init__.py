"""Embedders: molecules as vectors that small networks are trained on.

An embedder is one frozen dataclass in one file of this folder, found by its file name; one of your own goes by
``my_package.mine:Mine``, a plain function ``SMILES -> vector`` by ``call('my_package.mine:function')``.
"""

from __future__ import annotations

from discreet import _find
from discreet.embedders._protocol import PACKAGE, Embedder, EmbedderError, embed, parse, spec

__all__ = ["PACKAGE", "Embedder", "EmbedderError", "embed", "names", "parse", "spec"]


def names() -> tuple[str, ...]:
    """Names of all embedders, by listing this folder."""
    return _find.names(PACKAGE)
