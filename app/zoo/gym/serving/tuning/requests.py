"""What a fine-tuning job may ask for, and the settings of the run that it becomes."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, Field, model_validator

from zoo.gym.serving.forms import STRICT, Finite, Json, Whole
from zoo.gym.serving.wire import RequestError

_SUM = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) ?\* ?(\w+)")

Auto = Literal["auto"]

PROVIDER = "custom_llm_provider"
Provider = Literal["openai"]
"""Who tunes, which proxies of several ask: it is always this server, which speaks OpenAI's API."""


class Hyperparameters(BaseModel):
    """Those of a method; `auto` is what `zoo-gym train` chooses."""

    model_config = STRICT

    n_epochs: Auto | Annotated[Whole, Field(ge=1, le=100_000)] = "auto"
    batch_size: Auto | Annotated[Whole, Field(ge=1, le=65_536)] = "auto"
    learning_rate_multiplier: Auto | Literal[1] = "auto"
    beta: Auto | Annotated[float, Field(gt=0)] = "auto"

    def settings(self) -> Json:
        """Returns the same as settings of a run."""
        values = {"num_train_epochs": self.n_epochs, "pref_beta": self.beta}
        if self.batch_size != "auto":
            values |= {"per_device_train_batch_size": self.batch_size}
            values |= {"gradient_accumulation_steps": 1}
        return {key: value for key, value in values.items() if value != "auto"}


class Tuning(BaseModel):
    """The settings of one method."""

    model_config = STRICT

    hyperparameters: Hyperparameters = Hyperparameters()
    grader: Finite[Json] | None = None


class Method(BaseModel):
    """Which method, and its settings."""

    model_config = STRICT

    type: Literal["supervised", "dpo", "reinforcement"] = "supervised"
    supervised: Tuning | None = None
    dpo: Tuning | None = None
    reinforcement: Tuning | None = None

    @property
    def tuning(self) -> Tuning:
        """The settings of the method that is used."""
        return cast("Tuning | None", getattr(self, self.type)) or Tuning()

    @model_validator(mode="after")
    def _check(self) -> "Method":
        for kind in ("supervised", "dpo", "reinforcement"):
            if getattr(self, kind) is not None and kind != self.type:
                raise RequestError(f"method: {kind} has no effect on {self.type}", param="method")
        if (self.tuning.grader is None) == (self.type == "reinforcement"):
            raise RequestError(
                "method: expected a grader for reinforcement, and for nothing else", param="method"
            )
        if self.tuning.hyperparameters.beta != "auto" and self.type != "dpo":
            raise RequestError("method: beta is a hyperparameter of dpo", param="method")
        return self


class JobBody(BaseModel):
    """A request of /v1/fine_tuning/jobs."""

    model_config = STRICT

    model: str
    training_file: str
    validation_file: str | None = None
    hyperparameters: Hyperparameters | None = None
    method: Method | None = None
    suffix: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9._-]{0,63}$")
    seed: Whole | None = Field(default=None, ge=0, le=2**31 - 1)
    metadata: dict[str, str] | None = None
    integrations: None = None
    custom_llm_provider: Provider | None = None

    @property
    def used(self) -> Method:
        """The method, also in the older form of a request."""
        if self.method is None:
            return Method(
                supervised=Tuning(hyperparameters=self.hyperparameters or Hyperparameters())
            )
        if self.hyperparameters is not None:
            raise RequestError("hyperparameters: expected them in method", param="hyperparameters")
        return self.method


def settings_of(body: JobBody, *, runs_graders: bool = False) -> Json:
    """Returns the settings of the run that a job becomes.

    Args:
        body: the request.
        runs_graders: whether graders in Python are run, in a confined process.

    Raises:
        RequestError: a grader has no equal here.
    """
    method = body.used
    settings = method.tuning.hyperparameters.settings()
    if body.seed is not None:
        settings["seed"] = body.seed
    if method.type == "dpo":
        settings["stage"] = "dpo"
    if method.tuning.grader is not None:
        settings |= {"stage": "grpo", "reward": _reward(method.tuning.grader, runs_graders)}
    return settings


def _reward(grader: Mapping[str, Any], runs_graders: bool) -> Json | list[Json]:
    """Returns a grader as a reward.

    Raises:
        RequestError: it has no equal here.
    """
    where = "method.reinforcement.grader"
    if not runs_graders and _has_python(grader):
        raise RequestError(
            f"{where}: python: expected a server that runs code of its callers, which is started "
            "with --allow-graders",
            param=where,
        )
    if (reward := _graded(grader)) is not None:
        kind, options = reward
        return {kind: options}
    allowed = {"type", "name", "graders", "calculate_output"}
    graders = grader.get("graders")
    if grader.get("type") == "multi" and isinstance(graders, dict) and not grader.keys() - allowed:
        weights = _weights(str(grader.get("calculate_output", "")), where)
        rewards = {name: _graded(each) for name, each in cast("Json", graders).items()}
        known = {name: reward for name, reward in rewards.items() if reward is not None}
        if weights.keys() == rewards.keys() == known.keys():
            return [
                {"kind": kind, "name": name, **options, "weight": weights[name]}
                for name, (kind, options) in known.items()
            ]
    raise RequestError(
        f"{where}: expected string_check (eq) or text_similarity (rouge_l) of "
        "{{sample.output_text}} and {{item.answer}}, python with a source, or multi with a sum of "
        "NUMBER * NAME of such",
        param=where,
    )


_COMPARED = {"input": "{{sample.output_text}}", "reference": "{{item.answer}}"}


def _graded(grader: object) -> tuple[str, Json] | None:
    """Returns the kind of reward that a grader is, with its options; None if there is none."""
    if not isinstance(grader, dict):
        return None
    fields = {key: value for key, value in cast("Json", grader).items() if key != "name"}
    if fields == {"type": "string_check", "operation": "eq", **_COMPARED}:
        return "exact", {"part": "whole", "ignore_case": False}
    if fields == {"type": "text_similarity", "evaluation_metric": "rouge_l", **_COMPARED}:
        return "similarity", {"to": "answer"}
    is_python = fields.get("type") == "python" and fields.keys() <= {"type", "source", "image_tag"}
    if is_python and isinstance(fields.get("source"), str):  # the image is this machine
        return "grader", {"source": fields["source"]}
    return None


def _has_python(grader: Mapping[str, Any]) -> bool:
    parts = grader.get("graders")
    every = [grader, *(parts.values() if isinstance(parts, dict) else ())]
    return any(isinstance(each, dict) and each.get("type") == "python" for each in every)


def _weights(formula: str, where: str) -> dict[str, float]:
    terms = [term.strip() for term in formula.split("+")]
    matches = [_SUM.fullmatch(term) for term in terms]
    weights = {match[2]: float(match[1]) for match in matches if match is not None}
    if len(weights) < len(terms):
        raise RequestError(
            f"{where}: calculate_output: expected a sum of NUMBER * NAME, each NAME once, got "
            f"{formula!r:.100}",
            param=where,
        )
    return weights
