"""A reward model from pairs to a folder that transformers and the rewards load."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.train.methods.pairs import GIVEN, events, own_settings, settings, write_pairs
from tests.night import one_in
from zoo.gym import RunResult, run_training
from zoo.gym.chat import open_chat
from zoo.gym.cli.ending import finish
from zoo.gym.cli.output import Output
from zoo.gym.config import load_config
from zoo.gym.data import Example, Message, load_tokenizer, read_dataset
from zoo.gym.data.units import MARGIN
from zoo.gym.delta import create_delta
from zoo.gym.errors import InputError
from zoo.gym.jobs import Run, Status, tail_events
from zoo.gym.rewards import Sample, Task, load
from zoo.gym.train.methods.rm import RewardModelling, ended
from zoo.gym.train.run_folder.split import stored_split
from zoo.gym.tui.runs.history import History
from zoo.gym.tui.runs.text import what_next
from zoo.models import pico_folder


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def whole(pairs: Path) -> RunResult:
    return run_training(settings(pairs, "rm", learning_rate=2e-3, max_steps=12))


@pytest.mark.slow
def test_better_answers_score_higher(whole: RunResult) -> None:
    first, *_, last = events(whole, "eval")
    # the score begins as a layer of zeros: every margin is 0, and -log sigmoid(0) = log 2
    assert first["loss"] == pytest.approx(0.6931, abs=1e-4)
    assert first["metrics"]["chosen_reward"] == 0
    assert last["metrics"]["accuracy"] == 1
    assert last["metrics"]["margin"] > 0.1
    (plan,) = events(whole, "plan")
    assert (plan["rows"], plan["held_out_rows"]) == (18, 6)
    assert events(whole, "step")[0]["tokens"] > 2 * plan["rows_per_step"]


def transformers_scores(folder: Path, rows: Sequence[str]) -> list[float]:
    """Returns what transformers computes for a padded batch of answers to `say cat 0`."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    chats = [
        [{"role": "user", "content": "say cat 0"}, {"role": "assistant", "content": text}]
        for text in rows
    ]
    texts = [tokenizer.apply_chat_template(chat, tokenize=False) for chat in chats]
    batch = tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder)
    assert model.config.num_labels == 1
    with torch.no_grad():
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        scores: list[float] = model(**inputs).logits[:, 0].tolist()
    return scores


def reward_scores(folder: Path, rows: Sequence[str]) -> list[float]:
    with load(str(folder), []) as reward:
        task = Task((Message("user", "say cat 0"),))
        return [score.value for score in reward.score([Sample(task, text) for text in rows])]


ANSWERS = ("cat 0 yes", "no cat 0", "cat cat cat cat yes no")


TUNED: list[dict[str, Any]] = [
    {},
    {"finetuning_type": "full"},
    {"dtype": "bf16-widened", "use_rslora": True},
    {"dtype": "bf16"},
]


@pytest.mark.parametrize("tuned", one_in(2, TUNED), ids=str)
@pytest.mark.slow
def test_transformers_and_the_rewards_score_alike(
    tuned: dict[str, Any], pairs: Path, tmp_path: Path
) -> None:
    rows = [{"prompt": "say cat 0", "chosen": ANSWERS[0], "rejected": ANSWERS[1]}]
    more = [json.loads(line) for line in pairs.read_text().splitlines()][:11]
    file = tmp_path / "few.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in (*more, *rows)))
    more_settings = {"val_size": 0, "eval_steps": None, **tuned}
    run = run_training(settings(file, "rm", learning_rate=2e-3, **more_settings))
    found = reward_scores(run.model, ANSWERS)
    assert found == pytest.approx(transformers_scores(run.model, ANSWERS), abs=1e-5)
    assert found[0] > found[1]
    assert json.loads((run.model / "config.json").read_text())["dtype"] == "float32"


@pytest.mark.slow
def test_a_result_has_the_scores_that_were_measured(whole: RunResult, pairs: Path) -> None:
    """The mean scores of the held-out rows at the best step, from the written folder."""
    stored = stored_split(whole.folder)
    assert stored is not None
    records = [json.loads(line) for line in pairs.read_text().splitlines()]
    rows = [records[place] for place in stored[1].held_out]
    with load(str(whole.model), []) as reward:
        samples = [Sample(Task((Message("user", row["prompt"]),)), row["chosen"]) for row in rows]
        mean = np.mean([score.value for score in reward.score(samples)])
    best = next(e for e in events(whole, "eval") if e["step"] == whole.metrics["best_step"])
    assert best["metrics"]["chosen_reward"] == pytest.approx(float(mean), abs=1e-4)


def row(ids: list[int], margin: float = 0.0) -> Example:
    mask = np.arange(len(ids)) > 0
    extras = {MARGIN: np.array(margin, dtype=np.float32)}
    return Example(np.array(ids), mask, "rows:1", truncated=False, extras=extras)


def test_a_row_is_scored_at_its_last_token_that_is_not_padding() -> None:
    assert ended(row([5, 6, 7]), None).mask.tolist() == [False, False, False, True]
    found = ended(row([5, 7, 6, 7, 7], 2.0), 7)
    # the value of a token is that of the hidden state before it, here of the 6
    assert found.ids[:3].tolist() == [5, 7, 6]
    assert found.mask.tolist() == [False, False, False, True]
    assert {name: float(value) for name, value in found.extras.items()} == {MARGIN: 2.0}


