"""A private round on the command line: its terms, its result, what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gym.cli.conftest import write_model
from zoo.gym.rounds.compute import private

Call = Callable[..., Any]
CREATE = ("round", "create", "tiny", "--base", "base", "--out", "round", "--tensors", "*")
PRIVATE = ("--private", "epsilon=1,delta=1e-2,clip=2", "--min-contributors", "2")
SMALL = ("--max-contributors", "50", "--rank", "1")


@pytest.fixture
def person(call: Call, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Runs a command as one of several people; the base is that of all."""
    import numpy as np
    from safetensors.numpy import load_file, save_file

    [(name, weight)] = load_file(base / "model.safetensors").items()
    for seed, who in enumerate(("ann", "ben"), 1):
        folder = write_model(tmp_path / who, seed)
        change = np.random.default_rng(seed).standard_normal(weight.shape).astype(np.float32)
        save_file({name: weight + change / 10}, folder / "model.safetensors")

    def run(who: str, *words: str) -> Any:
        monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "homes" / who))
        return call(*words)

    return run


@pytest.mark.slow
def test_a_private_round_ends_in_one_result_and_says_what_it_promises(person: Call) -> None:
    made = person("maker", *CREATE, *PRIVATE, *SMALL, "--force", "--json")
    assert made.code == 0, made.stderr
    promised = made.json["privacy"]
    assert promised["class"] == "clipped sum with discrete Gaussian noise"
    assert (promised["epsilon"], promised["delta"], promised["clip"]) == (1.0, 1e-2, 2.0)
    for who in ("ann", "ben"):
        words = ("round", "contribute", who, "--round", "round", "--base", "base", "--send")
        sent = person(who, *words, "--json")
        assert sent.code == 0, sent.stderr
        assert 0 < sent.json["private"]["kept"] <= 1
        again = person(who, *words)
        assert "kept in the round's factors" in again.stdout
        assert "this round spends epsilon 1 at delta 0.01; nothing before" in again.stdout
    person("maker", "round", "take", "--close")
    for who in ("ann", "ben"):
        unsent = person(who, "round", "reveal")
        assert "of weights, sealed to the round's maker, go to" in unsent.stderr
        assert person(who, "round", "reveal", "--send").code == 0
    person("maker", "round", "take", "--close")

    refused = person("maker", "round", "aggregate")
    assert (refused.code, "noise to signal: expected at most 1" in refused.stderr) == (2, True)
    assert "zoo-gym round aggregate tiny --force publishes it; " in refused.stderr
    assert "zoo-gym round void tiny --because TEXT ends the round" in refused.stderr
    found = person("maker", "round", "aggregate", "--force", "--json")
    assert found.code == 0, found.stderr
    assert (found.json["rule"], found.json["weights"]) == ("private_mean", None)
    assert found.json["warnings"] == ["more noise than signal: of no use"]
    assert found.json["privacy"]["contributors"] == 2
    again = person("maker", "round", "aggregate", "--force")
    assert "private: epsilon 1, delta 0.01 for each contribution" in again.stdout
    assert f"result {found.json['digest'][:12]}" in again.stdout

    checked = person("eve", "round", "verify", "round", "--json")
    assert (checked.code, checked.json["passed"], checked.json["recomputed"]) == (0, True, False)
    points = person("eve", "round", "rewards", "round", "--json").json
    assert set(points["rewards"].values()) == {500}
    info = person("eve", "delta", "info", found.json["result"])
    assert "privacy   epsilon 1, delta 0.01 for each of 2 contributions" in info.stdout
    applied = ("delta", "apply", found.json["result"], "--base", "base", "--out", "new")
    assert person("eve", *applied).code == 0
    applied = person("eve", "round", "apply", "round", "--base", "base")
    assert applied.stdout.startswith("verified but for its numbers; ")
    assert "nobody can compute its numbers again" in applied.stdout
    assert "warning: of no use: the noise is" in applied.stderr
    assert "chat with it: zoo-gym chat --model" in applied.stderr
    spent = person("maker", "round", "ledger", "--json").json["spent"]
    assert [one["draws"] for one in spent] == [1, 1]
    assert "epsilon 1 at delta 0.01: 1 round" in person("ann", "round", "ledger").stdout


def _contributed(person: Call, who: str, place: str = "round") -> str:
    words = ("round", "contribute", who, "--round", place, "--base", "base", "--send")
    return str(person(who, *words).stdout)


