import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.codes import raises
from zoo.gym.errors import GymError
from zoo.gym.files.lock import locked
from zoo.gym.jobs import actions, follow, launch, read_status, resume, tail_events, worker
from zoo.gym.jobs.identity import read_identity
from zoo.gym.jobs.run import Run, create_run
from zoo.gym.jobs.state import reconcile
from zoo.gym.processes import is_alive

Until = Callable[[Callable[[], bool]], None]

posix = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


def kinds(run: Run) -> list[str]:
    return [event["kind"] for event in tail_events(run.events.path)[0]]


def states(run: Run) -> list[str]:
    return [event["state"] for event in tail_events(run.events.path)[0] if "state" in event]


def steps(run: Run) -> list[int]:
    return [e["step"] for e in tail_events(run.events.path)[0] if e["kind"] == "step"]


@pytest.mark.slow
def test_a_run_goes_from_queued_to_done(run: Run) -> None:
    launch(run, entry="entries:three")
    status = follow(run)
    assert (status.state, status.exit_code, status.step, status.steps) == ("done", 0, 3, 3)
    assert (status.model, status.metrics) == (str(run.result), {"steps": 3})
    assert states(run) == ["queued", "running", "done"]


@pytest.mark.slow
def test_following_hands_over_every_event_once_in_order(run: Run) -> None:
    seen: list[int] = []
    launch(run, entry="entries:three")
    follow(run, lambda event: seen.append(event["seq"]))
    assert seen == list(range(len(kinds(run))))


@pytest.mark.slow
def test_the_worker_is_detached_offline_and_reads_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_in = str(Path.cwd())
    monkeypatch.chdir(tmp_path)
    pid = launch(run, entry="entries:environment")
    assert follow(run).metrics == {
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "session": pid if os.name != "nt" else None,
        "stdin": "",
        "cwd": made_in,
    }
    assert run.worker_log.read_text() == "a line for the log\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "code", "said"),
    [
        ("bad_input", 2, "data.jsonl:3: no assistant turn"),
        ("full_disk", 1, "cannot use '/data/step.bin': no space left on device"),
        ("no_memory", 3, "the run does not fit in memory: an allocation was refused"),
        ("a_bug", 1, "the worker failed: ZeroDivisionError: secret"),
    ],
)
def test_a_failure_is_one_sentence_and_an_exit_code(
    run: Run, entry: str, code: int, said: str
) -> None:
    launch(run, entry=f"entries:{entry}")
    status = follow(run)
    assert (status.state, status.exit_code, status.message) == ("failed", code, said)
    assert status.hint is not None
    assert kinds(run)[-2:] == ["error", "end"]
    assert ("Traceback" in run.worker_log.read_text()) == (entry == "a_bug")


@pytest.mark.slow
def test_stop_saves_and_exits_and_resume_continues_there(run: Run, until: Until) -> None:
    launch(run, entry="entries:forever")
    until(lambda: len(steps(run)) >= 2)
    actions.stop(run)
    stopped = follow(run)
    assert (stopped.state, stopped.exit_code, stopped.hint) == ("interrupted", 5, "resume it")
    before = resume(run, entry="entries:five_more")
    finished = follow(run, offset=before.offset)
    assert (finished.state, finished.step) == ("done", stopped.step + 5)
    assert steps(run) == list(range(1, stopped.step + 6))


@pytest.mark.slow
def test_a_paused_run_waits_and_resume_continues_in_the_same_process(
    run: Run, until: Until
) -> None:
    pid = launch(run, entry="entries:forever")
    actions.pause(run)
    until(lambda: read_status(run).state == "paused")
    held_at = read_status(run).step
    resume(run)
    until(lambda: read_status(run).step > held_at)
    identity = read_identity(run.identity_file)
    assert identity is not None
    assert identity.pid == pid
    assert states(run) == ["queued", "running", "paused", "running"]


