"""`zoo-gym round` from its terms to a verified result, by three people with homes of their own."""

import json
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from tests.gym.cli.conftest import write_model
from zoo.gym.delta.reading.parents import parents_of
from zoo.gym.errors import InputError
from zoo.gym.rounds.compute import aggregate
from zoo.gym.rounds.measure.measure import Measuring
from zoo.gym.rounds.payouts.reputation import write_standings
from zoo.models import resolve

Call = Callable[..., Any]


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


def started(person: Call, *more: str) -> None:
    method = () if "--method" in more else ("--method", "mean")
    words = ("--base", "base", "--out", "round", "--min-contributors", "2", *method)
    found = person("maker", "round", "create", "tiny", *words, "--tensors", "*", *more, "--json")
    assert (found.code, found.json["phase"]) == (0, "commit"), found.stderr


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def committed(person: Call, who: str, place: str = "round") -> Any:
    words = ("--round", place, "--base", "base", "--send", "--json")
    return person(who, "round", "contribute", who, *words)


@pytest.mark.slow
def test_a_round_ends_in_a_result_that_a_stranger_verifies(person: Call) -> None:
    started(person)
    for who in ("ann", "ben"):
        found = committed(person, who)
        assert found.json["receipt"].startswith("inbox/")
    assert person("maker", "round", "take", "--close", "--json").json["phase"] == "reveal"
    for who in ("ann", "ben"):
        assert person(who, "round", "reveal", "--send", "--json").json["phase"] == "reveal"
    assert person("maker", "round", "take", "--close", "--json").json["added"] == 2
    result = person("maker", "round", "aggregate", "--json").json
    assert set(result["weights"].values()) == {1.0}
    assert result["warnings"] == [
        "the rule withstands no malicious contributor",
        "all keys are new: there is no cap on newcomers",
    ]

    points = person("eve", "round", "rewards", "round", "--json").json
    assert (points["pool"], points["rule"], set(points["rewards"].values())) == (
        1000,
        "weight",
        {500},
    )

    found = person("eve", "community", "verify", "round", "--json")
    assert (found.code, found.json["passed"], found.json["recomputed"]) == (0, True, True)
    shown = person("eve", "round", "show", "tiny", "--json").json
    assert (shown["phase"], shown["result"]) == ("published", result["digest"])
    applied = person("ann", "delta", "apply", result["result"], "--base", "base", "--out", "new")
    assert applied.code == 0, applied.stderr
    _applied_and_undone(person, result["digest"])
    assert person("eve", "round", "list", "--json").json["rounds"][0]["name"] == "tiny"


def _applied_and_undone(person: Call, digest: str) -> None:
    words = ("round", "apply", "round", "--base", "base", "--json")
    applied = person("eve", *words).json
    assert (applied["digest"], applied["previous"]) == (digest, None)
    assert person("eve", *words).json == applied, "a second time changes nothing"
    place = str(Path("round").absolute())
    with chdir(Path(applied["file"]).parent):
        assert person("eve", "round", "apply", place, "--json").json == applied, "base remembered"
    assert content(Path(applied["file"])).keys() >= {Path(applied["file"]) / "model.safetensors"}
    assert parents_of(Path(applied["file"])) == (digest,)
    undone = person("eve", "round", "undo", "base", "--json").json
    assert undone == {"file": None, "digest": None, "previous": digest}
    assert Path(applied["file"]).is_dir()
    found = person("eve", "round", "undo")
    assert (found.code, "expected a result that was applied" in found.stderr) == (4, True)


@pytest.mark.slow
def test_a_copy_is_none_of_the_contributors_that_the_maker_asks_for(
    person: Call, tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "ann", tmp_path / "copy")
    started(person)
    people = ("ann", "ben", "copy")
    for who in people:
        committed(person, who)
        person("maker", "round", "take")
    person("maker", "round", "take", "--close")
    for who in people:
        person(who, "round", "reveal", "--send")
    person("maker", "round", "take", "--close")
    words = ("maker", "round", "aggregate", "--min-contributors")
    found = person(*words, "3")
    assert (found.code, "expected at least 3 that count, got 2: ref" in found.stderr) == (2, True)
    assert person("eve", "round", "show", "round", "--json").json["phase"] == "compute"
    assert person(*words, "2").code == 0


