"""Quantized models as files: what is on disk, what reads back, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from discreet.quantizers import PRESETS, Quantized, QuantizerError, quantize, quantize_file
from discreet.quantizers._safetensors import write

METADATA = {"format": "pt", "licence": "CC0", "note": 'a "quoted" line\nand <script>', "zoo": "é"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    tensors = {
        "0.weight": torch.randn(16, 30),
        "0.bias": torch.randn(16).half(),
        "1.running_mean": torch.randn(16),
        "steps": torch.tensor(3),
    }
    save_file(tensors, tmp_path / "model.safetensors", METADATA)
    return tmp_path / "model.safetensors"


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )


def test_dense_and_packed_files(model: Path, tmp_path: Path) -> None:
    dense, packed = tmp_path / "dense", tmp_path / "packed"
    done = quantize_file(model, "ternary(zeros=0.5, scale='absmean')", dense, packed_path=packed)
    expected = quantize(load_file(model), "ternary(zeros=0.5, scale='absmean')").dense
    assert same(load_file(dense), dict(expected))
    assert same(dict(Quantized.load(packed).dense), dict(expected))
    assert packed.stat().st_size == done.bytes
    with safetensors.safe_open(dense, framework="pt") as file:
        assert file.metadata() == METADATA
    assert sorted(tmp_path.iterdir()) == sorted([model, dense, packed])


def test_the_files_have_the_same_bytes_every_time(model: Path, tmp_path: Path) -> None:
    made = []
    for turn in range(4):
        paths = [tmp_path / f"{kind}{turn}" for kind in ("dense", "packed")]
        quantize_file(model, "uniform(bits=3)", paths[0], packed_path=paths[1])
        made.append([path.read_bytes() for path in paths])
    assert all(each == made[0] for each in made)


def test_a_bare_file_goes_by_axes_and_patterns(model: Path, tmp_path: Path) -> None:
    assert quantize_file(model, "sign(scope='weights')", tmp_path / "out").quantized == ("0.weight",)
    done = quantize_file(model, "sign", tmp_path / "out", include=["0.*"], exclude=["*.bias"])
    assert done.quantized == ("0.weight",)
    assert done.reasons["0.bias"] == "excluded"


def test_a_file_may_replace_itself(model: Path) -> None:
    before = load_file(model)
    quantize_file(model, "sign", model)
    assert same(load_file(model), dict(quantize(before, "sign").dense))


@pytest.mark.parametrize(
    ("spec", "bits", "size"),
    [
        # 496 weights: 62 bytes of signs; 100 of trits; 3 bits each, and one float32 step.
        ("sign", 1.0, 62),
        ("ternary(zeros=0.5)", 1.6129, 100),
        ("uniform(bits=2)", 3.0645, 190),
        # One float32 scale for each of 16 channels of the weight, and one for the bias.
        ("sign(granularity='channel', scale='absmean')", 2.0968, 130),
        # 124 indices of 4 bits, and a codebook of 16 entries of 4 float32.
        ("vector(size=16, block=4)", 5.1290, 318),
    ],
)
def test_bits_are_those_stored(model: Path, tmp_path: Path, spec: str, bits: float, size: int) -> None:
    done = quantize_file(model, spec, tmp_path / "dense", packed_path=tmp_path / "packed")
    assert done.weights == 496
    assert done.bits_per_weight == pytest.approx(bits, abs=1e-4)
    with safetensors.safe_open(tmp_path / "packed", framework="pt") as file:
        stored = sum(file.get_tensor(name).nbytes for name in file.keys() if not name.startswith("kept."))  # noqa: SIM118
    assert stored == size
    # What is kept: 16 float32 and an int64.
    header = int.from_bytes((tmp_path / "packed").read_bytes()[:8], "little")
    assert done.bytes == 8 + header + size + 16 * 4 + 8


def test_the_full_model_costs_what_it_costs(model: Path, tmp_path: Path) -> None:
    done = quantize_file(model, "full", tmp_path / "out")
    assert same(load_file(tmp_path / "out"), load_file(model))
    assert done.bits_per_weight == pytest.approx((480 * 32 + 16 * 16) / 496)
    assert done.levels is None


def test_fewer_bits_make_smaller_files(model: Path, tmp_path: Path) -> None:
    big = {"w": torch.randn(256, 256)}
    sizes = {spec: quantize(big, spec).bytes for spec in (*PRESETS["paper"], "full")}
    assert list(sizes.values()) == sorted(sizes.values())
    assert sizes["sign"] < sizes["full"] / 25


def test_loading_runs_no_code_named_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "packed"
    quantize({"w": torch.tensor([1.0, -2.0])}, "sign").save(path)
    with safetensors.safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["discreet"])
    about["quantizer"] = "antigravity:Fly"
    save_file(load_file(path), path, {"discreet": json.dumps(about)})
    again = Quantized.load(path)
    assert again.spec == "antigravity:Fly"
    assert again.dense["w"].tolist() == [1, -1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "discreet.quantized/2"}, "is no packed model of schema 'discreet.quantized/1'"),
        ({"tensors": {"w": ["float32", [3]]}}, "stored 'codes' must have shape"),
        ({"tensors": {}}, "is inconsistent: KeyError: 'w'"),
        ({"tensors": {"w": ["no_such_type", [9]]}}, "is inconsistent: AttributeError"),
        ({"granularity": "row"}, "is inconsistent: QuantizerError: granularity must be"),
        ({"parts": []}, "is inconsistent: ValueError"),
        ({"parts": [{"form": "spell"}]}, "unknown form of stored weights: 'spell'"),
        ({"parts": [{"form": "raw"}]}, "stored 'raw' must have shape (1, 9), got nothing"),
        ({"parts": [{"form": "indices"}]}, "codebooks of 1 groups expected, got nothing"),
        ({"kept": {"b": "why"}}, "is inconsistent: KeyError: 'kept.b'"),
    ],
)
def test_packed_files_that_contradict_themselves(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path = tmp_path / "packed"
    done = quantize({"w": torch.arange(-4.0, 5.0)}, "sign")
    save_file(dict(done.packed), path, {"discreet": json.dumps(dict(done.about) | change)})
    with pytest.raises(QuantizerError) as caught:
        Quantized.load(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_files_that_are_none(model: Path, tmp_path: Path) -> None:
    whole = model.read_bytes()
    for name, data in (("empty", b""), ("short", whole[:-9]), ("text", b"variant,run\n" * 20)):
        path = tmp_path / name
        path.write_bytes(data)
        for read in (Quantized.load, lambda path: quantize_file(path, "sign", tmp_path / "out")):
            with pytest.raises(QuantizerError, match=rf"^{path} is no sound safetensors file: "):
                read(path)
    with pytest.raises(QuantizerError, match=r"is no packed model of schema 'discreet.quantized/1'$"):
        Quantized.load(model)
    save_file({"w": torch.ones(1)}, tmp_path / "odd", {"discreet": "{"})
    with pytest.raises(QuantizerError, match=r"odd: the header is no JSON"):
        Quantized.load(tmp_path / "odd")
    with pytest.raises(QuantizerError, match=r"^cannot read .*gone: No such file or directory"):
        quantize_file(tmp_path / "gone", "sign", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nothing_is_left_where_nothing_can_be_written(model: Path, tmp_path: Path) -> None:
    with pytest.raises(QuantizerError, match=r"^cannot write .*/no/out: No such file or directory$"):
        quantize_file(model, "sign", tmp_path / "no" / "out")
    (tmp_path / "folder").mkdir()
    with pytest.raises(QuantizerError, match=r"^cannot write .*/folder: "):
        quantize_file(model, "sign", tmp_path / "folder")
    with pytest.raises(QuantizerError, match=r"^dense and packed weights cannot both go to "):
        quantize_file(model, "sign", tmp_path / "one", packed_path=tmp_path / "folder" / ".." / "one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "model.safetensors"]


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(b"new", path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
