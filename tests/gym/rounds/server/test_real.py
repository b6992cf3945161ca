"""A server and its clients in processes of their own: commands, Python, curl."""

import json
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.cli.conftest import write_model
from tests.gym.rounds.protocol.people import person
from tests.gym.rounds.server.processes import ServerProcess, command, environment, serving
from zoo.core import digest
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.session.contributing import prepare
from zoo.gym.rounds.session.contributing import reveal as prepared_reveal
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import chunk_name, describe
from zoo.gym.rounds.storage.http import HttpStorage
from zoo.gym.signing import Signed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CAROL = person("carol")

PYTHON = """
import sys
from zoo.gym.client import Client
address, base, source = sys.argv[1:]
found = Client(node_url=address).contribute_improvement("ben", base, None, source, send=True)
print(found.receipt)
"""


def ok(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1] if done.stdout else ""
    return json.loads(last) if last.startswith("{") else last


def tuned(base: Path, folder: Path, seed: int) -> Path:
    import numpy as np
    from safetensors.numpy import load_file, save_file

    [(name, weight)] = load_file(base / "model.safetensors").items()
    change = np.random.default_rng(seed).standard_normal(weight.shape).astype(np.float32)
    write_model(folder, seed)
    save_file({name: weight + change / 10}, folder / "model.safetensors")
    return folder


class Curl:
    """Carol, who has an own program for keys and coding, and curl for everything else."""

    def __init__(self, server: ServerProcess, mirror: Path, base: Path, source: Path) -> None:
        self.server, self.mirror, self.base, self.source = server, mirror, base, source
        self.auth = f"Authorization: Bearer {server.token('contributor')}"

    def ask(self, *words: str) -> str:
        url = f"{self.server.url}/rounds/tiny"
        sent = [word.replace("{url}", url) for word in words]
        done = subprocess.run(
            ["curl", "--fail", "--silent", "--show-error", "-H", self.auth, *sent],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def leave(self, entry: Signed) -> None:
        content = objects.encode(entry)
        file = self.mirror.with_name("entry.json")
        file.write_bytes(content)
        self.ask("-T", str(file), f"{{url}}/inbox/{sha256(content).hexdigest()}.json")

    def opened(self) -> Any:
        return open_round(FolderStorage(self.server.folder / "tiny"), remember=False)

    def commit(self) -> None:
        self.leave(prepare(self.opened(), self.source, self.base, CAROL)[1])

    def reveal(self) -> None:
        own, entry = prepared_reveal(self.opened(), CAROL)
        _, [only] = describe(own.file)
        listing = own.file.with_name("list")
        listing.write_text(json.dumps([only], separators=(",", ":")))
        for file, name in ((own.file, only), (listing, digest(listing.read_bytes()))):
            self.ask("-T", str(file), f"{{url}}/{chunk_name(name)}")
            assert "content-length" in self.ask("--head", f"{{url}}/{chunk_name(name)}").lower()
        self.leave(entry)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_commands_python_and_curl_take_part_in_one_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = write_model(tmp_path / "base", 1)
    names = ("ann", "ben", "carol")
    source = {who: tuned(base, tmp_path / who, seed) for seed, who in enumerate(names, 1)}
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "carols"))
    with serving(tmp_path) as server:
        address, maker = f"{server.url}/rounds/tiny", server.home
        ann, ben, eve = (tmp_path / f"home-{who}" for who in ("ann", "ben", "eve"))
        for home in (ann, ben, eve):
            ok(command(home, "round", "token", address, stdin=server.token("contributor")))
        words = ("--base", str(base), "--out", address, "--min-contributors", "3")
        more = ("--method", "mean", "--tensors", "*", "--json")
        ok(command(maker, "round", "create", "tiny", *words, *more))

        def by_python() -> None:
            done = subprocess.run(
                [sys.executable, "-c", PYTHON, address, str(base), str(source["ben"])],
                env=environment(ben),
                capture_output=True,
                text=True,
                check=False,
            )
            assert ok(done).startswith("inbox/")

        carol = Curl(server, tmp_path / "mirror", base, source["carol"])
        mine = ("--round", address, "--base", str(base), "--send", "--json")
        ok(command(ann, "round", "contribute", str(source["ann"]), *mine))
        by_python()
        carol.commit()
        assert ok(command(maker, "round", "take", "--close", "--json"))["phase"] == "reveal"
        ok(command(ann, "round", "reveal", "--round", address, "--send", "--json"))
        by_python()
        carol.reveal()
        assert ok(command(maker, "round", "take", "--close", "--json"))["phase"] == "compute"
        result = ok(command(maker, "round", "aggregate", "--json"))
        found = ok(command(eve, "round", "verify", address, "--json"))
        assert (found["passed"], found["recomputed"], len(result["weights"])) == (True, True, 3)


def test_a_disk_that_is_full_refuses_and_the_server_goes_on(tmp_path: Path) -> None:
    """Files of at most 1 MiB (2,048 blocks of 512 bytes) stand for a full disk."""
    base = write_model(tmp_path / "base", 1)
    with serving(tmp_path, limit="-f 2048") as server:
        address = f"{server.url}/rounds/tiny"
        words = ("--base", str(base), "--out", address, "--min-contributors", "2")
        ok(command(server.home, "round", "create", "tiny", *words, "--method", "mean"))
        storage = HttpStorage(address, server.token("maker"))
        large, small = bytes(3 << 20), b"small"
        with raises("rounds.server_failed", "the server's disk is full"):
            storage.write(chunk_name(digest(large)), large)
        storage.write(chunk_name(digest(small)), small)
        assert storage.names("chunks") == [chunk_name(digest(small))]
        left = [path for path in server.folder.rglob("*") if path.stat().st_size > 1 << 19]
        assert left == []
