"""Whose rows a quality figure says it is of; on zen-pico."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gym.delta.lora import write_lora
from zoo.gym.data import fingerprint
from zoo.gym.jobs import Run, create_run

pytestmark = pytest.mark.filterwarnings("ignore:this delta is worse than its base")
Call = Callable[..., Any]
UNKNOWN = "it is not known whether they were learned"


def write(path: str, numbers: range) -> Path:
    rows = ({"prompt": f"Say {n}.", "completion": str(n)} for n in numbers)
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Path(path).absolute()


@pytest.fixture
def run(call: Call) -> Run:
    """A finished run that learned four rows."""
    data = write("learned.jsonl", range(4))
    text = f"model_name_or_path: zen-pico\ndataset: [{data}]\nval_size: 0\nseed: 7\n"
    run = create_run(text + "date: 2026-01-01\n", {"data": fingerprint([data])})
    (run.folder / "split.json").write_text(
        json.dumps({"v": 1, "data": fingerprint([data]), "split": {"rows": 4, "held_out": []}})
    )
    write_lora(run.result)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["", "adapter_model.safetensors"])
def test_a_result_in_its_run_folder_is_that_run(call: Call, run: Run, inside: str) -> None:
    write("given.jsonl", range(2, 6))
    source = str(run.result / inside)
    found = call("delta", "create", source, "--data", "given.jsonl", "--out", "d", "--json")
    assert (found.code, found.json["quality"]["held_out"]) == (0, True)
    assert "2 of 4 rows left out: the run was trained on them" in found.stderr
    assert "on 2 held-out rows: " in found.stderr
    assert call("delta", "info", "d", "--json").json["seed"] == 7
    assert "of 2 held-out rows" in call("delta", "info", "d").stdout


@pytest.mark.slow
def test_rows_of_an_adapter_of_unknown_data_are_not_called_held_out(call: Call, run: Run) -> None:
    shutil.copytree(run.result, "copy")
    found = call("delta", "create", "copy", "--data", "learned.jsonl", "--out", "d", "--json")
    assert (found.code, found.json["quality"]["held_out"]) == (0, None)
    assert "on 4 rows of learned.jsonl: " in found.stderr
    assert UNKNOWN in found.stderr
    shown = call("delta", "info", "d").stdout
    checked = call("delta", "check", "d", "--data", "learned.jsonl")
    assert (checked.code, UNKNOWN in checked.stdout, UNKNOWN in shown) == (0, True, True)
    assert "held-out" not in found.stderr + shown + checked.stdout


@pytest.mark.slow
def test_a_copied_result_knows_its_training_file(call: Call, run: Run) -> None:
    shutil.copytree(run.result, "copy")
    told = {"v": 1, "data": fingerprint([Path("learned.jsonl")])}
    (Path("copy") / "zoo-gym.json").write_text(json.dumps(told))
    found = call("delta", "create", "copy", "--data", "learned.jsonl", "--json")
    assert (found.code, found.json["quality"]["held_out"]) == (0, False)
    assert "4 rows of learned.jsonl, its training data" in found.stderr


@pytest.mark.slow
def test_the_file_records_that_a_run_s_learned_rows_were_lost(call: Call, run: Run) -> None:
    write("given.jsonl", range(2, 6))
    Path("learned.jsonl").unlink()
    found = call("delta", "create", run.id, "--data", "given.jsonl", "--out", "d", "--json")
    assert (found.code, found.json["quality"]["held_out"]) == (0, None)
    assert UNKNOWN in call("delta", "info", "d").stdout


@pytest.mark.slow
def test_rows_are_not_called_new_to_a_base_that_is_itself_a_result(call: Call, run: Run) -> None:
    from zoo.models import pico_folder

    base = Path(shutil.copytree(pico_folder(), "base")).absolute()
    (base / "zoo-gym.json").write_text(json.dumps({"v": 1, "data": "0" * 64}))
    settings = run.config_file.read_text().replace("zen-pico", str(base))
    run.config_file.write_text(settings)
    write("given.jsonl", range(2, 6))
    found = call("delta", "create", run.id, "--data", "given.jsonl", "--out", "d", "--json")
    assert (found.code, found.json["quality"]["held_out"]) == (0, None)
    assert "the base is itself the result of a run" in found.stderr
