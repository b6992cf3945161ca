"""Models of this machine that answer in this process, many chats at a time."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.backends.openai.failure import TooLongError
from zoo.backends.openai.reply import Reply
from zoo.backends.openai.usage import Usage
from zoo.backends.sampling import Sampling
from zoo.gym.data.records import Message
from zoo.gym.errors import InputError
from zoo.gym.paths import given_path

if TYPE_CHECKING:
    from zoo.gym.chat import ChatSession
    from zoo.gym.experience.providers.table import Price


BATCH = 16
"""Chats that are answered together."""


@dataclass(frozen=True)
class Local:
    """A model of this machine: it costs nothing, and nothing leaves.

    Attributes:
        id: its name or folder.
    """

    id: str

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return True

    @property
    def price(self) -> "Price | None":
        """There is none."""
        return None

    def check(self) -> None:
        """Refuses a model that is not on this machine.

        Raises:
            NotAvailableError: it is not; or it is a GGUF file, and llama.cpp is missing.
        """
        from zoo.gym.chat.gguf import check_gguf, is_gguf_file
        from zoo.models import resolve

        if is_gguf_file(path := given_path(self.id)):
            check_gguf(path)
        else:
            resolve(self.id, offline=True)

    @contextmanager
    def open(self) -> "Generator[LocalChat]":
        """Yields the loaded model for the duration of a `with` block.

        Raises:
            GymError: see `open_chat`.
        """
        from zoo.gym.chat import open_chat

        with open_chat(self.id, system="") as session:
            yield LocalChat(session)


class LocalChat:
    """Answers as a client of a server does.

    Args:
        session: the loaded model.
    """

    def __init__(self, session: "ChatSession") -> None:
        self._session = session

    def attempt(
        self,
        messages: Sequence[Mapping[str, str]],
        sampling: Sampling,
        *,
        schema: Mapping[str, object] | None = None,
        seed: int | None = None,
    ) -> Reply:
        """Returns the answer to messages; a schema is not used.

        Raises:
            TooLongError: the messages leave no room for an answer.
        """
        del schema
        return self.attempt_all([messages], sampling, [seed or 0])[0]

    def attempt_all(
        self,
        chats: Sequence[Sequence[Mapping[str, str]]],
        sampling: Sampling,
        seeds: Sequence[int],
    ) -> list[Reply]:
        """Returns the answers to several chats, which are computed together.

        Raises:
            TooLongError: one leaves no room for an answer.
        """
        turns = [[Message(turn["role"], turn["content"]) for turn in chat] for chat in chats]
        try:
            found = self._session.replies(turns, sampling, seeds)
        except InputError as error:
            raise TooLongError(error.message, hint=error.hint, code=error.code) from None
        return [
            Reply(one.text, "", one.finish, Usage(one.prompt_tokens, 0, one.completion_tokens))
            for one in found
        ]
