"""The servers that ids can name: a shipped table, and the user's `providers.yaml`.

API keys are in the environment, else in the system's keyring, which is read through the optional
package keyring; keys are put there with its own program. The file has only the names of their
variables. No prices are shipped: they change, and a stale one misleads.
"""

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from zoo.backends.openai.chat import check_url
from zoo.backends.openai.secrets import NO_KEY, Secret
from zoo.gym.config.report import unknown
from zoo.gym.config.settings import Settings
from zoo.gym.config.values import Number, Whole, iso_date
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import write_beside
from zoo.gym.paths import ensure_folder, folders

ANY_MODEL = "*"
"""The name for the price of models without a price of their own."""

SERVICE = "zoo-gym"
"""The keyring has keys under this name, each as the user named by its variable."""

ENVIRONMENT, KEYRING = "environment", "keyring"

_PACKAGE = "keyring"
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{2,63}")
NAME = re.compile(r"[a-z][a-z0-9_.-]{0,39}")


def _refused(text: str) -> PydanticCustomError:
    return PydanticCustomError("sentence", "{text}", {"text": text})


def _is_variable(name: str) -> str:
    """Refuses another text without showing it: it may be a key."""
    if name and not _VARIABLE.fullmatch(name):
        raise _refused("expected the name of an environment variable such as MY_API_KEY, not a key")
    return name


def _is_url(url: str) -> str:
    try:
        check_url(url)
    except InputError as error:
        raise _refused(error.message.removeprefix("url: ")) from None
    return url.rstrip("/")


class Price(Settings, frozen=True):
    """What a model costs, in USD for a million tokens."""

    input: Number = Field(ge=0, le=10_000, description="tokens that were not in the cache")
    cached: Number | None = Field(
        default=None, ge=0, le=10_000, description="tokens in the cache; by default as others"
    )
    output: Number = Field(ge=0, le=10_000, description="tokens of answers, reasoning included")
    date: Annotated[str, BeforeValidator(iso_date)] = Field(
        description="when the price was looked up"
    )

    def usd(self, prompt: int, cached: int, completion: int) -> float:
        """Returns the price of a call.

        Args:
            prompt: all tokens of the messages.
            cached: those of them that were in the cache.
            completion: the tokens of the answer.
        """
        cached_price = self.input if self.cached is None else self.cached
        usd = (prompt - cached) * self.input + cached * cached_price + completion * self.output
        return usd / 1e6


class Provider(Settings, frozen=True):
    """A server, or several behind one address."""

    url: Annotated[str, AfterValidator(_is_url)] = Field(
        description="its address, up to and with /v1"
    )
    key: Annotated[str, AfterValidator(_is_variable)] = Field(
        default="", description="the environment variable with the key; empty for none"
    )
    prices: dict[str, Price] = Field(
        default_factory=dict[str, Price],
        description="the price of each model; * for all others",
    )
    concurrency: Whole = Field(default=8, ge=1, le=512, description="calls at the same time")
    requests_per_minute: Whole | None = Field(
        default=None, ge=1, le=1_000_000, description="calls that are started in a minute at most"
    )
    max_usd: Number | None = Field(
        default=None, ge=0, le=1e6, description="the cap of a run, unless the run names another"
    )
    stream: bool = Field(default=True, description="answers are sent as they are written")

    def price(self, model: str) -> Price | None:
        """Returns the price of a model, None if it is not known."""
        return self.prices.get(model, self.prices.get(ANY_MODEL))


SHIPPED = {
    "deepseek": Provider(url="https://api.deepseek.com/v1", key="DEEPSEEK_API_KEY"),
    "openai": Provider(url="https://api.openai.com/v1", key="OPENAI_API_KEY"),
    "openrouter": Provider(url="https://openrouter.ai/api/v1", key="OPENROUTER_API_KEY"),
}
"""Servers that need no entry in the file."""


def providers_file() -> Path:
    """Returns the path of the user's file."""
    return folders().config / "providers.yaml"


def providers() -> dict[str, Provider]:
    """Returns every server by name; an entry of the file changes a shipped one key by key.

    Raises:
        InputError: the file cannot be used.
    """
    return SHIPPED | {name: _provider(name, fields) for name, fields in _read().items()}


