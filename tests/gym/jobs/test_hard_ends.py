"""A stop inside a checkpoint, a full disk, a terminal that is gone: the run goes on as if not."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.gym.jobs.real_runs import PROGRAM, TRAIN, Place, told, wait
from tests.night import one_in
from zoo.gym.jobs import read_status
from zoo.gym.train.run_folder.checkpoint import find_checkpoint

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals and disks of POSIX"),
]


@pytest.mark.parametrize("entry", one_in(2, ["told_to_stop", "asked_to_stop"]))
def test_a_stop_inside_a_checkpoint_loses_nothing(whole: Place, tmp_path: Path, entry: str) -> None:
    place = Place(tmp_path / "stopped")
    place.train(entry)
    place.await_death()
    status = read_status(place.run)
    assert (status.state, str(status.message)[:4]) == ("interrupted", "stop")
    assert find_checkpoint(place.run.checkpoints).step == status.step
    found = place.outcome()
    assert (found.torn, found.state, found.weights) == ([], "done", whole.weights())


ON_A_SMALL_DISK = """
mount -t tmpfs -o size=$1 none home || exit 77
shift
"$@" --json > first.out
find home -name "step-*" > first.folders
mount -o remount,size=64m home || exit 77
"$1" -m zoo.gym runs resume last --json > second.out
cp home/data/runs/r0001/result/adapter_model.safetensors home/data/runs/r0001/events.jsonl .
"""


def room_for_two_checkpoints_and_a_half(place: Place) -> int:
    """Returns bytes: the third checkpoint is written before the first is removed."""
    step, best = place.run.checkpoints / "step-00000012", place.run.checkpoints / "best"
    one = sum(path.stat().st_size for path in step.iterdir())
    kept = sum(path.stat().st_size for path in best.rglob("*") if path.is_file())
    return 2 * one + kept + one // 2


def test_a_disk_that_fills_in_a_checkpoint_leaves_the_last_good_one(
    whole: Place, tmp_path: Path
) -> None:
    place = Place(tmp_path / "full")
    (place.folder / "home").mkdir()
    own = ["unshare", "--mount", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*own, "true"], check=False).returncode:
        pytest.skip("no disk of our own can be made here")
    size = str(room_for_two_checkpoints_and_a_half(whole))
    argv = [*own, "sh", "-c", ON_A_SMALL_DISK, "sh", size, *PROGRAM, *TRAIN]
    if subprocess.run(argv, env=place.env, cwd=place.folder, check=False).returncode == 77:
        pytest.skip("no disk of our own can be mounted here")
    first, second = (
        json.loads((place.folder / f"{n}.out").read_text()) for n in ("first", "second")
    )
    assert first["error"]["message"].endswith("no space left on device")
    left = (place.folder / "first.folders").read_text().split()
    assert sorted(Path(name).name for name in left if "best" not in name) == [
        "step-00000002",
        "step-00000004",
    ]
    assert second["state"] == "done"
    shutil.move(place.folder / "adapter_model.safetensors", ensured(place.run.result))
    assert place.weights() == whole.weights()


def ensured(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_run_of_the_command_line_outlives_its_terminal(whole: Place, tmp_path: Path) -> None:
    place = Place(tmp_path / "shut")
    tmux = ["tmux", "-f", "/dev/null", "-S", str(tmp_path / "tmux")]

    def ask(*words: str) -> str:
        return subprocess.run(
            [*tmux, *words],
            env=place.env,
            cwd=place.folder,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    ask("new-session", "-d", "-x", "100", "-y", "30", *PROGRAM, *TRAIN)
    command = int(ask("list-panes", "-F", "#{pane_pid}"))
    place.await_event(told("plan"))
    assert psutil.pid_exists(command)
    ask("kill-server")
    wait(lambda: not psutil.pid_exists(command))
    assert read_status(place.run).live
    place.await_death()
    assert (read_status(place.run).state, place.weights()) == ("done", whole.weights())
