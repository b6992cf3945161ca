"""The command line and its worker as forks of a process that has imported torch and transformers.

Each is a process of its own, as always, and is killed as one; only the seconds of importing are
left out, which many kills in a row would pay twice each.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from zoo.gym.jobs.run import Run

HEAVY = [
    "transformers.models.qwen3.modeling_qwen3",
    "peft",
    "zoo.gym.cli",
    "zoo.gym.train.session",
    "zoo.backends.torch",
]


def server() -> ForkServerContext:
    """Returns the process that is forked, which starts with the first use of it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(HEAVY)
    return context


def program(
    context: ForkServerContext,
    words: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    entry: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs `zoo-gym` with these words in a folder; `entry` is the work of its worker."""
    out = [folder / f"warm.{name}" for name in ("out", "err")]
    code = folder / "warm.code"
    code.unlink(missing_ok=True)
    process = context.Process(target=_command, args=(list(words), dict(env), folder, entry, out))
    process.start()
    process.join()
    # not process.exitcode: another thread's start() may read it first, and leaves 255
    status = int(code.read_text()) if code.exists() else process.exitcode
    assert status is not None
    stdout, stderr = (path.read_text() for path in out)
    return subprocess.CompletedProcess(list(words), status, stdout, stderr)


def _command(
    words: list[str], env: dict[str, str], folder: Path, entry: str | None, out: list[Path]
) -> None:
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = env["PYTHONPATH"].split(os.pathsep)
    os.chdir(folder)
    _redirect(*out)
    import_module("torch").set_num_threads(int(env["OMP_NUM_THREADS"]))
    cli: Any
    launch: Any
    cli, launch = map(import_module, ("zoo.gym.cli", "zoo.gym.jobs.launch"))
    launch._spawn = partial(Forked, instead=entry)
    (folder / "warm.code").write_text(str(cli.main(words)))


def _redirect(out: Path, err: Path) -> None:
    for descriptor, path in ((1, out), (2, err)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), descriptor)


class Forked:
    """A worker, with as much of `subprocess.Popen` as its starter asks for.

    Args:
        run: the run.
        entry: its work.
        instead: the work that is done in place of it.
    """

    def __init__(self, run: Run, entry: str | None, instead: str | None = None) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(_work(run, instead or entry))

    def poll(self) -> int | None:
        """Returns the exit code once there is one."""
        return self._ended(os.WNOHANG)

    def wait(self) -> int | None:
        """Waits for the exit code."""
        return self._ended(0)

    def kill(self) -> None:
        """Ends it."""
        os.kill(self.pid, 9)

    def _ended(self, how: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def _work(run: Run, entry: str | None) -> int:
    os.setsid()
    _redirect(run.worker_log, run.worker_log)
    worker: Any = import_module("zoo.gym.jobs.worker")
    argv = [str(run.folder.absolute()), *(["--entry", entry] if entry else [])]
    code: int = worker.main(argv)
    return code
