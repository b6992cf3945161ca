"""Reward functions of TRL's form, which score a batch of completions in one call.

A function with a parameter `completions` gets `prompts`, `completions` and the columns of the rows,
each as a list, by name; it returns a list of numbers, None for a completion without a reward. Of
rows whose prompt is a list of turns, a prompt is that list and a completion a list of one turn.
Left out are `completion_ids`, `trainer_state`, `log_extra` and `log_metric`.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from zoo.gym.rewards.functions.calling import QUERY_NAMES, as_reply, problem_of

GIVEN = ("prompts", "completions")
NOT_GIVEN = frozenset(("completion_ids", "trainer_state", "log_extra", "log_metric"))


@dataclass(frozen=True)
class BatchFunction:
    """A function of TRL's form.

    Attributes:
        function: the function.
        names: the parameters that it has by name; None takes any.
        needs: the columns that it cannot be called without.
    """

    function: Callable[..., object]
    names: frozenset[str] | None
    needs: tuple[str, ...]

    def call(self, samples: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
        """Returns the reply for each sample, as `calling.call` does for one."""
        columns = [_columns(fields) for fields in samples]
        lists: dict[str, list[Any]] = {
            name: [row.get(name) for row in columns] for row in columns for name in row
        }
        lists["prompts"] = [f["messages"] if f["is_chat"] else f["query"] for f in samples]
        lists["completions"] = [_completion(fields) for fields in samples]
        if self.names is not None:
            lists = {name: values for name, values in lists.items() if name in self.names}
        try:
            rewards = _listed(self.function(**lists), len(samples))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it may raise anything
            return [problem_of(error)] * len(samples)
        return [as_reply(value) for value in rewards]


def batch_function(function: Callable[..., object]) -> BatchFunction | None:
    """Returns a function of TRL's form; None for one that scores a single response.

    Raises:
        ValueError: it is async, or needs something that it is not given.
    """
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # a builtin without a signature
        return None
    names = list(parameters)
    if "completions" not in names or (names[0] in QUERY_NAMES and names[1] == "completions"):
        return None
    if inspect.iscoroutinefunction(function):
        raise ValueError("expected f(completions, **kwargs), got an async function")
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {
        name: parameter for name, parameter in parameters.items() if parameter.kind not in fixed
    }
    needs = [
        name for name, parameter in named.items() if parameter.default is inspect.Parameter.empty
    ]
    if lacking := NOT_GIVEN.intersection(needs):
        raise ValueError(
            "expected f(completions, **kwargs) with prompts and columns of the rows, got a "
            f"parameter {min(lacking)!r}"
        )
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    columns = tuple(name for name in needs if name not in GIVEN)
    return BatchFunction(function, None if takes_any else frozenset(named), columns)


def lacking(needs: Sequence[str], fields: Mapping[str, Any]) -> str | None:
    """Returns what a row lacks that a function cannot be called without, or None."""
    columns = _columns(fields)
    return next((f"no {name}" for name in needs if columns.get(name) is None), None)


def _columns(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the columns of a row, with its answer, whatever its column is called."""
    return {"answer": fields["answer"], **fields["metadata"]}


def _completion(fields: Mapping[str, Any]) -> object:
    text = fields["response"]
    return [{"role": "assistant", "content": text}] if fields["is_chat"] else text


def _listed(result: object, count: int) -> list[object]:
    listed: Any = result
    if hasattr(listed, "tolist"):  # of NumPy or torch
        listed = listed.tolist()
    if not isinstance(listed, list | tuple):
        raise ValueError(f"returned {type(result).__name__}: expected a list of numbers")
    values = list(cast("Sequence[object]", listed))
    if len(values) != count:
        raise ValueError(f"returned {len(values)} rewards: expected {count}, one per completion")
    return values
