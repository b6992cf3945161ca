"""The settings that are searched, and their ranges: `learning_rate=1e-4..1e-2`, `lora_rank=4,8,16`.

A range of whole numbers or numbers has two ends; from 100 times the lower end on it is searched on
a logarithmic scale. Choices are separated by commas. Settings that change what is measured are
refused: their figures could not be compared.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union, cast, get_args, get_origin

from zoo.gym.config.items import value_text
from zoo.gym.config.load import ours
from zoo.gym.config.report import nearest
from zoo.gym.config.stages import METHODS, all_fields, config_class, load_method, stages_with
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    from optuna.trial import Trial

Value: TypeAlias = bool | int | float | str

LOG_FROM = 100
"""From this ratio of its ends on, a range is searched on a logarithmic scale."""

MEASURED_BY = frozenset(
    (
        *("dataset", "eval_dataset", "val_size", "max_samples", "columns", "me", "dataset_dir"),
        "mix_strategy",
        *("model_name_or_path", "stage", "cutoff_len", "template", "think", "append_eos", "date"),
        *("split_special_tokens", "reward", "eval_steps", "max_completion_length"),
    )
)
"""Settings that decide what is measured, and when."""

WITHOUT_CHANGE = frozenset(
    (
        *("output_dir", "overwrite_output_dir", "report_to", "offline", "backend", "seed"),
        *("save_steps", "save_total_limit", "save_only_model", "retention", "sharding"),
        *("gradient_checkpointing", "activation_offloading", "stream_layers", "num_processes"),
    )
)
"""Settings that do not change what a run learns, or only by chance."""

_RANGE = re.compile(r"(?P<low>[^.].*?|\.\d.*?)\.\.(?P<high>.+)", re.DOTALL)


@dataclass(frozen=True)
class Range:
    """The values of a setting that are tried.

    Attributes:
        key: the setting.
        kind: whole numbers or numbers between two ends, or choices.
        low: the least number.
        high: the largest number.
        log: whether numbers are drawn on a logarithmic scale.
        choices: the values of a choice.
    """

    key: str
    kind: Literal["int", "float", "choice"]
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[Value, ...] = ()

    @property
    def ends(self) -> tuple[Value, ...]:
        """The values that are checked before the first trial: both ends, or every choice."""
        if self.kind == "choice":
            return self.choices
        ends = (self.low, self.high)
        return tuple(map(int, ends)) if self.kind == "int" else ends

    @property
    def in_words(self) -> str:
        """The range for people."""
        if self.kind == "choice":
            return "one of " + ", ".join(map(value_text, self.choices))
        scale = ", on a logarithmic scale" if self.log else ""
        return f"{self.low:g} to {self.high:g}{scale}"

    def suggest(self, trial: "Trial") -> Value:
        """Returns the value of a trial."""
        if self.kind == "choice":
            return cast("Value", trial.suggest_categorical(self.key, list(self.choices)))
        if self.kind == "int":
            return trial.suggest_int(self.key, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.key, self.low, self.high, log=self.log)

    def as_json(self) -> dict[str, Any]:
        """Returns the range for the file of a study."""
        return asdict(self) | {"choices": list(self.choices)}


def split_ranges(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Returns the texts of ranges by key, and the other words.

    Raises:
        InputError: a key is given twice.
    """
    texts: dict[str, str] = {}
    rest: list[str] = []
    for word in words:
        name, equals, text = word.partition("=")
        key = ours(name)
        is_range = bool(equals) and (_is_range(key, text) or _is_choice(key, text))
        if not is_range:
            rest.append(word)
        elif key in texts:
            raise InputError(
                f"{word}: expected each setting once, got {key} again", code="tune.given_twice"
            )
        else:
            texts[key] = text
    return texts, rest


def _is_range(key: str, text: str) -> bool:
    """Returns whether a text has two ends; a path may have `..` in it."""
    if key in all_fields() and _kind(key) == "other":
        return False
    return _RANGE.fullmatch(text) is not None


