"""The model that ships: its files, and an audit of what is read back from them, not of what was trained."""

from __future__ import annotations

import copy
import filecmp
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discreet._draft import regular, sync_folder
from discreet.artefacts import (
    ArtefactError,
    OnnxModel,
    csr_linears,
    latency,
    load_onnx,
    load_quantized,
    load_sparse,
    narrow,
    quantize_sparse,
    save_dense,
    save_onnx,
    save_sparse,
)
from discreet.initial import Architecture, as_model
from discreet.mlp import MLP
from discreet.phase import Outcome, Setting
from discreet.release_audit import Assessment, assess, assess_answers, check_tests
from discreet.sparse import dead_units
from discreet.spec.sections import Export

__all__ = ["FILES", "RUN", "Shipped", "count_parameters", "module_of", "one_run", "ship", "void"]

FILES = (
    "model.sparse.safetensors",
    "masks.safetensors",
    "model.safetensors",
    "model.onnx",
    "model.quantized.safetensors",
)
JUDGED = ("gate.json", "audit.json")
RUN = 0
"""The run whose model ships; picking the best by its audit would spoil the audit."""


@dataclass(frozen=True, eq=False)
class Shipped:
    """Files of one model.

    Attributes:
        files: For each file its form, name, bytes, and what is measured of the model that is read back.
        weights: Maskable weights, how many are in use, units without any; parameters of this model and the big one.
        notes: What was left out, and why; what changes outputs.
        speed: Latencies on this machine, which no other run gives again.
    """

    files: tuple[Mapping[str, Any], ...]
    weights: Mapping[str, Any]
    notes: tuple[str, ...]
    speed: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """All but the speed."""
        return {
            "files": [dict(each) for each in self.files],
            "weights": dict(self.weights),
            "notes": list(self.notes),
        }


