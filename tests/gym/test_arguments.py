"""The public Python functions, given arguments of another type, or two that exclude each other."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoo.gym
import zoo.gym.delta
from tests.codes import raises
from zoo.gym import (
    DeltaConfig,
    TrainConfig,
    apply_delta,
    check_delta,
    create_delta,
    load_delta,
    resolve,
)
from zoo.gym.arguments import number_of, path_of, whole_of
from zoo.gym.chat import open_chat
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.published.api import run_training

MADE: dict[str, Any] = {"base": "b", "base_id": "b", "out": "o"}


def chat(**options: Any) -> None:
    with open_chat("absent", **options):
        pass


@pytest.mark.parametrize(
    ("function", "arguments", "options", "sentence"),
    [
        (create_delta, [1], MADE, "source: expected a path, got 1"),
        (create_delta, ["a"], MADE | {"base": None}, "base: expected a path, got nothing"),
        (create_delta, ["a"], MADE | {"base_id": Path()}, "base_id: expected text, got a value of"),
        (
            create_delta,
            ["a"],
            MADE | {"config": {}},
            "config: expected DeltaConfig, got a map",
        ),
        (create_delta, ["a"], MADE | {"origin": "x"}, 'origin: expected Origin, got "x"'),
        (apply_delta, [""], {"base": "b", "out": "o"}, 'path: expected a path, got ""'),
        (apply_delta, ["a"], {"base": "b", "out": "o", "scaled": "1"}, "scaled: expected a number"),
        (check_delta, [["a"]], {}, "path: expected a path, got a list"),
        (
            check_delta,
            ["a"],
            {"quality": []},
            "quality: expected QualityInput, got an empty",
        ),
        (load_delta, [b"a"], {}, "path: expected a path, got a value of type bytes"),
        (resolve, [3], {}, "model: expected a name or a folder, got a value of type int"),
        (run_training, [{"dataset": "a"}], {}, "config: expected TrainConfig, got a mapping"),
        (chat, [], {"seed": 1.5}, "seed: expected a whole number, got 1.5"),
        (chat, [], {"seed": True}, "seed: expected a whole number, got true"),
        (chat, [], {"temperature": "1"}, 'temperature: expected a number, got "1"'),
        (chat, [], {"max_new_tokens": 2.0}, "max_new_tokens: expected a whole number, got 2"),
        (chat, [], {"system": 5}, "system: expected text, got 5"),
        (chat, [], {"adapter": "a", "delta": "d"}, "expected one of adapter and delta, got both"),
    ],
)
def test_an_argument_of_another_type_is_refused_in_a_sentence(
    function: Any, arguments: list[Any], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        function(*arguments, **options)


def test_text_is_taken_where_a_path_is_meant(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    for call in (
        lambda: create_delta(absent, base=absent, base_id="b", out=absent),
        lambda: apply_delta(absent, base=absent, out=absent),
        lambda: check_delta(absent),
        lambda: load_delta(absent),
        lambda: chat(adapter=absent),
        lambda: resolve(Path(absent)),
    ):
        with pytest.raises(NotAvailableError, match="absent"):
            call()


def test_numbers_of_numpy_are_numbers() -> None:
    assert (whole_of("n", np.int64(3)), number_of("x", np.float32(0.5))) == (3, 0.5)
    assert path_of("p", "a/b") == Path("a/b")


def test_a_path_is_taken_where_settings_mean_one() -> None:
    several = TrainConfig(model_name_or_path=Path("m/x"), dataset=(Path("a,b"), "c"))
    assert (several.model_name_or_path, several.dataset) == ("./m/x", ("a,b", "c"))
    one: Any = {"model_name_or_path": Path("/m"), "dataset": Path("a,b"), "output_dir": Path("o")}
    config = TrainConfig(**one)
    assert (config.model_name_or_path, config.dataset, config.output_dir) == ("/m", ("a,b",), "o")


def test_settings_that_contradict_each_other_are_told_in_sentences() -> None:
    with raises("config.invalid") as caught:
        TrainConfig(
            model_name_or_path="m",
            dataset=("a",),
            finetuning_type="full",
            dtype="bf16",
            val_size=1.5,
        )
    assert "dtype: has no effect with finetuning_type full, which trains" in str(caught.value)
    assert "val_size: expected a share below 1 or a whole number of rows" in str(caught.value)


WRONG = [
    (DeltaConfig, {"planes": 9}, "planes: expected 1 to 8, got 9"),
    (DeltaConfig, {"codecs": "sign"}, "codecs: no such setting. Did you mean 'codec'?"),
    (DeltaConfig, {"bits": "2"}, 'bits: expected 1, 2, 4 or 8, got "2"'),
    (TrainConfig, {"learningrate": 1}, "learningrate: no such setting. Did you mean 'learning_r"),
    (TrainConfig, {"model": "m"}, "model: no such setting. Did you mean 'model_name_or_path'?"),
    (TrainConfig, {"max_steps": "many"}, 'max_steps: expected a whole number, got "many"'),
    (TrainConfig, {}, "model_name_or_path: not given"),
]


@pytest.mark.parametrize(("model", "values", "sentence"), WRONG)
def test_wrong_settings_are_refused_in_sentences(
    model: Any, values: dict[str, Any], sentence: str
) -> None:
    with raises("config.invalid") as caught:
        model(**values)
    assert sentence in caught.value.message


def test_a_setting_is_not_changed_in_place() -> None:
    config = DeltaConfig()
    with raises("config.immutable", "planes: settings are immutable") as caught:
        config.planes = 2  # type: ignore[misc]
    own = "settings.model_dump(exclude_unset=True)"
    assert caught.value.hint == f"DeltaConfig(**({own} | {{'planes': 2}}))"


def test_what_create_delta_takes_is_exported_beside_it() -> None:
    assert zoo.gym.DeltaConfig is zoo.gym.delta.DeltaConfig
