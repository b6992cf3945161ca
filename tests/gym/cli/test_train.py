"""`zoo-gym train` up to the worker, which a fake stands for: only its events are written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from zoo.gym.cli.items import sort_items
from zoo.gym.errors import NotAvailableError
from zoo.gym.jobs import Run, run_folders

Call = Callable[..., Any]

STEP = {"step": 1, "steps": 1, "loss": 0.5, "tokens_per_s": 1200.0, "eta_s": 0.0}
CHOICE = {"key": "learning_rate", "value": 0.002, "reason": "lora on 0.8 M parameters"}
DONE = {"state": "done", "exit_code": 0, "model": "/m", "metrics": {"best_loss": 0.4}}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the next launch write these end fields instead of starting a process."""

    def ends(**fields: object) -> None:
        def launch(run: Run) -> int:
            run.events.emit("plan", steps=1, choices=[CHOICE])
            run.events.emit("eval", step=0, loss=0.9)
            run.events.emit("step", **STEP)
            run.events.emit("eval", step=1, loss=0.4)
            run.events.emit("warn", message="line 3 is left out")
            if fields:
                run.events.emit("end", **fields)
            return 1

        monkeypatch.setattr("zoo.gym.cli.train.launch", launch)

    return ends


def test_a_run_that_is_done_reports_where_its_model_is(
    call: Call, worker: Call, base: Path, rows: Path
) -> None:
    worker(**DONE)
    found = call("train", str(rows), "--model", str(base), "--json")
    [run] = run_folders()
    assert found.code == 0
    assert found.json == {
        "run": "r0001",
        "state": "done",
        "folder": str(run.folder),
        "model": "/m",
        "metrics": {"best_loss": 0.4},
    }


def test_only_the_result_goes_to_stdout(call: Call, worker: Call, base: Path, rows: Path) -> None:
    worker(**DONE)
    found = call("train", str(rows), "--model", str(base))
    assert found.stdout == "run r0001 is done: /m\n"
    told = found.stderr.splitlines()
    assert "  learning_rate = 0.002: lora on 0.8 M parameters" in told
    assert "held-out loss before training: 0.9" in told
    assert "step 1/1  loss 0.5  1,200 tokens/s  held-out 0.4 at step 1" in told
    assert "warning: line 3 is left out" in told


ENDS = [
    ({"state": "failed", "exit_code": 2, "message": "my.jsonl: empty"}, 2, "my.jsonl: empty"),
    ({"state": "failed", "exit_code": 3, "message": "too big"}, 3, "too big"),
    (
        {"state": "interrupted", "exit_code": 5, "message": "stopped at step 1", "request": "stop"},
        5,
        "run 'r0001' was stopped at step 1",
    ),
    (
        {"state": "interrupted", "exit_code": 5, "message": "the worker is gone"},
        5,
        "run 'r0001' was interrupted: the worker is gone",
    ),
]


@pytest.mark.parametrize("case", ENDS, ids=lambda case: f"exit {case[1]}")
def test_the_exit_code_is_the_worker_s(
    call: Call, worker: Call, base: Path, rows: Path, case: tuple[Any, int, str]
) -> None:
    end, code, start = case
    worker(**end)
    found = call("train", str(rows), "--model", str(base), "--json")
    assert (found.code, found.json["state"]) == (
        code,
        "stopped" if "request" in end else end["state"],
    )
    assert found.json["error"]["exit_code"] == code
    assert found.json["error"]["message"].startswith(start)


def test_a_detached_run_continues_in_the_background(
    call: Call, worker: Call, base: Path, rows: Path
) -> None:
    worker()
    found = call("train", str(rows), "--model", str(base), "--detach", "--json")
    assert (found.code, found.json["run"], found.json["model"]) == (0, "r0001", None)


def test_the_stored_settings_hold_in_another_folder_and_on_another_day(
    call: Call, worker: Call, base: Path, rows: Path
) -> None:
    worker(**DONE)
    call("train", "my.jsonl", "--model", "./base", "--output_dir", "out", "seed=7")
    [run] = run_folders()
    stored = yaml.safe_load(run.config_file.read_text())
    assert stored["model_name_or_path"] == str(base)
    assert stored["dataset"] == [str(rows)]
    assert stored["output_dir"] == str(rows.parent / "out")
    assert (stored["seed"], len(stored["date"])) == (7, 10)


