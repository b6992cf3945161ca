"""The settings of each kind of reward, as frozen models, and the table of kinds."""

import re
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from zoo.gym.config.settings import Settings
from zoo.gym.config.values import refuse_bool

Whole = Annotated[int, BeforeValidator(refuse_bool)]
Number = Annotated[float, BeforeValidator(refuse_bool)]


def _is_regex(pattern: str) -> str:
    """Refuses what is no regular expression."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        text = f"not a regular expression: {error}"
        faults = {"pattern": text}
        raise PydanticCustomError("disagree", "{text}", {"text": text, "faults": faults}) from None
    return pattern


class RewardSettings(Settings, frozen=True):
    """What every reward has."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: ClassVar[str] = ""
    """The name of the kind in settings."""

    models: ClassVar[tuple[str, ...]] = ()
    """The settings that name a model."""

    places: ClassVar[tuple[str, ...]] = ()
    """The settings that may contain a path: these, and an adapter or the file of a function."""

    weight: Number = Field(
        default=1.0,
        description="what its value is multiplied by in a sum of rewards",
    )
    name: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9_.-]{0,40}$",
        description="its name in logs and charts; by default that of the kind",
    )

    @property
    def label(self) -> str:
        """The name of the reward in logs and charts."""
        return self.name or self.kind

    @property
    def file(self) -> str:
        """The file of a function, or the adapter of a judge; empty without any."""
        return ""


class AutoSettings(RewardSettings, frozen=True):
    """The reward that fits the rows."""

    kind: ClassVar[str] = "auto"


class ExactSettings(RewardSettings, frozen=True):
    """The final answer as text."""

    kind: ClassVar[str] = "exact"

    part: Literal["answer", "whole"] = Field(
        default="answer",
        description="what is compared: the final answer, or the whole response after its reasoning",
    )
    ignore_case: bool = Field(default=True, description="upper and lower case are the same")


class NumericSettings(RewardSettings, frozen=True):
    """The last number of the answer."""

    kind: ClassVar[str] = "numeric"

    tolerance: Number = Field(
        default=1e-6,
        ge=0,
        le=1,
        description="the largest difference that counts as equal, relative to the row's number;"
        " a row of 0 is compared exactly",
    )


class AnswerSettings(RewardSettings, frozen=True):
    """The answer of each row, as a number where it is one and as text elsewhere."""

    kind: ClassVar[str] = "answer"


class FunctionSettings(RewardSettings, frozen=True):
    """A function of the user's, from a file or a module."""

    kind: ClassVar[str] = "function"
    places: ClassVar[tuple[str, ...]] = ("function",)

    function: str = Field(
        pattern=r"^.*[^:]:[A-Za-z_]\w*$",
        description="path/to/file.py:name, or module:name",
    )
    timeout_s: Number = Field(
        default=30.0,
        gt=0,
        le=86400,
        description="the time limit of one call, in seconds",
    )

    @property
    def label(self) -> str:
        """The name that was given, or that of the function."""
        return self.name or self.function.rpartition(":")[2]

    @property
    def file(self) -> str:
        """The file of the function; empty if it is in a module."""
        file = self.function.rpartition(":")[0]
        return file if file.endswith(".py") else ""


class MathSettings(RewardSettings, frozen=True):
    """The final answer as mathematics."""

    kind: ClassVar[str] = "math"

    timeout_s: Number = Field(
        default=5.0, gt=0, le=3600, description="the time limit of one response, in seconds"
    )


class RegexSettings(RewardSettings, frozen=True):
    """What a regular expression finds in the response."""

    kind: ClassVar[str] = "regex"

    pattern: Annotated[str, AfterValidator(_is_regex)] = Field(
        min_length=1,
        description="a regular expression of Python. With a group, the text of the group in the"
        " last match is compared with the row's answer; without one, any match scores 1",
    )
    timeout_s: Number = Field(
        default=5.0, gt=0, le=3600, description="the time limit of one response, in seconds"
    )


class FormatSettings(RewardSettings, frozen=True):
    """The form of the response."""

    kind: ClassVar[str] = "format"

    form: Literal["think", "answer", "think-answer", "boxed"] = Field(
        default="think",
        description="think: reasoning in one think block, then text; answer: one answer block at"
        " the end; think-answer: both; boxed: an answer in \\boxed{}",
    )


class LengthSettings(RewardSettings, frozen=True):
    """A penalty for long responses."""

    kind: ClassVar[str] = "length"

    most: Whole = Field(ge=1, description="the longest length; the penalty beyond it is -1")
    margin: Whole = Field(
        default=0,
        ge=0,
        description="the penalty grows from 0 to -1 over this length before `most`",
    )
    unit: Literal["tokens", "words", "characters"] = Field(
        default="tokens", description="what is counted"
    )

    @model_validator(mode="after")
    def _margin_is_inside(self) -> "LengthSettings":
        if self.margin > self.most:
            faults = {"margin": f"expected at most {self.most:,}, as most is, got {self.margin:,}"}
            text = f"margin: {faults['margin']}"
            raise PydanticCustomError("disagree", "{text}", {"text": text, "faults": faults})
        return self


class SimilaritySettings(RewardSettings, frozen=True):
    """The words that the response shares with a reference, in order."""

    kind: ClassVar[str] = "similarity"

    to: Literal["reference", "answer"] = Field(
        default="reference",
        description="what it is compared with: the row's reference output, or its answer if it has"
        " none; or always its answer",
    )


