"""`zoo-gym eval last`: a run on the rows that it held out, beside its base."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.codes import raises
from tests.gym.delta.lora import write_lora
from tests.gym.evaluate.conftest import Call, first_letters, write_rows
from zoo.gym.evaluate.held_out import measures_of_file, measures_of_run
from zoo.gym.evaluate.items import Item
from zoo.gym.evaluate.requirements import require
from zoo.gym.evaluate.sources import resolve_contender
from zoo.gym.evaluate.tasks.tools import same_calls
from zoo.gym.jobs.run import Run
from zoo.gym.rewards import Task


def figures(outcome: Any) -> dict[tuple[str, str], Any]:
    assert outcome.code == 0, outcome.stderr
    return {(each["task"], each["source"]): each for each in outcome.json["results"]}


def test_a_run_is_measured_beside_its_base_on_rows_it_held_out(trained: Run, call: Call) -> None:
    found = figures(call("eval", "last", "--json"))
    assert {task for task, _ in found} == {"held-out-answers", "held-out-loss"}
    assert found["held-out-answers", "r0001"]["rows"] == 12  # a fifth of 60
    assert found["held-out-answers", "r0001"]["value"] > 0.5
    tuned, base = (found["held-out-loss", name]["value"] for name in ("r0001", "zen-pico"))
    assert tuned < 0.5 < base


def test_the_loss_is_the_one_of_the_run(trained: Run, call: Call) -> None:
    lines = map(json.loads, (trained.folder / "events.jsonl").read_text().splitlines())
    last = [line["loss"] for line in lines if line.get("kind") == "eval"][-1]
    found = figures(call("eval", "last", "--alone", "--json"))
    assert abs(found["held-out-loss", "r0001"]["value"] - last) < 1e-4


def test_a_second_time_nothing_is_asked(trained: Run, call: Call) -> None:
    first = call("eval", "last", "--json")
    second = call("eval", "last", "--json")
    assert "loading" in first.stderr
    assert "loading" not in second.stderr
    assert first.stdout == second.stdout


def test_the_rows_of_a_file_are_graded_by_the_reward_that_fits(place: Path, call: Call) -> None:
    rows = write_rows(
        place / "sums.jsonl", [{"prompt": f"{n} + 1 =", "answer": n + 1} for n in range(6)]
    )
    words = ("eval", "zen-pico", "--data", str(rows), "--max_new_tokens", "4", "--json")
    found = figures(call(*words))["sums", "zen-pico"]
    assert found["graded_by"].startswith("numeric")
    assert (found["rows"], found["shots"]) == (6, 0)


def test_a_run_without_held_out_rows_is_refused(trained: Run, call: Call) -> None:
    env = json.loads(trained.env_file.read_text())
    trained.env_file.write_text(json.dumps(env | {"data": "0" * 64}))
    outcome = call("eval", "last", "--json")
    assert outcome.code == 2
    assert "the run's data has changed" in outcome.stderr


def test_runs_show_has_what_was_measured(trained: Run, call: Call) -> None:
    assert call("runs", "show", "last", "--json").json["evals"] == []
    call("eval", "last")
    shown = call("runs", "show", "last")
    assert "evaluated\n  held-out rows of r0001, answers: " in shown.stdout
    assert re.search(r"\n    zen-pico: .*\); against it better by .*; proven\n", shown.stdout)
    evals: Any = call("runs", "show", "last", "--json").json["evals"]
    assert [each["source"] for each in evals] == ["r0001", "r0001"]
    assert evals[0]["asked"] == "0 shots, greedy, at most 256 tokens"
    assert evals[0]["compared_with"]["difference"] > 0
    call("eval", "last", "--alone")
    assert call("runs", "show", "last", "--json").json["evals"] == evals


def second_run(trained: Run, **env: str) -> Run:
    """Adds `r0002`, a copy of the run with other entries in its `env.json`."""
    second = Run(trained.folder.with_name("r0002"))
    shutil.copytree(trained.folder, second.folder)
    second.env_file.write_text(json.dumps(json.loads(trained.env_file.read_text()) | env))
    return second


def test_a_run_that_may_have_learned_the_rows_is_in_the_verdict(trained: Run, call: Call) -> None:
    second_run(trained, data="0" * 64)  # other data, by its fingerprint
    outcome = call("eval", "r0001", "r0002", "--limit", "6", "--json")
    assert outcome.code == 0, outcome.stderr
    assert "held out by r0001; r0002 may have learned these rows" in outcome.stderr
    comparisons: Any = outcome.json["comparisons"]
    assert comparisons[0]["sentence"].endswith("; not proven, on rows that r0002 may have learned")
    assert comparisons[0]["learners"] == ["r0002"]


def test_runs_that_held_out_the_same_rows_are_compared_without_doubt(
    trained: Run, call: Call
) -> None:
    second_run(trained)
    outcome = call("eval", str(trained.folder / "result"), "r0002", "--limit", "6", "--json")
    assert outcome.code == 0, outcome.stderr
    assert "may have learned" not in outcome.stderr + outcome.stdout


def test_a_delta_has_figures_of_its_own(trained: Run, call: Call) -> None:
    delta = trained.folder.parents[3] / "my.safetensors"
    made = call("delta", "create", "r0001", "--out", str(delta), "--bits", "2")
    assert made.code == 0, made.stderr
    found = figures(call("eval", "r0001", str(delta), "--limit", "6", "--json"))
    assert {source for _, source in found} == {"r0001", str(delta)}


def test_an_adapter_that_changes_no_answer_is_said_loudly(
    trained: Run, place: Path, call: Call
) -> None:
    write_lora(place / "idle", step=1e-9)
    rows = write_rows(place / "my.jsonl", first_letters(5))
    outcome = call("eval", str(place / "idle"), "--data", str(rows), "--json")
    assert outcome.code == 0, outcome.stderr
    assert "equal those of zen-pico in 5 of 5 rows" in outcome.stderr
    comparisons: Any = outcome.json["comparisons"]
    assert comparisons[0]["sentence"].startswith("equal, 95 % ")
    assert comparisons[0]["sentence"].endswith("; not proven")


def test_pairs_are_measured_by_what_is_likelier(place: Path, call: Call) -> None:
    rows = [{"prompt": "abc", "chosen": "a", "rejected": "zq#"} for _ in range(3)]
    path = write_rows(place / "pairs.jsonl", rows)
    found = figures(call("eval", "zen-pico", "--data", str(path), "--json"))
    assert found["pairs-pairs", "zen-pico"]["value"] == 1.0


def test_rows_of_a_file_without_an_answer_are_left_out_and_counted(place: Path, call: Call) -> None:
    pair = {"prompt": "abc", "chosen": "a", "rejected": "zq#"}
    good = [*first_letters(2), pair, {"prompt": "1 + 1 =", "answer": 2}]
    path = write_rows(place / "my.jsonl", [*good, {"prompt": "x"}, {"prompt": 3, "completion": {}}])
    outcome = call("eval", "zen-pico", "--data", str(path), "--max_new_tokens", "4", "--json")
    counts = {task: each["rows"] for (task, _), each in figures(outcome).items()}
    assert counts == {"my": 1, "my-answers": 2, "my-pairs": 1}
    assert "rows of my.jsonl: 1 row left out: no answer to compare with" in outcome.stderr
    assert "1 row left out: " in outcome.stderr
    assert "my.jsonl:6" in outcome.stderr


def test_a_length_of_answers_without_an_answer_to_write_is_refused(place: Path, call: Call) -> None:
    pair = {"prompt": "abc", "chosen": "a", "rejected": "zq#"}
    path = write_rows(place / "my.jsonl", [pair])
    outcome = call("eval", "zen-pico", "--data", str(path), "--max_new_tokens", "4")
    assert outcome.code == 2
    assert "--max_new_tokens: has no effect: expected rows whose answers" in outcome.stderr


def test_a_pair_of_calls_is_left_out(place: Path) -> None:
    user, said = {"role": "user", "content": "x"}, {"role": "assistant", "content": "no"}
    called = said | {"content": "", "tool_calls": [{"function": {"name": "a", "arguments": {}}}]}
    tools = [{"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}]
    rows = [
        {"prompt": [user], "chosen": [each], "rejected": [said | {"content": "b"}]}
        | {"tools": tools}
        for each in (said, called)
    ]
    (measure,) = measures_of_file(write_rows(place / "my.jsonl", rows), None, None)
    assert [item.row for item in measure.items] == [1]


def test_calls_of_tools_are_compared(place: Path, call: Call) -> None:
    del call
    items = [Item(1, Task((), answer=[{"name": "add", "arguments": {"a": 1}}]))] * 3
    lines: list[Any] = [
        {"calls": [{"name": "add", "arguments": {"a": 1}}]},
        {"calls": [{"name": "add", "arguments": {"a": 2}}]},
        {"calls": []},
    ]
    assert same_calls(items, lines) == [1.0, 0.0, 0.0]


def test_a_loss_of_other_tokens_is_not_compared(
    trained: Run, shared: Callable[[str], Path], call: Call
) -> None:
    other = shared("data/models/stories260K")
    outcome = call("eval", "r0001", str(other), "--max_new_tokens", "4", "--json")
    assert outcome.code == 0, outcome.stderr
    assert "not measured: held-out rows of r0001, loss" in outcome.stderr
    assert "its tokenizer is another one" in outcome.stderr
    assert {task for task, _ in figures(outcome)} == {"held-out-answers"}


def test_a_model_of_other_tokens_is_not_called_a_gguf_file(
    trained: Run, shared: Callable[[str], Path]
) -> None:
    measure = measures_of_run(resolve_contender("r0001", None), None, None)[-1]
    model = resolve_contender(str(shared("data/models/stories260K")), None)
    with raises("evaluate.not_given", r"needs log-.*, which this model does not give") as caught:
        require(model, measure)
    assert "models import" not in str(caught.value.hint)


def test_the_second_name_of_the_command_is_evaluate(trained: Run, call: Call) -> None:
    outcome = call("evaluate", "last", "--limit", "2", "--json")
    assert outcome.json == call("eval", "last", "--limit", "2", "--json").json


def test_a_report_is_written_to_a_file(trained: Run, place: Path, call: Call) -> None:
    words = ("eval", "last", "--limit", "2", "--json", "--out")
    assert call(*words, "report.json").json == json.loads((place / "report.json").read_text())
    refused = call(*words, str(place / "home"))
    assert refused.code == 2
    assert "home" in refused.stderr