def losses(folder: Path, margin: object = None, **more: Any) -> list[float]:
    """Returns the losses of three steps."""
    path = write_pairs(folder)
    if margin is not None:
        rows = [json.loads(line) | {"margin": margin} for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = run_training(settings(path, "rm", max_steps=3, eval_steps=3, **more))
    return [event["loss"] for event in events(run, "step")]


@pytest.mark.slow
def test_margins_and_centering_change_the_loss(tmp_path: Path) -> None:
    assert own_settings("rm") == ["center_rewards_coefficient"]
    plain = losses(tmp_path, learning_rate=1e-2)
    centred = losses(tmp_path, learning_rate=1e-2, center_rewards_coefficient=5.0)
    assert centred[-1] != pytest.approx(plain[-1], abs=1e-6)
    # with scores of 0 the loss is -log sigmoid(-2) = log(1 + e^2)
    assert losses(tmp_path, 2)[0] == pytest.approx(float(np.log1p(np.exp(2))), abs=1e-4)


def test_margins_are_read_by_a_reward_model_alone(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    pair = {"prompt": "a", "chosen": "b", "rejected": "c"}
    path.write_text("".join(json.dumps({**pair, **more}) + "\n" for more in ({"margin": 2}, {})))
    found = read_dataset([path], kinds=RewardModelling.reads)
    assert [record.margin for record in found.records] == [2.0, 0.0]
    assert not found.notes
    other = read_dataset([path], kinds={"pair"})
    assert [record.margin for record in other.records] == [None, None]
    assert "keys that are not read: 'margin' (1 row)" in other.notes[0]


def test_margins_of_a_table_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("prompt,chosen,rejected,margin\na,b,c,0.5\na,b,c,\na,b,c,much\na,b,c,nan\n")
    found = read_dataset([path], kinds=RewardModelling.reads)
    assert [record.margin for record in found.records] == [0.5, 0.0]
    assert [problem.reason for problem in found.problems] == [
        f"'margin': expected a finite number, got '{cell}'" for cell in ("much", "nan")
    ]


@pytest.mark.parametrize("margin", ["2", True, float("nan"), float("inf")])
def test_a_margin_that_is_no_number_is_refused(tmp_path: Path, margin: object) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps({"prompt": "a", "chosen": "b", "rejected": "c", "margin": margin}))
    with raises("data.no_usable_row", "'margin': expected a finite number, got"):
        read_dataset([path], kinds=RewardModelling.reads)


@pytest.mark.slow
def test_the_output_layer_cannot_have_an_adapter(pairs: Path) -> None:
    with raises("torch.no_output_layer"):
        run_training(settings(pairs, "rm", lora_target="q_proj,lm_head"))


@pytest.mark.slow
def test_a_model_without_a_reward_model_of_its_layers_is_refused(
    pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    monkeypatch.setattr(transformers, "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING", {})
    with raises("torch.cannot_score", "cannot become a reward model"):
        run_training(settings(pairs, "rm"))


def test_a_negative_centering_is_refused() -> None:
    given = {**GIVEN, "stage": "rm", "center_rewards_coefficient": -1}
    with raises("config.invalid", "center_rewards_coefficient: expected at least 0, got -1"):
        load_config([], [], given)


@pytest.mark.slow
def test_a_reward_model_is_no_base_no_chat_and_no_delta(whole: RunResult, tmp_path: Path) -> None:
    with raises("backends.not_causal", "a causal language model, got Qwen3ForSequenceClass"):
        run_training(settings(write_pairs(tmp_path), "dpo", model_name_or_path=str(whole.model)))
    with raises("delta.reward_model"):
        create_delta(whole.model, base=pico_folder(), out=tmp_path / "a.delta")
    other = pytest.raises(InputError, match="a causal language model, got Qwen3ForSequenceClass")
    with other, open_chat(whole.model):
        pass


def test_its_card_says_what_it_is(whole: RunResult) -> None:
    card = (whole.model / "README.md").read_text()
    assert "pipeline_tag: text-classification" in card
    assert "# A reward model from zen-pico" in card


def test_the_next_step_is_to_learn_from_its_scores(
    whole: RunResult, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(whole.folder)
    finish(run, Status(state="done", model=str(whole.model)), Output())
    printed = capsys.readouterr().err
    assert f"zoo-gym train PROMPTS.jsonl stage=grpo reward={whole.model}" in printed
    assert "chat" not in printed
    history = History()
    history.take([*tail_events(run.events.path)[0]])
    assert f"stage=grpo reward={run.result}" in what_next(history, run)


def test_rows_leave_room_in_the_context_of_the_model(whole: RunResult) -> None:
    (plan,) = events(whole, "plan")
    positions = json.loads((pico_folder() / "config.json").read_text())["max_position_embeddings"]
    assert plan["cutoff_len"] == min(2048, positions - 1)
    assert load_tokenizer(whole.model).pad_token_id is not None


@pytest.mark.slow
def test_answers_are_learned_by_the_scores_of_a_reward_model(
    whole: RunResult, tmp_path: Path
) -> None:
    rows = tmp_path / "prompts.jsonl"
    prompts = [f"say {word} {n}" for word in ("cat", "sun", "sea") for n in range(8)]
    rows.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    given = {"reward": str(whole.model), "max_completion_length": 8, "group_size": 4}
    run = run_training(settings(rows, "grpo", learning_rate=3e-3, max_steps=6, **given))
    sampled = list(map(json.loads, (run.folder / "samples.jsonl").read_text().splitlines()))
    assert {one["step"] for one in sampled} == set(range(1, 7))
    first = [one for one in sampled if one["step"] == 1][:4]
    prompt = Task((Message("user", first[0]["prompt"]),))
    with load(str(whole.model), []) as reward:
        scored = reward.score([Sample(prompt, one["completion"]) for one in first])
    scores = [one.value for one in scored]
    assert [one["reward"] for one in first] == pytest.approx(scores, abs=1e-5)
    before, *_, after = (event["metrics"]["reward"] for event in events(run, "eval"))
    assert after > before