class TestsSettings(RewardSettings, frozen=True):
    """The row's unit tests, run on the code of the response in a confined process."""

    kind: ClassVar[str] = "tests"

    timeout_s: Number = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="the CPU time limit of one response, in seconds; four times as long by the"
        " clock",
    )
    memory_mb: Whole = Field(
        default=512, ge=64, le=1_000_000, description="the memory limit of one response, in MB"
    )
    partial: bool = Field(
        default=False,
        description="the share of the tests that pass, instead of 1 if all pass and else 0",
    )
    unconfined: bool = Field(
        default=False,
        description="run code even where the system cannot confine it: it then has your rights",
    )


class GraderSettings(RewardSettings, frozen=True):
    """A function in Python source, run on the response in a confined process: OpenAI's grader."""

    kind: ClassVar[str] = "grader"

    source: str = Field(
        min_length=1, description="Python source with grade(sample, item), which returns a number"
    )
    timeout_s: Number = Field(
        default=10.0, gt=0, le=3600, description="the CPU time limit of one response, in seconds"
    )
    memory_mb: Whole = Field(
        default=512, ge=64, le=1_000_000, description="the memory limit of one response, in MB"
    )


class EnvironmentSettings(RewardSettings, frozen=True):
    """The rules of the environment that made the row, from the package reasoning-gym."""

    kind: ClassVar[str] = "environment"

    timeout_s: Number = Field(
        default=10.0, gt=0, le=3600, description="the time limit of one response, in seconds"
    )


JUDGE_PROMPT = """Judge how well the response below answers the question.

Question:
$query

Reference answer (may be empty):
$answer

Response:
$response

Be strict: a wrong result, missing parts and unfounded claims cost points. End with one line that
contains only your score, a number from $lowest (worst) to $highest (best):
Score: <number>"""

_PROMPT_FIELDS = frozenset(("query", "answer", "response", "lowest", "highest"))


def _is_judge_prompt(prompt: str) -> str:
    """Refuses a prompt without the response, or with other fields."""
    template = Template(prompt)
    names = set(template.get_identifiers()) if template.is_valid() else {"$"}
    if "response" in names and names <= _PROMPT_FIELDS:
        return prompt
    fields = ", ".join(f"${name}" for name in sorted(_PROMPT_FIELDS))
    odd = ", ".join(f"${name.strip('$')}" for name in sorted(names - _PROMPT_FIELDS))
    text = f"expected $response and only the fields {fields}, got {odd or 'no $response'}"
    faults = {"prompt": text}
    raise PydanticCustomError("disagree", "{text}", {"text": text, "faults": faults})


class JudgeSettings(RewardSettings, frozen=True):
    """The opinion of another model."""

    kind: ClassVar[str] = "judge"
    models: ClassVar[tuple[str, ...]] = ("model",)
    places: ClassVar[tuple[str, ...]] = ("model", "adapter")

    model: str = Field(min_length=1, description="the judge: zen-eco, org/name, a folder")
    adapter: str = Field(default="", description="a peft folder on the judge")
    prompt: Annotated[str, AfterValidator(_is_judge_prompt)] = Field(
        default_factory=lambda: JUDGE_PROMPT,
        description="what the judge reads: text with $query, $response, $answer, $lowest, $highest",
    )
    lowest: Number = Field(default=0.0, description="the lowest score, which counts as 0")
    highest: Number = Field(default=10.0, description="the highest score, which counts as 1")
    max_new_tokens: Whole = Field(
        default=512, ge=1, le=1_000_000, description="tokens of a verdict at most"
    )

    @property
    def file(self) -> str:
        """The adapter, if it has one."""
        return self.adapter

    @model_validator(mode="after")
    def _scale_has_a_range(self) -> "JudgeSettings":
        if self.lowest >= self.highest:
            text = f"expected more than lowest {self.lowest:g}, got {self.highest:g}"
            faults = {"highest": text}
            raise PydanticCustomError("disagree", "{text}", {"text": text, "faults": faults})
        return self


class ModelSettings(RewardSettings, frozen=True):
    """The score of a reward model."""

    kind: ClassVar[str] = "model"
    models: ClassVar[tuple[str, ...]] = ("model",)
    places: ClassVar[tuple[str, ...]] = ("model",)

    model: str = Field(
        min_length=1,
        description="a sequence classification model with one label: a folder, org/name",
    )

    @property
    def label(self) -> str:
        """The name that was given, or that of the model."""
        return self.name or Path(self.model).name


class LiveSettings(RewardSettings, frozen=True):
    """A function that Python code passes; no file can name it."""

    kind: ClassVar[str] = "live"

    function: Callable[..., object]

    @property
    def label(self) -> str:
        """The name that was given, or that of the function."""
        return self.name or str(getattr(self.function, "__name__", type(self.function).__name__))


KINDS: dict[str, type[RewardSettings]] = {
    settings.kind: settings
    for settings in (
        AutoSettings,
        AnswerSettings,
        ExactSettings,
        NumericSettings,
        MathSettings,
        RegexSettings,
        TestsSettings,
        FormatSettings,
        LengthSettings,
        SimilaritySettings,
        EnvironmentSettings,
        GraderSettings,
        JudgeSettings,
        ModelSettings,
        FunctionSettings,
    )
}
"""The kinds of rewards that settings can name."""
