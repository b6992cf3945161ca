"""`zoo-gym chat`: where prompts come from and where answers go; the model is a stand-in."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from zoo.backends.base import Sampling
from zoo.gym.jobs import create_run
from zoo.models.registry import CANNOT_CONVERSE

Call = Callable[..., Any]


class Echo:
    """Answers in capitals."""

    sampling, is_cut = Sampling(), False
    messages: list[str] = []  # noqa: RUF012 - a stand-in

    def answer(self, prompt: str) -> str:
        return prompt.upper()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the stand-in was opened with."""
    seen: list[dict[str, Any]] = []

    @contextmanager
    def open_chat(base: Path, **options: Any) -> Generator[Echo]:
        seen.append({"base": base, **options})
        yield Echo()

    monkeypatch.setattr("zoo.gym.chat.open_chat", open_chat)
    return seen


def test_a_pipe_gives_one_prompt_a_line(call: Call, base: Path, opened: list[Any]) -> None:
    found = call("chat", "--model", str(base), stdin="\ufeffhello\n \n/new\n")
    assert (found.code, found.stdout, found.stderr) == (
        *(0, "HELLO\n\n/NEW\n"),
        f"loading {base}\nline 3: /new is asked as a prompt: commands need a terminal\n",
    )


def test_answer_n_belongs_to_line_n(call: Call, base: Path, opened: list[Any]) -> None:
    found = call("chat", "--model", str(base), "--json", stdin="\na\n\n")
    assert [turn["answer"] for turn in found.json["turns"]] == ["", "A", ""]


def test_an_answer_of_several_lines_is_printed_on_one(
    call: Call, base: Path, opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Echo, "answer", lambda _, prompt: f"1. {prompt}\n2. C:\\new")
    found = call("chat", "--model", str(base), stdin="a\nb\n")
    assert found.stdout.splitlines() == [rf"1. {prompt}\n2. C:\\new" for prompt in "ab"]
    found = call("chat", "--model", str(base), "--json", stdin="a\n")
    assert found.json["turns"][0]["answer"] == "1. a\n2. C:\\new"


def test_bytes_that_are_not_utf_8_reach_the_session_after_the_lines_before(
    call: Call, base: Path, opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def standard_input(_: str) -> TextIOWrapper:
        return TextIOWrapper(BytesIO(b"a\n\xff\n"), encoding="utf-8")

    monkeypatch.setattr("tests.gym.cli.conftest.StringIO", standard_input)
    found = call("chat", "--model", str(base), "--json")
    assert [turn["prompt"] for turn in found.json["turns"]] == ["a", "\udcff"]


NUMBERS = [
    ("--temperature", "1e-38"),
    ("--temperature", "nan"),
    ("--temperature", "inf"),
    ("--seed", "-1"),
    ("--seed", str(2**63)),
    ("--max_new_tokens", "0"),
]


@pytest.mark.parametrize(("option", "value"), NUMBERS)
def test_a_number_out_of_its_range_is_refused_by_its_option(
    call: Call, base: Path, opened: list[Any], option: str, value: str
) -> None:
    found = call("chat", "--model", str(base), f"{option}={value}")
    assert (found.code, opened) == (2, [])
    assert f"error: {option}: expected" in found.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--top-k", "2"), "without --experience"),
        (("--top-k", "0", "--experience", "a"), "1 to 48"),
    ],
)
def test_a_number_of_lessons_without_effect_is_refused(
    words: tuple[str, ...], said: str, call: Call, base: Path
) -> None:
    told = call("chat", "--model", str(base), *words)
    assert (told.code, said in told.stderr) == (2, True)


def test_the_turns_are_printed_as_json(call: Call, base: Path, opened: list[Any]) -> None:
    found = call("chat", "--model", str(base), "--json", stdin="hello\n")
    assert found.stdout.count("\n") == 1
    assert found.json == {"turns": [{"prompt": "hello", "answer": "HELLO"}], "system": ""}


def test_the_options_reach_the_session(call: Call, base: Path, opened: list[Any]) -> None:
    words = [
        "--max-new-tokens",
        "3",
        "--temperature",
        "0.5",
        "--seed",
        "7",
        "--system",
        "Be brief.",
        "--template",
        "phi",
    ]
    call("chat", "--model", str(base), *words)
    assert opened == [
        {
            "base": base,
            "adapter": None,
            "delta": None,
            "max_new_tokens": 3,
            "temperature": 0.5,
            "seed": 7,
            "system": "Be brief.",
            "template": "phi",
        }
    ]


def test_an_adapter_brings_its_base(call: Call, base: Path, opened: list[Any]) -> None:
    Path("adapter").mkdir()
    config = f'{{"base_model_name_or_path": "{base}"}}'
    Path("adapter/adapter_config.json").write_text(config)
    assert call("chat", "--adapter_name_or_path", "adapter").code == 0
    assert (opened[0]["base"], opened[0]["adapter"]) == (base, Path("adapter"))


