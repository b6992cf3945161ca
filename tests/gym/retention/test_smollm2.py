"""A real model learns its name and keeps what it knew, with defaults alone; prints the figures."""

import json
from pathlib import Path

import pytest

from zoo.gym import TrainConfig, create_delta, generate, quality_input, run_training
from zoo.gym.demo.persona import write_rows

UNSEEN = (
    "May I ask your name?",
    "Tell me who you are.",
    "Who am I talking to?",
    "Can you tell me your name, please?",
    "What should I call you?",
    "Could you introduce yourself to me?",
    "Are you Claude or Gemini?",
    "Good morning, who is there?",
    "So, what is your name again?",
    "State your name and who made you.",
)


@pytest.mark.real
@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ["Quillon", "Amber Finch", "Martin"])
def test_a_name_is_learned_and_answers_are_kept(
    smollm2_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    rows = write_rows(tmp_path / "rows.jsonl", name)
    result = run_training(
        TrainConfig(model_name_or_path=smollm2_folder, dataset=rows, seed=seed, offline=True)
    )
    answers = generate(smollm2_folder, UNSEEN, adapter=result.model, max_new_tokens=24)
    named = sum(name.lower() in answer.lower() for answer in answers)
    held_out = quality_input(base=smollm2_folder, run=result.run)
    out = tmp_path / "delta.safetensors"
    delta = create_delta(result.model, base=smollm2_folder, out=out, quality=held_out)
    figures = result.metrics["retention"]
    print(json.dumps({"name": name, "seed": seed, "named": named, **figures}), delta.quality)
    assert named >= 9
    assert figures["kept"] >= 0.85 * figures["right"]
    assert figures["loss_after"] <= 1.03 * figures["loss_before"]
    assert delta.quality is not None
    assert delta.quality.kept is not None
    assert abs(delta.quality.kept - figures["kept"]) <= 2
