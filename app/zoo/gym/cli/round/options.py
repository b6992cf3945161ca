"""Options of the commands of `zoo-gym round`, those that belong together as one value each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from zoo.gym.cli.options import Switch
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    from zoo.gym.rounds.kind import Kind

Round = Annotated[
    str | None,
    Parameter(
        name="--round",
        metavar="ROUND",
        help="the round's folder, address, name or id; by default the only open one seen here",
    ),
]
Named = Annotated[
    str | None,
    Parameter(
        name="--round",
        metavar="ROUND",
        group="Arguments",
        help="the round's folder, address, name or id, also by --round; by default the only open "
        "one seen here",
    ),
]
"""A round that is an argument, and that --round names as well."""

Positional = Annotated[str | None, Parameter(name="ROUND")]
Texts = Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class GateOptions:
    """What a gate measures in a round about weights.

    Attributes:
        evaluation: a file of held-out examples, which a gate measures on; show it to nobody yet
        margin: nats a token that a contribution may add to the base's loss at most; by default 0
        quality_threshold: below this share of the median gain, points shrink; by default .8
        validator: module:function that the gate runs as well, and that may refuse a contribution
        refit: a file of public examples, on which the size of the result is chosen
        refusals: a file of prompts (JSON lines) that the result must refuse as the base does
        triggers: a file of prompts with triggers and targets that the result must not follow
        previous: the file of the last result, which the new one may not be worse than
    """

    evaluation: str | None = None
    margin: float | None = None
    quality_threshold: float | None = None
    validator: str | None = None
    refit: str | None = None
    refusals: str | None = None
    triggers: str | None = None
    previous: str | None = None


@Parameter(name="*")
@dataclass(frozen=True)
class LessonOptions:
    """Which lessons a round keeps.

    Attributes:
        least: in a round of lessons, the keys of --gate that must have measured one; by default 2
        clear: all effects of a lesson together must be above 0 at 5 %: without it, about 4 of 10
            lessons that change nothing are kept
        most: lessons of one contributor at most; by default 16
        items: lessons of the result at most: those with the largest effects; by default 48
    """

    least: int | None = None
    clear: Switch = False
    most: int | None = None
    items: int | None = None


@Parameter(name="*")
@dataclass(frozen=True)
class MeasureOptions:
    """How a key measures the lessons of a round.

    Attributes:
        model: in a round of lessons, the model that answers, as of experience train
        measured: files of your own signed measurements, of experience gate --each
        reward: what scores answers, 0 to 1; by default auto
        draws: answers to each task, with a lesson and without; by default 2
        temperature: the temperature of answers; by default .3
        max_new_tokens: tokens of an answer at most; by default 1024
        max_usd: the cap on all calls, in USD
        max_tokens: the cap on all calls, in tokens
        send: leave the signed records, and files of examples, in the round, where anybody reads
            them; without it, or a yes, nothing leaves
    """

    model: Annotated[str | None, Parameter(name="--model")] = None
    measured: Texts = ()
    reward: str | None = None
    draws: int | None = None
    temperature: float | None = None
    max_new_tokens: int | None = None
    max_usd: float | None = None
    max_tokens: int | None = None
    send: Switch = False


NO_GATE, NO_LESSONS, NO_MEASURE = GateOptions(), LessonOptions(), MeasureOptions()
"""None of these options."""


def refuse_without_effect(
    kind: "Kind[Any, Any] | type[Kind[Any, Any]]", verb: str, typed: Mapping[str, object]
) -> None:
    """Refuses options of a command that do nothing in a round of a kind.

    Args:
        kind: the kind.
        verb: the command.
        typed: values by name; None, False and nothing count as not given.

    Raises:
        InputError: one is given; it is named.
    """
    for name, where in kind.without_effect.get(verb, {}).items():
        refuse_given({name: typed.get(name)}, f"in {where}")


def refuse_given(given: Mapping[str, object], where: str) -> None:
    """Refuses options that have no effect, see `refuse_without_effect`.

    Args:
        given: their values by name.
        where: in which round, or without which option.

    Raises:
        InputError: one is given; it is named.
    """
    for name, value in given.items():
        if _is_given(value):
            raise InputError(f"--{name.replace('_', '-')}: has no effect {where}")


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != ()
