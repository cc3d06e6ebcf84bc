"""The process in which ``gptqmodel`` runs: it changes environment variables and other libraries as it loads.

``python -m discreet.quantizers._gptq_process FOLDER`` reads a job per line of standard input, as JSON, and answers
each with a line on standard output. Arrays go by safetensors files in the folder. It ends when its input does, so
also when the process that started it dies, and takes the folder with it then.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any, TextIO

__all__ = ["main"]


def main(folder: Path) -> None:
    """Answer jobs until there are no more."""
    # The library prints: what is meant for the other process gets a channel of its own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if _serve(folder, answers):
        shutil.rmtree(folder, ignore_errors=True)


def _serve(folder: Path, answers: TextIO) -> bool:
    try:
        import torch
        from gptqmodel.quantization.gptq import GPTQ  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        _say(answers, {"missing": error.name or str(error)})
        return False
    torch.set_num_threads(1)
    _say(answers, {"ready": True})
    for line in sys.stdin:
        try:
            _say(answers, _quantize(folder, json.loads(line)))
        except Exception as error:
            _say(answers, {"error": f"{type(error).__name__}: {error}"})
    return True


def _quantize(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Quantize one layer as the library does inside a model, on the processor."""
    import torch
    from gptqmodel import QuantizeConfig  # type: ignore[import-not-found]
    from gptqmodel.quantization.gptq import GPTQ  # type: ignore[import-not-found]
    from safetensors.torch import load_file, save_file

    given = load_file(folder / "given.safetensors")
    weight = given["weight"]
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    config = QuantizeConfig(
        bits=job["bits"], group_size=job["group"], device="cpu", offload_to_disk=False, fallback=None
    )
    task: Any = GPTQ(layer, config)
    task.quantizer.configure(perchannel=True)
    task.add_batch(given["inputs"][None], None)
    dense, scale, zero, places, _, loss, *_ = task.quantize()
    # Without an inverse of the Hessian the library rounds to the nearest and says so by what is no loss.
    if not isinstance(loss, float) or loss == 999999999:
        raise ValueError(
            "the second moments of the inputs have no inverse, however much is added to their diagonal"
        )
    if not math.isfinite(loss):
        raise ValueError("its loss overflows; weights or inputs are too large for float32")
    made = {"dense": dense, "scale": scale, "zero": zero, "places": places}
    save_file({name: each.detach().contiguous() for name, each in made.items()}, folder / "made.safetensors")
    return {"done": True}


def _say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
