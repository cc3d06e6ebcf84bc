"""Deployed ONNX files of one column: logits or probabilities, and how that is known."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(util.find_spec("torch") is None, reason="needs discreet[torch]")

if util.find_spec("torch") is not None:
    import torch

    from discreet.auditing_spec.outputs import logits_of
    from discreet.records import read_all
    from discreet.spec import SpecFileError
    from tests.test_auditing_spec_others import ONNX, carry_out, checkpoints, export, folder, no_page

    __all__ = ["folder", "no_page"]


def test_one_column_may_be_a_probability() -> None:
    two = np.array([[0.25], [0.75]])
    for task in ("bce", "ce"):
        found = logits_of(two, task)
        np.testing.assert_allclose(
            found[:, -1:] - (found[:, :1] if task == "ce" else 0), np.log([[1 / 3], [3]])
        )
    np.testing.assert_allclose(logits_of(two[:, 0], "bce"), [[-1.0986], [1.0986]], atol=1e-4)
    assert (
        logits_of(two, "mse").tolist()
        == logits_of(two, "bce", are_probabilities=False).tolist()
        == two.tolist()
    )
    assert logits_of(np.array([[0.25], [1.5]]), "bce").tolist() == [[0.25], [1.5]]
    assert logits_of(np.array([[1.0], [0.0]]), "bce").tolist() == [
        [1.0],
        [0.0],
    ]  # of zeros and ones nothing is known
    with pytest.raises(ValueError, match=r"expected probabilities, from 0 to 1, got 1.5 \(1 such\)"):
        logits_of(np.array([[0.25], [1.5]]), "bce", are_probabilities=True)


@pytest.mark.parametrize("by_graph", [True, False])
def test_a_deployed_file_of_one_probability(
    folder: Path, monkeypatch: pytest.MonkeyPatch, by_graph: bool
) -> None:
    pytest.importorskip("onnxruntime")
    checkpoints(folder, epochs=3)
    if not by_graph:
        monkeypatch.setattr("discreet.auditing_spec.onnx_outputs._by_graph", lambda path: None)
    losses, told = [], []
    for last in ((), (torch.nn.Sigmoid(),)):
        export(folder, *last)
        audit = carry_out(folder, ONNX).audit
        record = read_all([folder / "run" / name for name in audit.settings["release files"]])
        losses.append(record.signal("loss"))
        told += [note for note in audit.notes if "one column" in note]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3, atol=1e-5)
    why = ("its graph ends in Gemm", "its graph ends in Sigmoid")
    if not by_graph:
        why = (
            "its values on 300 samples do not all lie from 0 to 1",
            "its values on 300 samples all lie from 0 to 1",
        )
    assert told == [
        f"model.onnx returns one column, read as logits: {why[0]}.",
        f"model.onnx returns one column, read as probabilities of class 1: {why[1]}.",
    ]


def test_a_deployed_file_of_labels_is_refused(folder: Path) -> None:
    pytest.importorskip("onnxruntime")

    class Label(torch.nn.Module):
        def forward(self, logit: torch.Tensor) -> torch.Tensor:
            return (logit > 0).float()

    checkpoints(folder, epochs=3)
    export(folder, Label())
    with pytest.raises(
        SpecFileError, match=r"\[model\] onnx: .*: expected logits or probab.* got 0 and 1 alone"
    ):
        carry_out(folder, ONNX)
