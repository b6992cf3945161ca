"""The examples of the README run as they are printed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_the_python_examples_train_answer_and_measure_a_delta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    (example,) = blocks("json")
    rows = (example.replace("key", f"key {n}") for n in range(20))
    Path("my-chats.jsonl").write_text("".join(rows))
    names: dict[str, Any] = {}
    for code in blocks("python"):
        exec(code.replace("max_steps=100", "max_steps=2"), names)
    assert Path("mine.safetensors").is_file()
    assert names["report"].quality.rows == 2
    assert names["report"].held_out is True
    assert "tuned=" in capsys.readouterr().out
    assert json.loads(example)["messages"]
