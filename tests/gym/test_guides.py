"""The commands of the guides run as they are printed, on zen-pico and in a few steps."""

import io
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from zoo.gym.cli import main

GUIDES = Path(__file__).parents[2] / "docs" / "guides"

pytestmark = pytest.mark.slow


def commands(page: str) -> list[list[str]]:
    """The lines of a guide's shell blocks that run zoo-gym on this machine, without comments."""
    text = (GUIDES / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    return [words[1:] for words in lines if words[0] == "zoo-gym"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "stdin", io.StringIO("Where is the key?\n"))


def test_two_hundred_chats_lead_to_a_small_file_and_an_export() -> None:
    asked = {"role": "user", "content": "Where is key {}?"}
    turns = (asked, {"role": "assistant", "content": "{}"})
    row = json.dumps({"messages": turns})
    rows = "".join(row.replace("{}", str(number)) + "\n" for number in range(30))
    Path("my-chats.jsonl").write_text(rows + rows.splitlines()[0] + "\n")
    for words in commands("two_hundred_chats.md"):
        short = ["max_steps=4"] if words[0] == "train" else []
        short += ["--limit", "2"] if words[0] == "eval" else []
        assert main([*words, *short]) == 0, words
    assert Path("mine.safetensors").is_file()
    assert Path("mine", "Modelfile").is_file()


def test_grpo_trains_measures_plots_and_exports() -> None:
    rows = [{"prompt": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(20)]
    Path("tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    changes = {"zen-nano": "zen-pico", "num_generations=8": "num_generations=2"}
    changes |= {"--detach": "max_steps=2"}
    for words in commands("grpo_over_ssh.md"):
        short = ["cutoff_len=64"] if words[0] == "train" else []
        short += ["--limit", "2"] if words[0] == "eval" else []
        assert main([*(changes.get(word, word) for word in words), *short]) == 0, words
    assert Path("run.png").is_file()
    assert Path("mine.gguf").is_file()
