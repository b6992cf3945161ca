"""Finds the model that an id names: on a server of the table, at an address, or on this machine."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from zoo.backends.openai.chat import ChatModel, Endpoint, is_loopback
from zoo.backends.openai.secrets import NO_KEY, Secret
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.experience.providers.keys import how_to_set, read_key
from zoo.gym.experience.providers.table import Price, Provider, providers

_ALIKE = 0.88
"""How like a server's name a slip of the pen is: 0.93 of one letter left out of eight; deepseek-ai,
whose models are on a hub, is 0.84 like deepseek."""


@dataclass(frozen=True)
class Hosted:
    """A model on a server.

    Attributes:
        id: what the user calls it.
        provider: the server.
        model: the model's name there.
    """

    id: str
    provider: Provider
    model: str

    @property
    def host(self) -> str:
        """The server's host and port."""
        return urlsplit(self.provider.url).netloc

    @property
    def provider_name(self) -> str:
        """What the server is called in the table; empty for an address."""
        return "" if "://" in self.id else self.id.removesuffix(self.model)[:-1]

    @property
    def is_local(self) -> bool:
        """Whether the server is this machine: it costs nothing, and nothing leaves."""
        return is_loopback(urlsplit(self.provider.url).hostname or "")

    @property
    def price(self) -> Price | None:
        """The price of the model, None if it is not known."""
        return self.provider.price(self.model)

    @property
    def max_usd(self) -> float | None:
        """The cap of runs with it; None for no cap of its own."""
        return self.provider.max_usd

    @property
    def concurrency(self) -> int:
        """Calls at the same time."""
        return self.provider.concurrency

    @property
    def per_minute(self) -> int | None:
        """Calls that start in a minute at most."""
        return self.provider.requests_per_minute

    def key(self) -> Secret:
        """Returns the key from the environment or the keyring.

        Raises:
            NotAvailableError: neither has it, or the keyring cannot be read.
            InputError: it cannot be a key.
        """
        name = self.provider.key
        found = read_key(name) if name else NO_KEY
        if name and not found and not self.is_local:
            raise NotAvailableError(
                f"{self.id}: expected a key in the environment variable {name}, got none",
                hint=how_to_set(name),
            )
        return found

    def open(
        self,
        *,
        tell: Callable[[str], None] | None = None,
        pause: Callable[[float], None] | None = None,
        stall_s: float | None = None,
    ) -> ChatModel:
        """Returns the client of the model.

        Raises:
            GymError: see `key`.
        """
        extra = {} if stall_s is None else {"stall_s": stall_s}
        endpoint = Endpoint(
            self.id, self.provider.url, self.model, stream=self.provider.stream, **extra
        )
        more = {} if pause is None else {"pause": pause}
        return ChatModel(endpoint, self.key(), tell=tell, **more)


def hosted(name: str) -> Hosted | None:
    """Returns the model on a server that an id names, None for a model of this machine.

    `deepseek/v3.1-terminus` and `openai:NAME` begin with a server of the table,
    `http://HOST/v1#NAME` is an address of its own.

    Raises:
        InputError: the address or the name of the model is missing or wrong, or what stands before
            the name is nearly that of a server.
    """
    if "://" in name:
        url, _, model = name.partition("#")
        if not model:
            shown = url.rpartition("@")[2].partition("?")[0]  # what stands before or behind: a key
            raise InputError(f"{shown}: expected the model's name behind '#', got none")
        return Hosted(name, Provider(url=url), model)
    found = [name.find(mark) for mark in "/:" if mark in name]
    if not found:
        return None
    first, model = name[: min(found)], name[min(found) + 1 :]
    provider = providers().get(first)
    if provider is None:
        near = difflib.get_close_matches(first, providers(), n=1, cutoff=_ALIKE)
        if near and not Path(first).exists():
            raise InputError(
                f"{name}: expected the name of a server or a model, got none of '{first}'. "
                f"Did you mean '{near[0]}{name[len(first) :]}'?"
            )
        return None
    if not model:
        raise InputError(f"{name}: expected the name of a model behind {first}, got none")
    return Hosted(name, provider, model)