@pytest.mark.slow
def test_what_was_spent_before_leaves_out_the_round_itself(person: Call) -> None:
    person("maker", *CREATE, *PRIVATE, *SMALL, "--force")
    for who in ("ann", "ben"):
        _contributed(person, who)
    person("maker", "round", "take", "--close")
    person("ann", "round", "reveal", "--send")
    said = "this round spends epsilon 1 at delta 0.01; "
    assert f"{said}nothing before\n" in _contributed(person, "ann")
    again = (*CREATE[:2], "next", *CREATE[3:6], "second", *CREATE[7:])
    person("maker", *again, *PRIVATE, *SMALL, "--force")
    found = _contributed(person, "ann", "second")
    assert f"{said}before, in 1 round, epsilon 1 at delta 0.01\n" in found


def _without_points(report: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name != "rewards"}


def _for_a_stranger(report: dict[str, Any]) -> dict[str, Any]:
    key = "ed25519:" + "11" * 32
    points = {"rule": "weight", "points": {key: 1000}}
    return {**report, "contributions": [{"key": key, "digest": "22" * 32}], "rewards": points}


def _for_one(report: dict[str, Any]) -> dict[str, Any]:
    only = report["contributions"][0]
    points = {"rule": "weight", "points": {only["key"]: 1000}}
    return {**report, "contributions": [only], "rewards": points}


LIES: dict[Callable[[dict[str, Any]], dict[str, Any]], str] = {
    _without_points: "got other points than equal parts",
    _for_a_stranger: "got other contributions than the log counts",
    _for_one: "got other contributions than the log counts",
}


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES)
def test_points_that_the_log_does_not_bear_out_are_not_shown(
    lie: Callable[[dict[str, Any]], dict[str, Any]], person: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = private.private_report

    def lying(*given: Any) -> dict[str, Any]:
        return lie(honest(*given))

    person("maker", *CREATE, *PRIVATE, *SMALL, "--force")
    for who in ("ann", "ben"):
        words = ("round", "contribute", who, "--round", "round", "--base", "base", "--send")
        person(who, *words)
    person("maker", "round", "take", "--close")
    for who in ("ann", "ben"):
        person(who, "round", "reveal", "--send")
    person("maker", "round", "take", "--close")
    with monkeypatch.context() as patch:
        patch.setattr(private, "private_report", lying)
        person("maker", "round", "aggregate", "--force")
    found = person("eve", "round", "rewards", "round", "--json")
    assert (found.code, LIES[lie] in found.stderr) == (2, True), found.stderr
    assert "rewards" not in (found.json or {})


REFUSED = {
    "epsilon 0": (("--private", "epsilon=0"), "epsilon: expected 0.1 to 10, got 0.0"),
    "epsilon 11": (("--private", "epsilon=11"), "epsilon: expected 0.1 to 10, got 11.0"),
    "noise scale": (
        ("--private", "epsilon=1,noise_scale=2"),
        "noise_scale: expected none: sigma is computed from epsilon, delta and clip",
    ),
    "amplification": (
        ("--private", "epsilon=1,amplification=0.1"),
        "amplification: expected none: who takes part is neither random nor secret",
    ),
    "signs": (("--private", "epsilon=1", "--form", "signs"), "--form: expected lowrank"),
    "float": (("--private", "epsilon=1", "--form", "float"), "--form: expected lowrank"),
    "krum": (
        ("--private", "epsilon=1", "--method", "krum"),
        "--method: expected mean in",
    ),
    "more noise than signal": (
        ("--private", "epsilon=0.5", "--rank", "1"),
        "noise to signal: expected at most 1, got",
    ),
    "a rank above a side": (
        ("--private", "epsilon=10", "--rank", "64", "--force"),
        "caps.rank: expected at most",
    ),
    "a delta of one of them": (
        ("--private", "epsilon=10,delta=0.01", "--force"),
        "privacy.delta: expected less than 1 / 1000, the most contributors, got 0.01",
    ),
    "force of nothing": (("--force",), "--force: has no effect without --private"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_breaks_the_promise_is_refused_and_nothing_is_stored(
    case: str, person: Call, tmp_path: Path
) -> None:
    words, message = REFUSED[case]
    found = person("maker", *CREATE, *words)
    assert (found.code, message in found.stderr) == (2, True), found.stderr
    assert not Path("round").exists()
    home = tmp_path / "homes" / "maker"
    files = (path for path in home.rglob("*") if path.is_file())
    stored = [path.name for path in files if path.parent.name != "bases"]  # which base was given
    assert set(stored) <= {"own.pem"}


@pytest.mark.slow
def test_options_of_other_rounds_are_refused_in_a_private_one(person: Call) -> None:
    person("maker", *CREATE, *PRIVATE, *SMALL, "--force")
    for words, message in (
        (("aggregate", "--ray", "local"), "--ray: has no effect in a private round"),
        (("verify", "round", "--measure"), "--measure: has no effect in a private round"),
    ):
        found = person("maker", "round", *words)
        assert (found.code, message in found.stderr) == (2, True), found.stderr