@pytest.mark.slow
def test_what_was_sent_before_has_its_receipt_and_is_not_asked_about(person: Call) -> None:
    started(person)
    words = ("ann", "round", "contribute", "ann", "--round", "round", "--base", "base", "--json")
    assert person(*words).json["receipt"] is None
    sent = committed(person, "ann").json["receipt"]
    again = person(*words)
    assert (again.json["receipt"], "committed before in" in again.stderr) == (sent, True)
    committed(person, "ben")
    person("maker", "round", "take", "--close")
    assert person("ann", "round", "reveal", "--json").json["receipt"] is None
    sent = person("ann", "round", "reveal", "--send", "--json").json["receipt"]
    again = person("ann", "round", "reveal", "--json")
    assert (again.json["receipt"], "revealed before in" in again.stderr) == (sent, True)


def test_a_round_without_a_result_has_not_passed_and_measures_nothing_again(
    person: Call, base: Path
) -> None:
    rows_for(base, "rows.jsonl", 10)
    started(person, "--refit", "rows.jsonl")
    words = ("verify", "round", "--measure", "--base", "base")
    found = person("eve", "round", *words, "--json")
    said = "the round is in phase commit: no result was measured"
    assert {"name": "measured figures", "detail": said, "ok": None} in found.json["checks"]
    assert (found.code, found.json["passed"]) == (0, None)
    assert "0 failed: there is no result yet" in person("eve", "round", *words).stdout


@pytest.mark.slow
def test_a_contributor_sees_what_is_done_and_what_is_next(person: Call) -> None:
    started(person)
    assert "you:" not in person("ann", "round", "show", "round").stdout
    committed(person, "ann")
    committed(person, "ben")
    waiting = person("ann", "round", "show", "round").stdout
    assert "you: committed; the round's maker has not taken it yet" in waiting
    person("maker", "round", "take", "round", "--close")
    due = person("ann", "round", "show", "round").stdout
    assert "you: committed, not revealed: zoo-gym round reveal tiny --send" in due
    person("ann", "round", "reveal", "round", "--send")
    sent = person("ann", "round", "show", "round").stdout
    assert "you: revealed; the round's maker has not taken it yet" in sent
    person("maker", "round", "take", "round")
    shown = person("ann", "round", "show", "round").stdout
    assert "you: revealed" in shown
    lines = [line.split(" ", 3)[2:] for line in shown.splitlines() if line.startswith("  ")]
    assert sorted(" ".join(words[1:]) for words in lines) == ["(you) revealed", "committed"]
    listed = person("maker", "round", "show", "round", "--json").json["contributors"]
    assert [one["state"] for one in listed].count("revealed") == 1
    assert {one["fingerprint"] for one in listed} == {words[0] for words in lines}


@pytest.mark.slow
def test_who_committed_already_reads_what_is_next_and_sends_nothing(person: Call) -> None:
    started(person)
    for who in ("ann", "ben"):
        committed(person, who)
    person("maker", "round", "take", "--close")
    before = content(Path("round"))
    late = committed(person, "ann")
    assert "you committed already; reveal now: zoo-gym round reveal tiny --send" in late.stderr
    assert (late.code, content(Path("round"))) == (0, before)
    assert late.json["receipt"].startswith("inbox/"), "the one of then"
    person("ann", "round", "reveal", "--send")
    waits = "you committed and revealed already; the round's maker has not taken it yet\n"
    assert waits in committed(person, "ann").stderr
    person("maker", "round", "take")
    assert "you committed and revealed already\n" in committed(person, "ann").stderr


