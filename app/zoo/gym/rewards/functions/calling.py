"""How a reward function is called, and which of its results count as a reward.

A function takes the query and the response, and the row's answer if it has a third parameter;
parameters named `answer`, `messages` and `metadata` get the row's, and so does `**kwargs`. A
function is refused whose first parameters have the names of other fields, such as
f(response, answer), or with a parameter that looks like the answer but would keep its default. It
returns a number, or a mapping with `reward` and `reasoning`.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from zoo.gym.errors import InputError

ANSWER_NAMES = frozenset(
    ("answer", "answers", "solution", "ground_truth", "target", "reference", "expected", "gold")
)
"""Names of a third parameter that gets the answer although it has a default."""

OTHER_ANSWER_NAMES = frozenset(
    (
        *("label", "labels", "solutions", "references", "ref", "refs", "truth", "gt"),
        *("gold_answer", "correct_answer", "expected_answer", "reference_answer", "true_answer"),
        *("target_answer", "correct", "answer_key", "ground_truths", "targets"),
    )
)
"""Further names of a parameter that is meant for the answer."""

MOST_REWARD = 1e15
"""The largest reward: squares and sums of larger ones have no place in 32 bits."""

QUERY_NAMES = frozenset(("query", "prompt", "question", "instruction"))
"""Names of a parameter that is meant for the query."""

RESPONSE_NAMES = frozenset(
    ("response", "completion", "output", "prediction", "generation", "completions", "responses")
)
"""Names of a parameter that is meant for the response."""

_EXTRAS = ("answer", "messages", "metadata")
_FORM = "expected f(query, response) or f(query, response, answer)"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

Call = Callable[[Mapping[str, Any]], object]


def caller(function: Callable[..., object]) -> Call:
    """Returns a call of a function with the fields of a sample.

    The fields are `query`, `response`, `answer`, `messages` and `metadata`.

    Raises:
        ValueError: the function takes other parameters.
    """
    if inspect.iscoroutinefunction(function):
        raise ValueError(f"{_FORM}, got an async function")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # a builtin without a signature
        return lambda fields: function(fields["query"], fields["response"])
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    takes_any = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    if len(positional) < 2 and not takes_any:
        raise ValueError(f"{_FORM}, got f({', '.join(parameter.name for parameter in parameters)})")
    _check_names(positional)
    third = positional[2] if len(positional) > 2 else None
    by_place = ["query", "response"]
    if takes_any or (third is not None and _takes_answer(third)):
        by_place.append("answer")
    by_name = _named(parameters, {parameter.name for parameter in positional[: len(by_place)]})
    return lambda fields: function(
        *(fields[key] for key in by_place), **{key: fields[key] for key in by_name}
    )


def further_parameters(function: Callable[..., object]) -> list[str]:
    """Returns the names of the parameters behind query and response that get no field by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    names = [
        parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD
    ]
    bound = function.keywords if isinstance(function, partial) else {}
    return [name for name in names[2:] if name not in _EXTRAS and name not in bound]


def refuse_columns(
    parameters: Sequence[str], metadata: Mapping[str, object], answer: object
) -> None:
    """Refuses a parameter with the name of a column, whose values it would not get.

    Args:
        parameters: those of `further_parameters`.
        metadata: the columns of a row.
        answer: its answer; a column that has the same is what a third parameter gets.

    Raises:
        InputError: the row has such a column.
    """
    columns = {name.casefold(): name for name, value in metadata.items() if value != answer}
    for name in parameters:
        if (column := columns.get(name.casefold())) is not None:
            raise InputError(
                f"reward: {_FORM}, got a parameter {name!r}, which would not get the column of "
                "that name",
                hint=f"read metadata[{column!r}], or write f(completions, {column}, **columns)",
                code="rewards.parameter_not_given",
            )


def _check_names(positional: "list[inspect.Parameter]") -> None:
    """Refuses a function that takes its fields in another order by the names of its parameters.

    Raises:
        ValueError: a parameter has the name of a field that it would not get.
    """
    kinds = (QUERY_NAMES, RESPONSE_NAMES, ANSWER_NAMES | OTHER_ANSWER_NAMES)
    for index, parameter in enumerate(positional):
        name = parameter.name.lower()
        rest = kinds[:index] + kinds[index + 1 :] if index < 2 else kinds[:2]
        is_extra = index < 2 and name in {"messages", "metadata"}
        if is_extra or any(name in other for other in rest):
            names = ", ".join(argument.name for argument in positional)
            nth = ("first", "second", "third")[index] if index < 3 else "later"
            raise ValueError(f"{_FORM}, got f({names}), whose {nth} parameter is {name!r}")