@pytest.mark.slow
def test_a_paused_run_can_be_parked(run: Run, until: Until) -> None:
    launch(run, entry="entries:forever")
    actions.pause(run)
    until(lambda: read_status(run).state == "paused")
    actions.park(run)
    status = follow(run)
    assert (status.state, status.request) == ("interrupted", "park")
    assert tail_events(run.events.path)[0][-1]["request"] == "park"


@pytest.mark.slow
@posix
def test_a_halted_worker_is_said_at_once_and_can_be_killed_and_resumed(
    run: Run, until: Until
) -> None:
    pid = launch(run, entry="entries:forever")
    until(lambda: len(steps(run)) >= 2)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    for ask in (actions.stop, actions.park, actions.pause):
        with raises("jobs.suspended") as caught:
            ask(run)
        assert f"zoo-gym runs stop {run.id} --kill" in str(caught.value.hint)
    assert actions.kill(run).state == "interrupted"
    assert not psutil.pid_exists(pid) or not is_alive(read_identity(run.identity_file))
    resume(run, entry="entries:five_more")
    assert follow(run).state == "done"


@pytest.mark.slow
@posix
def test_following_a_halted_worker_does_not_wait_for_its_stop(run: Run, until: Until) -> None:
    pid = launch(run, entry="entries:forever")
    os.kill(pid, signal.SIGSTOP)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    with raises("jobs.suspended"):
        follow(run, should_stop=lambda: True)


def test_a_run_of_this_very_process_is_not_killed(run: Run) -> None:
    with raises("jobs.cannot_kill", "expected the process of a worker"):
        actions.kill(run)


@pytest.mark.slow
@posix
def test_sigterm_is_a_stop_and_a_closed_terminal_is_nothing(run: Run, until: Until) -> None:
    pid = launch(run, entry="entries:forever")
    os.kill(pid, signal.SIGHUP)
    at = read_status(run).step
    until(lambda: read_status(run).step > at + 2)
    os.kill(pid, signal.SIGTERM)
    status = follow(run)
    assert (status.exit_code, status.request) == (5, "stop")
    assert kinds(run)[-1] == "end"


@pytest.mark.slow
def test_a_killed_run_is_interrupted_and_can_be_resumed(run: Run, until: Until) -> None:
    pid = launch(run, entry="entries:forever")
    until(lambda: len(steps(run)) >= 2)
    psutil.Process(pid).kill()
    status = follow(run)
    assert (status.state, status.exit_code, status.request) == ("interrupted", 5, None)
    resume(run, entry="entries:five_more")
    assert follow(run).state == "done"
    assert [e["seq"] for e in tail_events(run.events.path)[0]] == list(range(len(kinds(run))))


