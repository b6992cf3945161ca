"""A GGUF file answers as the same model in safetensors does; it gives no log-likelihoods."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gym.evaluate.conftest import Call, write_rows
from tests.models.gguf.adapters import write_adapter
from tests.models.gguf.files import write_gguf
from zoo.gym.evaluate.sources import Contender


@pytest.fixture
def models(shared: Callable[[str], Path], place: Path) -> list[str]:
    """The file, and the folder of the same weights."""
    pytest.importorskip("xllamacpp")
    shutil.copytree(shared("data/models/stories260K"), place / "stories")
    return [str(shared("data/models/stories260K.gguf")), "stories"]


def test_its_answers_are_those_of_the_folder(models: list[str], place: Path, call: Call) -> None:
    starts = ("Once upon a time", "Tom had a")
    write_rows(place / "gsm8k.jsonl", [{"question": each, "answer": "#### 1"} for each in starts])
    words = ("--tasks", "gsm8k", "--data", ".", "--max_new_tokens", "8", "--json")
    outcome = call("eval", *models, *words)
    assert outcome.code == 0, outcome.stderr
    comparisons: Any = outcome.json["comparisons"]
    assert (comparisons[0]["same"], comparisons[0]["rows"]) == (2, 2)
    assert "plain text: the model has no chat template" in outcome.stderr


def test_choices_are_refused_by_name(models: list[str], place: Path, call: Call) -> None:
    row = {"question": "Which?", "choices": ["a", "b"], "answer": 0}
    write_rows(place / "mmlu.jsonl", [row])
    outcome = call("eval", models[0], "--tasks", "mmlu", "--data", ".", "--json")
    assert outcome.code == 2
    assert "mmlu: needs log-likelihoods, which a GGUF file does not give" in outcome.stderr
    assert "zoo-gym models import" in outcome.stderr


def test_an_adapter_in_gguf_is_measured_beside_its_file(
    models: list[str], place: Path, call: Call
) -> None:
    write_adapter(place / "ann.gguf", Path(models[0]), 1)
    write_rows(place / "gsm8k.jsonl", [{"question": "Once upon a time", "answer": "#### 1"}])
    words = ("--tasks", "gsm8k", "--data", ".", "--max_new_tokens", "9", "--json")
    outcome = call("eval", "ann.gguf", "--base", models[0], *words)
    assert outcome.code == 0, outcome.stderr
    comparisons: Any = outcome.json["comparisons"]
    assert (comparisons[0]["first"], comparisons[0]["second"]) == (models[0], "ann.gguf")
    assert comparisons[0]["same"] == 0
    alone: Any = call("eval", "ann.gguf", "--base", models[0], "--alone", *words).json
    assert [each["source"] for each in alone["results"]] == ["ann.gguf"]


@pytest.mark.parametrize("number", [0, 1])
def test_a_digest_of_one_part_is_of_all_parts(number: int, tmp_path: Path) -> None:
    files = [tmp_path / f"big-0000{n}-of-00002.gguf" for n in (1, 2)]
    for n, file in enumerate(files):
        counts = {"split.count": 2, "split.no": n}
        write_gguf(file, {"general.architecture": "llama"} | counts, {f"t{n}": np.ones(32, "f4")})
    before = Contender("big", files[number]).digests
    write_gguf(files[1], {"general.architecture": "llama"} | counts, {"t1": np.zeros(32, "f4")})
    assert Contender("big", files[number]).digests != before
