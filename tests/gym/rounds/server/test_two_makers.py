"""The maker's key on two machines at once, and on one whose clock is wrong: one result."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gym.rounds.protocol.people import LOG
from tests.gym.rounds.server.processes import PROGRAM, environment, serving
from tests.gym.rounds.server.test_kills import ready
from tests.night import one_in
from zoo.gym.rounds.compute.publish import work_folder
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.storage.base import FolderStorage, Storage
from zoo.gym.rounds.storage.http import HttpStorage, keep_token
from zoo.gym.signing import keys as ed25519

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WRONG_CLOCK = """
import datetime, time
class Then(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(1999, 12, 31, tzinfo=tz)
datetime.datetime, time.time, time.time_ns = Then, lambda: 946598400.0, lambda: 946598400 * 10**9
"""


def machine(home: Path) -> Path:
    """Returns the home of the maker on another machine."""
    key = home / "data" / "keys" / "own.pem"
    key.parent.mkdir(parents=True)
    key.touch(mode=0o600)
    key.write_bytes(ed25519.to_pem(LOG.private))
    return home


def started(home: Path, words: Sequence[str], *, path: Path | None = None) -> subprocess.Popen[str]:
    env = environment(home)
    if path is not None:
        env["PYTHONPATH"] = f"{path}:{env['PYTHONPATH']}"
    return subprocess.Popen(
        [*PROGRAM, *words], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def check_one_result(storage: Storage, digests: set[str]) -> None:
    opened = open_round(storage)
    entries = [objects.decode(entry).context for entry in opened.entries]
    assert entries.count(objects.RESULT) == 1
    assert digests == {opened.state.result}
    checks = verify(opened, work_folder(opened.state.id))
    assert [check for check in checks if not check.ok] == []


@pytest.mark.parametrize("place", one_in(2, ["server", "folder"]))
def test_two_machines_that_aggregate_at_once_publish_one_result(
    place: str, tmp_path: Path, base: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    homes = [machine(tmp_path / name) for name in ("one", "other")]
    with serving(tmp_path) as server:
        for number in range(3):
            storage: Storage = FolderStorage(tmp_path / f"round-{number}")
            if place == "server":
                token = server.token("maker")
                storage = HttpStorage(f"{server.url}/rounds/r{number}", token)
                for home in homes:
                    monkeypatch.setenv("ZOO_GYM_HOME", str(home))
                    keep_token(server.url, token)
                monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
            ready(storage, manifest.model_copy(update={"pool": number}), base, tmp_path)
            words = ["round", "aggregate", "--round", storage.address, "--json"]
            both = [started(home, words) for home in homes]
            said = [process.communicate() for process in both]
            codes = [process.returncode for process in both]
            assert 0 in codes, said
            for code, (_, errors) in zip(codes, said, strict=True):
                assert code in {0, 1, 2}
                assert "Traceback" not in errors
            done = [out for code, (out, _) in zip(codes, said, strict=True) if code == 0]
            check_one_result(storage, {json.loads(out.splitlines()[-1])["digest"] for out in done})


def test_a_wrong_clock_changes_no_byte(
    tmp_path: Path, base: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "sitecustomize.py").write_text(WRONG_CLOCK)
    storage = FolderStorage(tmp_path / "round")
    ready(storage, manifest, base, tmp_path)
    home = machine(tmp_path / "slow")
    year = [sys.executable, "-c", "import datetime; print(datetime.datetime.now().year)"]
    there = environment(home) | {"PYTHONPATH": str(tmp_path / "late")}
    assert subprocess.run(year, env=there, capture_output=True, check=True).stdout == b"1999\n"
    for verb in (["aggregate", "--round"], ["verify"]):
        process = started(home, ["round", *verb, storage.address, "--json"], path=tmp_path / "late")
        out, errors = process.communicate()
        assert process.returncode == 0, errors
        if verb[0] == "aggregate":
            check_one_result(storage, {json.loads(out.splitlines()[-1])["digest"]})
