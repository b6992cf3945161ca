"""`zoo-gym round` with a round on a server, by three people with homes and tokens of their own."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.gym.cli.conftest import write_model
from tests.gym.http_guard.toy import running
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.server.run import CommunityLearningServer, server_config
from zoo.gym.rounds.storage.http import keep_token

Call = Callable[..., Any]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[CommunityLearningServer]:
    """Run by the maker."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "homes" / "maker"))
    config = server_config({"folder": tmp_path / "served", "port": 0})
    with running(CommunityLearningServer(None, config)) as started:
        yield started


@pytest.fixture
def person(
    call: Call, server: CommunityLearningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Call:
    """Runs a command as one of several people, who got the contributors' token once."""

    def run(who: str, *words: str) -> Any:
        home = tmp_path / "homes" / who
        monkeypatch.setenv("ZOO_GYM_HOME", str(home))
        if who != "maker" and not home.exists():
            given = f"{server.tokens[Role.CONTRIBUTOR]}\n"
            assert call("round", "token", server.url, stdin=given).code == 0
        return call(*words)

    return run


def fine_tunes(base: Path, tmp_path: Path) -> None:
    import numpy as np
    from safetensors.numpy import load_file, save_file

    [(name, weight)] = load_file(base / "model.safetensors").items()
    for seed, who in enumerate(("ann", "ben"), 1):
        folder = write_model(tmp_path / who, seed)
        change = np.random.default_rng(seed).standard_normal(weight.shape).astype(np.float32)
        save_file({name: weight + change / 10}, folder / "model.safetensors")


@pytest.mark.slow
def test_a_round_on_a_server_ends_in_a_result_that_a_stranger_verifies(
    person: Call, server: CommunityLearningServer, base: Path, tmp_path: Path
) -> None:
    fine_tunes(base, tmp_path)
    address = f"{server.url}/rounds/tiny"
    words = ("--base", "base", "--out", address, "--min-contributors", "2", "--method", "mean")
    found = person("maker", "round", "create", "tiny", *words, "--tensors", "*", "--json")
    assert (found.code, found.json["phase"]) == (0, "commit"), found.stderr
    for who in ("ann", "ben"):
        found = person(
            who, "round", "contribute", who, "--round", address, "--base", "base", "--send"
        )
        assert found.code == 0, found.stderr
    assert person("maker", "round", "take", "--close", "--json").json["phase"] == "reveal"
    for who in ("ann", "ben"):
        assert person(who, "round", "reveal", "--send", "--json").json["phase"] == "reveal"
    assert person("maker", "round", "take", "--close", "--json").json["phase"] == "compute"
    result = person("maker", "round", "aggregate", "--json").json

    found = person("eve", "round", "verify", address, "--json")
    assert (found.code, found.json["passed"], found.json["recomputed"]) == (0, True, True)
    folder = server.config.folder / "tiny"
    found = person("eve", "round", "verify", str(folder), "--json")  # the same as a folder
    assert (found.code, found.json["passed"]) == (0, True)
    assert person("eve", "round", "show", "tiny", "--json").json["result"] == result["digest"]


@pytest.mark.slow
def test_nothing_is_written_to_a_server_without_send(
    person: Call, server: CommunityLearningServer, base: Path, tmp_path: Path
) -> None:
    fine_tunes(base, tmp_path)
    address = f"{server.url}/rounds/tiny"
    words = ("--base", "base", "--out", address, "--min-contributors", "2", "--method", "mean")
    assert person("maker", "round", "create", "tiny", *words, "--tensors", "*").code == 0
    before = {path: path.read_bytes() for path in server.config.folder.rglob("*") if path.is_file()}
    words = ("round", "contribute", "ann", "--round", address, "--base", "base", "--json")
    found = person("ann", *words)
    assert (found.code, found.json["receipt"]) == (0, None)
    assert {
        path: path.read_bytes() for path in server.config.folder.rglob("*") if path.is_file()
    } == before


@pytest.mark.slow
def test_a_wrong_token_and_an_absent_server_are_named(
    person: Call, call: Call, server: CommunityLearningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.gym.rounds.storage.http.WAITS_S", ())
    found = person("eve", "round", "show", f"{server.url}/rounds/tiny")
    assert (found.code, "expected a round, got no manifest.json" in found.stderr) == (4, True)
    found = call("round", "token", server.url, stdin="wrong\n")
    assert (found.code, f"{server.url}: that is not a token of this" in found.stderr) == (2, True)
    assert f"zoo-gym round token {server.url} < FILE" in found.stderr
    found = call("round", "token", server.url, stdin="\n")
    assert (found.code, "a token on stdin, got nothing" in found.stderr) == (2, True)
    kept = person("eve", "round", "show", f"{server.url}/rounds/tiny")
    assert "expected a round, got no manifest.json" in kept.stderr  # with the token of before
    keep_token(server.url, "wrong")
    found = person("eve", "round", "show", f"{server.url}/rounds/tiny")
    assert (found.code, "expected one of this server" in found.stderr) == (2, True)
    assert "zoo-gym round token" in found.stderr
    found = call("round", "token", "http://127.0.0.1:9", stdin="any\n")
    assert (found.code, "the token was not tried" in found.stderr) == (0, True)
    found = person("eve", "round", "show", "http://127.0.0.1:9/rounds/tiny")
    assert (found.code, "cannot be reached" in found.stderr) == (4, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--host", "0.0.0.0"), "expected TLS for other machines"),
        (("--tls-cert", "x"), "expected both or none"),
        (("--most-gib", "0"), "--most-gib: expected a number above 0"),
        (("--port", "70000"), "server.port"),
    ],
)
def test_a_server_that_would_not_be_safe_is_refused(
    words: tuple[str, ...], said: str, call: Call
) -> None:
    found = call("round", "serve", "rounds", *words)
    assert (found.code, said in found.stderr) == (2, True), found.stderr
