"""Tasks on a cluster of Ray: killed workers change no byte, and errors keep their sentences."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname, socket

import psutil
import pytest

from tests.codes import raises
from tests.gym.rounds.compute.conftest import Sources, run_round
from tests.gym.rounds.compute.divided_parts import DIGESTS, TENSORS
from tests.gym.rounds.compute.test_dividing import RULES, Computing, by_tasks, divided, whole
from tests.gym.rounds.contribution.conftest import LAYERS
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.rounds.compute import on_ray as module
from zoo.gym.rounds.compute.on_ray import Job, Part, RoundTasks, groups_of, ray_cluster
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.storage.base import FolderStorage

GROUPS = groups_of(TENSORS, 1)


@dataclass(frozen=True)
class Killed:
    """Computes a task of two tensors only in the second process that tries."""

    folder: Path

    def __call__(self, job: Job, names: Sequence[str]) -> Part:
        tried = self.folder / f"{job.selection is None}{names[0]}"
        if names[0] in {"layer.0", "layer.3"} and not tried.exists():
            tried.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Computing("float")(job, names)


@dataclass(frozen=True)
class Failing:
    """Raises what the contributions of a job say, and notes each try."""

    notes: Path

    def __call__(self, job: Job, names: Sequence[str]) -> Part:
        with self.notes.open("a") as notes:
            notes.write(f"{names[0]}\n")
        match job.digests:
            case ["input"]:
                raise InputError("tensor w: expected a finite value", hint="of the task")
            case ["missing"]:
                raise NotAvailableError("contribution 0: expected its file, got none")
            case _:
                raise ZeroDivisionError("a fault")


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets worker processes import these tests."""
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path])))


@pytest.mark.nightly
@pytest.mark.usefixtures("importable")
def test_worker_processes_that_are_killed_change_no_byte(tmp_path: Path) -> None:
    rule = RULES["median"]
    with ray_cluster("local", Killed(tmp_path), processors=1) as run:
        assert by_tasks(divided("float", 1, run), "float", rule) == whole("float", rule)
    assert len(list(tmp_path.iterdir())) == 4
    assert not any("ray" in process.name() for process in psutil.Process().children(recursive=True))


@pytest.mark.slow
@pytest.mark.usefixtures("importable")
def test_what_a_task_raises_reaches_the_user_at_once(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with ray_cluster("local", Failing(notes), processors=1) as run:
        with pytest.raises(InputError, match=r"^tensor w: expected a finite value\n") as refused:
            next(run(Job(["input"]), GROUPS[:1]))
        assert refused.value.hint == "of the task"
        with pytest.raises(
            NotAvailableError, match=r"^contribution 0: expected its file, got none"
        ):
            next(run(Job(["missing"]), GROUPS[1:2]))
        with raises("rounds.task_failed", r"a task failed .*ZeroDivisionError\('a fault'"):
            next(run(Job(["fault"]), GROUPS[2:3]))
        assert notes.read_text().split() == ["layer.0", "layer.1", "layer.2"], "no second try"


@pytest.mark.nightly
@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("program", ["raylet/raylet", "gcs/gcs_server"])
def test_a_lost_cluster_is_named(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "2")  # in place of a minute
    with ray_cluster("local", Failing(tmp_path / "notes"), processors=1) as run:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if program in process.cmdline()[0]:
                    process.kill()
        with raises("rounds.cluster_lost", r"^ray: the cluster at local was lost: ") as lost:
            next(run(Job(["input"]), GROUPS[:1]))
    assert lost.value.hint == "nothing was published: the same command computes all again"


@pytest.mark.slow
@pytest.mark.usefixtures("importable")
def test_more_processors_than_a_machine_has_are_refused(tmp_path: Path) -> None:
    most = r"--threads: expected at most \d+, the processors of the largest machine"
    cluster = ray_cluster("local", Failing(tmp_path), processors=100_000)
    with raises("rounds.too_many_threads", most), cluster:
        pass


@pytest.mark.parametrize("address", ["", "local:", "head", "ray://head:1", "head:port"])
def test_what_is_no_address_of_a_cluster_is_refused(address: str) -> None:
    pytest.importorskip("ray")
    with (
        pytest.raises(InputError, match="--ray: expected local, auto or HOST:PORT, got '"),
        ray_cluster(address, Computing("float"), processors=1),
    ):
        pass


def test_an_address_at_which_nothing_answers_is_named_at_once() -> None:
    pytest.importorskip("ray")
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with (
            pytest.raises(NotAvailableError, match=f"ray: expected a cluster at {address}, got "),
            ray_cluster(address, Computing("float"), processors=1),
        ):
            pass


def test_without_ray_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with (
        pytest.raises(NotAvailableError, match="ray: expected the package, got none") as absent,
        ray_cluster("local", Computing("float"), processors=1),
    ):
        pass
    assert "install" in str(absent.value.hint)


@pytest.mark.slow
def test_a_task_needs_the_round_and_every_file_on_its_machine(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest, tmp_path: Path
) -> None:
    run_round(storage, base, sources, manifest)
    state = open_round(storage).state
    digests = sorted(reveal.digest for reveal in state.reveals.values())
    compute = RoundTasks(storage.address, state.id, 1)
    assert compute(Job(digests), LAYERS[:1]).shape == (3, 3, 2)

    missing = f"contribution {DIGESTS[0][:12]}: expected its file at {storage.address} on "
    with raises("rounds.file_missing", f"{missing}{gethostname()}, got none: ") as error:
        compute(Job([*digests, DIGESTS[0]]), LAYERS[:1])
    assert f"zoo-gym round verify {storage.address} shows there" in str(error.value.hint)
    with raises("rounds.other_round", "expected round 0000"):
        RoundTasks(storage.address, "0" * 64, 1)(Job(digests), LAYERS[:1])
    elsewhere = str(tmp_path / "elsewhere")
    with raises("rounds.no_round", f"{gethostname()}: {elsewhere}: expected a round"):
        RoundTasks(elsewhere, state.id, 1)(Job(digests), LAYERS[:1])
