"""`TrainingFreeGRPO`: the published names, with a function as the reward."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import usage_of
from tests.codes import raises
from tests.gym.experience.causal import TRUE, tasks
from tests.gym.experience.conftest import Served
from zoo.gym import ExperienceLibrary, GRPOConfig, InputError, TrainingFreeGRPO
from zoo.gym.errors import GymWarning
from zoo.gym.experience.providers.table import change_provider
from zoo.gym.experience.session import read_settings, replay
from zoo.gym.jobs import open_run, read_status

pytestmark = pytest.mark.filterwarnings("ignore::zoo.core.errors.GymWarning")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def right(query: str, response: str, answer: int) -> float:
    return float(response == f"used strategy-{answer}")


ROWS = {
    "prompt": [one.messages[0].content for one in tasks(64, 0)],
    "answer": [one.answer for one in tasks(64, 0)],
}


def quick(**more: Any) -> GRPOConfig:
    return GRPOConfig(**({"max_epochs": 1, "max_new_tokens": 16} | more))


@pytest.mark.slow
def test_lessons_are_learned_from_columns_and_used(served: Served) -> None:
    trainer = TrainingFreeGRPO(served.model, quick())
    experiences = trainer.train(ROWS, right)
    assert 4 <= len(experiences) <= 12
    assert experiences.verdict == experiences.library.evidence["verdict"]
    answers = [trainer.infer("TASK family-3 item-9999", experiences) for _ in range(3)]
    assert f"used strategy-{TRUE[3]}" in answers
    sent = served.server.requests[-1]
    assert sent["messages"][0] == {"role": "system", "content": str(experiences)}
    assert (sent["temperature"], sent["max_tokens"]) == (0.3, 16)
    assert read_status(open_run(experiences.run)).state == "done"
    experiences.save("mine.json")
    assert ExperienceLibrary.load("mine.json").lessons == experiences.lessons


@pytest.mark.slow
def test_a_cap_in_tokens_and_a_name_are_those_of_the_run(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    small = TrainingFreeGRPO(served.model, quick(), max_tokens=200, name="parcels")
    with raises("experience.cap_reached", "the cap of 200 tokens is reached"):
        small.train(ROWS, right)
    enough = TrainingFreeGRPO(served.model, quick(group_size=2), max_tokens=10**7, name="parcels")
    found = enough.train(ROWS, lambda query, response: 0.0)
    assert f"run {found.run}: nothing kept, 0 lessons" in capsys.readouterr().err
    assert read_settings(open_run(found.run)).name == "parcels"
    with raises("experience.library_name") as caught:
        TrainingFreeGRPO(served.model, name="../up")
    assert caught.value.code == "experience.library_name"


def ask_often(trainer: TrainingFreeGRPO) -> None:
    for _ in range(100):
        trainer.infer("TASK family-3 item-1")


@pytest.mark.slow
def test_a_cap_is_one_on_all_calls_of_a_trainer(served: Served) -> None:
    few = [{"prompt": "TASK family-1 item-1", "answer": 1}]
    trainer = TrainingFreeGRPO(served.model, quick(group_size=2), max_tokens=700)
    found = trainer.train(few, lambda query, response: 0.0)
    assert found.metrics["prompt_tokens"] > 0
    with raises("experience.cap_reached", "the cap of 700 tokens is reached") as error:
        ask_often(trainer)
    assert error.value.hint == "a trainer with a higher max_tokens, or a lower max_new_tokens"
    bodies = list(served.server.requests)
    assert sum(usage_of(body, "")["total_tokens"] for body in bodies) <= 700
    with raises("experience.cap_reached", "the cap of 700 tokens is reached"):
        trainer.train(few, lambda query, response: 0.0)
    assert served.server.requests == bodies


@pytest.mark.slow
def test_a_teacher_without_a_price_takes_no_cap_away(served: Served) -> None:
    prices = {"world": {"input": 9000, "output": 9000, "date": "2026-01-01"}}
    change_provider("home", {"url": served.server.url, "prices": prices})
    trainer = TrainingFreeGRPO("home/world", quick(group_size=2), teacher=served.model)
    with raises("experience.cap_reached", r"the cap of 5\.00 USD") as caught:
        trainer.train(ROWS, right)
    assert caught.value.code == "experience.cap_reached"
    with raises("experience.cap_reached", r"the cap of 5\.00 USD") as caught:
        ask_often(trainer)
    assert caught.value.code == "experience.cap_reached"


def test_an_answer_without_lessons_has_a_bare_prompt(served: Served) -> None:
    TrainingFreeGRPO(served.model).infer("TASK family-3 item-1")
    assert [turn["role"] for turn in served.server.requests[0]["messages"]] == ["user"]


def test_the_temperatures_and_the_group_reach_the_server(served: Served) -> None:
    config = quick(group_size=2, temperature_train=0.9, temperature_eval=0.1)
    TrainingFreeGRPO(served.model, config).train(
        [{"prompt": "TASK family-1 item-1", "answer": 1}], lambda query, response: 0.0
    )
    assert [body["temperature"] for body in served.server.requests] == [0.9, 0.9]


@pytest.mark.parametrize(
    "settings",
    [
        {"beta": 0.2},
        {"clip_range": 0.3},
        {"normalize_advantages": False},
        {"learning_rate": 1e-5},
        {"max_steps": 3},
        {"max_epochs": 1.5},
    ],
    ids=str,
)
def test_a_setting_of_weights_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(settings))):
        TrainingFreeGRPO("deepseek/m", GRPOConfig(**settings))


def test_without_a_key_nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    with raises("experience.no_price") as caught:
        TrainingFreeGRPO("deepseek/m").train(ROWS, right)
    assert caught.value.code == "experience.no_price"
    with raises("experience.no_key", "DEEPSEEK_API_KEY") as no_key:
        TrainingFreeGRPO("deepseek/m").infer("hello")
    assert no_key.value.code == "experience.no_key"


def broken(query: str, response: str) -> float:
    raise ValueError("no idea")


def no_number(query: str, response: str) -> float:
    return float("nan")


@pytest.mark.slow
@pytest.mark.parametrize("reward", [broken, no_number])
def test_a_reward_that_fails_is_a_sentence_and_the_answers_stay(
    reward: Callable[[str, str], float], served: Served
) -> None:
    trainer = TrainingFreeGRPO(served.model, quick(group_size=2))
    with raises("experience.no_rewards", "none of 64 answers") as caught:
        trainer.train(ROWS, reward)
    assert caught.value.code == "experience.no_rewards"
    run = open_run("last")
    assert (run.folder / "journal.jsonl").read_text().count('"got"') == 64


def test_few_rows_are_warned_about(served: Served) -> None:
    trainer = TrainingFreeGRPO(served.model, quick(group_size=2))
    with pytest.warns(GymWarning, match="2 tasks: too few for a gate"):
        found = trainer.train(
            [{"prompt": one.messages[0].content} for one in tasks(2, 0)], lambda query, response: 0
        )
    assert (len(found), found.verdict) == (0, "nothing kept")


@pytest.mark.slow
def test_a_model_of_this_machine_answers_in_this_process() -> None:
    rows = [{"prompt": f"Say {n}."} for n in range(3)]
    trainer = TrainingFreeGRPO("zen-pico", quick(group_size=2, max_new_tokens=3))
    found = trainer.train(rows, lambda query, response: len(response) % 2)
    assert found.metrics["calls"] >= 6
    assert found.metrics["completion_tokens"] >= 6
    assert replay(open_run(found.run)).same
    assert trainer.infer("Say 1.") == trainer.infer("Say 1.")
