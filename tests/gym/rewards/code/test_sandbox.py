"""What untrusted code can do: nothing outside its folder, and little for long."""

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.rewards.code import sandbox
from zoo.gym.rewards.code.confine import ABSENT, ALLOWED, REFUSED
from zoo.gym.rewards.code.sandbox import Limits, Program, run_all, run_program

LIMITS = Limits(timeout_s=2.0, memory_bytes=256_000_000)


@pytest.fixture(autouse=True, scope="module")
def confined() -> None:
    if refused := run_program(Program("", ()), LIMITS).refused:
        pytest.skip(f"this system cannot confine a process: {refused}")


def failure(code: str, test: str = "pass") -> str | None:
    outcome = run_program(Program(code, (test,)), LIMITS)
    assert outcome.problem == ""
    return outcome.failures[0]


def problem(code: str) -> str:
    outcome = run_program(Program(code, ("pass",)), LIMITS)
    assert outcome.failures == ()
    return outcome.problem


def test_each_test_passes_or_fails_by_itself() -> None:
    tests = ("assert f(1) == 2", "assert f(1) == 3", "f('a')", "f()")
    outcome = run_program(Program("def f(x):\n    return x + 1", tests), LIMITS)
    assert outcome.failures[:2] == (None, "AssertionError")
    assert str(outcome.failures[2]).startswith("TypeError: can only concatenate str")
    assert str(outcome.failures[2]).endswith("(line 2)")


def test_code_that_cannot_run_fails_every_test() -> None:
    outcome = run_program(Program("def f(:", ("pass", "pass")), LIMITS)
    assert len(outcome.failures) == 2
    assert all(str(one).startswith("SyntaxError") for one in outcome.failures)


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket()",
        "import socket; socket.create_connection(('127.0.0.1', 22))",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1/')",
        "import os; os.fork()",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true') and exit('no shell')",
        "import os; os.execv('/bin/true', ['true'])",
        "import multiprocessing; multiprocessing.Process(target=print).start()",
        "import threading; threading.Thread(target=print).start()",
        "import os; os.kill(os.getppid(), 9)",
        "import os; os.kill(0, 9)",
        "import os; os.memfd_create('a')",
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (9, 9))",
        "x = bytearray(10**9)",
        "import os; os.listdir('/')",
        "import os; os.listdir('/proc')",
        "import os; open(f'/proc/{os.getppid()}/environ').read()",
        "open('/etc/passwd').read()",
        "open('/tmp/zoo-gym-escaped', 'w')",
        "import os; os.mkdir('../zoo-gym-escaped')",
        "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0",
        "import fcntl; fcntl.flock(open(fcntl.__file__), fcntl.LOCK_EX)",
    ],
)
def test_what_is_outside_is_refused(code: str) -> None:
    assert failure(code) is not None


SIGNAL = "import fcntl, os; r, w = os.pipe()\n"
CALL = "import ctypes, os; assert ctypes.CDLL(None).syscall({}) == 0"


@pytest.mark.parametrize(
    "code",
    [
        SIGNAL + "fcntl.fcntl(r, fcntl.F_SETOWN, os.getppid())",
        SIGNAL + "fcntl.fcntl(r, 15, bytes(8))",  # F_SETOWN_EX
        SIGNAL + "fcntl.fcntl(r, fcntl.F_SETSIG, 9)",
        SIGNAL + "fcntl.fcntl(os.open('.', 0), 1024 + 2, 1)",  # F_NOTIFY
        SIGNAL + "fcntl.ioctl(r, 0x5452, b'1234')",  # FIOASYNC
        SIGNAL + "import socket; fcntl.ioctl(socket.socketpair()[0], 0x8901, bytes(4))",
        # of itself, since only a user without capabilities may change the parent by them
        "import os; os.sched_setaffinity(0, {0})",
        "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))",
        "import os; os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
        CALL.format("{'x86_64': 251}.get(os.uname().machine, 30), 1, 0, 3 << 13"),
        CALL.format("{'x86_64': 157}.get(os.uname().machine, 167), 4, 0"),  # PR_SET_DUMPABLE
        CALL.format("{'x86_64': 285}.get(os.uname().machine, 47), os.open('a', 65), 1, 0, 9"),
    ],
)
def test_other_processes_are_neither_signalled_nor_slowed(code: str) -> None:
    before = os.sched_getaffinity(0), os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    assert failure(code) is not None
    now = os.sched_getaffinity(0), os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    assert now == before


