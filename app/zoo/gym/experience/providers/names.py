"""Finds the model that an id names: on a server of the table, at an address, or on this machine.

Before a host gets something from this machine for the first time, the user has to agree.
"""

import difflib
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from zoo.backends.openai.chat import ChatModel, Endpoint, is_loopback
from zoo.backends.openai.secrets import NO_KEY, Secret
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.experience.providers.table import Price, Provider, how_to_set, providers, read_key
from zoo.gym.files import read_small, write_beside
from zoo.gym.paths import ensure_folder, folders

_ALIKE = 0.88
"""The similarity from which a name is a typo of a server's: one letter less of eight has 0.93;
deepseek-ai, an organisation with models on a hub, has 0.84 with deepseek."""

_HOSTS_FILE = "hosts.txt"


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

    def key(self) -> Secret:
        """Returns the key from the environment or the keyring.

        Raises:
            NotAvailableError: neither has it, or the keyring cannot be read.
            InputError: it cannot be a key.
        """
        name = self.provider.key
        key = read_key(name) if name else NO_KEY
        if name and not key and not self.is_local:
            raise NotAvailableError(
                f"{self.id}: expected a key in the environment variable {name}, got none",
                hint=how_to_set(name),
                code="experience.no_key",
            )
        return key

    def open(self, *, tell: Callable[[str], None] | None = None) -> ChatModel:
        """Returns the client of the model.

        Raises:
            GymError: see `key`.
        """
        url, stream = self.provider.url, self.provider.stream
        return ChatModel(Endpoint(self.id, url, self.model, stream=stream), self.key(), tell=tell)


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
            address = url.rpartition("@")[2].partition("?")[0]  # without what may be a key
            raise InputError(
                f"{address}: expected the model's name behind '#', got none",
                code="experience.no_model_name",
            )
        return Hosted(name, Provider(url=url), model)
    match = re.match("([^/:]*)[/:](.*)", name, re.DOTALL)
    if match is None:
        return None
    first, model = match.groups()
    provider = providers().get(first)
    if provider is None:
        near = difflib.get_close_matches(first, providers(), n=1, cutoff=_ALIKE)
        if near and not Path(first).exists():
            raise InputError(
                f"{name}: expected the name of a server or a model, got none of '{first}'. "
                f"Did you mean '{near[0]}{name[len(first) :]}'?",
                code="experience.unknown_server",
            )
        return None
    if not model:
        raise InputError(
            f"{name}: expected the name of a model behind {first}, got none",
            code="experience.no_model_name",
        )
    return Hosted(name, provider, model)


def require_consent(models: Iterable[Hosted], leaves: str, confirm: Callable[[str], bool]) -> None:
    """Asks about each host that is new, and remembers a yes.

    `leaves` says what is sent, and what it costs, in a sentence.

    Raises:
        NotAvailableError: the user does not agree.
        StorageError: the answer cannot be stored.
    """
    path, hosts = folders().config / _HOSTS_FILE, set[str]()
    with suppress(OSError, UnicodeDecodeError):
        hosts.update(read_small(path).decode().split())
    for host in dict.fromkeys(model.host for model in models if not model.is_local):
        if host in hosts:
            continue
        if not confirm(f"{leaves} Send to {host}? [y/N] "):
            raise NotAvailableError(
                f"{host}: expected your consent, because {leaves[0].lower()}{leaves[1:]}",
                hint="agree with --yes",
                code="experience.no_consent",
            )
        hosts.add(host)
        ensure_folder(path.parent)
        write_beside(path, "".join(f"{agreed}\n" for agreed in sorted(hosts)))


def refuse_offline(models: Iterable[Hosted]) -> None:
    """Refuses models of other machines.

    Raises:
        NotAvailableError: one is not on this machine.
    """
    far = next((model for model in models if not model.is_local), None)
    if far is not None:
        raise NotAvailableError(
            f"--offline: expected models of this machine, got {far.id} at {far.host}",
            code="experience.offline",
        )
