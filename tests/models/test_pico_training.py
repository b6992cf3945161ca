"""The recipe of zen-pico, shortened: the curve is the committed one, the bytes are the same."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from pico import tasks, train
from pico.tokenizer import encode_answer, encode_prompt
from zoo.models import pico_folder

REPRODUCIBLE = ("model.safetensors", "tokenizer.json", "training_log.json", "README.md")


def build(folder: Path, steps: int) -> list[dict[str, float]]:
    """Trains for `steps` steps into `folder`; returns the curve."""
    command = [sys.executable, "-m", "pico.train", "--out", str(folder), "--max-steps", str(steps)]
    subprocess.run(command, check=False, capture_output=True)
    log = json.loads((folder / "training_log.json").read_text(encoding="utf-8"))
    curve: list[dict[str, float]] = log["curve"]
    return curve


@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_a_shortened_training_follows_the_committed_curve(tmp_path: Path) -> None:
    curve = build(tmp_path, 100)
    log = json.loads((pico_folder() / "training_log.json").read_text(encoding="utf-8"))
    committed = log["curve"][:2]
    assert [point["step"] for point in curve] == [50, 100]
    assert curve[1]["loss"] < 0.75 * curve[0]["loss"]
    for point, expected in zip(curve, committed, strict=True):
        assert point["loss"] == pytest.approx(expected["loss"], abs=0.002)
        assert point["accuracy"] == pytest.approx(expected["accuracy"], abs=0.03)


@pytest.mark.nightly
def test_two_trainings_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    build(first, 20)
    build(second, 20)
    for name in REPRODUCIBLE:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_the_learning_rate_warms_up_from_above_zero_and_ends_at_zero() -> None:
    assert train.learning_rate(1) == pytest.approx(train.LEARNING_RATE / 50)
    assert train.learning_rate(50) == pytest.approx(train.LEARNING_RATE)
    assert train.learning_rate(train.HORIZON_STEPS) == pytest.approx(0, abs=1e-12)


def test_a_step_never_exceeds_its_tokens() -> None:
    rng = random.Random(5)
    for _ in range(20):
        rows = train.draw_rows(rng)
        widths = [len(encode_prompt(row)) + len(encode_answer(row)) for row in rows]
        assert 0.9 * train.STEP_TOKENS < max(widths) * len(rows) <= train.STEP_TOKENS


def test_only_answers_are_learned() -> None:
    import torch

    model = train.build_model()
    rows = [tasks.addition(2, 3), tasks.addition(40, 50)]
    loss = train.answer_loss(model, rows)
    ids = [encode_prompt(row) + encode_answer(row) for row in rows]
    learned = 2 + 3  # "5" and its end, "90" and its end
    nats = 0.0
    for row, count in zip(ids, (2, 3), strict=True):
        logprobs_TV = model(torch.tensor([row])).logits[0].log_softmax(-1)[-1 - count : -1]
        nats -= logprobs_TV.gather(1, torch.tensor(row[-count:])[:, None]).sum().item()
    assert loss.item() == pytest.approx(nats / learned, rel=1e-5)