def test_a_worker_that_dies_before_any_event_shows_its_log(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, sys\nprint('no such library', file=sys.stderr, flush=True)\nos._exit(3)\n"
    (tmp_path / "sitecustomize.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with raises("jobs.not_started", r"did not start: .* exit code 3\nno such library") as raised:
        launch(run)
    assert str(run.worker_log) in str(raised.value.hint)
    assert read_status(run).state == "failed"


@pytest.mark.slow
def test_a_worker_that_hangs_before_any_event_is_ended(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    before = psutil.Process().children()  # what renders templates, where a test has used it
    with raises("jobs.not_started", r"got none within 0\.2 s"):
        launch(run, wait_s=0.2)
    assert not set(psutil.Process().children()) - set(before)
    assert read_status(run).state == "failed"


@pytest.mark.slow
def test_a_folder_in_the_way_of_a_module_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "psutil.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    run = create_run("", {})
    launch(run, entry="entries:three")
    assert follow(run).state == "done"


@pytest.mark.slow
def test_a_running_run_is_not_started_twice(run: Run) -> None:
    launch(run, entry="entries:forever")
    with raises("jobs.has_worker", "'r0001' has a worker already"):
        launch(run, entry="entries:forever")
    with raises(
        "jobs.not_resumable", "'r0001' is running: expected a paused, stopped or failed run"
    ):
        resume(run)


def test_a_done_run_is_neither_started_nor_resumed_nor_stopped(run: Run) -> None:
    run.events.emit("end", state="done", exit_code=0)
    for action in (launch, resume, actions.stop, actions.pause, actions.park):
        with pytest.raises(GymError, match="is done"):
            action(run)


def test_a_second_worker_on_one_folder_writes_nothing(run: Run) -> None:
    before = run.events.path.read_bytes()
    with locked(run.lock_file), pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "_LOCK_S", 0.0)
        patch.setattr(os, "environ", {})
        assert worker.main([str(run.folder)]) == 1
    assert run.events.path.read_bytes() == before


@pytest.mark.slow
@posix
def test_ctrl_c_while_following_stops_the_run_and_waits(run: Run) -> None:
    def press(event: dict[str, object]) -> None:
        if event["kind"] == "step" and event["step"] == 2:
            os.kill(os.getpid(), signal.SIGINT)

    launch(run, entry="entries:forever")
    status = follow(run, press)
    assert (status.state, status.exit_code) == ("interrupted", 5)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
@posix
def test_a_second_ctrl_c_gives_up_waiting(run: Run) -> None:
    def press(event: dict[str, object]) -> None:
        if event["kind"] == "step":
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    launch(run, entry="entries:forever")
    with raises("jobs.not_waited_for", "not waiting for run 'r0001'"):
        follow(run, press)


@pytest.mark.slow
def test_following_can_request_a_stop(run: Run) -> None:
    launch(run, entry="entries:forever")
    requested: list[str] = []
    status = follow(
        run, should_stop=lambda: len(steps(run)) > 1, on_stop=lambda: requested.append("stop")
    )
    assert (status.exit_code, requested) == (5, ["stop"])


@pytest.mark.slow
def test_the_worker_outlives_a_starter_that_is_killed(run: Run, until: Until) -> None:
    code = (
        "import sys, time; from pathlib import Path; from zoo.gym.jobs import Run, launch, follow\n"
        "run = Run(Path(sys.argv[1])); launch(run, entry='entries:forever'); follow(run)"
    )
    run.events.emit("end", state="interrupted", exit_code=5)
    starter = subprocess.Popen([sys.executable, "-c", code, str(run.folder)])
    until(lambda: len(steps(run)) > 1)
    starter.kill()
    starter.wait()
    at = read_status(run).step
    until(lambda: read_status(run).step > at + 3)
    assert reconcile(run).state == "running"


@pytest.mark.slow
def test_of_two_resumes_at_once_one_is_refused(run: Run, until: Until) -> None:
    code = (
        "import sys; from pathlib import Path; from zoo.gym.jobs import Run, resume\n"
        "from zoo.gym.errors import GymError\n"
        "try: resume(Run(Path(sys.argv[1])), entry='entries:forever')\n"
        "except GymError: sys.exit(7)"
    )
    run.events.emit("end", state="interrupted", exit_code=5)
    argv = [sys.executable, "-c", code, str(run.folder)]
    both = [subprocess.Popen(argv) for _ in range(2)]
    assert sorted(process.wait(60) for process in both) == [0, 7]
    assert states(run).count("running") == 1


def test_an_unwritable_run_folder_is_a_storage_error(run: Run) -> None:
    run.worker_log.mkdir()
    with raises("paths.storage", "cannot write"):
        launch(run)


@pytest.mark.slow
def test_no_process_stays_as_a_zombie(run: Run, until: Until) -> None:
    launch(run, entry="entries:three")
    identity = read_identity(run.identity_file)
    assert identity is not None
    follow(run)
    until(lambda: not psutil.pid_exists(identity.pid))
    assert not is_alive(identity)
    assert time.time() >= identity.create_time
