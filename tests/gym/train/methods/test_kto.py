"""KTO from pairs and from rated answers to a result; each setting works or is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.train.methods.pairs import (
    GIVEN,
    events,
    method_with,
    own_settings,
    settings,
    write_pairs,
)
from tests.night import one_in
from zoo.gym import RunResult, run_training
from zoo.gym.config import load_config
from zoo.gym.data import Example, Unit, alone, read_dataset
from zoo.gym.data.units import rated
from zoo.gym.objectives.kto import KtoLoss
from zoo.gym.train.measuring import _better
from zoo.gym.train.methods.kto import KtoConfig, RatedAnswers, mismatched


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def write_rated(folder: Path, key: str = "label") -> Path:
    rows = [
        {"prompt": f"say {word} {n}", "completion": answer, key: good}
        for n in range(8)
        for word in ("cat", "sun", "sea")
        for answer, good in ((f"{word} {n} yes", True), (f"no {word} {n}", False))
    ]
    path = folder / "rated.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    data = write_rated(tmp_path_factory.mktemp("data"))
    return run_training(settings(data, "kto", val_size=12, learning_rate=1e-3, max_steps=16))


@pytest.mark.slow
def test_good_answers_gain_on_bad_ones(whole: RunResult) -> None:
    first, *_, last = events(whole, "eval")
    # policy and reference are one at first: r = z = 0, and 1 - sigmoid(0) = 0.5
    assert first["loss"] == pytest.approx(0.5, abs=1e-4)
    assert last["metrics"]["margin"] > 0.1
    assert last["metrics"]["accuracy"] > 0.7
    assert last["metrics"].keys() >= {"chosen_reward", "rejected_reward", "kl"}
    (plan,) = events(whole, "plan")
    assert (plan["rows"], plan["held_out_rows"]) == (36, 12)


@pytest.mark.slow
def test_pairs_are_learned_as_two_rated_answers_each(tmp_path: Path) -> None:
    run = run_training(settings(write_pairs(tmp_path), "kto", learning_rate=1e-3))
    (plan,) = events(run, "plan")
    assert (plan["rows"], plan["held_out_rows"]) == (42, 6)
    assert events(run, "eval")[-1]["metrics"]["margin"] > 0.1


@pytest.mark.slow
def test_the_divergence_is_measured_before_each_step(whole: RunResult) -> None:
    steps = [event["metrics"]["kl"] for event in events(whole, "step")]
    assert steps[0] == pytest.approx(0, abs=1e-4)
    assert min(steps) >= 0
    assert max(steps) > 1e-3
    assert (whole.folder / "reference-mismatched.safetensors").exists()


def row(prompt: list[int], answer: list[int]) -> Example:
    ids = np.array([*prompt, *answer])
    return Example(ids, np.arange(len(ids)) >= len(prompt), "rows:1", truncated=False)


def test_a_mismatched_answer_is_the_next_of_another_prompt() -> None:
    rows = alone([row([1], [7, 8]), row([1], [9]), row([2, 3], [5])])
    found = [unit.rows[0] for unit in mismatched(rows)]
    assert [one.ids.tolist() for one in found] == [[1, 5], [1, 5], [2, 3, 7]]
    assert [one.mask.tolist() for one in found] == [[False, True]] * 2 + [[False, False, True]]


def test_a_pair_is_two_rated_answers(tmp_path: Path) -> None:
    found = read_dataset([write_pairs(tmp_path)], kinds=RatedAnswers.reads).records
    assert [record.good for record in found[:4]] == [True, False, True, False]
    assert [record.sides[0].completion for record in found[:2]] == ["cat 0 yes", "no cat 0"]


def test_bad_answers_are_not_what_a_model_should_say() -> None:
    good, bad = (Unit((rated(row([1], [answer]), good=answer == 7),)) for answer in (7, 8))
    assert [one.ids[1] for one in _better([good, bad])] == [7]


def test_each_setting_is_where_the_loss_reads_it() -> None:
    method = method_with("kto", pref_beta=0.3, kto_chosen_weight=2, kto_rejected_weight=3)
    assert method.objective == KtoLoss(beta=0.3, good_weight=2, bad_weight=3)


DIFFERENT: dict[str, Any] = {
    "pref_beta": 0.5,
    "kto_loss": "apo_zero_unpaired",
    "kto_chosen_weight": 2,
    "kto_rejected_weight": 2,
}


def losses(folder: Path, **more: Any) -> list[float]:
    """Returns the losses of three steps."""
    fixed = {"max_steps": 3, "eval_steps": 3, "val_size": 12, "learning_rate": 1e-3}
    run = run_training(settings(write_rated(folder), "kto", **fixed, **more))
    return [event["loss"] for event in events(run, "step")]


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return losses(tmp_path_factory.mktemp("usual"))


@pytest.mark.parametrize("key", one_in(2, own_settings("kto")))
@pytest.mark.slow
def test_each_setting_changes_the_losses(usual: list[float], tmp_path: Path, key: str) -> None:
    assert losses(tmp_path, **{key: DIFFERENT[key]}) != usual


def test_names_of_other_trainers_are_read() -> None:
    given = {**GIVEN, "stage": "kto", "desirable_weight": 2, "undesirable_weight": 3}
    config = load_config([], [], given).config
    assert isinstance(config, KtoConfig)
    assert (config.kto_chosen_weight, config.kto_rejected_weight) == (2, 3)


@pytest.mark.parametrize("key", ["label", "kto_tag"])
def test_ratings_are_read_in_both_spellings(tmp_path: Path, key: str) -> None:
    found = read_dataset([write_rated(tmp_path, key)], kinds=RatedAnswers.reads)
    assert [record.good for record in found.records[:3]] == [True, False, True]
    assert not found.notes


def test_only_the_last_turn_of_a_chat_is_rated(tmp_path: Path) -> None:
    said = [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]
    turns = [{"role": role, "content": text} for role, text in said]
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps({"messages": turns, "label": False}))
    (record,) = read_dataset([path], kinds=RatedAnswers.reads).records
    assert [turn.learned for turn in record.sides[0].messages] == [False, False, False, True]


def test_plain_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    with raises("data.no_usable_row", "expected answers rated good or bad, with 'label'"):
        read_dataset([tmp_path / "a.txt"], kinds=RatedAnswers.reads)


@pytest.mark.parametrize("key", ["label", "kto_tag", "forget"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "json"])
def test_a_rating_may_be_a_word_or_a_number(tmp_path: Path, kind: str, key: str) -> None:
    if kind == "json":
        path, values = tmp_path / "a.jsonl", [True, 1, 1.0, False, 0, 0.0]
        rows = [{"prompt": "a", "completion": "b", key: value} for value in values]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path, cut = tmp_path / f"a.{kind}", "," if kind == "csv" else "\t"
        cells = ["True", "1", " TRUE ", "false", "0", "0.0"]
        lines = [("prompt", "completion", key), *(("a", "b", cell) for cell in cells)]
        path.write_text("".join(cut.join(line) + "\n" for line in lines))
    found = read_dataset([path], kinds=RatedAnswers.reads)
    assert not found.problems
    wanted = [True] * 3 + [False] * 3
    assert [record.good != (key == "forget") for record in found.records] == wanted


UNUSABLE = [
    ({"prompt": "a", "completion": "b"}, "expected 'label' or 'forget' true or false"),
    (
        {"prompt": "a", "completion": "b", "label": 2},
        "'label': expected true or false, or 1 or 0, got 2",
    ),
    (
        {"prompt": "a", "completion": "b", "kto_tag": "good"},
        "'kto_tag': expected true or false, or 1 or 0, got 'good'",
    ),
    (
        {"prompt": "a", "completion": "b", "forget": [1]},
        "'forget': expected true or false, or 1 or 0, got a list",
    ),
    (
        {"prompt": "a", "completion": "b", "label": True, "kto_tag": False},
        "'label' and 'kto_tag': expected one rating, got both",
    ),
    ({"text": "a", "label": True}, "expected an answer to a prompt, got a row of text"),
]


@pytest.mark.parametrize(("data", "reason"), UNUSABLE)
def test_rows_without_one_rating_are_refused(
    tmp_path: Path, data: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(data))
    with raises("data.no_usable_row", reason):
        read_dataset([path], kinds=RatedAnswers.reads)
