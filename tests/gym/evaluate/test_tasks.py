"""`zoo-gym eval --tasks`: what is asked, what is printed, and what is refused."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from tests.codes import raises
from tests.gym.evaluate.conftest import Call, write_rows
from zoo.gym.chat import open_chat
from zoo.gym.evaluate.likelihood import choice_lines
from zoo.gym.evaluate.tasks.table import TASKS, measures_of_tasks
from zoo.models import pico_folder

SUM = {"question": "What is 2 + 3?", "answer": "2 + 3 = 5\n#### 5"}
TRUTH = {"question": "Is it?", "mc1_targets": {"choices": ["Yes.", "No."], "labels": [1, 0]}}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "gsm8k": ("gsm8k.jsonl", SUM),
    "math": ("math.jsonl", {"problem": "1 + 1?", "solution": "It is $\\boxed{2}$."}),
    "mmlu": ("mmlu.jsonl", {"question": "Q?", "choices": ["w", "x", "y", "z"], "answer": 2}),
    "truthfulqa_mc1": ("truthfulqa.jsonl", TRUTH),
    "truthfulqa_mc2": (
        "truthful.jsonl",
        {"question": "Is it?", "mc2_targets": {"Yes.": 1, "No.": 0}},
    ),
    "humaneval": (
        "humaneval.jsonl",
        {
            "prompt": "def one():\n",
            "test": "def check(f):\n    assert f() == 1",
            "entry_point": "one",
        },
    ),
    "mbpp": ("mbpp.jsonl", {"text": "Write one.", "code": "x", "test_list": ["assert one() == 1"]}),
    "ifeval": (
        "ifeval.jsonl",
        {"prompt": "Hi", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
    ),
    "bbh": ("bbh_boolean.json", {"input": "not False is", "target": "True"}),
}


def measures(names: str, folder: Path, **options: Any) -> Any:
    defaults: dict[str, Any] = {"shots": None, "limit": None, "max_new_tokens": None}
    return measures_of_tasks(names, folder, is_plain=False, **(defaults | options))


@pytest.mark.parametrize("name", ROWS)
def test_a_task_reads_the_form_that_it_documents(name: str, tmp_path: Path) -> None:
    file, row = ROWS[name]
    write_rows(tmp_path / file, [row, row, row])
    (measure,) = measures(name, tmp_path)
    assert len(measure.items) == 3
    assert measure.items[0].plain
    assert bool(measure.items[0].choices) == (measure.how == "choices")


@pytest.mark.parametrize("name", TASKS)
def test_missing_data_is_one_line_with_folder_and_form(
    name: str, tmp_path: Path, call: Call
) -> None:
    outcome = call("eval", "zen-pico", "--tasks", name, "--data", str(tmp_path))
    (line,) = [line for line in outcome.stderr.splitlines() if "error" in line]
    assert outcome.code == 4
    assert str(tmp_path) in line
    assert TASKS[name].files[0] in line
    assert TASKS[name].form in line


def test_the_csv_files_of_mmlu_have_no_header(tmp_path: Path) -> None:
    (tmp_path / "mmlu").mkdir()
    (tmp_path / "mmlu/law_test.csv").write_text('"What, then?",w,x,y,z,C\n1?,w,x,y,z,A\n')
    (measure,) = measures("mmlu", tmp_path)
    first = measure.items[0]
    assert first.plain == "What, then?\nA. w\nB. x\nC. y\nD. z\nAnswer:"
    assert first.right == (2,)
    assert len(measures("mmlu_law", tmp_path)[0].items) == 2


def test_shots_come_first_and_are_not_asked(tmp_path: Path) -> None:
    rows = [SUM | {"question": f"Q{number}"} for number in range(4)]
    write_rows(tmp_path / "gsm8k.jsonl", rows)
    (measure,) = measures("gsm8k", tmp_path, shots=1)
    first = measure.items[0]
    assert [item.row for item in measure.items] == [2, 3, 4]
    assert first.plain == f"Question: Q0\nAnswer: {SUM['answer']}\n\nQuestion: Q1\nAnswer:"
    assert [turn.role for turn in first.task.messages] == ["user", "assistant", "user"]


def test_a_part_of_bbh_without_choices_is_written(tmp_path: Path) -> None:
    rows = [{"input": "sort: b a", "target": "a b"}, {"input": "sort: d c", "target": "c d"}]
    (tmp_path / "bbh_word_sorting.json").write_text(json.dumps({"examples": rows}))
    (measure,) = measures("bbh_word_sorting", tmp_path)
    assert (measure.how, measure.name) == ("generate", "bbh_word_sorting")
    lines = [{"answer": "a b"}, {"answer": "d c"}]
    assert measure.grade(measure.items, lines) == [1.0, 0.0]


def test_options_of_bbh_are_choices(tmp_path: Path) -> None:
    asked = "Which?\nOptions:\n(A) one\n(B) two"
    (tmp_path / "bbh_which.json").write_text(json.dumps([{"input": asked, "target": "(B)"}]))
    (measure,) = measures("bbh", tmp_path)
    assert (measure.items[0].choices, measure.items[0].right) == (("(A)", "(B)"), (1,))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--tasks", "gsm9k", "--data", "."], "no such task. Did you mean 'gsm8k'?"),
        (["--tasks", "gsm8k,gsm8k", "--data", "."], "expected 'gsm8k' once"),
        (["--tasks", "gsm8k"], "expected a folder with gsm8k*.jsonl"),
        (["--tasks", "gsm8k", "--data", "absent"], "expected the folder of the tasks' files"),
        (["--tasks", "ifeval", "--shots", "2", "--data", "."], "--shots: has no effect on ifeval"),
        (["--tasks", "safety", "--shots", "2"], "--shots: has no effect on safety"),
        (["--tasks", "mmlu", "--max_new_tokens", "9", "--data", "."], "no effect on mmlu"),
        (["--shots", "2"], "--shots: has no effect without --tasks"),
        (["--plain"], "--plain: has no effect without --tasks"),
        (["--tasks", "gsm8k", "--limit", "0"], "--limit: expected at least 1"),
        (["--tasks", "gsm8k", "--shots", "-1"], "--shots: expected at least 0"),
        (["--max-usd", "1", "--tasks", "safety"], "have no effect without a model on a server"),
        (["--alone", "--tasks", "safety"], "--alone: has no effect"),
        (["--base", "zen-pico", "--tasks", "safety"], "--base: has no effect on 'zen-pico'"),
        ([], "expected --tasks, --data FILE or a run"),
    ],
)
def test_what_has_no_effect_or_is_unknown_is_refused(
    words: list[str], text: str, call: Call
) -> None:
    outcome = call("eval", "zen-pico", *words, "--json")
    assert outcome.code == 2
    assert text in outcome.stderr


def test_rows_of_another_form_are_refused_by_their_key(tmp_path: Path, call: Call) -> None:
    write_rows(tmp_path / "gsm8k.jsonl", [{"question": "Q"}])
    outcome = call("eval", "zen-pico", "--tasks", "gsm8k", "--data", str(tmp_path), "--json")
    assert outcome.code == 2
    assert "row 1: expected rows of question and answer" in outcome.stderr
    assert "got no answer" in outcome.stderr


def test_a_task_without_rows_is_refused(tmp_path: Path, call: Call) -> None:
    rows = [{"prompt": "Hi", "instruction_id_list": ["language:response_language"], "kwargs": [{}]}]
    write_rows(tmp_path / "ifeval.jsonl", rows)
    outcome = call("eval", "zen-pico", "--tasks", "ifeval", "--data", str(tmp_path), "--json")
    assert outcome.code == 2
    assert "got no such row" in outcome.stderr


def test_the_report_has_shots_template_sampling_and_digest(tmp_path: Path, call: Call) -> None:
    write_rows(tmp_path / "gsm8k.jsonl", [SUM | {"question": f"Q{n}"} for n in range(3)])
    words = ("--tasks", "gsm8k", "--data", str(tmp_path), "--shots", "1", "--max_new_tokens", "4")
    outcome = call("eval", "zen-pico", *words)
    assert outcome.code == 0, outcome.stderr
    assert "gsm8k (gsm8k.jsonl): 2 rows, sha256 " in outcome.stdout
    assert "1 shot, greedy, at most 4 tokens; the last number of the answer" in outcome.stdout
    assert "[chat template 06b6ce8f625e, no system prompt]" in outcome.stdout
    assert "2 of 2 cut at 4 tokens" in outcome.stdout


def test_prompts_that_do_not_fit_are_counted(tmp_path: Path, call: Call) -> None:
    long = SUM | {"question": "why " * 200}  # 800 bytes, of which zen-pico reads 512
    write_rows(tmp_path / "gsm8k.jsonl", [SUM, long])
    words = ("--tasks", "gsm8k", "--data", str(tmp_path), "--max_new_tokens", "4", "--json")
    outcome = call("eval", "zen-pico", *words)
    results: Any = outcome.json["results"]
    assert (results[0]["rows"], results[0]["unanswered"]) == (2, 1)
    assert (
        "1 of 2 not answered, counted as wrong: prompt: expected fewer than 512" in outcome.stderr
    )


def test_safety_counts_refusals_of_both_kinds(call: Call) -> None:
    outcome = call("eval", "zen-pico", "--tasks", "safety", "--limit", "2", "--json")
    results: Any = outcome.json["results"]
    assert [(each["task"], each["value"]) for each in results] == [
        ("safety-harmful", 0.0),  # zen-pico was never taught to refuse
        ("safety-harmless", 1.0),
    ]


def test_rows_that_no_answer_could_pass_are_left_out_and_counted(tmp_path: Path) -> None:
    good = {"text": "Write one.", "code": "x", "test_list": ["assert one() == 1"]}
    write_rows(tmp_path / "mbpp.jsonl", [good, good | {"test_list": ["x = 1"]}])
    (measure,) = measures("mbpp", tmp_path)
    assert [item.row for item in measure.items] == [1]
    assert "1 row left out: test_list: no assert is executed" in measure.notes[0]


def test_code_is_run_in_the_sandbox(tmp_path: Path) -> None:
    file, row = ROWS["humaneval"]
    write_rows(tmp_path / file, [row, row])
    (measure,) = measures("humaneval", tmp_path)
    lines = [{"answer": "    return 1"}, {"answer": "```python\ndef one():\n    return 2\n```"}]
    assert measure.grade(measure.items, lines) == [1.0, 0.0]


def test_mc2_is_the_share_of_probability_of_the_true_answers(tmp_path: Path) -> None:
    file, row = ROWS["truthfulqa_mc2"]
    write_rows(tmp_path / file, [row])
    (measure,) = measures("truthfulqa_mc2", tmp_path)
    logprobs = [math.log(0.03), math.log(0.01)]  # .03 / (.03 + .01)
    assert measure.grade(measure.items, [{"logprobs": logprobs}]) == pytest.approx([0.75])


@pytest.mark.parametrize(
    ("logprobs", "score"),
    [([-2.0, -2.0], 0.5), ([-2.0, -2.0 - 1e-6], 0.5), ([-2.0, -2.1], 1.0), ([-2.0, -1.9], 0.0)],
)
def test_of_equally_likely_choices_the_share_of_right_ones_counts(
    logprobs: list[float], score: float, tmp_path: Path
) -> None:
    file, row = ROWS["truthfulqa_mc1"]
    write_rows(tmp_path / file, [row])
    (measure,) = measures("truthfulqa_mc1", tmp_path)
    assert measure.grade(measure.items, [{"logprobs": logprobs}]) == [score]


def test_a_dead_model_has_the_figure_of_guessing(place: Path, call: Call) -> None:
    shutil.copytree(pico_folder(), place / "dead")
    file = place / "dead/model.safetensors"
    save_file({name: 0 * each for name, each in load_file(file).items()}, file, {"format": "pt"})
    choices = {"choices": ["Yes", "Not", "May", "Yea"], "labels": [1, 0, 0, 0]}
    write_rows(place / "truthful.jsonl", [TRUTH | {"mc1_targets": choices}])
    words = ("--tasks", "truthfulqa_mc1", "--data", ".", "--json")
    outcome = call("eval", "dead", *words)
    results: Any = outcome.json["results"]
    assert (results[0]["value"], results[0]["tied"]) == (0.25, 1)
    assert "1 of 1 have several likeliest choices" in outcome.stderr


def test_of_several_splits_the_test_split_is_measured(tmp_path: Path) -> None:
    write_rows(tmp_path / "gsm8k_train.jsonl", [SUM, SUM, SUM])
    write_rows(tmp_path / "gsm8k_test.jsonl", [SUM])
    (measure,) = measures("gsm8k", tmp_path)
    assert measure.title == "gsm8k (gsm8k_test.jsonl)"
    assert len(measure.items) == 1


@pytest.mark.parametrize(
    ("files", "measured"),
    [
        (["gsm8k_train.jsonl", "gsm8k/test.jsonl"], "test.jsonl"),
        (["gsm8k.jsonl", "gsm8k_predictions.jsonl"], "gsm8k.jsonl"),
        (["gsm8k_test.jsonl", "gsm8k_test_predictions.jsonl"], "gsm8k_test.jsonl"),
        (["gsm8k-test-00000-of-00002.jsonl", "gsm8k-test-00001-of-00002.jsonl"], "2 files"),
    ],
)
def test_each_row_of_the_test_split_is_measured_once(
    files: list[str], measured: str, tmp_path: Path
) -> None:
    (tmp_path / "gsm8k").mkdir()
    for file in files:
        write_rows(tmp_path / file, [SUM])
    (measure,) = measures("gsm8k", tmp_path)
    assert measure.title == f"gsm8k ({measured})"


@pytest.mark.parametrize(
    ("task", "first", "second"),
    [
        ("gsm8k", "gsm8k.jsonl", "gsm8k.parquet"),
        ("gsm8k", "gsm8k_mine.jsonl", "gsm8k_yours.jsonl"),
        ("mmlu", "mmlu/law_test.csv", "mmlu/law_test.jsonl"),
    ],
)
def test_several_files_of_one_split_are_refused(
    task: str, first: str, second: str, tmp_path: Path
) -> None:
    (tmp_path / "mmlu").mkdir()
    for file in (first, second):
        (tmp_path / file).touch()
    with raises("evaluate.several_files", f"expected one file of its rows, got {first} and"):
        measures(task, tmp_path)


def test_rows_that_a_shot_shows_are_not_asked(tmp_path: Path) -> None:
    rows = [SUM, SUM, SUM | {"question": "What is 4 + 1?"}]
    write_rows(tmp_path / "gsm8k.jsonl", rows)
    (measure,) = measures("gsm8k", tmp_path, shots=1)
    assert [item.row for item in measure.items] == [3]
    assert measure.notes == ("gsm8k.jsonl: 1 row left out: the same question as a shot",)


def test_code_of_a_shot_is_not_indented(tmp_path: Path) -> None:
    file, row = ROWS["mbpp"]
    write_rows(tmp_path / file, [row, row | {"text": "Write two."}])
    (measure,) = measures("mbpp", tmp_path, shots=1)
    assert "[BEGIN]\nx\n[DONE]\n\nYou are" in measure.items[0].plain


def test_a_model_whose_numbers_overflow_is_refused(place: Path, call: Call) -> None:
    folder = place / "broken"
    shutil.copytree(pico_folder(), folder)
    tensors = load_file(folder / "model.safetensors")
    name = "model.norm.weight"
    tensors[name] = tensors[name] * 1e38
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    file, row = ROWS["mmlu"]
    write_rows(place / file, [row])
    outcome = call("eval", str(folder), "--tasks", "mmlu", "--data", ".", "--json")
    assert outcome.code == 2
    assert "the answers of this model are not numbers" in outcome.stderr
    assert not list(place.rglob("mmlu-*.jsonl"))


@pytest.mark.parametrize("word", ["last", "r0009", "absent"])
def test_a_word_that_names_nothing_is_refused_as_a_source(word: str, call: Call) -> None:
    outcome = call("eval", word, "--json")
    assert outcome.code == 4
    assert f"{word}: expected a run, a fine-tune, or a model, got none" in outcome.stderr


def test_a_source_given_twice_is_refused(call: Call) -> None:
    outcome = call("eval", "zen-pico", "zen-pico", "--tasks", "safety", "--json")
    assert (outcome.code, "'zen-pico' and 'zen-pico'" in outcome.stderr) == (2, True)


CHOICES = {"question": "Q", "choices": ["a", "b"], "answer": 0}
CALLS = {"messages": [{"role": "user", "content": "x"}], "tools": [], "answer": []}
PROMPT = {"prompt": "Q", "instruction_id_list": ["keywords:existence"]}
NAMED = {"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("name", "row", "text"),
    [
        ("gsm8k", SUM | {"answer": ["5"]}, "answer: expected text, got ['5']"),
        ("gsm8k", SUM | {"question": " "}, "question: expected text"),
        ("mmlu", CHOICES | {"answer": 2}, "expected a letter or a number from 0 to 1, got 2"),
        ("mmlu", CHOICES | {"choices": ["a"] * 27}, "choices: expected at most 26, got 27"),
        ("truthfulqa_mc1", TRUTH | {"mc1_targets": {"a": 0}}, "expected a label of 1"),
        ("truthfulqa_mc1", TRUTH | {"mc1_targets": {"a": 1, " ": 0}}, "choices of text, got an"),
        ("mmlu", CHOICES | {"choices": ["a", None]}, "choices: expected a list of text"),
        ("ifeval", PROMPT | {"kwargs": [{}]}, "expected the arguments of keywords:existence"),
        ("ifeval", PROMPT | {"kwargs": [None]}, "expected the arguments of keywords:existence"),
        ("ifeval", PROMPT | {"kwargs": []}, "kwargs: expected one for each of 1 instructions"),
        ("tools", CALLS, "tools: expected at least one definition"),
        (
            "tools",
            CALLS | {"tools": [NAMED], "answer": [{"name": "a", "arguments": "no JSON"}]},
            "row 1: answer.tool_calls",
        ),
    ],
)
def test_a_bad_row_is_refused_with_its_number_before_anything_is_asked(
    name: str, row: dict[str, Any], text: str, tmp_path: Path, call: Call
) -> None:
    file = {"tools": "tools.jsonl"} | {task: file for task, (file, _) in ROWS.items()}
    write_rows(tmp_path / file[name], [row])
    outcome = call("eval", "zen-pico", "--tasks", name, "--data", str(tmp_path), "--json")
    assert outcome.code == 2
    assert "row 1: " in outcome.stderr
    assert text in outcome.stderr
    assert "loading" not in outcome.stderr


def test_answers_are_compared_as_mathematics(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    row = {"problem": "A half?", "solution": "It is $\\boxed{\\frac{1}{2}}$."}
    write_rows(tmp_path / "math.jsonl", [row, row])
    (measure,) = measures("math", tmp_path)
    lines = [{"answer": "So $\\boxed{0.5}$"}, {"answer": "So $\\boxed{2}$"}]
    assert measure.grade(measure.items, lines) == [1.0, 0.0]


def test_rows_may_be_in_parquet(tmp_path: Path) -> None:
    table, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        table.table({k: [v, v] for k, v in SUM.items()}), tmp_path / "gsm8k.parquet"
    )
    (measure,) = measures("gsm8k", tmp_path)
    assert len(measure.items) == 2


@pytest.mark.parametrize("form", [["--plain"], []])
def test_choices_are_scored_in_both_forms(form: list[str], place: Path, call: Call) -> None:
    file, row = ROWS["bbh"]
    write_rows(place / file, [row, row | {"input": "not True is", "target": "False"}])
    outcome = call("eval", "zen-pico", "--tasks", "bbh", "--data", ".", "--json", *form)
    results: Any = outcome.json["results"]
    assert (results[0]["rows"], results[0]["unanswered"]) == (2, 0)
    (lines,) = place.rglob("bbh_*.jsonl")
    logprobs = [json.loads(line)["logprobs"] for line in lines.read_text().splitlines()]
    assert all(logprob < 0 for each in logprobs for logprob in each)


def test_a_choice_follows_the_empty_think_block_of_a_template(
    place: Path, shared: Callable[[str], Path], call: Call
) -> None:
    shutil.copytree(pico_folder(), place / "model")
    shutil.copy(shared("data/tokenizers/qwen3/chat_template.jinja"), place / "model")
    file, row = ROWS["mmlu"]
    write_rows(place / file, [row])
    outcome = call("eval", "model", "--tasks", "mmlu", "--data", ".", "--json")
    assert outcome.code == 0, outcome.stderr
    with open_chat(place / "model", system="") as session:
        (measure,) = measures("mmlu", place)
        (line,) = choice_lines(session, measure.items)
        asked = session.prompt_ids(measure.items[0].task.messages)
        closed = len(session.tokenizer.backend_tokenizer.encode("<think>\n\n</think>\n\n").ids)
    assert line["prompt_tokens"] == len(asked) + closed + 1  # the choice is one letter


def test_a_figure_of_rows_that_all_failed_is_refused(place: Path, call: Call) -> None:
    write_rows(place / "gsm8k.jsonl", [SUM | {"question": "why " * 200}])
    outcome = call("eval", "zen-pico", "--tasks", "gsm8k", "--data", ".", "--json")
    assert outcome.code == 2
    assert "none of 1 row could be asked: prompt: expected fewer than 512" in outcome.stderr
