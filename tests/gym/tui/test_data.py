"""A file of examples: what it is, its lengths and faults, and its rows one by one."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input, Select

from tests.gym.cli.test_steering import EVIL, steers
from tests.gym.tui.conftest import Drive, screen_text, shows, until
from zoo.gym.errors import InputError
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.data import screen as data
from zoo.gym.tui.data.row_file import EVERY, open_rows
from zoo.gym.tui.data.text import facts, lengths, shown_rows
from zoo.gym.tui.start.screen import StartScreen
from zoo.gym.tui.widgets.path_field import completed_path

INSPECTED: dict[str, Any] = {
    "files": {"/x/chats.jsonl": "OpenAI messages"},
    "rows": 200,
    "problems": [{"where": "/x/chats.jsonl:57", "reason": "no answer"}],
    "kinds": {"chat": 200},
    "roles": {"user": 200, "assistant": 200},
    "tokens": {
        "p50": 310,
        "p95": 900,
        "longest": 3904,
        "histogram": [
            {"least": 257, "most": 512, "rows": 150},
            {"least": 2049, "most": 4096, "rows": 50},
        ],
    },
    "cutoff_len": 2048,
    "truncated": 50,
    "truncated_share": 0.25,
    "unlearned": 0,
    "unlearned_share": 0.0,
    "duplicates": 1,
    "repeats": [{"where": "/x/chats.jsonl:88", "of": "/x/chats.jsonl:12"}],
    "empty_answers": 0,
    "with_reasoning": 0,
    "with_tools": 0,
    "warnings": [],
    "refusal": None,
    "ratings": {},
    "sampled": 0,
    "stages": ["sft", "distill"],
}


def shown(row: int, **fields: Any) -> dict[str, Any]:
    """A row as `zoo-gym data show --json` answers it."""
    pieces = [{"text": f"spell {row}", "learned": False}, {"text": "done", "learned": True}]
    return {
        "row": row,
        "source": f"/x/chats.jsonl:{row}",
        "kind": "chat",
        "tokens": 33,
        "pieces": pieces,
        "rejected": [],
        "answer": "",
        "good": None,
        "problem": "",
    } | fields


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "chats.jsonl"
    lines = [json.dumps({"prompt": f"word {i}", "completion": "yes"}) for i in range(1, 201)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the screen asks of commands, which answer at once."""
    calls: list[list[str]] = []

    async def answer(words: list[str], *, finish: bool = False) -> dict[str, Any]:
        calls.append(words)
        if words[1] == "fix":
            left = {"bad": 1, "duplicates": 1, "problems": [], "repeats": []}
            return {"file": "/x/chats.fixed.jsonl", "kept": 198} | left
        if words[1] == "show":
            first = int(words[words.index("--first") + 1])
            return {"rows": [shown(row) for row in range(first, first + data.PAGE)]}
        if "slow" in words[2]:
            await asyncio.sleep(60)
        if "bad" in words[2]:
            raise InputError("bad.jsonl: empty file", hint="look at its name")
        return INSPECTED

    monkeypatch.setattr(data, "ask_command", answer)
    return calls


def test_without_a_file_it_shows_what_one_looks_like(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, '"completion": "Lima."', "press p and type its path")
        await pilot.press("4")
        assert app.current_mode == "runs"

    drive(visit)


def test_a_dropped_file_is_inspected(drive: Drive, asked: list[list[str]], file: Path) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        app.screen.post_message(Paste(f"file://{file}"))
        await shows(pilot, "OpenAI messages", "sft, distill", "median 310", "longest 3,904")
        await shows(pilot, "25.0% cut at 2,048 tokens (50 rows)", "1 bad, 1 repeated")
        await shows(pilot, "chats.jsonl:57: no answer", "chats.jsonl:88: repeats chats.jsonl:12")
        assert asked[0] == ["data", "inspect", str(file), "--model", "zen-pico", "--offline"]

    drive(visit, size=(120, 36))


