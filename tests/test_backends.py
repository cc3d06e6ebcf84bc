"""Work on backends: the same results wherever it runs, and what happens when a worker dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from discreet.backends import Backend, BackendError, Processes, Threads, backend_named
from discreet.backends.keeping import make_elsewhere
from discreet.cli import entry
from discreet.store import Store
from discreet.store.lock import alive
from tests import backends as jobs

quiet = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)


@pytest.fixture(scope="module")
def ray_backend() -> Iterator[Backend]:
    with backend_named("ray", workers=2) as opened:
        assert opened is not None
        yield opened


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("manifest.json", ".lock")
    }


def each(backend: Backend, work, shared, items) -> list:
    return [result for _, result in sorted(backend.each(work, shared, items))]


def test_threads_do_every_item_once() -> None:
    assert each(Threads(3), jobs.add, 10, range(20)) == list(range(10, 30))
    assert each(Threads(), jobs.add, 10, []) == []
    with pytest.raises(ValueError, match="item 2 is no good"):
        list(Threads(2).each(jobs.fails, None, range(5)))


def test_processes_do_every_item_once_and_pass_errors_on(tmp_path: Path) -> None:
    with backend_named("processes", workers=2) as opened:
        assert opened == Processes(2)
    assert each(Processes(2), jobs.add, 10, range(20)) == list(range(10, 30))
    assert each(Processes(), jobs.add, 10, []) == []
    with pytest.raises(ValueError, match="item 2 is no good"):
        list(Processes(2).each(jobs.fails, None, range(5)))
    assert list(Processes(1).each(jobs.add, 1, [5, 6, 7], until=0.0)) == [(0, 6)]
    with pytest.raises(
        BackendError, match=r"a process ended while it did item \d .*what was finished is kept"
    ):
        list(Processes(1).each(jobs.die, str(tmp_path), [1, 2]))
    assert each(Processes(2), jobs.threads, None, range(2)) == [(1, "1")] * 2


def test_processes_end_with_who_stops_asking(tmp_path: Path) -> None:
    for _, result in Processes(2).each(jobs.marked, str(tmp_path), [1, 2, 3, 4, 5, 6]):
        assert result in (1, 4)
        break
    processes = {int(mark.name.partition("-")[2]) for mark in tmp_path.iterdir()}
    for _ in range(100):
        if not any(alive(each) for each in processes):
            return
        time.sleep(0.05)
    raise AssertionError(processes)


def test_after_its_time_only_the_first_is_begun() -> None:
    assert list(Threads(1).each(jobs.add, 1, [5, 6, 7], until=0.0)) == [(0, 6)]


def test_artefacts_come_back_through_the_store_that_asked(tmp_path: Path) -> None:
    store = Store(tmp_path / "run")
    told: list[int] = []

    def keys(item: int) -> list[str]:
        return [store.key("first.txt", item=item), store.key("second.txt", item=item)]

    store.make(keys(1)[0], lambda aside: aside.write_text("kept 1"))
    options = {"keys": keys, "done": lambda number, seconds: told.append(number)}
    assert make_elsewhere(Threads(2), store, jobs.write, "new", [0, 1, 2], **options) == []
    assert sorted(told) == [0, 1, 2]
    assert [store.path(keys(item)[1]).read_text() for item in range(3)] == [
        "new 0" * 2,
        "kept 1" * 2,
        "new 2" * 2,
    ]
    assert all(store.has(key) for item in range(3) for key in keys(item))
    assert make_elsewhere(Threads(2), store, jobs.write, "new", [3, 4], until=0.0, keys=keys) == [1]
    assert store.has(keys(3)[1])
    assert not store.has(keys(4)[0])


def test_a_worker_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.backends import keeping

    found = iter([{"torch": "1"}, {"torch": "2"}])
    monkeypatch.setattr(keeping, "_versions", lambda: next(found))
    with pytest.raises(
        BackendError, match=r"the worker on .* has torch 2 instead of 1; install what is here"
    ):
        make_elsewhere(Threads(1), Store(tmp_path), jobs.write, "", [0], keys=lambda item: ())
    assert not list(tmp_path.rglob("*.txt"))


def test_other_names_are_no_backends() -> None:
    for name in ("rays", "ray:", "process", ""):
        with (
            pytest.raises(
                ValueError,
                match=f"backend: expected local, processes, ray, ray:HOST:PORT or ray://HOST:PORT, got '{name}'",
            ),
            backend_named(name),
        ):
            pass
    with pytest.raises(ValueError, match="workers: expected at least 1, got 0"), backend_named("local", 0):
        pass
    with backend_named("local") as none:
        assert none is None


@quiet
@pytest.mark.slow
def test_ray_does_every_item_once_and_passes_errors_on(ray_backend: Backend) -> None:
    assert each(ray_backend, jobs.add, 10, range(20)) == list(range(10, 30))
    with pytest.raises(ValueError, match="item 2 is no good"):
        list(ray_backend.each(jobs.fails, None, range(5)))
    begun = time.monotonic()
    for number, _ in ray_backend.each(jobs.slowly, 1.5, range(30)):
        assert number < 4
        break  # what runs is stopped: the next call need not wait for it
    assert each(ray_backend, jobs.add, 1, [1]) == [2]
    assert time.monotonic() - begun < 20


@quiet
@pytest.mark.slow
def test_a_task_whose_worker_is_killed_is_done_again(ray_backend: Backend, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_one() -> None:
        for _ in range(600):
            for mark in tmp_path.iterdir():
                killed.append(int(mark.name.partition("-")[2]))
                os.kill(killed[0], signal.SIGKILL)  # a worker of this test's own cluster
                return
            time.sleep(0.05)

    watcher = Thread(target=kill_one)
    watcher.start()
    assert each(ray_backend, jobs.marked, str(tmp_path), [1, 2, 3]) == [1, 4, 9]
    watcher.join()
    assert len(killed) == 1
    assert len(list(tmp_path.iterdir())) >= 4  # one of them was begun twice


@quiet
@pytest.mark.slow
def test_a_task_that_ends_every_worker_is_given_up(ray_backend: Backend, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"ray: the worker of task 0 died, 4 times in all"):
        list(ray_backend.each(jobs.die, str(tmp_path), [7]))
    assert len(list(tmp_path.iterdir())) == 4


@quiet
@pytest.mark.slow
def test_a_bank_is_the_same_bytes_on_any_backend(ray_backend: Backend, tmp_path: Path) -> None:
    from discreet.bank import BankSettings, bank
    from discreet.mlp import MLP
    from discreet.recipe import Recipe

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 6), dtype=np.float32), np.arange(60) % 2
    settings = BankSettings(MLP((6, 5, 1)), Recipe(epochs=3), models=6, variants=("full", "sign"), unit=2)
    bank(tmp_path / "here", settings, x, y)
    for name, backend in (("one", Threads(1)), ("two", Threads(2)), ("ray", ray_backend)):
        shares: list[float] = []
        bank(tmp_path / name, settings, x, y, backend=backend, progress=shares.append)
        assert files(tmp_path / name) == files(tmp_path / "here"), name
        assert shares[-1] == 1.0
    weights = next((tmp_path / "ray" / "weights").glob("*.safetensors"))
    before = weights.stat().st_mtime_ns
    next((tmp_path / "ray" / "release" / "parts").iterdir()).unlink()
    bank(tmp_path / "ray", settings, x, y, backend=ray_backend)
    assert files(tmp_path / "ray") == files(tmp_path / "here")
    assert weights.stat().st_mtime_ns == before  # weights are sent along, not trained again


@quiet
@pytest.mark.slow
def test_discriminators_are_the_same_on_any_backend(ray_backend: Backend) -> None:
    from discreet.baseline import Discriminator, Runs, baseline

    rng = np.random.default_rng(0)
    member = np.tile(np.arange(20) < 10, (12, 1))
    loss = np.exp(rng.normal(size=member.shape) - 2 * member)
    runs = Runs(rng.normal(size=(12, 20, 3)), member, {"full": loss}, {})
    options = {"kinds": ["loss-only", "black-box"], "discriminator": Discriminator(epochs=3), "seeds": 2}
    here = baseline(runs, **options).to_json()
    assert baseline(runs, backend=Threads(2), **options).to_json() == here
    assert baseline(runs, backend=ray_backend, **options).to_json() == here


GPUS = """
import ray
from discreet.backends.ray import Ray
from tests.backends import asked_for