def test_another_base_is_refused_by_its_name_and_not_downloaded(person: Call) -> None:
    started(person)
    words = ("ann", "--round", "round", "--base", "zen-nano")
    found = person("ann", "round", "contribute", *words)
    assert (
        found.code,
        "the base of the round, or a folder of it, got zen-nano" in found.stderr,
    ) == (
        2,
        True,
    )


@pytest.mark.slow
def test_a_federated_average_takes_nobody_without_a_number_of_examples(person: Call) -> None:
    started(person, "--method", "federated_average")
    words = ("round", "contribute", "ann", "--round", "round", "--base", "base", "--send", "--json")
    said = "--examples: expected 1 to 2^40, because federated_average weighs by them, got"
    for got in ("nothing", "0", "-1", str((1 << 40) + 1)):
        found = person("ann", *words, *(() if got == "nothing" else ("--examples", got)))
        assert (found.code, f"{said} {got}" in found.stderr) == (2, True), found.stderr
    assert not Path("round", "inbox").exists()
    found = person("ann", *words[:-1], "--examples", "7")
    assert "weighed by 7 examples: as you say, nobody can check it" in found.stdout
    shown = person("eve", "round", "show", "round").stdout
    assert "federated_average by the examples that contributors say they have" in shown


def test_nothing_leaves_without_send(person: Call) -> None:
    started(person)
    before = sorted(Path("round").rglob("*"))
    words = ("round", "contribute", "ann", "--round", "round", "--base", "base", "--json")
    found = person("ann", *words)
    assert (found.code, found.json["receipt"]) == (0, None)
    assert "nothing was sent" in found.stderr
    assert sorted(Path("round").rglob("*")) == before


@pytest.mark.slow
def test_what_is_sent_goes_to_the_round_and_not_to_a_copy_that_was_verified(person: Call) -> None:
    started(person)
    committed(person, "ann")
    committed(person, "ben")
    person("maker", "round", "take", "--close")
    shutil.copytree("round", "copy")
    original, copy = str(Path("round").resolve()), str(Path("copy").resolve())
    assert person("ann", "round", "verify", "copy").code == 0
    shown = person("ann", "round", "show", "copy").stdout
    assert f"you take part at {original}: what you send without an address goes there" in shown
    assert "you take part at" not in person("ann", "round", "show", "round").stdout
    found = person("ann", "round", "reveal", "--send")
    assert f"revealed in {original}: " in found.stdout
    assert len(list(Path("round/inbox").iterdir())) == 3
    sent = person("ann", "round", "reveal", "copy", "--send", "--json").json
    assert sent["address"] == copy  # as the user says; from now on also without saying it
    assert person("ann", "round", "reveal", "--json").json["address"] == copy
    shutil.rmtree("copy")
    person("ann", "round", "show", "round")
    assert person("ann", "round", "reveal", "--json").json["address"] == original


def revealed(person: Call, *more: str) -> None:
    """Runs a round until its result is to be computed."""
    started(person, *more)
    to_compute(person)


def to_compute(person: Call) -> None:
    """Brings a round that has begun to the computing of its result."""
    for who in ("ann", "ben"):
        committed(person, who)
    person("maker", "round", "take", "--close")
    for who in ("ann", "ben"):
        person(who, "round", "reveal", "--send")
    person("maker", "round", "take", "--close")


@pytest.mark.slow
def test_undo_names_what_is_still_applied_to_another_base(person: Call) -> None:
    revealed(person)
    assert person("maker", "round", "aggregate").code == 0
    shutil.copytree("base", "copy")
    first, _ = (
        person("eve", "round", "apply", "round", "--base", base, "--json").json
        for base in ("base", "copy")
    )
    undone = person("eve", "round", "undo").stdout  # of the copy, the newest
    other = f"{Path('base').resolve()}, is {first['digest'][:12]}: {first['file']}\n"
    assert undone.endswith(
        f"no other was applied to this base\nthe newest of another base, {other}"
    )
    last = person("eve", "round", "undo").stdout
    assert last.endswith("no other was applied to this base\n")