def ship(
    folder: Path, setting: Setting, outcome: Outcome, export: Export, *, tests: Sequence[str]
) -> Shipped:
    """Write the model of the first run, read each file back, and audit what was read.

    Files are written and audited aside and then renamed, one after the other: whatever ends the process, each file in
    the folder is a whole one, of this call or the one before. A verdict or an audit of files that change goes first.

    Args:
        folder: Where the files go.
        setting: The task.
        outcome: The models.
        export: Which files.
        tests: Attacks of the audit.

    Raises:
        ArtefactError: A file that cannot be written, or would not read back.
    """
    aside = folder / ".scratch" / "shipping"
    shutil.rmtree(aside, ignore_errors=True)  # of a call that was killed
    aside.mkdir(parents=True)
    try:
        shipped = _written(aside, setting, outcome, export, tests)
        _put(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return shipped


def void(folder: Path) -> None:
    """Remove the audit and its verdict, before what they speak of changes."""
    for name in JUDGED:
        (folder / name).unlink(missing_ok=True)


def _written(
    folder: Path, setting: Setting, outcome: Outcome, export: Export, tests: Sequence[str]
) -> Shipped:
    own = one_run(setting, RUN)
    state = {name: value[RUN].contiguous() for name, value in outcome.params.items()}
    masks = {name: mask[RUN].contiguous() for name, mask in outcome.masks.items()}
    module = module_of(outcome, state)
    files: list[dict[str, Any]] = []
    notes: list[str] = []

    methods = check_tests(tests, own.kind)
    tests = [spec for spec in tests if "references" not in methods[spec].needs]
    if left_out := [spec for spec in methods if spec not in tests]:
        notes.append(
            f"The files were not attacked by {', '.join(left_out)}, which compares models of several runs"
        )

    def audited(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        return _audit(assess(own, outcome.model, {n: v[None] for n, v in tensors.items()}, tests=tests))

    files += _containers(folder, state, masks, export, audited, notes)
    if export.quantizer and masks:
        files.append(_in_bits(folder, state, masks, export.quantizer, audited))
    elif export.quantizer:
        notes.append(
            f"{export.quantizer}: the model is dense; quantize model.safetensors by discreet quantize"
        )
    runtime = _onnx(folder, own, module, tests, files, notes) if "onnx" in export.formats else None
    weights, slim = _weights(own, outcome, state, masks)
    x = own.x[torch.from_numpy(own.roles.test[0])]
    speed = _speed(module, masks, runtime, slim, x, export.batch_sizes) if export.batch_sizes else {}
    return Shipped(tuple(files), weights, tuple(notes), speed)


def _put(aside: Path, folder: Path) -> None:
    """Replace the files of an earlier call; those of formats that this one does not write go last."""
    here, there = ({name for name in FILES if (each / name).exists()} for each in (aside, folder))
    same = {name for name in here & there if filecmp.cmp(aside / name, folder / name, shallow=False)}
    if here == there == same:
        return
    void(folder)
    for name in sorted(here - same):
        os.replace(aside / name, regular(folder / name))
    for name in there - here:
        (folder / name).unlink()
    sync_folder(folder)


def one_run(setting: Setting, run: int) -> Setting:
    """The setting with one of its runs."""
    return replace(setting, roles=setting.roles.of(run))


def module_of(outcome: Outcome, state: Mapping[str, Tensor]) -> nn.Module:
    """A module with these weights, in eval mode."""
    built = as_model(outcome.model)
    module = built.module() if isinstance(built, MLP) else copy.deepcopy(built)
    own = dict(module.named_parameters()) | dict(module.named_buffers())
    with torch.no_grad():
        for name, value in state.items():
            own[name].copy_(value)
    return module.eval()


def count_parameters(model: Architecture) -> int:
    """How many numbers a model learns; its buffers are not among them.

    Example:
        >>> count_parameters(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)))
        44
    """
    built = as_model(model)
    return (
        built.parameters
        if isinstance(built, MLP)
        else sum(parameter.numel() for parameter in built.parameters())
    )


def _containers(
    folder: Path,
    state: Mapping[str, Tensor],
    masks: Mapping[str, Tensor],
    export: Export,
    audited: Callable[[Mapping[str, Tensor]], dict[str, Any]],
    notes: list[str],
) -> list[dict[str, Any]]:
    """The container, its masks, and the same weights as any reader takes them."""
    path = folder / "model.sparse.safetensors"
    saved = save_sparse(path, state, masks or None, values=export.values or None)
    back = load_sparse(path)
    files: list[dict[str, Any]] = [
        {
            "form": "sparse container",
            "name": path.name,
            "bytes": saved.bytes,
            "sha256": saved.sha256,
            "same": all(torch.equal(back[name], state[name]) for name in state),
            "audit": audited(back),
        }
    ]
    if saved.changed:
        notes.append(saved.sentences()[-1])
    if masks:
        size = save_dense(folder / "masks.safetensors", masks)
        files.append({"form": "masks", "name": "masks.safetensors", "bytes": size})
    if "dense" in export.formats:
        size = save_dense(folder / "model.safetensors", back)
        files.append({"form": "plain safetensors", "name": "model.safetensors", "bytes": size, "same": True})
    return files


def _in_bits(
    folder: Path,
    state: Mapping[str, Tensor],
    masks: Mapping[str, Tensor],
    quantizer: str,
    audited: Callable[[Mapping[str, Tensor]], dict[str, Any]],
) -> dict[str, Any]:
    path = folder / "model.quantized.safetensors"
    quantize_sparse(state, masks, quantizer).save(path)
    return {
        "form": f"sparse, {quantizer}",
        "name": path.name,
        "bytes": path.stat().st_size,
        "same": False,
        "audit": audited(load_quantized(path).dense),
    }


def _onnx(
    folder: Path,
    own: Setting,
    module: nn.Module,
    tests: Sequence[str],
    files: list[Any],
    notes: list[str],
) -> OnnxModel | None:
    x = own.x[torch.from_numpy(own.roles.test[0])]
    try:
        done = save_onnx(folder / "model.onnx", module, x[:256])
    except ModuleNotFoundError as error:
        notes.append(f'ONNX was left out, it needs {error.name}: pip install "discreet[onnx]"')
        return None
    except ArtefactError as error:
        notes.append(f"ONNX was left out: {error}")
        return None
    runtime = load_onnx(folder / "model.onnx")
    outside = [spec for spec, test in check_tests(tests, own.kind).items() if not test.needs]
    if left_out := sorted(set(tests) - set(outside)):
        notes.append(f"model.onnx was not attacked by {', '.join(left_out)}, which read more than outputs")
    audit = assess_answers(own, lambda rows: runtime(rows.numpy()), tests=outside) if outside else None
    files.append(
        {
            "form": "ONNX",
            "name": "model.onnx",
            "bytes": done.bytes,
            "same": False,
            "difference": done.difference,
            "audit": {} if audit is None else _audit(audit),
        }
    )
    return runtime


def _weights(
    own: Setting, outcome: Outcome, state: Mapping[str, Tensor], masks: Mapping[str, Tensor]
) -> tuple[dict[str, Any], nn.Module | None]:
    """Counts; and the network without units that do nothing, where there are any and it can be made."""
    weights: dict[str, Any] = {
        "maskable": sum(mask.numel() for mask in masks.values()),
        "used": sum(int(mask.sum()) for mask in masks.values()),
        "parameters": count_parameters(outcome.model),
        "parameters_full": count_parameters(own.model),
        "dead": {
            name: int(many[0]) for name, many in dead_units({n: m[None] for n, m in masks.items()}).items()
        },
    }
    built = as_model(outcome.model)
    if not masks or (isinstance(built, nn.Module) and MLP.of(built) is None):
        return weights, None
    left = narrow(built, state, masks)
    weights["removed"], weights["narrow"] = left.removed, list(left.network.widths)
    if not left.removed:
        return weights, None
    slim = left.network.module()
    slim.load_state_dict(dict(left.state))
    return weights, slim.eval()


def _speed(
    module: nn.Module,
    masks: Mapping[str, Tensor],
    runtime: OnnxModel | None,
    slim: nn.Module | None,
    x: Tensor,
    batch_sizes: Sequence[int],
) -> dict[str, Any]:
    forms: dict[str, nn.Module | OnnxModel] = {"dense": module}
    swaps: list[dict[str, Any]] = []
    if masks and any(type(part) is nn.Linear for part in module.modules()):
        swapped = csr_linears(module, masks, batch_sizes=batch_sizes)
        swaps = [
            {
                "layer": swap.layer,
                "density": swap.density,
                "kept": swap.kept,
                "faster": {str(size): asdict(each) for size, each in swap.faster.items()},
            }
            for swap in swapped.swaps
        ]
        if swapped.kept:
            forms["linear layers without zeros"] = swapped.module
    if slim is not None:
        forms["without units that do nothing"] = slim
    if runtime is not None:
        forms["ONNX Runtime"] = runtime
    found = latency(forms, x, batch_sizes)
    return {"swaps": swaps, "latency": [asdict(each) for each in found]}


def _audit(found: Assessment) -> dict[str, Any]:
    told = found.to_json()
    told.pop("by_run")
    return told