ray.init("local", num_cpus=2, num_gpus={there}, include_dashboard=False, log_to_driver=False)
with Ray({asked}) as backend:
    ((_, found),) = backend.each(asked_for, None, [0])
print(found["CPU"], found.get("GPU", 0))
print(ray.is_initialized())
"""


def program(text: str, folder: Path) -> str:
    """What a program prints, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=200, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_a_task_asks_for_a_gpu_where_there_are_any(tmp_path: Path) -> None:
    for there, asked, gpus in ((2, "", 1.0), (0, "", 0), (2, "gpus=0.5", 0.5)):
        said = program(GPUS.format(there=there, asked=asked), tmp_path)
        assert said.split() == ["1.0", str(gpus), "True"]  # a cluster of somebody else's goes on


CLIENT = """
from discreet.backends import backend_named
from tests.backends import add, fails

with backend_named("ray://127.0.0.1:{port}") as backend:
    print(sorted(backend.each(add, 10, range(3))))
    try:
        list(backend.each(fails, None, range(5)))
    except ValueError as error:
        print(error)
"""


@quiet
@pytest.mark.slow
def test_a_cluster_is_reached_through_the_client(tmp_path: Path) -> None:
    ports = []
    with ExitStack() as held:
        for _ in range(2):
            one = held.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            ports.append(one.getsockname()[1])
    from ray.cluster_utils import Cluster

    node = {"ray_client_server_port": ports[0], "runtime_env_agent_port": ports[1]}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False} | node)
    try:
        said = program(CLIENT.format(port=ports[0]), tmp_path)
    finally:
        cluster.shutdown()
    assert said.splitlines() == ["[(0, 10), (1, 11), (2, 12)]", "item 2 is no good"]


def test_a_client_whose_server_missed_its_time_asks_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    from discreet.backends.ray import _join

    asked: list[str] = []

    def late(address: str) -> None:
        asked.append(address)
        if len(asked) < 2:
            raise ConnectionAbortedError("Starting Ray client server failed")

    monkeypatch.setattr(ray, "init", late)
    _join("ray://a:1", {})
    assert asked == ["ray://a:1"] * 2
    asked[:] = []
    monkeypatch.setattr(ray, "init", lambda address: late(asked.clear() or address))
    with pytest.raises(ConnectionAbortedError):
        _join("ray://a:1", {})


def test_a_cluster_that_is_not_there_is_not_waited_for() -> None:
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        port = taken.getsockname()[1]
        for name in (f"ray:127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            begun = time.monotonic()
            with pytest.raises(BackendError, match="ray: no cluster"), backend_named(name):
                pass
            assert time.monotonic() - begun < 15


def test_studies_that_run_here_alone_say_so(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = tmp_path / "study"
    assert entry.run(["study", "theorem", "--folder", str(folder), "--backend", "ray"]) == 2
    assert "--backend: only the studies attacks and molecules run elsewhere" in capsys.readouterr().err
