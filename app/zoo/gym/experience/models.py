"""The models of a run, and the cap on what they may cost."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeAlias, cast

from zoo.gym.errors import InputError
from zoo.gym.experience.calls.budget import Cap
from zoo.gym.experience.calls.caller import Model
from zoo.gym.experience.local import BATCH, Local
from zoo.gym.experience.providers.names import Hosted, hosted
from zoo.gym.experience.settings import ExperienceConfig

SERVERS_KEY = "servers"
"""The key of the addresses of servers in a run's `env.json`."""

DEFAULT_USD = 5.0
"""The cap of a run that names none."""

_MOST_SHOWN = 100

AnyModel: TypeAlias = Hosted | Local
"""A model on a server, or one of this machine."""


@dataclass(frozen=True)
class Named:
    """The models that a run names.

    Attributes:
        model: answers tasks.
        teacher: proposes lessons.
    """

    model: AnyModel
    teacher: AnyModel

    @property
    def all(self) -> list[AnyModel]:
        """Both, once."""
        return list({model.id: model for model in (self.model, self.teacher)}.values())

    @property
    def on_servers(self) -> list[Hosted]:
        """Those on servers, once."""
        return [model for model in self.all if isinstance(model, Hosted)]

    @property
    def in_process(self) -> list[Local]:
        """Those that this process loads, once."""
        return [model for model in self.all if isinstance(model, Local)]


def named_models(config: ExperienceConfig) -> Named:
    """Returns the models of a run.

    Raises:
        InputError: an address is wrong, or the name of a model is missing.
    """
    model, teacher = (hosted(name) or Local(name) for name in (config.model, config.teacher_name))
    return Named(model, teacher)


def addresses_of(models: Named) -> dict[str, str]:
    """Returns the address of each model on a server, which a run notes."""
    return {server.id: server.provider.url for server in models.on_servers}


def check_same_servers(models: Named, noted: object) -> None:
    """Refuses to go on with another server under the same name: nobody has agreed to it.

    `noted` are the addresses of the run; anything else is of a run of an older version.

    Raises:
        InputError: an address is another one.
    """
    addresses = cast("dict[str, object]", noted) if isinstance(noted, dict) else {}
    for name, url in addresses_of(models).items():
        if name in addresses and addresses[name] != url:
            raise InputError(
                f"{name}: expected the server that the run began with, {addresses[name]}, got "
                f"{url}",
                hint="set its url back with zoo-gym providers set, or start another run",
                code="experience.other_server",
            )


def cap_of(config: ExperienceConfig, models: Named) -> Cap:
    """Returns the cap on all calls of a run.

    Raises:
        InputError: a model of another machine has no price, and there is no cap in tokens, or one
            in money that would not count it.
    """
    servers = models.on_servers
    caps = [server.provider.max_usd for server in servers if server.provider.max_usd is not None]
    in_money = config.max_usd is not None or caps or any(server.price for server in servers)
    unpriced = [server for server in servers if not server.is_local and server.price is None]
    if unpriced:
        server = unpriced[0]
        name = server.provider_name or f"NAME url={server.provider.url}"
        prices = f"{server.model}.input=USD {server.model}.output=USD"
        hint = f"zoo-gym providers set {name} {prices} for a million tokens"
        if config.max_tokens is None:
            raise InputError(
                f"{server.id}: expected its price, or a cap in tokens, got neither",
                hint=f"{hint}, or --max-tokens N",
                code="experience.no_price",
            )
        if in_money:
            raise InputError(
                f"max_usd: does not cover {server.id}: expected its price, got none",
                hint=hint,
                code="experience.no_price",
            )
    if config.max_usd is not None:
        if all(model.price is None for model in models.all):
            raise InputError(
                "max_usd: has no effect: no model has a price",
                hint="--max-tokens N",
                code="experience.no_effect",
            )
        return Cap(config.max_usd, config.max_tokens)
    usd = min(caps) if caps else DEFAULT_USD if in_money else None
    return Cap(usd, config.max_tokens)


def check_servers(models: Named) -> list[str]:
    """Makes sure that servers can be reached before a run begins; returns doubts, in sentences.

    Some servers answer for models that they do not list, so such a model is not refused.

    Raises:
        NotAvailableError: one cannot be reached, or a key is missing.
    """
    doubts: list[str] = []
    for server in models.on_servers:
        with server.open() as client:
            listed = client.listed_models()
        if listed and server.model not in listed:
            near = ", ".join(name[:_MOST_SHOWN] for name in listed[:5])
            doubts.append(f"{server.id}: the server does not list {server.model}; it lists {near}")
    return doubts


@contextmanager
def open_models(
    models: Named,
    tell: Callable[[str], None],
    turn: Callable[[str], AbstractContextManager[object]] | None = None,
) -> Generator[tuple[Model, Model]]:
    """Yields the model and the teacher, ready for calls.

    `turn` reserves the device with a key for models of this process; None reserves nothing.

    Raises:
        GymError: a key is missing or cannot be one, or a model of this machine cannot be loaded.
    """
    with ExitStack() as stack:
        opened: dict[str, Model] = {}
        for server in models.on_servers:
            client = stack.enter_context(server.open(tell=tell))
            limits = (server.provider.concurrency, server.provider.requests_per_minute)
            opened[server.id] = Model(server.id, client, server.price, *limits)
        if models.in_process and turn is not None:
            from zoo.backends.machine.detect import detect, device_key

            stack.enter_context(turn(device_key(detect().name)))
        for local in models.in_process:
            opened[local.id] = Model(local.id, stack.enter_context(local.open()), None, BATCH)
        yield opened[models.model.id], opened[models.teacher.id]