def test_a_run_remembers_what_it_was_made_with(
    call: Call, worker: Call, base: Path, rows: Path
) -> None:
    worker(**DONE)
    found = call("train", "my.jsonl", "--model", str(base), "--template", "qwen3")
    env = json.loads(run_folders()[0].env_file.read_text())
    assert env["model"] == {"id": "base", "revision": None, "folder": str(base)}
    assert env["without_effect"][0]["key"] == "template"
    assert "without effect: template (flag)" in found.stderr


@pytest.mark.parametrize(
    ("template", "reported"),
    [
        (None, "zen-pico has a chat template that prints no date"),
        ("{{ strftime_now('%d %b %Y') }}{{ messages[-1].content }}", None),
        ("{{ messages[-1].content }}", "base has a chat template that prints no date"),
        ("", "base has no chat template"),
    ],
)
def test_a_date_that_the_template_does_not_print_is_reported(
    call: Call,
    worker: Call,
    base: Path,
    rows: Path,
    byte_tokenizer: Callable[..., Any],
    template: str | None,
    reported: str | None,
) -> None:
    worker(**DONE)
    model = "zen-pico" if template is None else str(base)
    if template is not None:
        byte_tokenizer(template or None).save_pretrained(base)
    found = call("train", str(rows), "--model", model, "date=2024-07-26")
    assert ("without effect: date (key=value)" in found.stderr) == (reported is not None)
    assert (reported or "") in found.stderr
    assert "without effect" not in call("train", str(rows), "--model", model).stderr


