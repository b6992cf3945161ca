"""Turns errors of the command line into our messages, with the nearest option."""

import difflib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args, get_origin

import cyclopts

from zoo.gym.cli.verbs import ABSENT, children, known_words
from zoo.gym.errors import GymError, InputError

if TYPE_CHECKING:
    from cyclopts.argument import Argument


def joined_switches(words: Sequence[str]) -> list[str]:
    """Joins `--do_train true` to `--do_train=true` for the flags of `train` that need no value.

    Otherwise `true` would be taken as a file to train on.
    """
    if not words or words[0] != "train":
        return list(words)
    from zoo.gym.cli.flags import switch_names

    switches = switch_names()
    joined: list[str] = []
    for word in words:
        previous = joined[-1] if joined else ""
        if word.lower() in {"true", "false"} and previous.replace("-", "_") in switches:
            joined[-1] = f"{previous}={word.lower()}"
        else:
            joined.append(word)
    return joined


def usage_error(error: cyclopts.CycloptsError, words: Sequence[str]) -> InputError:
    """Returns the parser's error as one message with a hint."""
    command = known_words(list(words))
    hint = f"zoo-gym {command} --help".replace("  ", " ")
    if not command and words:
        hint = _training_with(words) or hint
    return InputError(_sentence(error, command), hint=hint, code="cli.usage")


def _training_with(words: Sequence[str]) -> str | None:
    """Returns the command for words without a verb if the first is a file or setting, or None."""
    from zoo.gym.config.items import sort_items

    try:
        items = sort_items(words[:1])
    except (GymError, OSError, ValueError):
        return None
    if items.overrides and "=" not in words[0]:  # the name of a method, maybe a mistyped command
        return None
    if words[0].endswith(".safetensors"):
        return shlex.join(["zoo-gym", "delta", "info", words[0]])
    return shlex.join(["zoo-gym", "train", *words])


def _sentence(error: cyclopts.CycloptsError, command: str) -> str:
    match error:
        case cyclopts.UnknownOptionError():
            text = _unknown_option(error, command)
        case cyclopts.UnknownCommandError():
            text = _unknown_command((error.unused_tokens or [""])[0], command)
        case cyclopts.RepeatArgumentError():
            text = f"{error.token.keyword}: given more than once"
        case cyclopts.MissingArgumentError():
            text = f"{error.keyword or _name(error.argument)}: expected a value, got nothing"
        case cyclopts.CoercionError():
            text = _bad_value(error)
        case cyclopts.UnusedCliTokensError():
            text = f"unexpected '{' '.join(error.unused_tokens or [])}'"
        case _:
            error.verbose = False
            text = str(error).rstrip(".")
    return text


def _unknown_command(word: str, command: str) -> str:
    words = f"{command} {word}".strip()
    if words in ABSENT:
        return f"{words}: {ABSENT[words]}"
    names = children(command)
    swapped = [name for name in names if sorted(name) == sorted(word)]  # trian: train, not trial
    longer = [name for name in names if len(word) > 1 and name.startswith(word)]
    near = [*swapped, *difflib.get_close_matches(word, names, n=1), *longer][:1]
    return f"{words}: no such command" + _did_you_mean(near)


def _unknown_option(error: cyclopts.UnknownOptionError, command: str) -> str:
    name = (error.token.keyword or error.token.value).partition("=")[0]
    if command == "train":
        from zoo.gym.config.foreign import refusal

        if text := refusal(_plain(name)):
            return f"{name}: {text}"
    if f"{command} {name}" in ABSENT:
        return f"{name}: {ABSENT[f'{command} {name}']}"
    options = [option for argument in error.argument_collection for option in argument.names]
    from zoo.gym.config.report import nearest

    by_plain = {_plain(option): option for option in reversed(list(options))}
    close = nearest(_plain(name), by_plain)
    return f"{name}: no such option" + _did_you_mean([by_plain[close]] if close else [])


def _bad_value(error: cyclopts.CoercionError) -> str:
    name = (error.token.keyword if error.token else None) or _name(error.argument)
    value = error.token.value if error.token else ""
    kinds: dict[object, str] = {int: "a whole number", float: "a number", bool: "true or false"}
    if get_origin(error.target_type) is Literal:
        choices = [str(choice) for choice in get_args(error.target_type)]
        return f'{name}: expected one of {", ".join(choices)}, got "{value}"' + _did_you_mean(
            difflib.get_close_matches(value, choices, n=1)
        )
    expected = kinds.get(error.target_type, "another value")
    return f'{name}: expected {expected}, got "{value}"'


def _name(argument: "Argument | None") -> str:
    return argument.name if argument is not None else "argument"


def _plain(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _did_you_mean(near: Sequence[str]) -> str:
    return f". Did you mean '{near[0]}'?" if near else ""
