"""Embedders: RDKit's own numbers, a BERT and a graph network by naive loops, tables, functions, and missing parts."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from discreet import embedders
from discreet._find import SpecError
from discreet.embedders import EmbedderError, embed
from discreet.embedders._bert import Bert
from discreet.embedders.rxnfp import Rxnfp

pytestmark = pytest.mark.skipif(util.find_spec("rdkit") is None, reason="needs discreet[molecules]")
needs_rxnfp = pytest.mark.skipif(util.find_spec("rxnfp") is None, reason="needs the package rxnfp")
SMILES = ["CC(=O)Oc1ccccc1C(=O)O", "CCO", "C[C@H](N)C(=O)O", "Clc1ccccc1Br", "C"]


def length(smiles: str) -> list[float]:
    return [float(len(smiles)), 1.0]


def test_all_are_found() -> None:
    found = embedders.names()
    assert {"ecfp4", "descriptors", "rxnfp", "graphmvp", "infomax3d", "molr", "chemberta_mtr"} <= set(found)
    for name in set(found) - {"call", "table"}:
        method = embedders.parse(name)
        assert embedders.parse(embedders.spec(method)) == method
    with pytest.raises(SpecError, match="unknown embedder 'ecfp6'; did you mean 'ecfp4'"):
        embedders.parse("ecfp6")


def test_ecfp4_is_rdkits() -> None:
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=256, includeChirality=True)
    wanted = [generator.GetFingerprintAsNumPy(Chem.MolFromSmiles(s)) for s in SMILES]
    assert np.array_equal(embed("ecfp4(bits=256)", SMILES), np.array(wanted))


def test_descriptors_hold_the_molecular_weight() -> None:
    from rdkit.Chem import Descriptors

    at = [name for name, _ in Descriptors.descList].index("MolWt")
    assert np.sinh(embed("descriptors", SMILES)[1, at]) == pytest.approx(46.069, rel=1e-4)


@pytest.mark.parametrize("name", ["ecfp4", "descriptors", pytest.param("rxnfp", marks=needs_rxnfp)])
def test_a_vector_depends_on_its_molecule_alone(name: str) -> None:
    together = embed(name, SMILES)
    alone = np.concatenate([embed(name, [s]) for s in reversed(SMILES)])[::-1]
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=2e-5)


@needs_rxnfp
def test_rxnfp_tells_molecules_apart() -> None:
    x = embed("rxnfp", [*SMILES, "CC" * 400])  # longer than the positions: cut
    assert x.shape == (6, 256)
    assert len({row.tobytes() for row in x}) == 6


def test_bert_is_torchs_encoder_layer_after_layer() -> None:
    torch.manual_seed(0)
    width, heads, wide = 8, 2, 16
    layers = [
        nn.TransformerEncoderLayer(
            width, heads, wide, activation="gelu", batch_first=True, layer_norm_eps=1e-12
        )
        for _ in range(2)
    ]
    weights = {
        "embeddings.word_embeddings.weight": torch.randn(11, width),
        "embeddings.position_embeddings.weight": torch.randn(9, width),
        "embeddings.token_type_embeddings.weight": torch.randn(2, width),
        "embeddings.LayerNorm.weight": torch.rand(width),
        "embeddings.LayerNorm.bias": torch.rand(width),
    }
    for at, layer in enumerate(layers):
        layer.eval()
        name = f"encoder.layer.{at}"
        state = {key: value.detach() for key, value in layer.state_dict().items()}
        for place, part in enumerate(("query", "key", "value")):
            cut = slice(place * width, (place + 1) * width)
            weights[f"{name}.attention.self.{part}.weight"] = state["self_attn.in_proj_weight"][cut]
            weights[f"{name}.attention.self.{part}.bias"] = state["self_attn.in_proj_bias"][cut]
        for theirs, ours in {
            "self_attn.out_proj": "attention.output.dense",
            "norm1": "attention.output.LayerNorm",
            "linear1": "intermediate.dense",
            "linear2": "output.dense",
            "norm2": "output.LayerNorm",
        }.items():
            for part in ("weight", "bias"):
                weights[f"{name}.{ours}.{part}"] = state[f"{theirs}.{part}"]
    tokens = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]])
    x = nn.functional.layer_norm(
        weights["embeddings.word_embeddings.weight"][tokens]
        + weights["embeddings.position_embeddings.weight"][:4]
        + weights["embeddings.token_type_embeddings.weight"][0],
        (width,),
        weights["embeddings.LayerNorm.weight"],
        weights["embeddings.LayerNorm.bias"],
        1e-12,
    )
    with torch.no_grad():
        for layer in layers:
            x = layer(x, src_key_padding_mask=tokens == 0)
        found = Bert(weights, heads).states(tokens, pad=0)
    assert Bert(weights, heads).layers == 2
    torch.testing.assert_close(found[:, 0], x[:, 0], rtol=1e-4, atol=1e-5)


@pytest.fixture
def graph_weights(tmp_path: Path) -> Path:
    generator = torch.Generator().manual_seed(1)
    width = 6

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    state = {"x_embedding1.weight": drawn(120, width), "x_embedding2.weight": drawn(3, width)}
    for layer in range(3):
        name = f"gnns.{layer}"
        state |= {
            f"{name}.edge_embedding1.weight": drawn(6, width),
            f"{name}.edge_embedding2.weight": drawn(3, width),
            f"{name}.mlp.0.weight": drawn(2 * width, width),
            f"{name}.mlp.0.bias": drawn(2 * width),
            f"{name}.mlp.2.weight": drawn(width, 2 * width),
            f"{name}.mlp.2.bias": drawn(width),
        }
        state |= {f"batch_norms.{layer}.{part}": drawn(width) for part in ("weight", "bias", "running_mean")}
        state[f"batch_norms.{layer}.running_var"] = drawn(width).square() + 0.1
    torch.save(state, tmp_path / "weights.pth")
    return tmp_path / "weights.pth"


def test_graphmvp_by_a_loop_over_atoms(graph_weights: Path) -> None:
    from rdkit import Chem

    s = {k: v.double().numpy() for k, v in torch.load(graph_weights, weights_only=True).items()}
    kinds = {1.0: 0, 2.0: 1, 3.0: 2, 1.5: 3}
    for smiles, found in zip(SMILES, embed(f"graphmvp(weights={str(graph_weights)!r})", SMILES), strict=True):
        molecule = Chem.MolFromSmiles(smiles)
        tags = {"CHI_UNSPECIFIED": 0, "CHI_TETRAHEDRAL_CW": 1, "CHI_TETRAHEDRAL_CCW": 2}
        x = [
            s["x_embedding1.weight"][a.GetAtomicNum() - 1]
            + s["x_embedding2.weight"][tags[str(a.GetChiralTag())]]
            for a in molecule.GetAtoms()
        ]
        for layer in range(3):
            one, two = (s[f"gnns.{layer}.edge_embedding{k}.weight"] for k in (1, 2))
            after = []
            for atom in molecule.GetAtoms():
                total = x[atom.GetIdx()] + one[4] + two[0]
                for bond in atom.GetBonds():
                    way = {"NONE": 0, "ENDUPRIGHT": 1, "ENDDOWNRIGHT": 2}[str(bond.GetBondDir())]
                    kind = kinds[bond.GetBondTypeAsDouble()]
                    total = total + x[bond.GetOtherAtomIdx(atom.GetIdx())] + one[kind] + two[way]
                w = {k: s[f"gnns.{layer}.mlp.{k}"] for k in ("0.weight", "0.bias", "2.weight", "2.bias")}
                h = w["2.weight"] @ np.maximum(w["0.weight"] @ total + w["0.bias"], 0) + w["2.bias"]
                b = {
                    k: s[f"batch_norms.{layer}.{k}"]
                    for k in ("weight", "bias", "running_mean", "running_var")
                }
                h = (h - b["running_mean"]) / np.sqrt(b["running_var"] + 1e-5) * b["weight"] + b["bias"]
                after.append(np.maximum(h, 0) if layer < 2 else h)
            x = after
        np.testing.assert_allclose(found, np.mean(x, axis=0), rtol=1e-3, atol=1e-3)


def test_graphmvp_refuses_what_it_cannot_read(graph_weights: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match="weights: none given; name the weights of GraphMVP"):
        embed("graphmvp", SMILES)
    other = tmp_path / "other.pth"
    torch.save({"a": torch.zeros(1)}, other)
    with pytest.raises(EmbedderError, match=r"lacks x_embedding1\.weight, "):
        embed(f"graphmvp(weights={str(other)!r})", SMILES)
    other.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(EmbedderError, match="is no file of tensors"):
        embed(f"graphmvp(weights={str(other)!r})", SMILES)
    with pytest.raises(EmbedderError, match="GraphMVP has no atom of number 0; leave the molecule out"):
        embed(f"graphmvp(weights={str(graph_weights)!r})", ["*C"])


def test_functions() -> None:
    assert embed(length, SMILES)[1].tolist() == [3.0, 1.0]
    assert embed("call('builtins:len')", ["CCO"]).tolist() == [[3.0]]
    with pytest.raises(EmbedderError, match=r"expected vectors of one length, 21, got 3 for 'CCO'"):
        embed(lambda smiles: [1.0] * len(smiles), SMILES)
    with pytest.raises(
        EmbedderError, match="the vectors of 5 of 5 molecules are not finite, first that of CC"
    ):
        embed(lambda smiles: [np.nan], SMILES)
    with pytest.raises(EmbedderError, match="function: cannot find 'builtins:none'"):
        embed("call('builtins:none')", SMILES)
    with pytest.raises(SpecError, match="function: expected module:name, got 'len'"):
        embed("call('len')", SMILES)


@pytest.mark.parametrize("spec", ["table(path={!r})", "molr(table={!r})", "infomax3d(table={!r})"])
def test_tables(spec: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    np.savez(path, smiles=np.array(["OCC", *SMILES[2:]]), vector=np.arange(12.0).reshape(4, 3))
    named = spec.format(str(path))
    assert embed(named, ["CCO", "C"]).tolist() == [[0.0, 1.0, 2.0], [9.0, 10.0, 11.0]]  # spelt in another way
    with pytest.raises(EmbedderError, match=r"lacks 1 of 5 molecules, first CC\(=O\)Oc1ccccc1C\(=O\)O"):
        embed(named, SMILES)
    np.savez(path, smiles=np.array(["C"], object), vector=np.zeros((1, 1)))
    with pytest.raises(EmbedderError, match="expected an npz of smiles and vector"):
        embed(named, SMILES)
    path.unlink()
    with pytest.raises(EmbedderError, match="no such file"):
        embed(named, SMILES)


def test_missing_parts_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        EmbedderError, match="folder: none given; name a local copy of DeepChem/ChemBERTa-77M-MTR"
    ):
        embed("chemberta_mtr", SMILES)
    with pytest.raises(EmbedderError, match=r"holds no config\.json"):
        embed(f"chemberta_mtr(folder={str(tmp_path)!r})", SMILES)
    with pytest.raises(SpecError, match="pooling: expected first or mean, got 'max'"):
        embedders.parse("chemberta_mtr(pooling='max')")
    if util.find_spec("transformers") is None:
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(EmbedderError, match="transformers, which runs ChemBERTa, is not installed"):
            embed(f"chemberta_mtr(folder={str(tmp_path)!r})", SMILES)
    for name, why in {"molr": "MolEFeaturizer", "infomax3d": "a clone of 3D Infomax"}.items():
        with pytest.raises(EmbedderError, match=f"no such file; make it with .*{why}"):
            embed(name, SMILES)
    with pytest.raises(EmbedderError, match="expected SMILES that RDKit reads, got 'C1'"):
        embed("ecfp4", ["C1"])
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(
        EmbedderError, match=r"is not installed; install it with: pip install --no-deps rxnfp==0\.1\.0"
    ):
        Rxnfp().embed(["C"])
