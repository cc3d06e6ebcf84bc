"""``python -m discreet.quantizers._gptq_install``: ``gptqmodel`` and what it alone needs, in a folder of its own.

It pins another NumPy than the one that is here, and PEFT imports it wherever it is found; so no other process gets to
see it.
"""

from __future__ import annotations

import subprocess
import sys

from discreet.quantizers._gptq_client import apart

__all__ = ["PACKAGES", "main"]

PACKAGES = (
    "gptqmodel==7.6.0",
    "pypcre==0.6.4",
    "logbar==0.4.15",
    "device-smi==0.5.7",
    "defuser==0.0.28",
    "tokenicer==0.0.14",
    "datasets==5.2.0",
    "dill",
    "multiprocess",
    "xxhash",
    "threadpoolctl",
)
"""What the class for one layer needs beside the extra ``llm``."""


def main() -> None:
    """Install; pip says what it does."""
    target = ["--target", str(apart()), "--upgrade", "--no-deps", "--quiet"]
    subprocess.run([sys.executable, "-m", "pip", "install", *target, *PACKAGES], check=True)


if __name__ == "__main__":
    main()