def test_rows_are_shown_one_by_one_as_the_model_reads_them(
    drive: Drive, asked: list[list[str]], file: Path
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        app.screen.open(str(file))  # type: ignore[attr-defined]
        await shows(pilot, "Row 1 of 200, chat, 33 tokens", "spell 1done")
        await pilot.press("right", "right", "left")
        await shows(pilot, "Row 2 of 200", "spell 2done")
        await pilot.press("G")
        await shows(pilot, "Row 200 of 200", "spell 200done")
        await pilot.press("right")
        await shows(pilot, "Row 200 of 200")

    drive(visit, size=(120, 36))


def test_a_row_is_shown_before_the_file_is_inspected_and_escape_cancels(
    drive: Drive, asked: list[list[str]], file: Path
) -> None:
    slow = file.rename(file.with_name("slow.jsonl"))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        app.screen.open(str(slow))  # type: ignore[attr-defined]
        await shows(pilot, "Reading it with the tokenizer", "prompt: word 1", "Row 1 of 200")
        await pilot.press("escape")
        await shows(pilot, "Cancelled")
        await pilot.press("right")
        await shows(pilot, "Row 2 of 200", "spell 2done")
        assert not [worker for worker in app.screen.workers if worker.group == "inspect"]

    drive(visit)


def test_a_file_that_cannot_be_used_says_why(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    (tmp_path / "bad.jsonl").write_text("")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3", "p")
        app.screen.query_one("#path", Input).value = str(tmp_path / "bad.jsonl")
        await pilot.press("enter")
        await shows(pilot, "bad.jsonl: empty file", "look at its name")
        app.screen.query_one("#path", Input).value = "/absent"
        await pilot.press("enter")
        await shows(pilot, "/absent: no such file")

    drive(visit)


def test_a_filter_shows_only_rows_with_a_text(
    drive: Drive, asked: list[list[str]], file: Path
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        app.screen.open(str(file))  # type: ignore[attr-defined]
        await shows(pilot, "1 bad, 1 repeated")
        await pilot.press("slash", *"WORD 15", "enter")
        await shows(pilot, "Row 15 of 200", "match 1 of 11")  # 15 and 150 to 159
        await pilot.press("right")
        await shows(pilot, "Row 150 of 200")
        await pilot.press("slash", *"zebra", "enter")
        await shows(pilot, "No row has this text")
        await pilot.press("escape")
        await shows(pilot, "bright: learned")

    drive(visit, size=(120, 36))


def test_a_copy_is_written_by_a_command_and_can_be_opened(
    drive: Drive, asked: list[list[str]], file: Path
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        app.screen.open(str(file))  # type: ignore[attr-defined]
        await shows(pilot, "1 bad, 1 repeated")
        await pilot.press("f")
        await shows(pilot, "chats.fixed.jsonl: 198 rows; left out 1 bad row and 1 repeated row")
        assert ["data", "fix", str(file), "--stage", "sft"] in asked

    drive(visit, size=(120, 36))


def test_rows_that_come_late_are_not_those_of_another_file(
    drive: Drive, asked: list[list[str]], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = asyncio.Event()

    async def answer_late(words: list[str], *, finish: bool = False) -> dict[str, Any]:
        if words[1] == "show" and words[2] == str(file):
            with suppress(asyncio.CancelledError):
                await late.wait()
            return {"rows": [shown(1, pieces=[{"text": "of the file before", "learned": True}])]}
        asked.append(words)
        return INSPECTED if words[1] == "inspect" else {"rows": [shown(1)]}

    other = file.with_name("other.jsonl")
    other.write_text(file.read_text())
    monkeypatch.setattr(data, "ask_command", answer_late)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        app.screen.open(str(file))  # type: ignore[attr-defined]
        await until(pilot, lambda: any(words[1] == "inspect" for words in asked))
        app.screen.open(str(other))  # type: ignore[attr-defined]
        late.set()
        await shows(pilot, "spell 1")
        await pilot.pause(0.2)
        assert "of the file before" not in screen_text(app)

    drive(visit, size=(120, 36))


@pytest.mark.parametrize("is_short", [True, False], ids=["too few rows", "an error"])
def test_rows_that_are_not_answered_are_asked_for_once(
    drive: Drive,
    asked: list[list[str]],
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_short: bool,
) -> None:
    async def answer(words: list[str], *, finish: bool = False) -> dict[str, Any]:
        asked.append(words)
        if words[1] == "inspect":
            return INSPECTED
        if is_short:
            return {"rows": []}
        raise InputError("the file has changed")

    monkeypatch.setattr(data, "ask_command", answer)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        app.screen.open(str(file))  # type: ignore[attr-defined]
        await shows(pilot, "by the tokenizer of zen-pico")
        await pilot.press("G")
        await shows(pilot, "Row 200 of 200", "word 200" if is_short else "the file has changed")
        await pilot.pause(0.2)
        pages = [words for words in asked if words[1] == "show"]
        assert len(pages) == len({tuple(words) for words in pages})

    drive(visit, size=(120, 36))


def test_another_tokenizer_counts_again(
    drive: Drive, asked: list[list[str]], file: Path, tmp_path: Path
) -> None:
    (tmp_path / "hub" / "models--Qwen--Qwen3-0.6B" / "snapshots").mkdir(parents=True)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        app.screen.open(str(file))  # type: ignore[attr-defined]
        await shows(pilot, "by the tokenizer of zen-pico")
        app.screen.query_one("#model", Select).value = "zen-nano"
        await shows(pilot, "by the tokenizer of zen-nano")
        assert ["data", "inspect", str(file), "--model", "zen-nano", "--offline"] in asked

    drive(visit, size=(120, 36))


def test_training_starts_from_the_file(drive: Drive, asked: list[list[str]], file: Path) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        app.screen.open(str(file))  # type: ignore[attr-defined]
        await shows(pilot, "1 bad, 1 repeated")
        await pilot.press("t")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        assert app.screen.query_one("#path", Input).value == str(file)

    drive(visit, size=(120, 36))


def test_text_of_a_file_cannot_control_the_terminal(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "slow.jsonl"
    path.write_text(json.dumps({"prompt": EVIL, "completion": EVIL}, ensure_ascii=True) + "\n")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        app.screen.open(str(path))  # type: ignore[attr-defined]
        await shows(pilot, "x1b]0;owned")
        assert not steers(screen_text(app))

    drive(visit)


def test_what_is_learned_is_bright_and_what_is_read_is_dim() -> None:
    text = shown_rows([shown(1)])
    styles = {text.plain[span.start : span.end]: str(span.style) for span in text.spans}
    assert styles == {"spell 1": "$secondary", "done": "$foreground b"}


def test_pairs_prompts_and_ratings_are_shown_as_what_they_are() -> None:
    worse = [{"text": "no", "learned": True}]
    assert "the worse answer\nno" in shown_rows([shown(1, rejected=worse)]).plain
    assert "a reward compares with\n42" in shown_rows([shown(1, answer="42")]).plain
    assert "rated bad" in shown_rows([shown(1, good=False)]).plain
    assert shown_rows([shown(1, problem="no answer")]).plain == "cannot be used: no answer"


def test_the_longest_bar_has_the_width_and_the_others_their_share() -> None:
    lines = lengths(INSPECTED, 40).plain.splitlines()
    # 40 cells - 14 for "2,049 to 4,096" - 3 for "150" - 2 blanks = 21; 50 of 150 is a third, 7
    assert [line.count("█") for line in lines[:2]] == [21, 7]


def test_rows_for_another_method_come_with_its_name() -> None:
    pairs = INSPECTED | {"stages": ["dpo", "orpo"], "kinds": {"pair": 200}}
    assert "dpo, orpo; train with stage=dpo" in facts(pairs, 80).plain
    assert "stage=" not in facts(INSPECTED, 80).plain


LINES = st.lists(
    st.sampled_from(['{"a": 1}', "", "  ", '{"b": "\\u00e9 long"}', "{"]), max_size=200
)


@given(lines=LINES, ends=st.booleans())
def test_every_row_is_found_by_its_number(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], ends: bool
) -> None:
    path = tmp_path_factory.mktemp("rows") / "a.jsonl"
    lines = ['{"first": 0}', *lines]
    path.write_text("\n".join(lines) + ("\n" if ends else ""))
    file = open_rows(path)
    assert file is not None
    file.index(lambda: True)
    rows = [line for line in lines if line.strip()]
    assert [file.read(row) for row in range(1, file.count + 1)] == rows
    assert len(file.places) == -(-len(rows) // EVERY)
    assert file.find("É", 999, lambda: True) == [
        i for i, row in enumerate(rows, 1) if "u00e9" in row
    ]


@pytest.mark.parametrize("text", ['[{"a": 1}]', "a,b\n1,2", "", "prose", "{"])
def test_a_file_without_a_row_per_line_is_left_to_the_command(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    assert open_rows(path) is None


def test_tab_completes_a_path_as_far_as_it_is_clear(tmp_path: Path) -> None:
    (tmp_path / "rows-a.jsonl").touch()
    (tmp_path / "rows-b.jsonl").touch()
    (tmp_path / "folder").mkdir()
    assert completed_path(f"{tmp_path}/r") == f"{tmp_path}/rows-"
    assert completed_path(f"{tmp_path}/fo") == f"{tmp_path}/folder/"
    assert completed_path(f"{tmp_path}/x") == f"{tmp_path}/x"


@pytest.mark.slow
def test_the_real_command_inspects_shows_and_repairs(drive: Drive, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    good = json.dumps({"prompt": "spell a:", "completion": "b"})
    other = json.dumps({"prompt": "spell c:", "completion": "d"})
    path.write_text("\n".join([good, '{"x": 1}', other, good]) + "\n")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        app.screen.open(str(path))  # type: ignore[attr-defined]
        await shows(pilot, "prompt/completion", "1 bad, 1 repeated", "repeats rows.jsonl:1")
        await shows(pilot, "Row 1 of 4, completion", "b<|im_end|>")
        await pilot.press("f")
        await shows(pilot, "2 rows; left out 1 bad row and 1 repeated row")
        await pilot.press("o")
        await shows(pilot, "No bad row, no repeated row.")
        assert path.with_name("rows.fixed.jsonl").read_text() == f"{good}\n{other}\n"

    drive(visit, size=(120, 36))
