"""Answers to prompts of the data: which are asked, what is reported, and when it is an alarm."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from zoo.gym import RunResult, TrainConfig, run_training
from zoo.gym.data import EncodeOptions, Message, Record, load_tokenizer
from zoo.gym.data.rows import encode_row, make_encoder, prompt_ids
from zoo.gym.train.answers import Answered, Probe, alarms_of, draw_probes, learned_sentence
from zoo.models import resolve

ENCODER = make_encoder(load_tokenizer(resolve("zen-pico").folder), EncodeOptions(128))


def chat(question: str, answer: str, *more: Message) -> Record:
    turns = (Message("user", question), Message("assistant", answer), *more)
    return Record("rows:1", "chat", messages=turns)


def probes_of(*records: Record) -> tuple[Probe, ...]:
    return draw_probes(records, ENCODER, held_out=True)


def test_a_prompt_is_what_stands_before_the_first_learned_token() -> None:
    row = chat("Say A.", "A it is", Message("user", "And B?"), Message("assistant", "B"))
    [probe] = probes_of(row)
    ids = encode_row(ENCODER, row).ids
    assert list(probe.ids) == ids[: len(probe.ids)] == prompt_ids(ENCODER, row.messages[:1])
    assert (probe.prompt, probe.expected, probe.ends) == ("Say A.", "A it is", True)


def test_a_turn_that_is_not_learned_belongs_to_the_prompt() -> None:
    first = Message("assistant", "no", learned=False)
    turns = (Message("user", "a"), first, Message("user", "b"), Message("assistant", "yes"))
    [probe] = probes_of(Record("rows:1", "chat", messages=turns))
    assert (probe.prompt, probe.expected) == ("b", "yes")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (Record("r", "completion", prompt="a", completion="b"), "b"),
        (Record("r", "pair", sides=(chat("a", "good"), chat("a", "bad"))), "good"),
        (Record("r", "rated", sides=(chat("a", "b"),), good=True), "b"),
        (Record("r", "rated", sides=(chat("a", "b"),), good=False), ""),
        (Record("r", "prompt", prompt="a", answer=7), "7"),
        (Record("r", "prompt", prompt="a"), ""),
    ],
)
def test_what_the_data_answers_is_expected(record: Record, expected: str) -> None:
    [probe] = probes_of(record)
    assert (probe.prompt, probe.expected) == ("a", expected)


def test_texts_have_no_prompts_and_equal_prompts_are_asked_once() -> None:
    assert probes_of(Record("r", "text", text="Once upon a time")) == ()
    assert len(probes_of(chat("a", "b"), chat("a", "c"), chat("d", "e"))) == 2


def test_a_prompt_without_room_for_an_answer_is_not_asked() -> None:
    assert probes_of(chat("a b " * 100, "c")) == ()


def answered(texts: Sequence[str], *, ended: bool = True, expected: str = "") -> list[Answered]:
    return [
        Answered(Probe((1, n), f"{n}", expected or f"{n}", True, False), text, ended)
        for n, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("answers", "alarm"),
    [
        (answered([""] * 2 + list("abcdefgh")), "2 of 10 answers to prompts of the data are empty"),
        (answered(["x"] * 5 + list("abcde")), "5 of 10 different prompts"),
        (answered(list("abcdefghij"), ended=False), "none of 10 answers ends by itself"),
    ],
)
def test_answers_that_are_none_are_an_alarm(answers: list[Answered], alarm: str) -> None:
    [text] = alarms_of(answers)
    assert alarm in text


@pytest.mark.parametrize(
    "answers",
    [
        answered([str(n) for n in range(10)]),
        answered(["yes"] * 10, expected="yes"),  # as the data says
        answered([""] * 9),  # too few to tell
    ],
)
def test_other_answers_are_none(answers: list[Answered]) -> None:
    assert list(alarms_of(answers)) == []


def test_only_whole_answers_count_as_learned() -> None:
    found = answered(["0", "1 1", "2", ""])
    assert learned_sentence(found).endswith("data: 2 of 4 learned prompts")


def test_data_without_answers_has_none_to_compare_with() -> None:
    answers = [Answered(Probe((1, 2), "a", "", ends=False, held_out=False), "b", ended=True)]
    assert learned_sentence(answers) == "answers are not compared with the data"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def events(result: RunResult) -> list[dict[str, Any]]:
    lines = (result.folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == "answers"]


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_a_run_reports_answers_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"prompt": f"Say {n}.", "completion": f"{n} it is"} for n in range(12)]
    given = {"max_steps": 2, "eval_steps": 1, "val_size": 2, "learning_rate": 1e-2}
    monkeypatch.setattr("zoo.gym.train.answers.ASKING_SHARE", 1e9)
    result = run_training(TrainConfig(model_name_or_path="zen-pico", dataset=rows, **given))
    first, second, last = events(result)
    assert (first["step"], second["step"], "message" in last) == (1, 2, True)
    assert [each["held_out"] for each in last["answers"]] == [True, True, False, False]
    assert last["answers"][0].keys() == {"prompt", "held_out", "expected", "before", "now"}
    stored = json.loads((result.folder / "answers.json").read_text())["before"]
    assert [each["before"] for each in first["answers"]] == stored
    assert any(each["now"] != each["before"] for each in last["answers"])


def test_the_alarm_of_endless_answers_names_an_end_that_an_adapter_cannot_raise() -> None:
    [text] = alarms_of(answered(list("abcdefghij"), ended=False), ": 3 other tokens")
    assert text.endswith("as those of the data do: 3 other tokens")
