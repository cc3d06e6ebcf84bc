"""The sparse container: what reads back, what it takes, what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.torch import load_file, save_file
from torch import Tensor

from discreet.artefacts import ArtefactError, load_masks, load_sparse, save_sparse
from discreet.artefacts._index import decode, encode
from discreet.mlp import MLP
from discreet.sparse import Plan, attach, close, counts, draw_masks


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    def bits(tensor: Tensor) -> Tensor:
        return tensor.contiguous().reshape(-1).view(torch.uint8)

    return list(one) == list(other) and all(
        one[name].dtype == other[name].dtype
        and one[name].shape == other[name].shape
        and torch.equal(bits(one[name]), bits(other[name]))
        for name in one
    )


def sparse_model(density: float = 0.05) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights of an MLP 20-256-256-10, and its masks."""
    network = MLP((20, 256, 256, 10))
    stack = network.init([3])
    shapes = {name: tuple(stack[name].shape[1:]) for name, _ in network.layers}
    masks = draw_masks(shapes, counts(shapes, density), [3])
    closed = close(stack, masks)
    return {name: value[0] for name, value in closed.items()}, {name: mask[0] for name, mask in masks.items()}


def naive(mask: np.ndarray, form: str) -> list[int]:
    """An index read one item at a time, as its description says."""
    data, largest = encode(mask)[1].tolist(), {"gaps8": 255, "gaps16": 65535}.get(form, 0)
    if form == "all":
        return list(range(len(mask)))
    if form == "bitmask":
        return [at for at in range(len(mask)) if data[at // 8] >> at % 8 & 1]
    found, place = [], 0
    for gap in data:
        place += gap
        if gap < largest:
            found.append(place)
            place += 1
    return found


@given(
    hnp.arrays(np.bool_, st.integers(1, 3000), elements=st.booleans()),
    st.sampled_from([1.0, 0.3, 0.05, 0.003]),
    st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_an_index_reads_back_and_means_what_it_says(mask: np.ndarray, keep: float, seed: int) -> None:
    mask = mask & (np.random.default_rng(seed).random(len(mask)) < keep)
    form, data = encode(mask)
    assert np.arange(len(mask))[decode(form, data, len(mask))].tolist() == np.flatnonzero(mask).tolist()
    assert naive(mask, form) == np.flatnonzero(mask).tolist()
    others = [len(np.packbits(mask)), int(mask.sum()) + len(mask) // 255]
    assert form == "all" or data.nbytes <= min(others)


@pytest.mark.parametrize(
    ("density", "form"),
    [(0.5, "bitmask"), (0.15, "bitmask"), (0.1, "gaps8"), (0.01, "gaps8"), (0.0005, "gaps16")],
)
def test_the_shortest_form_is_taken(density: float, form: str) -> None:
    mask = np.random.default_rng(0).random(200_000) < density
    assert encode(mask)[0] == form


def test_gaps_of_exactly_a_filler() -> None:
    for first in (254, 255, 256, 509, 510, 511):
        mask = np.zeros(1000, np.bool_)
        mask[first : first + 20 : 2] = True
        form, data = encode(mask)
        assert form == "gaps8"
        assert np.asarray(decode(form, data, 1000)).tolist() == list(range(first, first + 20, 2))


def test_a_model_reads_back_bit_for_bit_with_its_masks(tmp_path: Path) -> None:
    state, masks = sparse_model()
    used = next(iter(masks.values())).nonzero()[:2]
    weight = state["0.weight"]
    weight[tuple(used[0])] = 0.0  # in use, and exactly 0
    weight[tuple(used[1])] = -0.0
    extra = {
        "steps": torch.tensor(3),
        "names": torch.arange(4, dtype=torch.uint8),
        "empty": torch.zeros(0, 5),
    }
    state |= extra
    saved = save_sparse(tmp_path / "model", state, masks)
    again = load_sparse(tmp_path / "model")
    assert same(again, state)
    assert torch.signbit(again["0.weight"][tuple(used[1])])
    assert same(load_masks(tmp_path / "model"), masks)
    assert saved.used == sum(int(mask.sum()) for mask in masks.values())
    assert saved.density == saved.used / sum(mask.numel() for mask in masks.values())
    assert saved.changed == 0
    again["0.bias"] += 1  # nothing is shared with a file that was read
    assert same(load_sparse(tmp_path / "model"), state)


def test_outputs_of_a_reloaded_model_are_the_same_bits(tmp_path: Path) -> None:
    """A 5 % model, exported and reloaded."""
    state, masks = sparse_model()
    save_sparse(tmp_path / "model", state, masks)
    module, again = MLP((20, 256, 256, 10)).module(), MLP((20, 256, 256, 10)).module()
    module.load_state_dict(state)
    again.load_state_dict(load_sparse(tmp_path / "model"))
    x = torch.randn(64, 20)
    assert torch.equal(module(x), again(x))


def test_sizes_are_those_on_disk(tmp_path: Path) -> None:
    state, masks = sparse_model()
    saved = save_sparse(tmp_path / "model", state, masks)
    assert saved.bytes == (tmp_path / "model").stat().st_size
    assert saved.bytes == saved.values + saved.index + saved.kept + saved.header
    assert saved.values == 4 * saved.used
    assert saved.kept == 4 * (256 + 256 + 10)
    assert saved.dense == 4 * sum(value.numel() for value in state.values())
    plain = save_sparse(tmp_path / "plain", state, {})
    assert plain.bytes > saved.dense
    assert plain.density == 1.0
    # on a large tensor headers do not count: 4 bytes of value and about one of place for each weight in use
    mask = torch.rand(1000, 1000) < 0.05
    large = save_sparse(tmp_path / "large", {"w": torch.randn(1000, 1000) * mask + 0.0}, {"w": mask})
    assert large.bytes / large.used == pytest.approx(5, abs=0.1)
    assert "times smaller" in large.sentences()[0]
    assert len(large.sentences()) == 2


def test_masks_are_found_where_they_pay(tmp_path: Path) -> None:
    state, masks = sparse_model()
    state["dense"] = torch.randn(100, 100)
    saved = save_sparse(tmp_path / "found", state)
    assert saved.forms["dense"] == "dense"
    assert saved.forms["2.weight"] == "gaps8"
    assert same(load_sparse(tmp_path / "found"), state)
    assert torch.equal(load_masks(tmp_path / "found")["2.weight"], masks["2.weight"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_floating_type(tmp_path: Path, dtype: torch.dtype) -> None:
    value = torch.randn(50, 40).to(dtype).masked_fill(torch.rand(50, 40) < 0.9, 0)
    value[0, 0] = float("inf")
    save_sparse(tmp_path / "model", {"w": value}, {"w": value != 0})
    assert same(load_sparse(tmp_path / "model"), {"w": value})


def test_narrow_values_are_told(tmp_path: Path) -> None:
    state, masks = sparse_model()
    exact = save_sparse(tmp_path / "exact", state, masks)
    saved = save_sparse(tmp_path / "half", state, masks, values="float16")
    again = load_sparse(tmp_path / "half")
    expected = {name: value.half().float() if name in masks else value for name, value in state.items()}
    assert same(again, expected)
    assert saved.changed == sum(int((expected[name] != state[name]).sum()) for name in masks) > 0
    assert saved.values == exact.values // 2
    assert saved.index == exact.index
    assert "outputs change" in saved.sentences()[2]
    assert same(load_masks(tmp_path / "half"), masks)
    assert save_sparse(tmp_path / "same", state, masks, values="float32").changed == 0
    with pytest.raises(ArtefactError, match="values: 1 weights of 'w' are too large for float16"):
        save_sparse(
            tmp_path / "big",
            {"w": torch.tensor([1e6, 0.0])},
            {"w": torch.tensor([True, False])},
            values="float16",
        )
    assert not (tmp_path / "big").exists()


def test_tied_weights_are_kept_once_and_stay_tied(tmp_path: Path) -> None:
    weight = torch.randn(200, 200)
    one = save_sparse(tmp_path / "one", {"a": weight})
    tied = save_sparse(tmp_path / "tied", {"a": weight, "b": weight, "c": torch.ones(1)})
    assert tied.bytes < one.bytes + 500
    again = load_sparse(tmp_path / "tied")
    assert list(again) == ["a", "b", "c"]
    assert again["a"] is again["b"]
    mask = torch.rand(200, 200) < 0.1
    weight.masked_fill_(~mask, 0)
    save_sparse(tmp_path / "masked", {"a": weight, "b": weight}, {"b": mask})
    assert torch.equal(load_masks(tmp_path / "masked")["a"], mask)
    with pytest.raises(ArtefactError, match="masks: 'b' is tied to 'a', whose mask differs"):
        save_sparse(tmp_path / "not", {"a": weight, "b": weight}, {"a": mask, "b": torch.ones_like(mask)})


def test_the_bytes_are_the_same_every_time(tmp_path: Path) -> None:
    state, masks = sparse_model()
    for name in ("one", "two"):
        save_sparse(tmp_path / name, state, masks, notes={"density": 0.05})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_masked_module_needs_no_preparation(tmp_path: Path) -> None:
    module = MLP((20, 64, 10)).module()
    masked = attach(module, Plan(0.1))
    state = dict(module.state_dict())
    save_sparse(tmp_path / "model", state, masked.masks)
    assert same(load_sparse(tmp_path / "model"), state)


def test_any_altered_byte_is_noticed(tmp_path: Path) -> None:
    state, masks = sparse_model()
    path = tmp_path / "model"
    saved = save_sparse(path, state, masks)
    data = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    places = {*range(8), *rng.choice(len(data), 150, replace=False).tolist(), len(data) - 1}
    for place in sorted(places):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        if damaged[place] == 9 and data[place] == 32:
            continue  # the space after the header is no content
        with pytest.raises(ArtefactError, match=re.escape(str(path))):
            load_sparse(path)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ArtefactError, match="the checksum does not match: the file was altered or damaged"):
        load_sparse(path)
    with pytest.raises(ArtefactError, match="the checksum does not match"):
        load_masks(path)
    path.write_bytes(data)
    assert same(load_sparse(path, sha256=saved.sha256), state)
    with pytest.raises(
        ArtefactError, match=f"expected content with the SHA-256 {'0' * 64}, got {saved.sha256}"
    ):
        load_sparse(path, sha256="0" * 64)


def test_a_file_cut_short_is_noticed(tmp_path: Path) -> None:
    state, masks = sparse_model()
    path = tmp_path / "model"
    save_sparse(path, state, masks)
    data = path.read_bytes()
    for length in (0, 7, 8, 100, 2000, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(ArtefactError, match=r"truncated|cut off"):
            load_sparse(path)
    path.write_bytes(data + b"x")
    with pytest.raises(ArtefactError, match=f"expected {len(data)} bytes, got {len(data) + 1}"):
        load_sparse(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with pytest.raises(ArtefactError, match="cannot read: no such file"):
        load_sparse(path)
    with pytest.raises(ArtefactError, match="cannot read: no such file"):
        load_sparse(tmp_path)
    save_file({"w": torch.ones(3)}, path)
    with pytest.raises(
        ArtefactError, match=r"expected the schema 'discreet.sparse/1', got a file without one"
    ):
        load_sparse(path)
    save_file({"w": torch.ones(3)}, path, {"discreet": json.dumps({"schema": "discreet.sparse/9"})})
    with pytest.raises(ArtefactError, match=r"got 'discreet.sparse/9'"):
        load_sparse(path)
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(ArtefactError, match=r"no safetensors file|no JSON"):
        load_sparse(path)


def test_other_readers_of_safetensors_can_open_it(tmp_path: Path) -> None:
    state, masks = sparse_model()
    save_sparse(tmp_path / "model.safetensors", state, masks)
    found = load_file(tmp_path / "model.safetensors")
    assert torch.equal(found["values.0.weight"], state["0.weight"][masks["0.weight"]])


@pytest.mark.parametrize(
    ("state", "masks", "message"),
    [
        ({}, None, "state: expected at least one tensor, got none"),
        ({"w": torch.eye(3).to_sparse()}, None, "dense tensor under 'w', got torch.sparse_coo on cpu"),
        ({"w": torch.tensor([1.0, float("nan")])}, None, "state: 'w' holds 1 NaN; a model with NaN is not saved"),
        ({"w": torch.ones(3)}, {"v": torch.ones(3) > 0}, "expected a floating tensor 'v' in the state, got none"),
        ({"w": torch.arange(3)}, {"w": torch.ones(3) > 0}, "floating tensor 'w' in the state, got one of int64"),
        ({"w": torch.ones(3)}, {"w": torch.ones(3)}, r"bools of shape \[3\] for 'w', got float32 of \[3\]"),
        ({"w": torch.ones(3)}, {"w": torch.ones(4) > 0}, r"expected bools of shape \[3\] for 'w', got bool of \[4\]"),
        ({"w": torch.ones(3)}, {"w": torch.ones(3) < 0}, "masks: 3 weights of 'w' outside the mask are not 0"),
        ({"w": torch.tensor([-0.0])}, {"w": torch.tensor([False])}, "masks: 1 weights of 'w' outside the mask"),
    ],
)  # fmt: skip
def test_bad_input(tmp_path: Path, state: dict, masks: dict | None, message: str) -> None:
    with pytest.raises(ArtefactError, match=message):
        save_sparse(tmp_path / "model", state, masks)
    assert not list(tmp_path.iterdir())


def test_bad_values_and_folders(tmp_path: Path) -> None:
    with pytest.raises(
        ArtefactError, match="values: expected None or one of float16, bfloat16, float32, got 'int8'"
    ):
        save_sparse(tmp_path / "model", {"w": torch.ones(3)}, values="int8")
    with pytest.raises(ArtefactError, match="cannot write"):
        save_sparse(tmp_path / "none" / "model", {"w": torch.ones(3)})
