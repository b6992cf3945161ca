"""The client's chat: the calls of OpenAI's client, answered in this process."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.delta.lora import write_random_adapter
from zoo.gym import TrainConfig, create_delta, generate, run_training
from zoo.gym.client import Client
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.variants import store
from zoo.models import pico_folder, resolve

ROWS: Any = [{"prompt": f"Say {n}.", "completion": f"It is {n}."} for n in range(8)]
ASKED: Any = [{"role": "user", "content": "Say 2."}]
GREEDY: Any = {"messages": ASKED, "temperature": 0, "max_tokens": 8}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client()
    yield client
    client.chat.completions.close()


def test_a_base_and_the_variant_of_a_user_answer_as_generate_does(
    client: Client, tmp_path: Path
) -> None:
    adapter = write_random_adapter(tmp_path / "lora")
    delta = create_delta(adapter, base=pico_folder(), out=tmp_path / "ann.safetensors").file
    store.put(delta, resolve("zen-pico", offline=True), "ann")
    create = client.chat.completions.create
    plain = create(model="zen-pico", **GREEDY)
    assert plain.object == "chat.completion"
    assert plain.usage.completion_tokens > 0
    expected = [
        generate("zen-pico", ["Say 2."], max_new_tokens=8, delta=each)[0] for each in (None, delta)
    ]
    variant = create(model="zen-pico", user_id="ann", **GREEDY)
    assert [each.choices[0].message.content for each in (plain, variant)] == expected
    assert create(model="zen-pico:ann", **GREEDY).choices[0].message.content == expected[1]
    assert expected[0] != expected[1]


def test_the_name_of_a_method_is_its_newest_run(client: Client) -> None:
    def train(rate: float) -> Path:
        config = TrainConfig(
            model_name_or_path="zen-pico",
            dataset=ROWS,
            max_steps=1,
            learning_rate=rate,
            warmup_ratio=0,
            val_size=0,
        )
        return run_training(config).model

    create = client.chat.completions.create
    answers = []
    for adapter in (train(0.01), train(0.05)):
        (expected,) = generate("zen-pico", ["Say 2."], adapter=adapter, max_new_tokens=8)
        answers.append(expected)
    assert create(model="zen-pico-sft", **GREEDY).choices[0].message.content == answers[1]
    assert create(model="r0001", **GREEDY).choices[0].message.content == answers[0]
    assert answers[0] != answers[1]
    with raises("serving.no_such_model", "expected one of this server, got 'zen-pico-dpo'"):
        create(model="zen-pico-dpo", **GREEDY)


def test_names_that_end_as_methods_do_are_variants_and_bases(
    client: Client, tmp_path: Path
) -> None:
    adapter = write_random_adapter(tmp_path / "lora")
    delta = create_delta(adapter, base=pico_folder(), out=tmp_path / "ann.safetensors").file
    store.put(delta, resolve("zen-pico", offline=True), "ann-sft")
    base = shutil.copytree(pico_folder(), tmp_path / "mine-dpo")
    create = client.chat.completions.create
    for model, change in (("zen-pico:ann-sft", delta), (str(base), None)):
        (expected,) = generate("zen-pico", ["Say 2."], max_new_tokens=8, delta=change)
        assert create(model=model, **GREEDY).choices[0].message.content == expected


def test_threads_that_ask_different_bases_are_all_answered(client: Client, tmp_path: Path) -> None:
    base = shutil.copytree(pico_folder(), tmp_path / "copy")
    models = ["zen-pico", str(base)] * 4

    def ask(model: str) -> str:
        answer = client.chat.completions.create(model=model, **GREEDY)
        return str(answer.choices[0].message.content)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, models))
    assert answers == generate("zen-pico", ["Say 2."], max_new_tokens=8) * 8


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"stream": True}, InputError, "stream: expected none"),
        ({"max_tokns": 3}, InputError, "max_tokns"),
        ({"stop": {"a"}}, InputError, "request: expected text, numbers"),
        ({"messages": []}, InputError, "messages"),
        ({"model": "no-such"}, NotAvailableError, "no-such"),
        ({"user_id": "eve"}, NotAvailableError, "eve"),
    ],
    ids=lambda each: str(each)[:20],
)
def test_what_cannot_be_answered_is_refused(
    client: Client, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    asked: dict[str, Any] = {"model": "zen-pico", **GREEDY, **fields}
    with pytest.raises(error, match=message) as caught:
        client.chat.completions.create(**asked)
    assert "/v1" not in str(getattr(caught.value, "hint", None))
