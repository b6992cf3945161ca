"""The settings of `zoo-gym train`: where each comes from, and how they may be given."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.codes import raises
from tests.gym.cli.conftest import DONE
from zoo.backends.torch.backend import TorchBackend
from zoo.gym.config.items import sort_items
from zoo.gym.jobs import create_run, run_folders

Call = Callable[..., Any]


@pytest.mark.slow
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


@pytest.mark.slow
def test_print_config_shows_what_a_run_would_choose(call: Call) -> None:
    text = "".join(f'{{"prompt": "Say {n}.", "completion": "It is {n}."}}\n' for n in range(40))
    Path("my.jsonl").write_text(text)
    words = ["my.jsonl", "--model", "zen-pico", "--max_steps", "3", "--print-config"]
    lines = [" ".join(line.split()) for line in call("train", *words).stdout.splitlines()]
    assert "learning_rate: 0.002 # chosen: lora on 0.8 M parameters" in lines
    assert "max_steps: 3 # flag" in lines
    assert "dtype: f32 # chosen: a small model: 16 bits would save little" in lines
    assert "retain: null # 0.5 if the model answers general questions, else 0" in lines
    assert not [line for line in lines if line.endswith("# chosen at the start")]
    assert run_folders() == []


@pytest.mark.slow
def test_an_adapter_may_be_given_as_the_run_that_trained_it(call: Call, rows: Path) -> None:
    earlier = create_run("stage: sft\n", {})
    earlier.result.mkdir()
    found = call("train", "my.jsonl", "--model", "zen-pico", "adapter_name_or_path=last")
    assert (found.code, str(earlier.result) in found.stderr) == (2, True)
    assert "adapter_name_or_path: expected a folder with adapter_" in found.stderr


@pytest.mark.slow
def test_print_config_says_which_of_two_settings_decides(call: Call) -> None:
    row = {"prompt": "say two", "answer": "2"}
    Path("sums.jsonl").write_text((json.dumps(row) + "\n") * 20)
    words = ["sums.jsonl", "stage=grpo", "--model", "zen-pico", "--print-config"]
    lines = call("train", *words).stdout.splitlines()
    found = dict(line.split("  # ") for line in lines if "  # " in line)
    plain = {key.strip(): origin for key, origin in found.items()}
    assert plain["num_train_epochs: null"] == "not used: max_steps decides"
    assert plain["max_steps: 400"].startswith("chosen: usual for rewards")


@pytest.mark.slow
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


SMALL = ["my.jsonl", "--model", "zen-pico", "--max_steps", "3", "backend=cpu", "--print-config"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("items", "start"),
    [
        (
            "finetuning_type=full optim=badam badam_start_block=9",
            "badam_start_block: expected 0 to",
        ),
        ("finetuning_type=oft oft_block_size=48", "oft_block_size: expected a divisor of the 128"),
        ("finetuning_type=oft additional_target=embed_tokens", "additional_target: expected other"),
        ("pissa_init=true lora_rank=512", "lora_rank: expected at most 64 with pissa_init"),
        ("moe_aux_loss_coef=0.1", "moe_aux_loss_coef: expected a mixture of experts"),
    ],
)
def test_print_config_refuses_what_the_shape_of_the_model_does_not_allow(
    call: Call, rows: Path, items: str, start: str
) -> None:
    found = call("train", *SMALL, *items.split())
    assert (found.code, found.stdout) == (2, "")
    assert found.stderr.startswith(f"zoo-gym: error: {start}")


@pytest.mark.slow
def test_print_config_refuses_what_the_engine_refuses_all_at_once(call: Call, rows: Path) -> None:
    found = call("train", *SMALL, "activation_offloading=true", "lora_target=q_proj,q_prj")
    assert (found.code, found.stdout) == (2, "")
    starts = [line.partition("got")[0] for line in found.stderr.splitlines()]
    assert starts[:2] == [
        "zoo-gym: error: activation_offloading: expected the device cuda, ",
        "zoo-gym: error: lora_target: expected names that layers end with, ",
    ]


@pytest.mark.slow
def test_print_config_refuses_an_optimizer_that_the_device_has_not(call: Call, rows: Path) -> None:
    pytest.importorskip("bitsandbytes")
    found = call("train", *SMALL, "optim=adamw_8bit")
    assert (found.code, found.stdout) == (4, "")
    assert "optim: adamw_8bit steps on a CUDA device: expected cuda, got cpu" in found.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("stream_layers=true dtype=f32", "stream_layers: "),
        ("loftq_init=true quantization_bit=4 lora_target=lm_head", "loftq_init: expected layers"),
        ("lora_target=nothere", "lora_target: expected names that layers end with, got 'nothere'"),
    ],
)
def test_a_run_and_print_config_refuse_the_same_of_the_stored_weights(
    call: Call, rows: Path, items: str, message: str
) -> None:
    if "quantization_bit" in items:
        pytest.importorskip("bitsandbytes")
    printed, run = (call("train", *words, *items.split()) for words in (SMALL, SMALL[:-1]))
    assert printed.code == run.code == 2
    said = [line for line in printed.stderr.splitlines() if line.startswith("zoo-gym: error: ")]
    assert said
    assert said[0].startswith(f"zoo-gym: error: {message}")
    assert said[0] in run.stderr
    assert run_folders() == []


@pytest.mark.slow
def test_print_config_refuses_names_on_mlx(call: Call, rows: Path) -> None:
    pytest.importorskip("mlx_lm")
    words = [word for word in SMALL if word != "backend=cpu"]
    found = call("train", *words, "backend=mlx", "lora_target=nothere")
    assert (found.code, found.stdout) == (2, "")
    assert "lora_target: expected names that layers end with, got 'nothere'" in found.stderr


@pytest.mark.slow
def test_print_config_shows_the_memory_of_the_run(call: Call, rows: Path) -> None:
    found = call("train", *SMALL, "--json")
    assert found.json["memory"]["total"] > found.json["memory"]["reserve"] > 0
    assert "Python and libraries 0.8" in found.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("model", "named"), [("zen-nano", True), ("m", False)])
def test_the_memory_of_a_model_that_is_not_here_is_the_doctors(
    call: Call, rows: Path, model: str, *, named: bool
) -> None:
    found = call("train", "my.jsonl", "--model", model, "--print-config")
    assert ("zoo-gym doctor lists the memory" in found.stdout) is named
    assert "# --print-config is always offline: it downloads nothing" in found.stdout


@pytest.mark.slow
def test_print_config_says_that_a_run_does_not_fit(
    call: Call, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def little(_: TorchBackend) -> int:
        return 10**8

    monkeypatch.setattr(TorchBackend, "free_bytes", little)
    found = call("train", *SMALL)
    assert found.code == 3
    assert "lora_rank: 16" in found.stdout
    assert "the run does not fit into memory: expected at most the 0.10 GB" in found.stderr


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("words", SPELLINGS)
def test_every_spelling_gives_the_same_settings(call: Call, rows: Path, words: list[str]) -> None:
    config = call("train", *words, "--print-config", "--json").json["config"]
    assert (config["model_name_or_path"], config["dataset"], config["lora_rank"]) == (
        *("m", ["my.jsonl"], 4),
    )


@pytest.mark.slow
def test_a_switch_takes_true_and_false(call: Call, rows: Path) -> None:
    words = ["my.jsonl", "--model", "m", "--print-config", "--json"]
    config = call("train", "--use-rslora", "true", "--offline", "False", *words).json["config"]
    assert (config["use_rslora"], config["offline"], config["dataset"]) == (
        *(True, False, ["my.jsonl"]),
    )


@pytest.mark.slow
def test_files_in_a_row_and_by_flag_are_read_in_that_order(call: Call, rows: Path) -> None:
    for name in ("b.jsonl", "c.jsonl"):
        shutil.copy(rows, name)
    words = ["b.jsonl", "my.jsonl", "--dataset", "c.jsonl", "--model", "m", "--print-config"]
    config = call("train", *words, "--json").json["config"]
    assert config["dataset"] == ["b.jsonl", "my.jsonl", "c.jsonl"]


@pytest.mark.slow
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
    with raises("config.no_such_file", r"Did you mean 'chats\.jsonl'\?"):
        sort_items(["chats.json"])


def test_an_existing_file_with_an_equals_sign_is_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a=b").touch()
    assert sort_items(["a=b", "c=d"]).data == ["a=b"]


@pytest.mark.slow
def test_a_run_stores_the_files_that_were_in_a_folder(call: Call, worker: Call, base: Path) -> None:
    worker(**DONE)
    Path("data").mkdir()
    for name in ("b.jsonl", "a.jsonl"):
        Path("data", name).write_text('{"prompt": "a", "completion": "b"}\n')
    assert call("train", "data", "--model", str(base)).code == 0
    [run] = run_folders()
    stored = yaml.safe_load(run.config_file.read_text())
    assert stored["dataset"] == [str(Path("data", n).absolute()) for n in ("a.jsonl", "b.jsonl")]


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_file_among_the_items_is_where_the_shell_found_it(call: Call, rows: Path) -> None:
    Path("data").mkdir()
    shutil.copy(rows, "data/b.jsonl")
    words = ["my.jsonl", "--dataset", "b.jsonl", "dataset_dir=data", "--model", "m"]
    config = call("train", *words, "--print-config", "--json").json["config"]
    assert config["dataset"] == [str(rows), "b.jsonl"]


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_dataset_dir_of_a_settings_file_is_reported_if_no_file_is_read_from_it(
    call: Call, rows: Path
) -> None:
    Path("train.yaml").write_text("dataset: a.jsonl\ndataset_dir: data\n")
    found = call("train", "train.yaml", str(rows), "--model", "m", "--print-config", "--json")
    assert found.json["config"]["dataset"] == [str(rows)]
    [ignored] = found.json["ignored"]
    assert (ignored["key"], ignored["origin"]) == ("dataset_dir", "train.yaml:2")
    assert ignored["reason"] == f"expected a relative name in dataset, got {rows}"


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--print-config",)])
@pytest.mark.parametrize(
    ("reward", "named"),
    [
        ("mine.py:score", "'mine.py:score': expected a function 'score', got only short"),
        ("mine.py:short", "prompts.jsonl:1: no level: expected what reward short compares with"),
        ("exact", "prompts.jsonl:1: no answer: expected what reward exact compares with"),
        ("auto", "4 of 4 rows have none, first prompts.jsonl:1"),
    ],
)
def test_a_reward_that_fits_no_row_leaves_no_run(
    call: Call, base: Path, more: tuple[str, ...], reward: str, named: str
) -> None:
    Path("prompts.jsonl").write_text('{"prompt": "2 + 3 = ?"}\n' * 4)
    Path("mine.py").write_text("def short(completions, level, **rest): return []\n")
    words = ["train", "prompts.jsonl", "--model", str(base), "stage=grpo", f"reward={reward}"]
    found = call(*words, *more)
    assert (found.code, named in found.stderr, run_folders()) == (2, True, [])
