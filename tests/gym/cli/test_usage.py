"""Mistakes in the words: exit code 2 or 4, one sentence, the nearest that exists, no traceback."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.cli.help import root_help
from zoo.gym.cli.verbs import ABSENT, ALONE, FURTHER, GROUPS, ROOT, VERBS, Verb, children
from zoo.gym.paths import folders

Call = Callable[..., Any]

MISTAKES = [
    ("trian", 2, "trian: no such command. Did you mean 'train'?"),
    ("--jsn", 2, "--jsn: no such command"),
    ("runs lst", 2, "runs lst: no such command. Did you mean 'list'?"),
    ("runs list extra", 2, "unexpected 'extra'"),
    ("runs show", 2, "RUN: expected a value, got nothing"),
    ("runs list --jsn", 2, "--jsn: no such option. Did you mean '--json'?"),
    ("runs show r0001", 4, "no run 'r0001': expected a run id, got a folder without runs"),
    ("train --lora_rnk 5", 2, "--lora_rnk: no such option. Did you mean '--lora_rank'?"),
    ("train --learning-rte=5", 2, "--learning-rte: no such option. Did you mean '--learning_rate'"),
    ("train --lr 5", 2, "--lr: no such option. Did you mean '--learning_rate'?"),
    ("train --zzz", 2, "--zzz: no such option"),
    ("train -q", 2, "-q: no such option"),
    ("train --lora_rank", 2, "--lora_rank: expected a value, got nothing"),
    ("train --model a --model b", 2, "--model: given more than once"),
    ("train --yes=maybe", 2, '--yes: expected true or false, got "maybe"'),
    ("train --quantization nf4", 2, "--quantization: expected 4, 8, nf4, fp4, int8"),
    ("train --ppo-target=3", 2, "--ppo-target: no such setting of ppo: expected one of its own"),
    ("train pt --model m --data d", 2, "stage=pt: the method 'pt' is not supported yet"),
    ("train --model m --data d --seed x", 2, '--seed: expected a whole number, got "x"'),
    ("train --model m", 2, "dataset: not given"),
    ("train absent.jsonl --model m", 4, "absent.jsonl: no such file: expected a file of examples"),
    ("train absent.yaml", 4, "absent.yaml: no such file: expected a YAML file of settings"),
    ("train --config absent", 4, "absent: no such file: expected a YAML file of settings"),
    ("train lora_rank", 2, "lora_rank: no such file: expected a file of examples, a .yaml file or"),
    ("train --data absent.txt --model m", 4, "absent.txt: no such file: expected a file of"),
    ("delta create", 2, "SOURCE: expected a value, got nothing"),
    ("delta create nothing", 4, "nothing: expected a run, a model folder or a .safetensors file"),
    ("delta create . --form dnse", 2, '--form: expected one of auto, lowrank, dense, got "dnse".'),
    ("delta create . --bits two", 2, '--bits: expected one of 1, 2, 4, 8, got "two"'),
    ("delta create .", 2, "--base: expected a model's name or folder, got nothing"),
    ("delta info absent.safetensors", 4, "absent.safetensors: no such file: expected a delta file"),
    ("data inspect", 2, "FILE: expected at least one file of examples, got none"),
    ("data inspect absent.json", 4, "absent.json: no such file: expected a file of examples"),
    ("chat", 2, "chat: expected --model, --run, --adapter_name_or_path or --delta, got none"),
    (
        "chat --model zen-nan",
        4,
        "no such model: expected one of zen-pico, smollm2, zen-nano, zen-eco",
    ),
    (
        "chat --model m --max_new_tokens 0",
        2,
        "--max_new_tokens: expected a whole number of at least 1, got 0",
    ),
    ("chat --model m --temperature -1", 2, "--temperature: expected 0, or 1e-06 or more, got -1"),
    (
        "chat --run a --delta b",
        2,
        "--delta: expected one of --run, --adapter_name_or_path, --delta",
    ),
    ("chat --adapter_name_or_path .", 2, ".: expected a peft folder with adapter_config.json"),
]


@pytest.mark.parametrize("word", ABSENT)
def test_a_published_command_that_is_absent_is_answered_with_what_to_use(
    call: Call, word: str
) -> None:
    assert word not in {verb.words for verb in VERBS}
    found = call(*word.split(), "--model", "m")
    assert found.code == 2
    name = word.rpartition(" ")[2] if "--" in word else word
    assert found.stderr.startswith(f"zoo-gym: error: {name}: {ABSENT[word]}\n")


LONG = "x" * 300
WITH_PATHS = [
    f"train {LONG}",
    f"train {LONG}.yaml",
    f"train {'/'.join(['x' * 200] * 30)}",
    f"train --config {LONG}",
    f"train --data {LONG} --model zen-pico",
    f"train my.jsonl --model {LONG}",
    f"train my.jsonl --model zen-pico --output_dir {LONG}",
    f"data inspect {LONG}",
    f"chat --model {LONG}",
    f"chat --adapter_name_or_path {LONG}",
    f"delta create {LONG}",
    f"delta info {LONG}",
]


@pytest.mark.slow
@pytest.mark.parametrize("words", WITH_PATHS, ids=range(len(WITH_PATHS)))
@pytest.mark.parametrize("unknown_home", [False, True])
@pytest.mark.usefixtures("rows")
def test_a_word_that_cannot_be_a_path_is_refused(
    call: Call, words: str, *, unknown_home: bool
) -> None:
    given = words.replace(LONG, "~no-such-user/x") if unknown_home else words
    found = call(*given.split())
    assert found.code == 2
    reason = "got one in the home of an unknown user" if "~" in given else "too long for a path"
    assert reason in found.stderr
    assert not folders().runs.exists()


@pytest.mark.slow
def test_a_long_setting_is_no_path(call: Call) -> None:
    found = call("train", f"lora_target={LONG}=", "--print-config")
    assert found.stderr.startswith("zoo-gym: error: model_name_or_path: not given")


@pytest.mark.slow
@pytest.mark.parametrize(("words", "code", "start"), MISTAKES)
def test_a_mistake_is_one_message(call: Call, words: str, code: int, start: str) -> None:
    found = call(*words.split())
    assert (found.code, found.stdout) == (code, "")
    assert found.stderr.startswith(f"zoo-gym: error: {start}")
    assert "Traceback" not in found.stderr


def test_an_error_is_also_the_last_line_of_json(call: Call) -> None:
    found = call("runs", "show", "r0001", "--json")
    message = "no run 'r0001': expected a run id, got a folder without runs"
    hint = "start one with: zoo-gym train"
    error = {"code": "jobs.no_such_run", "message": message, "hint": hint, "exit_code": 4}
    assert found.json == {"error": error}


@pytest.mark.slow
def test_every_line_of_an_error_is_marked(call: Call) -> None:
    found = call("train", "seed=x", "lora_rank=y", "--model", "m", "--data", "d")
    assert [line[:20] for line in found.stderr.splitlines()] == [
        *("zoo-gym: error: seed", "zoo-gym: error: lora")
    ]


def test_bare_program_prints_the_first_word_of_every_command(call: Call) -> None:
    found = call()
    assert found.code == 0
    assert all(f"\n  {word} " in found.stdout for word in ROOT)
    assert f"and {', '.join(FURTHER)}\n" in found.stdout


@pytest.mark.parametrize("words", [*sorted(GROUPS.keys() - ALONE.keys()), "models --help"])
def test_a_group_prints_its_commands(call: Call, words: str) -> None:
    found, group = call(*words.split()), words.split(maxsplit=1)[0]
    assert (found.code, found.stderr) == (0, "")
    assert f"Usage: zoo-gym {group} COMMAND" in found.stdout
    assert all(f"  {verb.words}" in found.stdout for verb in VERBS if verb.words.startswith(group))


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
def test_every_command_has_help(call: Call, verb: Verb) -> None:
    found = call(*verb.words.split(), "--help")
    assert (found.code, found.stderr) == (0, "")
    assert found.stdout.startswith(f"Usage: zoo-gym {verb.words}")
    assert verb.summary in found.stdout
    assert "--json" in found.stdout


def test_the_version_is_printed(call: Call) -> None:
    found = call("--version")
    assert found.code == 0
    assert found.stdout.strip().count(".") == 2


@pytest.mark.parametrize("word", ["mine.yaml", "zen-nano-dpo.yaml", "rows.jsonl", "max_steps=3"])
def test_a_file_without_a_command_is_answered_with_the_command(
    word: str, call: Call, tmp_path: Path
) -> None:
    for name in ("mine.yaml", "rows.jsonl"):
        (tmp_path / name).touch()
    assert f"hint: zoo-gym train {word}\n" in call(word).stderr


@pytest.mark.parametrize("word", ["dpo", "absent.jsonl", "trian"])
def test_a_word_that_is_no_file_is_answered_with_the_help(word: str, call: Call) -> None:
    assert "hint: zoo-gym --help\n" in call(word).stderr


def test_the_help_has_thirty_lines_at_most() -> None:
    assert sorted((*ROOT, *FURTHER)) == sorted(children(""))
    assert root_help().count("\n") < 30
