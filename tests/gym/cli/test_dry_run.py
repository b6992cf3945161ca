"""`--dry-run` of commands that write or fetch much: it says what, and does nothing."""

from pathlib import Path

import pytest

from tests.gym.cli.conftest import Call
from tests.gym.delta import models_on_disk as disk
from zoo.gym.jobs import run_folders

SHAPES = disk.qwen3_shapes()


@pytest.fixture(autouse=True)
def models(tmp_path: Path) -> None:
    """A base with two fine-tunes of all weights, and rows."""
    start = disk.random_arrays(SHAPES, 0)
    disk.write_model(tmp_path / "base", start)
    for seed in (1, 2):
        change = disk.random_arrays(SHAPES, seed, 0.1)
        disk.write_model(tmp_path / f"tuned{seed}", disk.plus(start, change))
    (tmp_path / "rows.jsonl").write_text('{"prompt": "hi", "completion": "ho"}\n' * 9)


def files() -> set[Path]:
    """What is in the working folder, the program's own home left out."""
    return {path for path in Path.cwd().rglob("*") if "home" not in path.parts}


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("train rows.jsonl --model zen-pico", "per_device_train_batch_size"),
        ("delta create tuned1 --base base", "to tuned1.delta.safetensors: nothing was written"),
        ("delta create tuned1 --base base --distill 9", "(defaults), then trained for 9 steps"),
        (
            "delta create tuned1 --base zen-pico --data rows.jsonl --rows 2 --max-bytes 1MB",
            "what keeps most in 1MB",
        ),
        ("models get smollm2", "smollm2: 92.9 MB to download"),
        ("models get zen-pico", "zen-pico: "),
    ],
)
def test_it_says_what_and_writes_nothing(
    call: Call, words: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files()
    monkeypatch.delenv("HF_HUB_OFFLINE")  # consent is asked for before the first request
    result = call(*words.split(), "--dry-run")
    assert (result.code, result.stderr if result.code else "") == (0, "")
    assert shown in result.stdout
    assert files() == before
    assert run_folders() == []


def test_a_size_without_rows_to_choose_by_is_refused(call: Call) -> None:
    result = call("delta", "create", "tuned1", "--base", "base", "--max-bytes", "1MB", "--dry-run")
    assert (result.code, "--max-bytes: expected held-out rows" in result.stderr) == (2, True)


def test_a_merge_says_how_much_it_would_write(call: Call) -> None:
    pytest.importorskip("mergekit")
    result = call("merge", "tuned1", "tuned2", "--dry-run", "--json")
    weights = sum(array.size for array in disk.random_arrays(SHAPES, 0).values())
    assert result.json["bytes"] == 4 * weights
    assert call("merge", "tuned1", "tuned2", "--dtype", "bf16", "--dry-run").code == 0
    assert not Path("merged").exists()


def test_a_base_that_is_missing_is_not_fetched(call: Call) -> None:
    result = call("delta", "create", "tuned1", "--base", "zen-eco", "--dry-run", "--yes")
    assert result.code == 4
    assert "is not on this machine" in result.stderr


def test_what_a_delta_would_be_rebuilt_to_is_named(call: Call) -> None:
    assert call("delta", "create", "tuned1", "--base", "base").code == 0
    result = call("delta", "apply", "tuned1.delta.safetensors", "--base", "base", "--dry-run")
    assert "to tuned1-model: nothing was written" in result.stdout
    assert not Path("tuned1-model").exists()
