"""The examples of the README and of the page of the Python API run as they are printed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


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
        exec(code.replace("max_steps=100", "max_steps=2").replace("smollm2", "zen-pico"), names)
    assert Path("my-chats.safetensors").is_file()
    assert names["report"].quality.rows == 2
    assert names["report"].held_out is True
    printed = capsys.readouterr()
    assert "tuned=" in printed.out
    assert printed.out.splitlines()[-1]  # an answer
    assert "step 2/2" in printed.err
    assert json.loads(example)["messages"]


@pytest.mark.slow
def test_the_examples_of_every_way_to_train_in_python_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    (example,) = blocks("json")
    Path("my-chats.jsonl").write_text("".join(example.replace("key", f"key {n}") for n in range(9)))
    short = {"max_steps=100": "max_steps=1, cutoff_len=96", '"max_steps": 100': '"max_steps": 1'}
    short |= {"range(40)": "range(8)"}
    names: dict[str, Any] = {}
    for code in blocks("python", PYTHON):
        for long, small in short.items():
            code = code.replace(long, small)  # noqa: PLW2901
        exec(code, names)
        assert names["result"].model.is_dir()
    assert Path("my-model").is_dir()
    assert Path("mine.safetensors").is_file()
    assert len(list((tmp_path / "home" / "data" / "runs").iterdir())) == 6
