"""Settings made in Python: what they accept, and one error for each way of making them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Self

import pytest
from pydantic import field_validator, model_validator

from tests.codes import raises
from zoo.gym import DeltaConfig, TrainConfig
from zoo.gym.config import load_config
from zoo.gym.config.stages import METHODS
from zoo.gym.train.methods.sft import Supervised

ROWS = [{"prompt": "a", "completion": "b"}, {"prompt": "c", "completion": "d"}]
NEEDED: dict[str, Any] = {"model_name_or_path": "m", "dataset": "my.jsonl"}


class Iterable:
    """Rows, or names, that are neither a list nor a generator, as those of `datasets`."""

    def __init__(self, *entries: object) -> None:
        self.entries = entries

    def __iter__(self) -> Iterator[object]:
        return iter(self.entries)


def settings(**given: Any) -> TrainConfig:
    return TrainConfig(**(NEEDED | given))


def test_paths_texts_and_rows_have_the_static_types_that_are_accepted() -> None:
    """The type checker reads this test."""
    assert TrainConfig(model_name_or_path=Path("/m"), dataset=Path("a")).dataset == ("a",)
    assert TrainConfig(model_name_or_path="m", dataset="a,b").dataset == ("a", "b")
    assert TrainConfig(model_name_or_path="m", dataset=["a", Path("b")]).dataset == ("a", "b")
    assert TrainConfig(model_name_or_path="m", dataset=("a", "b")).dataset == ("a", "b")
    assert TrainConfig(model_name_or_path="m", dataset=ROWS, seed=1).rows == tuple(ROWS)
    assert TrainConfig(model_name_or_path="m", dataset=(row for row in ROWS)).rows == tuple(ROWS)


@pytest.mark.parametrize("kind", [list, tuple, iter, lambda rows: Iterable(*rows)])
def test_rows_are_accepted_from_anything_that_yields_them(kind: Callable[..., object]) -> None:
    config = settings(dataset=kind(ROWS))
    assert (config.rows, config.dataset) == (tuple(ROWS), ("(rows given in Python)",))
    assert settings(dataset=kind(ROWS)) == config


def test_a_generator_of_files_is_read_in_its_order() -> None:
    assert settings(dataset=(name for name in ["b", Path("a")])).dataset == ("b", "a")


REFUSED = [
    (
        [ROWS[0], "file.jsonl"],
        'expected only files or only rows, got a row (entry 1) and "file.jsonl" (entry 2)',
    ),
    (
        [Path("a"), "b", ROWS[0]],
        "expected only files or only rows, got a row (entry 3) and a (entry 1)",
    ),
    (iter([ROWS[0], 3]), "expected only files or only rows, got a row (entry 1) and 3 (entry 2)"),
    (iter([]), "expected at least one file, got an empty list"),
    ({"prompt": ["a"], "n": []}, "expected a file or a list of files, got a mapping"),
    ({"a", "b"}, "expected a file or a list of files, got {"),
    (Iterable("a", "b"), "expected a file or a list of files, got <"),
]


@pytest.mark.parametrize(("dataset", "sentence"), REFUSED)
def test_data_of_another_type_is_refused(dataset: object, sentence: str) -> None:
    with raises("config.invalid") as caught:
        settings(dataset=dataset)
    assert caught.value.message.startswith(f"dataset: {sentence}")


def test_a_copy_with_files_has_no_rows_and_one_with_rows_has_them() -> None:
    given = settings(dataset=ROWS)
    assert given.model_copy(update={"dataset": ("a",)}).rows == ()
    assert given.model_copy(update={"dataset": iter(ROWS[:1])}).rows == (ROWS[0],)
    assert given.model_copy(update={"seed": 1}).rows == tuple(ROWS)


WAYS = [
    lambda kind, given: kind(**given),
    lambda kind, given: kind.model_validate(given),
    lambda kind, given: kind.model_validate_json(json.dumps(given)),
    lambda kind, given: kind.model_validate_strings(given),
]


@pytest.mark.parametrize("make", WAYS)
def test_every_way_of_making_settings_gives_the_same_error(make: Callable[..., Any]) -> None:
    for kind, wrong, sentence in (
        (
            TrainConfig,
            NEEDED | {"lora_rnk": "4"},
            "lora_rnk: no such setting. Did you mean 'lora_rank'?",
        ),
        (
            TrainConfig,
            NEEDED | {"dtype": "bf16", "finetuning_type": "full"},
            "dtype: has no effect",
        ),
        (TrainConfig, {"dataset": "a"}, "model_name_or_path: not given"),
        (DeltaConfig, {"scal": "row"}, "scal: no such setting. Did you mean 'scale'?"),
    ):
        with raises("config.invalid") as caught:
            make(kind, wrong)
        assert caught.value.message.startswith(sentence)


@pytest.mark.parametrize("make", WAYS)
def test_every_way_of_making_settings_gives_those_of_the_method(make: Callable[..., Any]) -> None:
    assert make(TrainConfig, NEEDED | {"seed": "3"}) == settings(seed=3)
    assert type(make(TrainConfig, NEEDED)) is type(settings()) is not TrainConfig


@pytest.mark.parametrize("make", WAYS[:3])
def test_every_way_of_making_settings_accepts_rows(make: Callable[..., Any]) -> None:
    assert make(TrainConfig, NEEDED | {"dataset": ROWS}) == settings(dataset=ROWS)


def test_values_that_are_no_settings_are_refused() -> None:
    with raises("config.invalid", "settings: expected names with values, got 3"):
        TrainConfig.model_validate(3)
    with raises("config.not_json"):
        TrainConfig.model_validate_json("{broken")
    assert TrainConfig.model_validate(settings()) == settings()


class Checked(TrainConfig, frozen=True):
    """Settings with pydantic's own validators, as a method may have."""

    stage: Literal["checked"] = "checked"
    low: int = 1
    high: int = 2

    @field_validator("low")
    @classmethod
    def _is_small(cls, value: int) -> int:
        if value > 9:
            raise ValueError(f"expected at most 9, got {value}")
        return value

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low: expected at most high {self.high}, got {self.low}")
        return self


class CheckedMethod(Supervised):
    config = Checked  # type: ignore[assignment] # other settings than those of its base


VALIDATED = [
    ({"low": 12}, "low: expected at most 9, got 12"),
    ({"low": 5}, "settings: low: expected at most high 2, got 5"),
]


@pytest.mark.parametrize(("given", "text"), VALIDATED)
def test_a_validator_of_a_method_reports_its_own_text(
    given: dict[str, int], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "checked", f"{__name__}:CheckedMethod")
    with raises("config.invalid") as raised:
        settings(stage="checked", **given)
    assert str(raised.value) == text
    with raises("config.invalid") as raised:
        load_config([], [], NEEDED | {"stage": "checked", **given})
    assert str(raised.value) == (f"--{text}" if text.startswith("low") else text)


@pytest.mark.parametrize("stage", ["nonsense", 3, None])
def test_a_stage_that_does_not_exist_is_refused_in_every_way_of_making_settings(
    stage: object,
) -> None:
    given = NEEDED | {"stage": stage}
    ways: tuple[Callable[[], TrainConfig], ...] = (
        lambda: TrainConfig(**given),
        lambda: TrainConfig.model_validate(given),
        lambda: TrainConfig.model_validate_json(json.dumps(given)),
    )
    for make in ways:
        with raises("config.invalid", r"stage: expected .*sft.*dpo"):
            make()
