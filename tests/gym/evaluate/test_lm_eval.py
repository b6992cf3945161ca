"""Our figures are those of lm-eval on the same prompts of the same rows, without a network."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gym.evaluate.conftest import Call, write_rows
from zoo.models import pico_folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TOKENS = 64

BBH = {
    "output_type": "multiple_choice",
    "doc_to_text": "Q: {{input}}\nA:",
    "doc_to_choice": ["False", "True"],
    "doc_to_target": "target",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}
MMLU = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\n"
    "C. {{choices[2]}}\nD. {{choices[3]}}\nAnswer:",
    "doc_to_choice": ["A", "B", "C", "D"],
    "doc_to_target": "answer",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}
GSM8K = {
    "output_type": "generate_until",
    "doc_to_text": "Question: {{question}}\nAnswer:",
    "doc_to_target": "{{answer.split('#### ')[-1]}}",
    "generation_kwargs": {"until": ["Question:"], "do_sample": False, "max_gen_toks": TOKENS},
    "filter_list": [
        {
            "name": "last-number",
            "filter": [
                {
                    "function": "regex",
                    "group_select": -1,
                    "regex_pattern": "(-?[$0-9.,]{2,})|(-?[0-9]+)",
                },
                {"function": "take_first"},
            ],
        }
    ],
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
}


@pytest.fixture
def theirs(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Measures rows with lm-eval; the task is generated for a local file."""
    lm_eval = pytest.importorskip("lm_eval")
    monkeypatch.setenv("HF_HOME", str(place / "hf"))
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")

    def measure(rows: list[dict[str, Any]], task: dict[str, Any], shots: int = 0) -> Any:
        from lm_eval.tasks import TaskManager

        files = {"test": str(write_rows(place / "theirs.jsonl", rows[shots:]))}
        if shots:
            files["train"] = str(write_rows(place / "shots.jsonl", rows[:shots]))
            task = task | {"fewshot_split": "train", "fewshot_config": {"sampler": "first_n"}}
        local = {"dataset_path": "json", "dataset_kwargs": {"data_files": files}}
        named = {"task": "own", "test_split": "test"} | local | task
        (place / "task").mkdir()
        (place / "task/own.yaml").write_text(json.dumps(named))  # JSON is YAML
        return lm_eval.simple_evaluate(
            model="hf",
            model_args=f"pretrained={pico_folder()},dtype=float32",
            tasks=["own"],
            num_fewshot=shots,
            task_manager=TaskManager(include_path=str(place / "task"), include_defaults=False),
            device="cpu",
            bootstrap_iters=0,
        )

    return measure


def ours(call: Call, place: Path, task: str, *words: str) -> tuple[float, list[Any]]:
    """Returns our figure, and what was kept of each row."""
    outcome = call("eval", "zen-pico", "--tasks", task, "--data", ".", "--plain", "--json", *words)
    assert outcome.code == 0, outcome.stderr
    (file,) = place.rglob(f"{task}-*.jsonl")
    results: Any = outcome.json["results"]
    return results[0]["value"], [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shots", [0, 2])
def test_40_rows_of_bbh_boolean_have_the_same_figure(
    shots: int, shared: Callable[[str], Path], place: Path, call: Call, theirs: Callable[..., Any]
) -> None:
    file = shared("data/rl/bbh_boolean_expressions.json")
    rows = json.loads(file.read_text())["examples"][: 40 + shots]
    (place / "bbh_boolean_expressions.json").write_text(json.dumps({"examples": rows}))
    value, lines = ours(call, place, "bbh_boolean_expressions", "--shots", str(shots))
    found = theirs(rows, BBH, shots)
    assert len(lines) == 40
    assert value == found["results"]["own"]["acc,none"]
    for line, sample in zip(lines, found["samples"]["own"], strict=True):
        expected = [logprob for logprob, _ in sample["filtered_resps"]]
        assert line["logprobs"] == pytest.approx(expected, abs=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_8_rows_of_gsm8k_have_the_same_answers(
    shared: Callable[[str], Path], place: Path, call: Call, theirs: Callable[..., Any]
) -> None:
    with shared("data/rl/gsm8k_train.jsonl").open() as file:
        every = map(json.loads, file)
        # a prompt that leaves no room for the answer is cut by lm-eval, and not by us
        fitting = (row for row in every if len(row["question"].encode()) < 400)
        rows = [next(fitting) for _ in range(8)]
    write_rows(place / "gsm8k.jsonl", rows)
    value, lines = ours(call, place, "gsm8k", "--max_new_tokens", str(TOKENS))
    found = theirs(rows, GSM8K)
    assert value == found["results"]["own"]["exact_match,last-number"] == 0.0
    for line, sample in zip(lines, found["samples"]["own"], strict=True):
        assert line["answer"] == sample["resps"][0][0].strip("\n")


@pytest.mark.filterwarnings("ignore")
def test_rows_in_the_form_of_mmlu_have_the_same_figure(
    place: Path, call: Call, theirs: Callable[..., Any]
) -> None:
    rows = [
        {
            "question": f"What is {n} + {n}?",
            "choices": [str(2 * n + (m - n) % 4) for m in range(4)],
            "answer": n % 4,
        }
        for n in range(14)
    ]
    write_rows(place / "mmlu.jsonl", rows)
    value, lines = ours(call, place, "mmlu", "--shots", "2")
    found = theirs(rows, MMLU, 2)
    assert value == found["results"]["own"]["acc,none"]
    for line, sample in zip(lines, found["samples"]["own"], strict=True):
        expected = [logprob for logprob, _ in sample["filtered_resps"]]
        assert line["logprobs"] == pytest.approx(expected, abs=1e-3)