def _takes_answer(third: inspect.Parameter) -> bool:
    """Returns whether the third parameter gets the answer.

    Raises:
        ValueError: its name does not say so and its default, text or None, could be for an answer.
    """
    name = third.name.lower()
    if name in {"messages", "metadata"}:
        return False
    if third.default is inspect.Parameter.empty or name in ANSWER_NAMES | OTHER_ANSWER_NAMES:
        return True
    if third.default is None or isinstance(third.default, str):
        raise ValueError(
            f"{_FORM}, got a third parameter {third.name!r} with the default {third.default!r}, "
            "which may be meant for the answer: name it 'answer', or put it after '*'"
        )
    return False


def _named(parameters: "list[inspect.Parameter]", taken: set[str]) -> list[str]:
    """Returns the fields that are passed by name.

    Raises:
        ValueError: a required parameter, or one that is named after the answer, is none of them.
    """
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    rest = [
        parameter
        for parameter in parameters
        if parameter.kind not in fixed and parameter.name not in taken
    ]
    for parameter in rest:
        if parameter.default is inspect.Parameter.empty and parameter.name not in _EXTRAS:
            names = ", ".join(_EXTRAS)
            raise ValueError(f"{_FORM}, and parameters {names}, got a parameter {parameter.name!r}")
        if (
            parameter.name not in _EXTRAS
            and parameter.name.lower() in ANSWER_NAMES | OTHER_ANSWER_NAMES
        ):
            raise ValueError(f"{_FORM}, got {parameter.name!r}, which would keep its default")
    kinds = {parameter.kind for parameter in parameters}
    if inspect.Parameter.VAR_KEYWORD in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        return [name for name in _EXTRAS if name not in taken]
    return [parameter.name for parameter in rest if parameter.name in _EXTRAS]


def as_reward(result: object) -> tuple[float, str]:
    """Returns the number that a function returned, and its reasoning.

    Raises:
        ValueError: the result is no finite number.
    """
    if isinstance(result, Mapping):
        fields = cast("Mapping[object, object]", result)
        if not {"reward"} <= fields.keys() <= {"reward", "reasoning"}:
            raise ValueError(
                f"returned a mapping: expected reward and reasoning, got {_names(fields)}"
            )
        reasoning = fields.get("reasoning")
        return _number(fields["reward"]), "" if reasoning is None else str(reasoning)
    return _number(result), ""


def _names(fields: Mapping[object, object]) -> str:
    return ", ".join(str(key)[:40] for key in list(fields)[:8]) or "no keys"


def _number(value: object) -> float:
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # of NumPy or torch
        value = cast("Any", value).item()
    if not isinstance(value, bool | int | float):
        kind = "nothing (None)" if value is None else type(value).__name__
        raise ValueError(f"returned {kind}: expected a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"returned {number}: expected a finite number")
    if abs(number) > MOST_REWARD:
        raise ValueError(f"returned {number}: expected at most {MOST_REWARD:g} in size")
    return number


def call(function: Call, fields: Mapping[str, Any]) -> dict[str, object]:
    """Returns `{"value", "reason"}`, or `{"problem"}` if the call gave no reward."""
    try:
        return as_reply(function(fields))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it may raise anything
        return problem_of(error)


def as_reply(result: object) -> dict[str, object]:
    """Returns `{"value", "reason"}` for what a function returned, or `{"problem"}`."""
    try:
        value, reasoning = as_reward(result)
    except ValueError as error:
        return problem_of(error)
    return {"value": value, "reason": reasoning[:2000]}


def problem_of(error: BaseException) -> dict[str, object]:
    """Returns `{"problem"}` for an error that a function raised, or that its result is."""
    text = f"{error}"[:500]
    raised = "" if isinstance(error, ValueError) and text.startswith("returned ") else "raised "
    name = f"{type(error).__name__}: " if raised else ""
    return {"problem": f"{raised}{name}{text}{_line(error) if raised else ''}"}


def _line(error: BaseException) -> str:
    """Returns the place in the user's code where an error was raised."""
    trace, where = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if Path(code.co_filename).parent != Path(__file__).parent:
            where = where or f" ({code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})"
        trace = trace.tb_next
    return where