@pytest.mark.slow
def test_a_round_after_another_starts_from_its_standings(person: Call) -> None:
    revealed(person)
    words = ("round", "create", "next", "--base", "base", "--out", "second", "--tensors", "*")
    after = ("--min-contributors", "2", "--method", "weighted_mean", "--after", "tiny")
    early = person("maker", *words, *after)
    assert (early.code, "a published result, got phase compute" in early.stderr) == (4, True)
    assert person("maker", "round", "aggregate").code == 0
    found = person("maker", *words, *after, "--newcomers-rounds", "1", "--json")
    assert found.code == 0, found.stderr
    terms = json.loads(Path("second/manifest.json").read_text())["body"]["newcomers"]
    assert (terms["rounds"], terms["share"]) == (1, 0.2)
    chunk = Path("second/chunks", terms["standings"][:2], terms["standings"]).read_text()
    assert [one["accepted"] for one in json.loads(chunk)["members"]] == [1, 1]


def rows_for(base: Path, file: str, count: int) -> None:
    """Writes a file of examples, and gives a model what reads it: the tokenizer of zen-pico."""
    rows = [json.dumps({"prompt": f"{n}?", "completion": "yes"}) for n in range(count)]
    Path(file).write_text("\n".join(rows) + "\n")
    for part in resolve("zen-pico", offline=True).folder.glob("*token*"):
        shutil.copy(part, base)


@pytest.mark.slow
def test_held_out_rows_and_figures_leave_with_send_alone(
    person: Call, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_for(base, "rows.jsonl", 10)
    revealed(person, "--evaluation", "rows.jsonl")
    before = content(Path("round"))
    words = ("round", "measure", "--evaluation", "rows.jsonl", "--base", "base")
    found = person("maker", *words)
    said = f"rows.jsonl (380 bytes) and the signed figures go to {Path('round').resolve()}"
    assert (found.code, said in found.stderr) == (4, True), found.stderr
    assert "agree with --send" in found.stderr
    assert content(Path("round")) == before

    def stopped(*_: object) -> None:
        raise InputError("measured")

    monkeypatch.setattr(Measuring, "run", stopped)
    for agreed in ("--send", "--yes"):
        assert "measured" in person("maker", *words, agreed).stderr


@pytest.mark.parametrize("option", ["--evaluation", "--refit"])
def test_a_round_does_not_begin_with_too_few_rows_to_measure(
    option: str, person: Call, base: Path
) -> None:
    rows_for(base, "few.jsonl", 5)
    words = ("--base", "base", "--out", "new", "--tensors", "*", option, "few.jsonl")
    found = person("maker", "round", "create", "tiny", "--method", "mean", *words)
    said = "few.jsonl: expected at least 10 rows, got 5"
    assert (found.code, said in found.stderr) == (2, True), found.stderr
    assert not Path("new").exists()


@pytest.mark.slow
def test_a_round_does_not_start_from_standings_that_its_maker_invented(
    person: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    revealed(person)
    with monkeypatch.context() as patch:
        patch.setattr(aggregate, "write_standings", lambda _: write_standings({}))
        assert person("maker", "round", "aggregate").code == 0
    words = ("round", "create", "next", "--base", "base", "--out", "second", "--tensors", "*")
    found = person("eve", *words, "--min-contributors", "2", "--method", "mean", "--after", "round")
    assert (found.code, "got a failed check: standings" in found.stderr) == (2, True), found.stderr
    assert not Path("second").exists()


@pytest.mark.slow
def test_a_changed_file_fails_the_verification(person: Call) -> None:
    started(person)
    for who in ("ann", "ben"):
        committed(person, who)
    person("maker", "round", "take", "--close")
    for who in ("ann", "ben"):
        person(who, "round", "reveal", "--send")
    person("maker", "round", "take", "--close")
    result = person("maker", "round", "aggregate", "--json").json["digest"]
    chunk = next(Path("round/chunks").rglob(f"{result}"))  # one chunk: the file's own digest
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"x")

    found = person("eve", "round", "verify", "round")
    assert found.code == 2
    assert "FAILED      published files" in found.stdout
