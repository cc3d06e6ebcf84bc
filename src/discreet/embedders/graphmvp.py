"""GraphMVP: Liu et al., "Pre-training Molecular Graph Representation with 3D Geometry" (2022); weights of the user.

The network is written anew after Hu et al., "Strategies for Pre-training Graph Neural Networks" (2020), whose graph
isomorphism network and whose atom and bond features GraphMVP's classification branch uses, so neither the authors'
code nor torch-geometric is needed: only the file of weights that they publish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet._types import Float
from discreet.embedders._protocol import EmbedderError
from discreet.embedders._rdkit import molecules

__all__ = ["Graphmvp"]

_GET = (
    "name the weights of GraphMVP's classification branch (a PyTorch file of tensors, such as the authors' "
    "MoleculeNet checkpoints): graphmvp(weights='PATH')"
)
_SELF_LOOP, _BATCH = 4, 256


@dataclass(frozen=True)
class Graphmvp:
    """Mean over atoms of the last layer of the pre-trained network (300 numbers in the authors' checkpoints).

    Attributes:
        weights: The user's copy of the weights. It is read as tensors only, never unpickled.
    """

    weights: str = ""

    def embed(self, smiles: Sequence[str]) -> Float[np.ndarray, "molecule feature"]:
        """Embed in batches of one large graph."""
        import torch

        state = _read(self.weights)
        graphs = [_graph(molecule) for molecule in molecules(smiles)]
        with torch.inference_mode():
            parts = [_means(state, graphs[at : at + _BATCH]) for at in range(0, len(graphs), _BATCH)]
        return np.concatenate(parts)


def _read(path: str) -> Mapping[str, Any]:
    import torch

    if not path:
        raise EmbedderError(f"weights: none given; {_GET}")
    if not Path(path).is_file():
        raise EmbedderError(f"weights: {path} is no file; {_GET}")
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        raise EmbedderError(
            f"weights: {path} is no file of tensors ({type(error).__name__}); {_GET}"
        ) from None
    state = {name.removeprefix("molecule_model."): value for name, value in dict(state).items()}
    needed = [
        "x_embedding1.weight",
        "x_embedding2.weight",
        "gnns.0.mlp.0.weight",
        "batch_norms.0.running_var",
    ]
    missing = [name for name in needed if name not in state]
    if missing:
        raise EmbedderError(f"weights: {path} lacks {', '.join(missing)}; {_GET}")
    return state


def _graph(molecule: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Atoms [atom, 2] (number less 1, chirality), edges [2, edge] both ways, bonds [edge, 2] (kind, direction)."""
    from rdkit import Chem

    chirality = [
        Chem.ChiralType.CHI_UNSPECIFIED,
        Chem.ChiralType.CHI_TETRAHEDRAL_CW,
        Chem.ChiralType.CHI_TETRAHEDRAL_CCW,
    ]
    kinds = [Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE, Chem.BondType.AROMATIC]
    ways = [Chem.BondDir.NONE, Chem.BondDir.ENDUPRIGHT, Chem.BondDir.ENDDOWNRIGHT]

    def at(names: list[Any], found: Any, what: str) -> int:
        if found not in names:
            raise EmbedderError(
                f"{Chem.MolToSmiles(molecule)[:60]}: GraphMVP has no {what} {found}; leave the molecule out"
            )
        return names.index(found)

    atoms = []
    for atom in molecule.GetAtoms():
        if not atom.GetAtomicNum():
            raise EmbedderError(
                f"{Chem.MolToSmiles(molecule)[:60]}: GraphMVP has no atom of number 0; leave the molecule out"
            )
        atoms.append([atom.GetAtomicNum() - 1, at(chirality, atom.GetChiralTag(), "chirality")])
    edges, bonds = [], []
    for bond in molecule.GetBonds():
        kind = [at(kinds, bond.GetBondType(), "bond"), at(ways, bond.GetBondDir(), "direction of bonds")]
        edges += [
            (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()),
            (bond.GetEndAtomIdx(), bond.GetBeginAtomIdx()),
        ]
        bonds += [kind, kind]
    return (
        np.array(atoms),
        np.array(edges, np.int64).reshape(-1, 2).T,
        np.array(bonds, np.int64).reshape(-1, 2),
    )


def _means(
    state: Mapping[str, Any], graphs: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> Float[np.ndarray, "molecule feature"]:
    import torch
    from torch.nn.functional import batch_norm, linear, relu

    sizes = np.array([len(atoms) for atoms, _, _ in graphs])
    start = np.cumsum(sizes) - sizes
    atoms = torch.from_numpy(np.concatenate([each for each, _, _ in graphs]))
    edges = np.concatenate([each + at for (_, each, _), at in zip(graphs, start, strict=True)], axis=1)
    own = np.arange(len(atoms))
    source, target = (torch.from_numpy(np.concatenate([side, own])) for side in edges)
    loops = np.tile([_SELF_LOOP, 0], (len(atoms), 1))
    bonds = torch.from_numpy(np.concatenate([*(each for _, _, each in graphs), loops]))
    x = state["x_embedding1.weight"][atoms[:, 0]] + state["x_embedding2.weight"][atoms[:, 1]]
    layers = sum(name.endswith(".mlp.0.weight") for name in state)
    for layer in range(layers):
        name = f"gnns.{layer}"
        bond = (
            state[f"{name}.edge_embedding1.weight"][bonds[:, 0]]
            + state[f"{name}.edge_embedding2.weight"][bonds[:, 1]]
        )
        summed = torch.zeros_like(x).index_add_(0, target, x[source] + bond)
        wide = relu(linear(summed, state[f"{name}.mlp.0.weight"], state[f"{name}.mlp.0.bias"]))
        x = linear(wide, state[f"{name}.mlp.2.weight"], state[f"{name}.mlp.2.bias"])
        norm = (
            state[f"batch_norms.{layer}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        x = batch_norm(x, *norm)
        x = relu(x) if layer < layers - 1 else x
    molecule = torch.from_numpy(np.repeat(np.arange(len(graphs)), sizes))
    total = x.new_zeros(len(graphs), x.shape[1]).index_add_(0, molecule, x)
    return (total / torch.from_numpy(sizes)[:, None]).float().numpy()
