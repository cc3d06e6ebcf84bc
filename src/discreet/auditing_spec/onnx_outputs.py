"""Whether a deployed file's one column holds probabilities: its last operator says it, or all its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from discreet._types import Num
from discreet._words import listing, whole
from discreet.auditing_spec.onnx_files import ask_onnx
from discreet.auditing_spec.outputs import probable

__all__ = ["Told", "told_by"]

_PROBABILITIES = ("Sigmoid", "HardSigmoid", "Softmax")
_LOGITS = ("Gemm", "MatMul", "Conv", "QGemm", "QLinearMatMul", "QLinearConv", "MatMulIntegerToFloat")
_SAME = ("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather", "Split")
_SAME = (*_SAME, "QuantizeLinear", "DequantizeLinear")  # operators that leave values what they were


@dataclass(frozen=True)
class Told:
    """What the outputs of a file are.

    Attributes:
        are_probabilities: None of several columns, where each row says it by its sum.
        why: How that is known, in words.
    """

    are_probabilities: bool | None = None
    why: str = ""


def told_by(
    paths: Sequence[Path], task: str, x: Num[Tensor, " sample *rest"]
) -> tuple[list[Told], list[str]]:
    """What the outputs of deployed files are, and what a reader must know of that.

    Args:
        paths: The files, one a run.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
        x: All samples. Files whose graph does not tell are run on them, and what is said of one is said of all these.

    Raises:
        ArtefactError: ONNX Runtime cannot read one.
        ValueError: Outputs that are neither logits nor probabilities.
    """
    wide = task == "mse" or _width(ask_onnx(paths[0])(x[:2])) > 1
    if wide:
        return [Told() for _ in paths], []
    found = [_by_graph(path) for path in paths]
    silent = [path for path, told in zip(paths, found, strict=True) if told is None]
    if silent:
        values = np.concatenate([ask_onnx(path)(x).ravel() for path in silent])
        if np.isin(values, (0, 1)).all():
            raise ValueError(
                f"{silent[0]}: expected logits or probabilities, got 0 and 1 alone, as labels are"
            )
        inside = probable(values)
        where = "all lie from 0 to 1" if inside else "do not all lie from 0 to 1"
        by_values = Told(inside, f"its values on {whole(len(x))} samples {where}")
        found = [by_values if told is None else told for told in found]
    told = [each for each in found if each is not None]
    return told, [
        f"{listing([path.name for path, one in zip(paths, told, strict=True) if one == each], 3)} returns one column,"
        f" read as {'probabilities of class 1' if each.are_probabilities else 'logits'}: {each.why}."
        for each in dict.fromkeys(told)
    ]


def _width(values: np.ndarray) -> int:
    return 1 if values.ndim == 1 else values.shape[1]


def _by_graph(path: Path) -> Told | None:
    """By the operator that an output comes from; None where it may be either."""
    import onnx

    floating = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)
    graph = onnx.load(str(path), load_external_data=False).graph
    makers = {name: node for node in graph.node for name in node.output}
    constants = {each.name for each in graph.initializer}
    names = [each.name for each in graph.output if each.type.tensor_type.elem_type in floating]
    node: Any = makers.get(names[0])
    while node is not None and (node.op_type in _SAME or _adds(node, constants)):
        node = makers.get(next(name for name in node.input if name not in constants))
    if node is None or node.op_type not in (*_PROBABILITIES, *_LOGITS):
        return None
    return Told(node.op_type in _PROBABILITIES, f"its graph ends in {node.op_type}")


def _adds(node: Any, constants: set[str]) -> bool:
    """Whether a node adds a constant, as a layer does with its bias."""
    return node.op_type == "Add" and len([name for name in node.input if name not in constants]) == 1