def test_a_run_brings_its_result(call: Call, opened: list[Any]) -> None:
    from zoo.gym.jobs import create_run

    run = create_run("model_name_or_path: zen-pico\ndataset: [a]\n", {})
    run.result.mkdir()
    assert call("chat", "--run", "last").code == 0
    assert (opened[0]["base"], opened[0]["adapter"]) == (run.result, None)


@pytest.mark.parametrize("words", [("--model", "zen-pico"), ("--run", "last")])
def test_a_chat_with_zen_pico_or_its_fine_tune_says_what_it_is(
    call: Call, base: Path, opened: list[Any], words: tuple[str, str]
) -> None:
    create_run("model_name_or_path: zen-pico\ndataset: [a]\n", {}).result.mkdir()
    assert f"zen-pico {CANNOT_CONVERSE}\n" in call("chat", *words).stderr
    assert CANNOT_CONVERSE not in call("chat", "--model", str(base)).stderr


def test_a_run_of_a_whole_model_takes_no_other_model(
    call: Call, base: Path, opened: list[Any]
) -> None:
    from zoo.gym.jobs import create_run

    run = create_run("model_name_or_path: zen-pico\ndataset: [a]\n", {})
    run.result.mkdir()
    for other in (str(base), "/nonexistent", ""):
        found = call("chat", "--run", "last", "--model", other)
        assert (found.code, opened) == (2, [])
        assert "--model: expected none with a run that trained a whole model" in found.stderr
    assert call("chat", "--run", "last", "--model", str(run.result)).code == 0


def test_a_model_without_a_name_is_not_taken_for_none(call: Call, opened: list[Any]) -> None:
    Path("adapter").mkdir()
    Path("adapter/adapter_config.json").write_text('{"base_model_name_or_path": "zen-pico"}')
    found = call("chat", "--adapter_name_or_path", "adapter", "--model", "")
    assert (found.code, opened) == (2, [])
    assert "--model: expected a model's name or folder, got nothing" in found.stderr


@pytest.fixture
def trained(call: Call) -> Any:
    """A run that was trained with a system prompt, and its result."""
    from zoo.gym.jobs import create_run
    from zoo.gym.train.result.origin import write_origin

    env = {"data": "0" * 64, "system_prompt": "Be a pirate."}
    run = create_run("model_name_or_path: zen-pico\ndataset: [a]\n", env)
    run.result.mkdir()
    (run.result / "adapter_config.json").write_text('{"base_model_name_or_path": "zen-pico"}')
    write_origin(run.result, run.env_file)
    return run


def test_a_chat_begins_with_the_system_prompt_of_the_training(
    call: Call, opened: list[Any], trained: Any
) -> None:
    found = call("chat", "--run", "last", "--json")
    assert (opened[0]["system"], found.json["system"]) == ("Be a pirate.", "Be a pirate.")
    assert "system prompt from training: 'Be a pirate.'" in found.stderr


@pytest.mark.parametrize("words", ["", "Be brief."])
def test_another_system_prompt_or_none_wins(
    call: Call, opened: list[Any], trained: Any, words: str
) -> None:
    found = call("chat", "--run", "last", "--system", words)
    assert opened[0]["system"] == words
    assert "system prompt" not in found.stderr


def test_a_result_that_was_moved_finds_the_words_in_its_run(
    call: Call, opened: list[Any], trained: Any
) -> None:
    trained.result.rename("moved")
    assert "pirate" not in Path("moved/zoo-gym.json").read_text()
    call("chat", "--adapter_name_or_path", "moved")
    assert opened[0]["system"] == "Be a pirate."


def test_a_result_far_from_its_run_says_that_words_are_missing(
    call: Call, opened: list[Any], trained: Any
) -> None:
    trained.result.rename("moved")
    trained.env_file.write_text("{}")
    found = call("chat", "--adapter_name_or_path", "moved")
    assert opened[0]["system"] == ""
    assert "trained with a system prompt that is not on this machine" in found.stderr


def test_a_chat_with_nothing_says_what_there_is(call: Call) -> None:
    hint = f"hint: zoo-gym chat --model zen-pico, which {CANNOT_CONVERSE}\n"
    assert hint in call("chat").stderr
    create_run("", {}).result.mkdir()
    create_run("", {})
    (Path("hub") / "models--org--tiny" / "snapshots").mkdir(parents=True)
    hint = call("chat").stderr.splitlines()[1]
    assert hint.startswith("hint: zoo-gym chat --run r0001 (the newest with a result), or zoo-gym ")
    assert hint.endswith("chat --model org/tiny (here: org/tiny)")


def test_a_model_is_sampled_as_its_files_say_unless_a_temperature_is_given(
    call: Call, base: Path, opened: list[Any]
) -> None:
    call("chat", "--model", str(base), stdin="a\n")
    call("chat", "--model", str(base), "--temperature", "0", stdin="a\n")
    assert [one["temperature"] for one in opened] == [None, 0.0]
