"""What a task is: its files, how a row is asked in both forms, and how an answer is graded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from zoo.gym.data.records import Message, Tools
from zoo.gym.errors import InputError
from zoo.gym.evaluate.items import Grade

Fields: TypeAlias = Mapping[str, object]


@dataclass(frozen=True)
class Row:
    """A row of a task.

    Attributes:
        plain: the text that is continued, as lm-eval writes it; an answer follows after a blank.
        chat: what the user says to a model with a chat template.
        worked: the answer that a shot shows; empty if the row cannot be one.
        choices: answers to choose from; empty if the model writes its own.
        right: the numbers of the right choices, from 0.
        answer: what a reward compares with.
        fields: what it also reads.
        turns: the turns, where they are more than `chat`.
        tools: the tools that may be called.
    """

    plain: str
    chat: str
    worked: str = ""
    choices: tuple[str, ...] = ()
    right: tuple[int, ...] = ()
    answer: object = None
    fields: Fields = field(default_factory=dict[str, object])
    turns: tuple[Message, ...] = ()
    tools: Tools = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The turns of the question."""
        return self.turns or (Message("user", self.chat),)


@dataclass(frozen=True)
class Spec:
    """A task.

    Attributes:
        name: what `--tasks` calls it.
        files: patterns of its files in the folder of data.
        form: what a file has, for messages: `rows of question and answer`.
        read: returns a row, or why it is left out; a missing key is a KeyError.
        how: the model writes an answer, or chooses one.
        grade: scores answers.
        graded_by: how, in words.
        max_new_tokens: the most tokens of an answer.
        stops: what ends an answer to plain text.
        has_shots: whether rows can be shown as worked examples.
        reward: the name of the reward that grades, if one does: it has to load, and to fit a row.
        has_parts: whether it has several files, each of which is meant by `NAME_PART`.
        is_split: whether each file is measured by itself, as `NAME_PART`.
    """

    name: str
    files: tuple[str, ...]
    form: str
    read: Callable[[Fields], Row | str]
    how: Literal["generate", "choices"]
    grade: Grade
    graded_by: str
    max_new_tokens: int = 512
    stops: tuple[str, ...] = ()
    has_shots: bool = True
    reward: str = ""
    has_parts: bool = False
    is_split: bool = False


def text(row: Fields, key: str) -> str:
    """Returns a text of a row.

    Raises:
        KeyError: there is none.
        InputError: it is something else, or empty.
    """
    value = row[key]
    if (
        isinstance(value, bool)
        or not isinstance(value, str | int | float)
        or not str(value).strip()
    ):
        raise InputError(f"{key}: expected text, got {value!r:.60}", code="evaluate.bad_row")
    return str(value)


def texts(row: Fields, key: str) -> tuple[str, ...]:
    """Returns a list of texts of a row.

    Raises:
        KeyError: there is none.
        InputError: it is something else.
    """
    value = row[key]
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(each, str | int | float) for each in cast("list[object]", value))
    ):
        raise InputError(
            f"{key}: expected a list of text, got {value!r:.60}", code="evaluate.bad_row"
        )
    return tuple(map(str, cast("list[object]", value)))
