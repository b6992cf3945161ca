"""Somebody's own lines, and chats of other projects, through the commands as a user types them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.measure import line
from bench.personal import (
    FILES,
    LEARNED_TEXTS,
    MODEL,
    Personal,
    answer,
    cases,
    measure,
    speaker_texts,
    zoo_gym,
)

pytestmark = pytest.mark.slow

Shared = Callable[[str], Path]

EMPTY_ROW = "mlx_prompt_completion.jsonl:49: empty prompt and completion"


@pytest.fixture(scope="module")
def root(shared: Shared) -> Path:
    for name in FILES:
        shared(name)
    return shared("data").parent


@pytest.fixture(scope="module")
def personal(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Personal:
    return measure(root, tmp_path_factory.mktemp("personal"))


def test_the_speaker_has_43_texts_that_no_step_learns(root: Path) -> None:
    assert len(speaker_texts(root)[LEARNED_TEXTS:]) == 43  # of 211


@pytest.mark.nightly  # trains for minutes
def test_his_lines_fall_from_356_to_at_most_265_hundredths_of_a_bit_per_byte(
    personal: Personal, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print("", *(line(case) for case in cases(personal)), sep="\n")
    assert personal.base.unseen == pytest.approx(3.55, abs=0.05)
    assert personal.tuned.unseen <= 2.65


@pytest.mark.nightly  # trains for minutes
def test_one_bit_a_weight_keeps_the_tune_to_5_hundredths_of_a_bit(personal: Personal) -> None:
    assert abs(personal.delta.unseen - personal.tuned.unseen) <= 0.05


@pytest.mark.nightly  # trains for minutes
def test_random_signs_reach_no_tenth_of_the_gain(personal: Personal) -> None:
    assert personal.random_gain <= 0.10


@pytest.mark.nightly  # trains for minutes
def test_the_delta_is_nearer_to_the_tune_than_its_own_random_signs_are(personal: Personal) -> None:
    assert personal.tuned.kl == pytest.approx(0, abs=1e-9)
    assert 0 < personal.delta.kl < personal.base.kl < personal.random_signs.kl


@pytest.mark.parametrize(
    ("name", "rows", "found"),
    [
        ("instruction-data.json", 1100, "alpaca"),
        pytest.param("oasst_en_100_tree.jsonl", 100, "OASST tree", marks=pytest.mark.nightly),
        pytest.param(
            "mlx_prompt_completion.jsonl", 97, "prompt/completion", marks=pytest.mark.nightly
        ),
    ],
)
def test_a_short_run_of_zen_pico_lowers_the_held_out_loss(
    shared: Shared, tmp_path: Path, name: str, rows: int, found: str
) -> None:
    path = shared(f"data/sft/{name}")
    seen = answer(zoo_gym(tmp_path, "data", "inspect", path))
    assert (seen["rows"], seen["files"]) == (rows, {str(path): found})
    run = answer(zoo_gym(tmp_path, "train", path, "--model", "zen-pico", "--max_steps", "20"))
    assert (run["state"], run["metrics"]["steps"]) == ("done", 20)
    assert run["metrics"]["best_loss"] < run["metrics"]["base_loss"]


@pytest.mark.parametrize(
    "words", [("data", "inspect"), ("train", "--model", "zen-pico", "--max_steps", "1")]
)
def test_the_one_empty_row_is_told_by_its_line(
    shared: Shared, tmp_path: Path, words: tuple[str, ...]
) -> None:
    path = shared("data/sft/mlx_prompt_completion.jsonl")
    done = zoo_gym(tmp_path, *words, path)
    assert done.returncode == 0
    assert done.stderr.count(EMPTY_ROW) == 1


def test_a_model_without_a_chat_template_refuses_chats(shared: Shared, tmp_path: Path) -> None:
    chats = shared("data/sft/oasst_en_100_tree.jsonl")
    done = zoo_gym(tmp_path, "train", chats, "--model", shared(MODEL))
    assert done.returncode == 2
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert f"{chats}:1: chat data, but the model" in error["message"]
    assert "has no chat template" in done.stderr
