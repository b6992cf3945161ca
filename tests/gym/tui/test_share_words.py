"""What the place Share says of deltas, rounds, lessons and the server."""

import datetime as dt
from typing import Any

import pytest

from zoo.gym.tui.share.action import Field, missing
from zoo.gym.tui.share.deltas import Coding, check_parts, coding_of
from zoo.gym.tui.share.lessons import diff_parts, estimate_parts, gate_figures
from zoo.gym.tui.share.rounds import learned, next_words, taken_back, terms, verdict
from zoo.gym.tui.share.server import Server, server_words
from zoo.gym.tui.share.words import Part, time_left

LINES = [
    "round summer (4a5440f6301e) about zen-pico",
    "you take part at /mnt/other: what you send without an address goes there",
    "mean, form lowrank, 28 tensors, 3 to 1000 contributors",
    "no gate; no cap on newcomers",
    "phase: commit until 2026-12-06T21:28:31Z",
    "committed: 0, revealed: 0",
    "next: zoo-gym round contribute last --round summer --send",
]
"""What `round show` prints."""


def text_of(parts: list[Part]) -> str:
    """Returns the plain text of parts, cells of tables included."""
    cells = [
        str(cell)
        for _, shown in parts
        for column in getattr(shown, "columns", ())
        for cell in column.cells
    ]
    return "\n".join([*cells, *(shown for _, shown in parts if isinstance(shown, str))])


def test_a_line_of_a_measured_coding_is_read_and_no_other() -> None:
    assert coding_of("     1.2 MB  KL 0.0008  --bits 4 --zero mask") == Coding(
        "--bits 4 --zero mask", "1.2 MB", "0.0008"
    )
    assert coding_of("  812 bytes  not measured  --codec f32") == Coding(
        "--codec f32", "812 bytes", "not measured"
    )
    assert coding_of("chosen: --codec bf16") is None


def test_the_first_empty_field_is_missing_unless_it_is_optional() -> None:
    fields = (Field("a", "A", optional=True), Field("b", "B"), Field("c", "C"))
    assert missing(fields, {"a": "", "b": "x", "c": ""}) == fields[2]
    assert missing(fields, {"a": "", "b": "x", "c": "y"}) is None


def test_terms_are_the_lines_between_the_name_and_the_phase() -> None:
    assert terms(LINES) == LINES[2:4]


def test_the_next_step_is_the_one_of_the_command() -> None:
    due = [LINES[-1]]
    assert next_words("commit", due) == f"Next: {due[0].removeprefix('next: ')} (key s)"
    assert "v reveals" in next_words("reveal", [])


def test_a_failed_check_is_named_by_the_verdict() -> None:
    result = {"name": "result", "ok": True, "detail": "bytes 809064, chunks 19b9, digest 622f"}
    passed: dict[str, Any] = {"checks": [result], "recomputed": True}
    assert verdict(passed) == "Recomputed here: equal, 809,064 bytes. 1 checks hold."
    bad = {"name": "weights", "ok": False, "detail": "3 of them"}
    assert verdict(passed | {"checks": [result, bad]}) == "Not equal: weights: 3 of them"
    assert "no result yet" in verdict({"checks": [], "recomputed": False})


def test_a_failed_check_of_a_file_says_not_to_use_it() -> None:
    checks: list[dict[str, Any]] = [
        {"name": "digest", "ok": False},
        {"name": "quality", "ok": None},
    ]
    assert "Failed: digest." in check_parts({"checks": checks})
    checks[0]["ok"] = True
    assert check_parts({"checks": checks}) == "1 checks hold."


def test_the_privacy_budget_adds_up_what_this_key_spent() -> None:
    privacy = {"epsilon": 2.0, "delta": 1e-6}
    spent = [{"contributor": "me", "epsilon": 3.0}, {"contributor": "you", "epsilon": 9.0}]
    words = learned(privacy, spent, "me")
    assert "spends epsilon 2" in words
    assert "3 was spent before on this machine, 5 after it" in words  # 3 + 2
    assert learned(None, spent, "me").startswith("No privacy budget")


@pytest.mark.parametrize(
    ("deadline", "left"),
    [
        ("2026-01-03T05:00:00Z", "2 d 5 h left"),
        ("2026-01-01T00:00:40Z", "40 s left"),
        ("2025-12-31T00:00:00Z", "past"),
        (None, ""),
    ],
)
def test_the_time_left_is_counted_to_the_deadline(deadline: str | None, left: str) -> None:
    assert time_left(deadline, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)) == left


def test_a_hash_stays_sent_and_weights_do_not_leave_before_the_reveal() -> None:
    words = taken_back(None)
    assert "hash cannot be taken back" in words
    assert "until you reveal" in words


def estimate(usd: float, leaves: list[str]) -> dict[str, Any]:
    figures = {"low": 1, "expected": 2, "high": 3}
    return {
        "calls": figures,
        "tokens": figures,
        "usd": {"low": usd, "expected": usd, "high": usd},
        "leaves": leaves,
    }


def test_an_estimate_says_what_leaves_and_what_it_costs() -> None:
    assert "nothing: all calls stay" in text_of(estimate_parts(estimate(0, []), "none", []))
    shown = text_of(estimate_parts(estimate(1.5, ["api.example.org"]), "5 USD", []))
    assert "tasks and answers, to api.example.org" in shown
    assert "1.50 USD  (1.50 USD to 1.50 USD)" in shown


def test_an_estimate_without_a_price_is_not_called_free() -> None:
    lines = ["no price of x is known: what it costs is not estimated", "a run needs more: a key"]
    parts = estimate_parts(estimate(0, ["api.example.org"]), "5 USD", lines)
    assert "unknown: no price is known" in text_of(parts)
    assert ("problem", "a key") in parts


def test_a_gate_shows_the_effect_with_its_interval() -> None:
    found = {"verdict": "proven", "effect": 0.533, "low": 0.354, "high": 0.706}
    assert gate_figures(found)[1] == ("effect", "+53.3 points of 100, 95 % +35.4 to +70.6")
    assert gate_figures({}) == [("verdict", "unproven")]


def test_a_comparison_has_what_went_before_what_came() -> None:
    found = {"removed": ["old"], "added": ["new"], "same": False}
    assert diff_parts(found) == ["- old", "+ new"]
    assert diff_parts({"removed": [], "added": [], "same": True}) == ["The lessons are the same."]


def test_the_token_of_a_server_is_never_kept() -> None:
    server = Server()
    for line in (
        "zen-pico is at http://127.0.0.1:80/v1",
        "token: h-AQKv43xaL",
        "models: zen-pico, zen-pico:ann",
        'try it: curl http://x -H "Authorization: Bearer $(cat /home/ann/serve.token)"',
    ):
        server._take(line)
    assert (server.url, server.token_file) == ("http://127.0.0.1:80/v1", "/home/ann/serve.token")
    assert not any("h-AQKv43xaL" in line for line in server.lines)
    assert server_words(server).startswith("Server: off")
