"""Runs without padding: the same losses, fewer micro-batches, and no silent fall-back."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.backends.torch import packable
from zoo.backends.torch.packing.lines import line_up
from zoo.gym import TrainConfig, run_training

WHY = "its attention cannot be computed row by row"


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rows of which every fourth is long."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    path = tmp_path / "rows.jsonl"
    texts = [
        {"prompt": f"{n} + 1", "completion": f"{n + 1}. " * (1 + n % 4 * 9)} for n in range(32)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in texts))
    return path


def trained(rows: Path, **settings: Any) -> list[dict[str, Any]]:
    """Returns the events of a run."""
    config = TrainConfig(
        model_name_or_path="zen-pico",
        dataset=(str(rows),),
        max_steps=2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        val_size=4,
        **settings,
    )
    result = run_training(config)
    return [json.loads(line) for line in (result.folder / "events.jsonl").read_text().splitlines()]


def losses(events: list[dict[str, Any]]) -> list[float]:
    return [event["loss"] for event in events if event["kind"] in {"step", "eval"}]


def warnings(events: list[dict[str, Any]]) -> list[str]:
    return [event["message"] for event in events if event["kind"] == "warn"]


@pytest.mark.slow
def test_losses_are_those_of_padded_rows(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[int] = []

    def counted(*given: Any) -> Any:
        found = line_up(*given)
        lines.append(len(found.ends))
        return found

    monkeypatch.setattr(packable, "line_up", counted)
    padded = trained(rows, packing=False)
    assert lines == []
    packed = trained(rows, packing=True)
    assert losses(packed) == pytest.approx(losses(padded), rel=1e-5)
    assert warnings(packed) == warnings(padded)
    # 16 rows of a step in fewer than the 4 batches of 4 padded rows
    assert max(lines) > 4


@pytest.mark.slow
def test_a_model_that_needs_padding_is_trained_so_unless_packing_was_given(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packable, "_no_line", lambda _: WHY)
    with raises("torch.cannot_pack", f"packing: Qwen3ForCausalLM computes rows with .*{WHY}"):
        trained(rows, packing=True)
    chosen = trained(rows, gradient_checkpointing=False, learning_rate=1e-3, warmup_steps=0)
    [plan] = [event for event in chosen if event["kind"] == "plan"]
    assert {"packing": True}.items() <= {c["key"]: c["value"] for c in plan["choices"]}.items()
    assert f"Qwen3ForCausalLM computes rows with padding: {WHY}" in warnings(chosen)