def _is_choice(key: str, text: str) -> bool:
    """Returns whether a list is one of choices: of a setting whose own values have no commas."""
    return "," in text and key != "report_to" and _kind(key) != "other"


def parse_ranges(texts: Mapping[str, str], stage: str) -> tuple[Range, ...]:
    """Returns the ranges of settings.

    Args:
        texts: what the user wrote, by key.
        stage: the method, which has the settings.

    Raises:
        InputError: there is none, no such setting, or one that cannot be searched; an end is no
            number, or they are the wrong way round.
    """
    if not texts:
        raise InputError(
            "tune: expected at least one setting with a range, got none",
            hint="learning_rate=1e-4..1e-2, or lora_rank=4,8,16",
            code="tune.no_ranges",
        )
    return tuple(_parsed(key, text, stage) for key, text in texts.items())


def _parsed(key: str, text: str, stage: str) -> Range:
    _refuse_key(key, stage)
    kind = _kind(key)
    match = _RANGE.fullmatch(text)
    if match is None:
        parts = [part.strip() for part in text.split(",")]
        choices = tuple(_value(key, part, kind) for part in parts)
        if len(set(choices)) < len(choices) or len(choices) < 2:
            raise InputError(
                f"{key}: expected different choices, got {text}", code="tune.bad_range"
            )
        return Range(key, "choice", choices=choices)
    if kind not in {"int", "float"}:
        raise InputError(
            f"{key}: expected choices separated by commas, got the range {text}",
            code="tune.bad_range",
        )
    low, high = (float(_value(key, match[end], kind)) for end in ("low", "high"))
    if low >= high:
        raise InputError(
            f"{key}: expected the lower end first, got {match['low']}..{match['high']}",
            code="tune.bad_range",
        )
    scale = low > 0 and high / low >= LOG_FROM
    return Range(key, "int" if kind == "int" else "float", low, high, log=scale)


def _refuse_key(key: str, stage: str) -> None:
    fields = config_class(stage).model_fields
    if key not in fields:
        near = nearest(key, fields)
        mean = f". Did you mean '{near}'?" if near else ""
        of = f" of stage {stage}" if key in all_fields() else ""
        raise InputError(f"{key}: no such setting{of}{mean}", code="tune.no_such_setting")
    if key in WITHOUT_CHANGE:
        raise InputError(
            f"{key}: expected a setting that changes what is learned", code="tune.not_searched"
        )
    of_loss = load_method(stage).decides == "loss" and len(stages_with(key)) < len(METHODS)
    if key in MEASURED_BY or of_loss:
        raise InputError(
            f"{key}: expected a setting that leaves the measurement alone: trials with different"
            " values could not be compared",
            code="tune.not_searched",
        )


def _kind(key: str) -> str:
    """Returns the kind of a setting's values: int, float, bool, names or another."""
    field = all_fields().get(key)
    if field is None:
        return "other"
    kinds = [kind for kind in _types(field.annotation) if kind is not NoneType]
    for kind, name in ((bool, "bool"), (float, "float"), (int, "int")):
        if kind in kinds:
            return name
    return "names" if kinds and all(get_origin(kind) is Literal for kind in kinds) else "other"


def _types(annotation: Any) -> list[Any]:  # noqa: ANN401 - any type expression
    if hasattr(annotation, "__metadata__"):
        return _types(annotation.__origin__)
    if get_origin(annotation) in (Union, UnionType):
        return [kind for part in get_args(annotation) for kind in _types(part)]
    return [annotation]


def _value(key: str, text: str, kind: str) -> Value:
    """Returns an end or a choice; what the setting allows is checked with the others."""
    if kind == "bool" and text in {"true", "false"}:
        return text == "true"
    if kind == "names":
        return text
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    whole = kind == "int"
    if kind not in {"int", "float"} or not math.isfinite(number) or (whole and number % 1):
        words = {"int": "whole numbers", "float": "numbers", "bool": "true,false"}
        expected = words.get(kind, "a setting with numbers or names")
        raise InputError(f"{key}: expected {expected}, got {text!r}", code="tune.bad_range")
    return int(number) if whole else number
