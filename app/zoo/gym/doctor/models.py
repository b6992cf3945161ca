"""Lists the models of the zen family that are on this machine, and how to get the others."""

from dataclasses import dataclass

from zoo.gym.errors import InputError, NotAvailableError
from zoo.models import Entry, registry, resolve


@dataclass(frozen=True)
class Model:
    """A model of the family.

    Attributes:
        name: its alias.
        parameters: how many, tied ones once.
        here: it can be loaded without a network.
        download_bytes: what has to be fetched; 0 where it is here.
        command: what fetches it, after a question; None where it is here.
    """

    name: str
    parameters: int
    here: bool
    download_bytes: int
    command: str | None


def models() -> tuple[Model, ...]:
    """Looks into the cache; asks no network."""
    return tuple(_model(entry) for entry in registry())


def is_here(name: str) -> bool:
    """Says whether a model can be loaded as it lies on this machine."""
    try:
        resolve(name, offline=True)
    except (NotAvailableError, InputError):
        return False
    return True


def _model(entry: Entry) -> Model:
    here = is_here(entry.alias)
    return Model(
        name=entry.alias,
        parameters=entry.parameters,
        here=here,
        download_bytes=0 if here else entry.download_bytes,
        command=None if here else f"zoo-gym chat --model {entry.alias}",
    )
