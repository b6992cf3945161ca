"""`zoo-gym round witness, anchor` and `verify --head`: who watches a log besides its writer."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def person(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Runs a command as one of several people."""

    def run(who: str, *words: str) -> Any:
        monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "homes" / who))
        return call(*words)

    return run


@pytest.fixture
def watched(person: Call, base: Path) -> Path:
    """A round that names Dave as its witness; the maker trusts his key by that name."""
    key = person("dave", "keys", "create", "--json").json["key"]
    person("maker", "keys", "trust", "dave", key)
    words = ("--base", str(base), "--out", "round", "--min-contributors", "2", "--method", "mean")
    more = ("--tensors", "*", "--witness", "dave")
    found = person("maker", "round", "create", "tiny", *words, *more)
    assert found.code == 0, found.stderr
    return Path("round").resolve()


@pytest.mark.slow
def test_a_witness_signs_and_others_see_it(watched: Path, person: Call) -> None:
    found = person("dave", "round", "witness", str(watched), "--json")
    assert (found.code, found.json["size"]) == (0, 1), found.stderr
    shown = person("eve", "round", "verify", str(watched))
    assert "witnesses: 1 of 1 signed, up to entry 1" in shown.stdout
    found = person("maker", "round", "witness", str(watched))
    assert (found.code, "expected a key of role witness" in found.stderr) == (2, True)


SAVE = "import sys, pathlib; pathlib.Path('head').write_text(sys.stdin.read())"


@pytest.mark.slow
def test_a_head_is_handed_to_a_command_and_holds_the_log_to_it(watched: Path, person: Call) -> None:
    words = ("round", "anchor", "--round", str(watched), "--json", "--")
    found = person("eve", *words, sys.executable, "-c", SAVE)
    assert (found.code, found.json["size"]) == (0, 1), found.stderr
    assert Path("head").read_bytes() == Path(found.json["file"]).read_bytes()
    assert person("eve", *words, sys.executable, "-c", "open(r'{}')").code == 0
    found = person("eve", "round", "verify", str(watched), "--head", "head")
    assert (found.code, "ok          kept head: the log continues" in found.stdout) == (0, True)

    Path("head").write_text(Path("head").read_text().replace("\n1\n", "\n2\n"))
    found = person("eve", "round", "verify", str(watched), "--head", "head")
    assert (found.code, "expected a valid signature" in found.stderr) == (2, True)


REFUSED = {
    "nothing": ((), 2, "anchor: expected a command"),
    "no such program": (("--", "no-such-program"), 4, "expected a program that can be run"),
    "a program that fails": (("--", sys.executable, "-c", "exit(3)"), 1, "to succeed, got code 3"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_a_command_that_cannot_take_a_head_is_named(case: str, watched: Path, person: Call) -> None:
    words, code, said = REFUSED[case]
    found = person("eve", "round", "anchor", "--round", str(watched), *words)
    assert (found.code, said in found.stderr) == (code, True), found.stderr
    hint = f"hint: zoo-gym round anchor --round {watched} -- tee head\n"
    assert (hint in found.stderr) == (case == "nothing")
