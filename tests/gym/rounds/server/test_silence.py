"""Nothing leaves without `--send`: no socket for a round in a folder, no writing on a server."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gym.cli.conftest import write_model
from tests.gym.guard import Guard
from tests.gym.rounds.server.processes import PROGRAM, ServerProcess, command, environment, serving
from tests.gym.rounds.server.test_real import ok, tuned

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_round_in_a_folder_opens_no_socket(tmp_path: Path) -> None:
    guard = Guard(tmp_path)
    base = write_model(tmp_path / "base", 1)
    tuned(base, tmp_path / "ann", 1)
    words = f"--base {base} --out round --min-contributors 1 --method mean --tensors *"
    run = guarded(guard, tmp_path)
    run("round", "create", "tiny", *words.split())
    run("round", "contribute", str(tmp_path / "ann"), "--base", str(base))
    run("round", "contribute", str(tmp_path / "ann"), "--base", str(base), "--send")
    run("round", "take", "--close")
    run("round", "reveal")
    run("round", "reveal", "--send")
    run("round", "take", "--close")
    run("round", "aggregate")
    run("round", "verify")
    assert guard.attempts() == []
    assert len(guard.ended()) == 8  # of nine, two have the same words


def guarded(guard: Guard, folder: Path) -> Callable[..., None]:
    """Returns what runs a command under the guard, in this tree."""
    env = environment(folder / "home")
    env |= {"PYTHONPATH": f"{guard.folder}:{env['PYTHONPATH']}"}

    def run(*words: str) -> None:
        done = subprocess.run(
            [*PROGRAM, *words], env=env, cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    return run


def test_a_client_of_a_server_writes_nothing_before_send(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", 1)
    source = tuned(base, tmp_path / "ann", 1)
    with serving(tmp_path) as server:
        address = f"{server.url}/rounds/tiny"
        words = ("--base", str(base), "--out", address, "--min-contributors", "1")
        ok(command(server.home, "round", "create", "tiny", *words, "--method", "mean", "--json"))
        ann = tmp_path / "anns"
        ok(command(ann, "round", "token", address, stdin=server.token("contributor")))
        mine = ("--round", address, "--base", str(base), "--json")
        before = content(server)
        assert ok(command(ann, "round", "contribute", str(source), *mine))["receipt"] is None
        assert content(server) == before
        ok(command(ann, "round", "contribute", str(source), *mine, "--send"))
        ok(command(server.home, "round", "take", "--close", "--json"))
        before = content(server)
        done = command(ann, "round", "reveal", "--round", address, "--json")
        assert (ok(done)["receipt"], "with --send" in done.stderr) == (None, True)
        assert content(server) == before


def content(server: ServerProcess) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in server.folder.rglob("*") if path.is_file()}
