"""What a user waits for before anything happens: imports, against NumPy's own, and the help text."""

from __future__ import annotations

import subprocess
import sys
import time


def seconds(*command: str, repeats: int = 5) -> float:
    """Least wall time of a command over several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print the times."""
    bare = seconds(sys.executable, "-c", "pass")
    numpy = seconds(sys.executable, "-c", "import numpy") - bare
    ours = seconds(sys.executable, "-c", "import discreet") - bare
    print(
        f"import discreet: {ours:.2f} s (budget 0.5), {ours / numpy:.1f} times import numpy ({numpy:.2f} s)"
    )
    print(f"discreet --help: {seconds(sys.executable, '-m', 'discreet', '--help'):.2f} s (budget 0.7)")


if __name__ == "__main__":
    main()