def change_provider(name: str, fields: Mapping[str, object]) -> Provider:
    """Stores settings of a server and returns it; None removes a setting.

    Raises:
        InputError: the name or a setting is wrong.
        StorageError: the file cannot be written.
    """
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name}: expected a name of small letters, digits, - and _",
            code="experience.server_name",
        )
    stored = _read()
    entry = {**stored.get(name, {}), **fields}
    stored[name] = {key: value for key, value in entry.items() if value is not None}
    provider = _provider(name, stored[name])
    _write(stored)
    return provider


def remove_provider(name: str) -> None:
    """Removes the settings of a server from the user's file; a shipped one gets its defaults again.

    Raises:
        NotAvailableError: the file has none of that name.
        StorageError: the file cannot be written.
    """
    stored = _read()
    if name not in stored:
        listed = ", ".join(stored) or "none"
        raise NotAvailableError(
            f"{name}: expected a server of {providers_file()}: {listed}",
            code="experience.no_such_server",
        )
    del stored[name]
    _write(stored)


def _write(stored: Mapping[str, Mapping[str, object]]) -> None:
    import yaml

    ensure_folder(providers_file().parent)
    write_beside(providers_file(), yaml.safe_dump(stored, sort_keys=True), sync=True)


def _read() -> dict[str, dict[str, object]]:
    from zoo.gym.files.yaml_entries import read_entries

    path = providers_file()
    stored: dict[str, dict[str, object]] = {}
    for entry in read_entries(path) if path.exists() else ():
        if not isinstance(entry.value, dict) or not NAME.fullmatch(entry.key):
            raise InputError(
                f"{path}:{entry.line}: expected NAME: settings of a server",
                code="experience.providers_file",
            )
        fields = cast("dict[object, object]", entry.value)
        stored[entry.key] = {str(key): value for key, value in fields.items()}
    return stored


def _provider(name: str, fields: Mapping[str, object]) -> Provider:
    for key in fields:
        if key not in Provider.model_fields:
            raise InputError(
                f"{name}: {key}: {unknown('setting', key, Provider.model_fields)}",
                code="experience.server_setting",
            )
    shipped = SHIPPED[name].model_dump(exclude_defaults=True) if name in SHIPPED else {}
    try:
        return Provider.model_validate({**shipped, **fields})
    except InputError as error:
        lines = "\n".join(f"{name}: {line}" for line in error.message.splitlines())
        raise InputError(lines, hint=error.hint, code=error.code) from None


def read_key(variable: str) -> Secret:
    """Returns the key that a variable names, `NO_KEY` if neither place has one.

    Raises:
        NotAvailableError: the keyring cannot be read.
        InputError: it cannot be a key.
    """
    value, origin = _key(variable)
    source = variable if origin == ENVIRONMENT else f"{variable} of the keyring"
    return Secret(value, source) if value else NO_KEY


def key_place(variable: str) -> str | None:
    """Returns where a key is: `environment`, `keyring`, or nowhere.

    Raises:
        NotAvailableError: the keyring cannot be read.
    """
    return _key(variable)[1]


def how_to_set(variable: str) -> str:
    """Returns how a user gives a key, in words."""
    if find_spec(_PACKAGE) is None:
        return f"export {variable}=...; keys are never stored"
    return f"export {variable}=..., or: keyring set {SERVICE} {variable}"


def _key(variable: str) -> tuple[str, str | None]:
    if value := os.environ.get(variable, "").strip():
        return value, ENVIRONMENT
    if find_spec(_PACKAGE) is None:
        return "", None
    import keyring  # pyright: ignore[reportMissingImports]
    from keyring import errors  # pyright: ignore[reportMissingImports]

    module: Any = keyring
    faults: Any = errors
    try:
        value = str(module.get_password(SERVICE, variable) or "").strip()
    except faults.NoKeyringError:
        return "", None
    except faults.KeyringError as error:
        # without its words, which are those of another program: they may have the key
        raise NotAvailableError(
            f"{variable}: expected a key in the keyring, which cannot be read: "
            f"{type(error).__name__}",
            hint=f"unlock it, or: export {variable}=...",
            code="experience.keyring",
        ) from None
    return value, KEYRING if value else None