@pytest.mark.slow
def test_harmless_commands_of_files_work() -> None:
    code = """
import asyncio, fcntl, os, sys, tempfile
async def one(): return 1
assert asyncio.run(one()) == 1
assert not os.isatty(0)
with tempfile.TemporaryFile() as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    assert fcntl.fcntl(file, fcntl.F_GETFD) == fcntl.FD_CLOEXEC
    os.set_inheritable(file.fileno(), True)
    os.set_blocking(os.dup(file.fileno()), False)
"""
    assert failure(code) is None


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "mine.txt"
    path.write_text("mine")
    path.chmod(0o644)
    yield path
    assert path.read_text() == "mine"
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "code",
    [
        "open({0!r}).read()",
        "open({0!r}, 'a').write('x')",
        "import os; os.remove({0!r})",
        "import os; os.rename({0!r}, {0!r} + '2')",
        "import os; os.chmod({0!r}, 0)",
        "import os; os.truncate({0!r}, 0)",
        "import os; os.open({0!r}, os.O_RDONLY | os.O_TRUNC)",
        "import os; os.utime({0!r})",
        "import os; os.link({0!r}, 'here')",
    ],
)
def test_files_of_the_user_are_neither_read_nor_changed(code: str, outside: Path) -> None:
    assert failure(code.format(str(outside))) is not None


def test_a_link_does_not_lead_out_of_the_folder(outside: Path) -> None:
    code = f"import os; os.symlink({str(outside)!r}, 'link'); open('link').read()"
    assert str(failure(code)).startswith("PermissionError")


def test_its_own_folder_is_its_home_and_is_removed() -> None:
    code = "import os, tempfile; open('a.txt', 'w').write(os.getcwd())"
    test = "assert open(os.path.expanduser('~/a.txt')).read() == tempfile.gettempdir()"
    assert failure(code, test) is None
    place = "raise ValueError(os.getcwd())"
    name = str(failure("import os", place)).removeprefix("ValueError: ")
    assert name.rpartition("/")[2].startswith("zoo-gym-")
    assert not Path(name).exists()


def test_it_inherits_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    names = "raise ValueError(' '.join(sorted(os.environ)))"
    text = str(failure("import os", names))
    assert "HF_TOKEN" not in text
    assert "HOME LANG LC_CTYPE" in text or "HOME LANG" in text


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("while True: pass", "it exceeded the limit of CPU time"),
        ("import os; os._exit(0)", "the process ended without a result: exit code 0"),
        ("import ctypes; ctypes.string_at(0)", "the process ended without a result: signal 11"),
        (
            "for i in range(100): open(str(i), 'wb').write(bytes(10**6))\nwhile True: pass",
            "it wrote more than 64 MB of files",
        ),
    ],
)
@pytest.mark.slow
def test_a_limit_ends_it(code: str, said: str) -> None:
    assert problem(code) == said


@pytest.mark.slow
def test_waiting_is_limited_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "WALL_TO_CPU", 0.25)
    since = time.monotonic()
    assert problem("import time; time.sleep(60)") == "no result within 0.5 s"
    assert time.monotonic() - since < 20


def test_endless_output_is_discarded() -> None:
    assert failure("print('x' * 10**7)\nimport sys\nsys.stderr.write('y' * 10**7)") is None


