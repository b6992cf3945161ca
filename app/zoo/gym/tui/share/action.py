"""What a form asks for, and the command that it makes of that."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from zoo.gym.terminal import visible
from zoo.gym.tui.share.asking import Answer

Values: TypeAlias = Mapping[str, str]
"""What stands in the fields of a form, by key."""


@dataclass(frozen=True)
class Field:
    """One line of a form.

    Attributes:
        key: its name in the values.
        label: what a user reads before it.
        value: what stands there at first.
        placeholder: what an empty field shows: an example.
        choices: what can be chosen, as text and value; none is free text.
        optional: whether it may stay empty.
        is_path: whether it is a path, which may be dropped on the terminal.
    """

    key: str
    label: str
    value: str = ""
    placeholder: str = ""
    choices: Sequence[tuple[str, str]] = ()
    optional: bool = False
    is_path: bool = False


@dataclass(frozen=True)
class Question:
    """What is asked before a command runs."""

    question: str
    consequence: str
    yes: str


@dataclass(frozen=True)
class Action:
    """A command that a form shows, runs and explains.

    Attributes:
        title: what it does, a few words.
        about: what it means, a few sentences.
        button: the word on the button that runs it.
        words: makes the command of the values, without `zoo-gym`.
        fields: what the form asks for.
        question: what is asked before it runs; None asks nothing.
        done: what is said once it is done: what came out and what is next.
    """

    title: str
    about: str
    button: str
    words: Callable[[Values], list[str]]
    fields: tuple[Field, ...] = ()
    question: Callable[[Values], Question | None] = lambda values: None
    done: Callable[[Answer], str] = lambda answer: "Done."


def missing(fields: Sequence[Field], values: Values) -> Field | None:
    """Returns the first field that has to have a value and has none."""
    return next((one for one in fields if not one.optional and not values[one.key]), None)


def command_text(words: Sequence[str]) -> str:
    """Returns a command as it is typed into a shell."""
    return visible(shlex.join(["zoo-gym", *words]))


def option(name: str, value: str) -> list[str]:
    """Returns an option with its value; nothing if there is no value."""
    if value.startswith("-"):
        return [f"{name}={value}"]  # else it would be an option itself
    return [name, value] if value else []
