"""This side of the process in which ``gptqmodel`` runs: one for each process of ours, started at the first layer."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

import discreet
from discreet.quantizers._fields import QuantizerError

__all__ = ["INSTALL", "GptqProcess", "apart", "the_process"]

INSTALL = "python -m discreet.quantizers._gptq_install"
_SECONDS_TO_END = 10
_forgotten: list[subprocess.Popen[str]] = []
"""Of a parent: kept, since what is collected is closed."""


def apart() -> Path:
    """The folder that ``gptqmodel`` may lie in by itself: ``DISCREET_GPTQ``, or ``gptq`` below the environment.

    In the environment itself PEFT would import it at its first adapter, banner, settings and all.
    """
    return Path(os.environ.get("DISCREET_GPTQ") or Path(sys.prefix, "gptq"))


class GptqProcess:
    """A worker that quantizes one layer after the other; it starts when it is first asked and ends with us."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._folder = Path()

    @property
    def pid(self) -> int | None:
        """Number of the running process, if it runs."""
        return self._process.pid if self._process is not None else None

    def quantize(self, weight: Tensor, inputs: Tensor, *, bits: int, group: int) -> dict[str, Tensor]:
        """Quantize the weight of one Linear layer, both tensors float32 on the processor.

        Returns:
            ``dense`` weights, ``scale`` and ``zero`` by row and group, and the group (``places``) of each column.

        Raises:
            QuantizerError: The library is not installed, refuses the layer, or its process ended.
        """
        with self._lock:
            try:
                if self._process is None:
                    self._start()
                given = {"weight": weight.contiguous(), "inputs": inputs.contiguous()}
                safetensors.torch.save_file(given, self._folder / "given.safetensors")
                answer = self._ask({"bits": bits, "group": group})
                if "error" in answer:
                    raise QuantizerError(f"gptqmodel cannot quantize this layer: {answer['error']}")
                return safetensors.torch.load_file(self._folder / "made.safetensors")
            except QuantizerError:
                raise
            except BaseException:
                # An answer may still be on its way: the next job needs a process that owes none.
                self.close(wait=False)
                raise

    def close(self, *, wait: bool = True) -> None:
        """End the process and remove its files."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                pass
        try:
            process.wait(_SECONDS_TO_END if wait else 0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def forget(self) -> None:
        """In a fork of our process: the worker is the parent's, whose end it must be able to see."""
        process, self._process, self._lock = self._process, None, threading.Lock()
        if process is not None:
            # Closing would wait for a thread of the parent that reads an answer: it is not here, its locks are.
            nothing = os.open(os.devnull, os.O_RDWR)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None and not pipe.closed:
                    os.dup2(nothing, pipe.fileno(), inheritable=False)
            os.close(nothing)
            process.returncode = 0
            _forgotten.append(process)

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="discreet-gptq-"))
        above = str(Path(discreet.__file__).parents[1])
        paths = [above, *filter(None, [os.environ.get("PYTHONPATH")]), str(apart())]
        environment = os.environ | {
            "GPTQMODEL_CPU_WORKERS": "2",
            "HF_HOME": os.environ.get("HF_HOME", str(self._folder / "hub")),
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "TMPDIR": str(self._folder),
            "PYTHONPATH": os.pathsep.join(paths),
        }
        command = [sys.executable, "-P", "-m", "discreet.quantizers._gptq_process", str(self._folder)]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                encoding="utf-8",
                cwd=self._folder,  # where it leaves its logs
            )
        answer = self._answer()
        if "missing" in answer:
            self.close()
            raise QuantizerError(
                f"gptq: the package {answer['missing']} is not installed; install it with: {INSTALL}"
            )

    def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        process: Any = self._process
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        process: Any = self._process
        line = process.stdout.readline()
        if line:
            return json.loads(line)
        code = process.wait()
        log = self._folder / "log"
        said = log.read_text(errors="replace").strip().splitlines()[-3:] if log.exists() else []
        self.close()
        raise QuantizerError(
            f"the process that runs gptqmodel ended with status {code}; its last words: {' / '.join(said) or 'none'}"
        )


the_process = GptqProcess()
atexit.register(the_process.close)
os.register_at_fork(after_in_child=the_process.forget)