def test_a_forged_reply_is_no_result() -> None:
    reply = json.dumps({"key": "0" * 32, "code": None, "tests": [None]})
    code = f"import os\nfor fd in range(3, 9):\n    try: os.write(fd, {reply.encode()!r})\n"
    code += "    except OSError: pass\nos._exit(0)"
    assert problem(code) == "the process ended without a result: exit code 0"


FORGED = """
import json, os, sys
frame, key = sys._getframe(), None
while frame:
    key = frame.f_locals.get("done", {{}}).get("key", key)
    frame = frame.f_back
assert key
for fd in range(3, 9):
    try: os.write(fd, json.dumps({{"key": key, {}}}).encode())
    except OSError: pass
os._exit(0)
"""


@pytest.mark.parametrize("rest", ['"tests": 5', '"tests": []', '"refused": 5', '"code": None'])
def test_a_forged_reply_of_another_form_is_a_problem(rest: str) -> None:
    assert problem(FORGED.format(rest)) == "the process ended with a forged result"


def test_a_reply_nested_too_deeply_is_no_result() -> None:
    code = "import os\nfor fd in range(3, 9):\n    try: os.write(fd, b'[' * 60_000)\n"
    code += "    except OSError: pass\nos._exit(0)"
    assert problem(code) == "the process ended without a result: exit code 0"


def test_a_message_is_text_that_files_can_contain() -> None:
    assert failure("raise ValueError('a\\udc80b')") == "ValueError: a?b (line 1)"


@pytest.mark.slow
def test_flooding_the_reply_ends_without_a_result() -> None:
    code = (
        "import os\nfor fd in range(3, 9):\n    try:\n        while True: os.write(fd, b'x' * 9**5)"
    )
    limits = Limits(timeout_s=0.25, memory_bytes=LIMITS.memory_bytes)
    outcome = run_program(Program(code + "\n    except OSError: pass", ("pass",)), limits)
    assert outcome.failures == ()


def test_an_exit_is_a_failure_and_not_a_pass() -> None:
    assert failure("import sys; sys.exit(0)") == "SystemExit: 0 (line 1)"
    assert failure("import sys", "sys.exit(0)") == "SystemExit: 0"


@pytest.mark.slow
def test_outcomes_are_in_the_order_of_the_programs() -> None:
    programs = [Program(f"x = {index}", (f"assert x == {index % 3}",)) for index in range(6)]
    outcomes = run_all(programs, LIMITS)
    assert [one.failures[0] is None for one in outcomes] == [True, True, True, False, False, False]
    assert run_all([], LIMITS) == []


@pytest.mark.parametrize(("unconfined", "ran"), [(False, False), (True, True)])
def test_code_is_not_run_where_it_cannot_be_confined(
    monkeypatch: pytest.MonkeyPatch, unconfined: bool, ran: bool
) -> None:
    plain = sandbox._request

    def on_another_system(*given: Any) -> dict[str, Any]:
        return plain(*given) | {"platform": "other"}

    monkeypatch.setattr(sandbox, "_request", on_another_system)
    limits = replace(LIMITS, unconfined=unconfined)
    outcome = run_program(Program("", ("pass",)), limits)
    assert outcome.failures == ((None,) if ran else ())
    assert bool(outcome.refused) is not ran


@pytest.mark.parametrize(
    ("header", "column"),
    [
        ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", 0),
        ("/usr/include/asm-generic/unistd.h", 1),
    ],
)
def test_the_numbers_of_system_calls_are_those_of_the_kernel(header: str, column: int) -> None:
    if not Path(header).exists():
        pytest.skip(f"{header} is absent")
    text = Path(header).read_text(encoding="utf-8")
    known = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text))
    commands = {name: numbers for name, (numbers, _, _) in ALLOWED.items()}
    for name, numbers in (REFUSED | ABSENT | commands).items():
        number = numbers[column]
        if name in known:
            assert number == int(known[name]), name
        elif number is not None:  # newer than this header
            assert number > max(map(int, known.values())), name
