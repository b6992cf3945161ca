"""`--template`: what training refuses without it, the commands before it refuse, too."""

import json
from pathlib import Path

import pytest

from tests.gym.chat.test_form import without_template
from tests.gym.cli.conftest import Call
from zoo.gym.data.reading.dataset import EARLY_BYTES
from zoo.gym.jobs import run_folders

CHAT = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}


@pytest.fixture
def bare(tmp_path: Path) -> str:
    (tmp_path / "chats.jsonl").write_text(json.dumps(CHAT) + "\n")
    return str(without_template(tmp_path / "bare"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("train",), ("train", "--print-config"), ("data", "inspect")], ids=" ".join
)
def test_chats_for_a_base_without_a_template_are_refused(
    call: Call, bare: str, words: tuple[str, ...]
) -> None:
    found = call(*words[:2], "chats.jsonl", *words[2:], "--model", bare)
    assert found.code == 2
    assert "template=chatml" in found.stderr
    assert run_folders() == []


@pytest.mark.slow
def test_data_too_large_to_read_early_is_refused_by_its_first_row(call: Call, bare: str) -> None:
    with Path("chats.jsonl").open("a") as file:
        file.write(" " * EARLY_BYTES + "\n")
    found = call("train", "chats.jsonl", "--print-config", "--model", bare)
    assert (found.code, "template=chatml" in found.stderr) == (2, True)


@pytest.mark.slow
def test_inspect_shows_rows_in_the_given_template(call: Call, bare: str) -> None:
    found = call("data", "inspect", "chats.jsonl", "--model", bare, "--template", "phi", "--json")
    text = "".join(piece["text"] for piece in found.json["example"])  # type: ignore[attr-defined]
    assert text.startswith("<|user|>\nHi")
    assert any("template" in note for note in found.json["warnings"])  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:template. the base has no token")
def test_chat_takes_the_template_that_training_takes(call: Call, bare: str) -> None:
    words = ("chat", "--model", bare, "--max_new_tokens", "1", "--template")
    assert call(*words, "phi", stdin="Hi\n").code == 0
    assert "without effect: --template" in call(*words, "qwen3", stdin="Hi\n").stderr
    found = call(*words, "chatlm", "--json")
    assert (found.code, "--template: expected chatml" in found.stderr) == (2, True)
    assert found.json["error"]["code"] == "data.bad_template"  # type: ignore[index]