def test_ctrl_c_before_a_run_exists_is_130(
    call: Call, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zoo.gym.cli.train.resolve_models", pressed)
    found = call("train", str(rows), "--model", "zen-pico", "--json")
    assert (found.code, found.json["error"]["message"]) == (130, "stopped by Ctrl-C")
    assert run_folders() == []


def test_ctrl_c_while_a_run_starts_stops_it(
    call: Call, base: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(_: Run) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zoo.gym.cli.train.launch", pressed)
    found = call("train", str(rows), "--model", str(base))
    assert found.code == 5
    assert run_folders()[0].control.pending() == "stop"


def test_a_model_that_is_not_here_leaves_no_run(call: Call, rows: Path) -> None:
    found = call("train", str(rows), "--model", "zen-nano", "--offline")
    assert found.code == 4
    assert "model 'Qwen/Qwen3-0.6B' is not on this machine" in found.stderr
    assert run_folders() == []


def test_a_model_of_pickles_only_is_refused(call: Call, rows: Path, base: Path) -> None:
    (base / "model.safetensors").rename(base / "pytorch_model.bin")
    found = call("train", str(rows), "--model", str(base))
    assert found.code == 2
    assert "pytorch_model.bin" in found.stderr


BAD_DATA = [
    ("", "my.jsonl: empty file"),
    ('{"prompt": "a", "comp', "my.jsonl:1: truncated JSON"),
    ('{"messages": [{"role": "user", "content": "a"}]}', "my.jsonl:1: no assistant turn"),
    ("\x00\x01\x02", "my.jsonl: not text"),
]


@pytest.mark.parametrize(("text", "start"), BAD_DATA)
def test_bad_data_is_reported_before_a_run_exists(
    call: Call, base: Path, rows: Path, text: str, start: str
) -> None:
    rows.write_text(text)
    found = call("train", "my.jsonl", "--model", str(base))
    assert found.code == 2
    assert f"\nzoo-gym: error: {start}" in found.stderr
    assert run_folders() == []


def test_an_unwritable_home_is_reported(
    call: Call, rows: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rows.parent / "file").touch()
    monkeypatch.setenv("ZOO_GYM_HOME", str(rows.parent / "file" / "home"))
    found = call("train", str(rows), "--model", str(base))
    assert found.code == 1
    assert "\nzoo-gym: error: cannot write '" in found.stderr


def test_print_config_shows_where_each_value_came_from(call: Call, rows: Path) -> None:
    Path("train.yaml").write_text("seed: 7\n")
    found = call("train", "train.yaml", "my.jsonl", "--model", "m", "lora_rank=8", "--print-config")
    lines = [" ".join(line.split()) for line in found.stdout.splitlines()]
    assert "seed: 7 # train.yaml:1" in lines
    assert "lora_rank: 8 # key=value" in lines
    assert "model_name_or_path: m # flag" in lines
    assert "learning_rate: null # chosen at the start" in lines
    assert "dtype: auto # default" in lines
    assert found.code == 0
    assert run_folders() == []


def test_print_config_shows_what_a_run_would_choose(call: Call) -> None:
    text = "".join(f'{{"prompt": "Say {n}.", "completion": "It is {n}."}}\n' for n in range(40))
    Path("my.jsonl").write_text(text)
    words = ["my.jsonl", "--model", "zen-pico", "--max_steps", "3", "--print-config"]
    lines = [" ".join(line.split()) for line in call("train", *words).stdout.splitlines()]
    assert "learning_rate: 0.002 # chosen: lora on 0.8 M parameters" in lines
    assert "max_steps: 3 # flag" in lines
    assert "dtype: f32 # chosen: a small model: 16 bits would save little" in lines
    assert not [line for line in lines if line.endswith("# chosen at the start")]
    assert run_folders() == []


def test_print_config_says_which_of_two_settings_decides(call: Call) -> None:
    row = {"prompt": "say two", "answer": "2"}
    Path("sums.jsonl").write_text((json.dumps(row) + "\n") * 20)
    words = ["sums.jsonl", "stage=grpo", "--model", "zen-pico", "--print-config"]
    lines = call("train", *words).stdout.splitlines()
    found = dict(line.split("  # ") for line in lines if "  # " in line)
    plain = {key.strip(): origin for key, origin in found.items()}
    assert plain["num_train_epochs: null"] == "not used: max_steps decides"
    assert plain["max_steps: 100"].startswith("chosen: usual for rewards")


@pytest.mark.parametrize("text", [None, "", '{"prompts": "a"}\n'])
def test_print_config_refuses_data_as_a_run_does(call: Call, text: str | None) -> None:
    if text is not None:
        Path("other.jsonl").write_text(text)
    words = ["train", "dataset=other.jsonl", "--model", "m"]
    real, printed = call(*words), call(*words, "--print-config")
    error = real.stderr.partition("zoo-gym: error: ")[2]
    assert error.startswith("other.jsonl:")
    assert (printed.code, printed.stdout, printed.stderr) == (
        *(real.code, "", f"zoo-gym: error: {error}"),
    )


def test_printed_settings_are_a_settings_file(call: Call, rows: Path) -> None:
    words = ["my.jsonl", "--model", "m", "--use_rslora", "--seed", "3", "--print-config", "--json"]
    first = call("train", *words)
    Path("again.yaml").write_text(first.stderr)
    again = call("train", "again.yaml", "--print-config", "--json")
    assert again.json["config"] == first.json["config"]


SPELLINGS = [
    ["my.jsonl", "--model", "m", "--lora-rank", "4"],
    ["--dataset", "my.jsonl", "--model_name_or_path=m", "--lora_rank=4"],
    ["--data=my.jsonl", "--model", "m", "lora_rank=4", "--do_train"],
    ["--do_train", "true", "--dataset", "my.jsonl", "--base-model", "m", "--lora_rank", "4"],
    ["sft", "my.jsonl", "model=m", "lora_rank=4"],
]


@pytest.mark.parametrize("words", SPELLINGS)
def test_every_spelling_gives_the_same_settings(call: Call, rows: Path, words: list[str]) -> None:
    config = call("train", *words, "--print-config", "--json").json["config"]
    assert (config["model_name_or_path"], config["dataset"], config["lora_rank"]) == (
        *("m", ["my.jsonl"], 4),
    )


def test_a_switch_takes_true_and_false(call: Call, rows: Path) -> None:
    words = ["my.jsonl", "--model", "m", "--print-config", "--json"]
    config = call("train", "--use-rslora", "true", "--offline", "False", *words).json["config"]
    assert (config["use_rslora"], config["offline"], config["dataset"]) == (
        *(True, False, ["my.jsonl"]),
    )


def test_files_in_a_row_and_by_flag_are_read_in_that_order(call: Call, rows: Path) -> None:
    for name in ("b.jsonl", "c.jsonl"):
        shutil.copy(rows, name)
    words = ["b.jsonl", "my.jsonl", "--dataset", "c.jsonl", "--model", "m", "--print-config"]
    config = call("train", *words, "--json").json["config"]
    assert config["dataset"] == ["b.jsonl", "my.jsonl", "c.jsonl"]


@pytest.mark.parametrize("key", ["dataset", "data"])
def test_data_under_a_key_together_with_files_is_refused(call: Call, rows: Path, key: str) -> None:
    found = call("train", str(rows), "model=zen-pico", f"{key}=missing.jsonl", "--print-config")
    assert found.code == 2
    assert f"{key}=missing.jsonl: already given as '{rows}'" in found.stderr


def test_an_item_near_a_file_names_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("chats.jsonl").touch()
    with pytest.raises(NotAvailableError, match=r"Did you mean 'chats\.jsonl'\?"):
        sort_items(["chats.json"])


def test_an_existing_file_with_an_equals_sign_is_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a=b").touch()
    assert sort_items(["a=b", "c=d"]).data == ["a=b"]


def test_a_run_stores_the_files_that_were_in_a_folder(call: Call, worker: Call, base: Path) -> None:
    worker(**DONE)
    Path("data").mkdir()
    for name in ("b.jsonl", "a.jsonl"):
        Path("data", name).write_text('{"prompt": "a", "completion": "b"}\n')
    assert call("train", "data", "--model", str(base)).code == 0
    [run] = run_folders()
    stored = yaml.safe_load(run.config_file.read_text())
    assert stored["dataset"] == [str(Path("data", n).absolute()) for n in ("a.jsonl", "b.jsonl")]


def test_names_of_data_are_read_from_dataset_dir(call: Call, worker: Call, base: Path) -> None:
    worker(**DONE)
    Path("data").mkdir()
    Path("data/a.jsonl").write_text('{"prompt": "a", "completion": "b"}\n')
    words = ["--dataset", "a.jsonl", "--dataset_dir", "data", "--model", str(base)]
    assert call("train", *words).code == 0
    [run] = run_folders()
    stored = yaml.safe_load(run.config_file.read_text())
    assert stored["dataset"] == [str(Path("data/a.jsonl").absolute())]
    assert stored["dataset_dir"] is None  # the stored names have it already


def test_a_file_among_the_items_is_where_the_shell_found_it(call: Call, rows: Path) -> None:
    Path("data").mkdir()
    shutil.copy(rows, "data/b.jsonl")
    words = ["my.jsonl", "--dataset", "b.jsonl", "dataset_dir=data", "--model", "m"]
    config = call("train", *words, "--print-config", "--json").json["config"]
    assert config["dataset"] == [str(rows), "b.jsonl"]


@pytest.mark.parametrize("given", [["--dataset_dir", "data"], ["dataset_dir=data"]])
def test_a_dataset_dir_that_no_file_is_read_from_is_refused(
    call: Call, rows: Path, given: list[str]
) -> None:
    for data in (["my.jsonl"], ["--dataset", str(rows)]):
        found = call("train", *data, *given, "--model", "m", "--print-config")
        assert (found.code, found.stdout) == (2, "")
        assert f"dataset_dir: has no effect: expected a relative name in dataset, got {rows}" in (
            found.stderr
        )


def test_a_dataset_dir_of_a_settings_file_is_reported_if_no_file_is_read_from_it(
    call: Call, rows: Path
) -> None:
    Path("train.yaml").write_text("dataset: a.jsonl\ndataset_dir: data\n")
    found = call("train", "train.yaml", str(rows), "--model", "m", "--print-config", "--json")
    assert found.json["config"]["dataset"] == [str(rows)]
    [ignored] = found.json["ignored"]
    assert (ignored["key"], ignored["origin"]) == ("dataset_dir", "train.yaml:2")
    assert ignored["reason"] == f"expected a relative name in dataset, got {rows}"


@pytest.mark.parametrize("more", [(), ("--print-config",)])
def test_an_absent_file_of_a_reward_leaves_no_run(
    call: Call, base: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "2 + 3 = ?", "answer": "5"}\n' * 4)
    words = ["train", str(prompts), "--model", str(base), "stage=grpo"]
    found = call(*words, "reward=nofile.py:score", *more)
    assert found.code == 2
    assert "reward: no such file: 'nofile.py'" in found.stderr
    assert run_folders() == []
