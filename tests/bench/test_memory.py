"""Which runs the benchmark of memory measures, and what it reads of one."""

import json
from pathlib import Path

from bench.memory import SHAPES, WAYS, cases, write_rows

TRUTH = ("false", "true")


def test_each_way_meets_each_model_with_and_without_recomputed_activations() -> None:
    met = {(shape, way, given["gradient_checkpointing"]) for shape, way, given in cases()}
    assert met == {(shape, way, each) for shape in SHAPES for way in WAYS for each in TRUTH}


def test_rows_of_each_stage_have_the_tokens_that_are_asked_for(tmp_path: Path) -> None:
    for stage, ends in (("sft", ["completion"]), ("dpo", ["chosen", "rejected"]), ("grpo", [])):
        write_rows(tmp_path / "rows", stage, 3, 64)
        rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
        assert len(rows) == 3
        for row in rows:
            assert len(row["prompt"].split()) == 32
            assert all(len(row[end].split()) == 31 for end in ends)
