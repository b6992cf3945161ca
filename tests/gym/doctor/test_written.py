"""`zoo-gym clean` deletes what the program wrote, and nothing else."""

import json
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from zoo.gym.cli import main
from zoo.gym.doctor.written import WRITTEN
from zoo.gym.jobs import create_run

APP = Path(__file__).parents[3] / "app" / "zoo" / "gym"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with a run, a key and a cache, and files of others beside them; two models."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    home = tmp_path / "home"
    for name in ("data/keys/own.pem", "data/mine.txt", "cache/products.json", "config/other/x"):
        write(home / name)
    for name in ("models--Qwen--Qwen3-0.6B", "models--other--theirs"):
        write(tmp_path / "hub" / name / "snapshots" / "0" / "config.json")
    run = create_run("model_name_or_path: zen-pico\ndataset: [rows.jsonl]\n", {})
    run.identity_file.unlink()
    run.events.emit("end", state="done", exit_code=0)
    return home


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("12345678")


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_only_what_the_program_wrote_is_deleted(home: Path) -> None:
    assert main(["clean", "--yes"]) == 0
    assert files(home) == {"data/mine.txt", "config/other/x"}
    assert len(files(home.parent / "hub")) == 2


def test_what_listing_leaves_behind_is_known(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for noun in ("variants", "runs", "round", "experience"):
        assert main([noun, "list"]) == 0
    capsys.readouterr()
    assert main(["clean", "--dry-run", "--json"]) == 0
    others = json.loads(capsys.readouterr().out)["others"]
    assert others == [str(home / "data/mine.txt"), str(home / "config/other")]


def test_a_model_of_the_shared_cache_is_deleted_by_its_name_alone(home: Path) -> None:
    assert main(["clean", "--yes", "--model", "zen-nano"]) == 0
    assert files(home.parent / "hub") == {"models--other--theirs/snapshots/0/config.json"}


@pytest.mark.parametrize(("words", "code"), [([], 2), (["--dry-run"], 0), (["--model", "no/x"], 4)])
def test_nothing_is_deleted_without_a_confirmation(home: Path, words: list[str], code: int) -> None:
    before = files(home.parent)
    assert main(["clean", *words]) == code
    assert files(home.parent) == before


def test_sizes_and_what_stays_are_listed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", "--dry-run", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    sizes = {Path(each["path"]).name: each["bytes"] for each in shown["files"]}
    assert sizes["keys"] == sizes["products.json"] == 8
    assert [each["bytes"] for each in shown["kept"]] == [8, 8]
    assert shown["others"] == [str(home / "data/mine.txt"), str(home / "config/other")]
    assert (shown["deleted"], shown["freed_bytes"]) == (0, 0)


def test_a_live_run_is_named_and_nothing_is_deleted(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_run("model_name_or_path: zen-pico\ndataset: [rows.jsonl]\n", {})
    before = files(home)
    assert main(["clean", "--yes"]) == 2
    assert "expected no run with a process, got r0002" in capsys.readouterr().err
    assert files(home) == before


def test_every_name_that_the_source_writes_is_known() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in APP.rglob("*.py"))
    named = re.findall(r'(?:folders\(\)|self|used)\.(data|config|log) / "([^"]+)"', source)
    assert ("data", "runs") in named
    assert [
        (folder, name)
        for folder, name in named
        if not any(fnmatch(name, pattern) for of in WRITTEN[folder].values() for pattern in of)
    ] == []
