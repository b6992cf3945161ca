"""Lists the models that are on this machine, and how to get the others."""

from dataclasses import dataclass

from zoo.gym.errors import InputError, NotAvailableError
from zoo.models import Entry, registry, resolve


@dataclass(frozen=True)
class Model:
    """A listed model.

    Attributes:
        name: its alias.
        licence: its SPDX id.
        parameters: their number, counting tied ones once.
        here: it can be loaded without a network.
        download_bytes: the size of the download; 0 if it is here.
        command: the command that downloads it after a confirmation; None if it is here.
    """

    name: str
    licence: str
    parameters: int
    here: bool
    download_bytes: int
    command: str | None


def models() -> tuple[Model, ...]:
    """Lists the models by looking in the cache; uses no network."""
    return tuple(_model(entry) for entry in registry())


def is_here(name: str) -> bool:
    """Returns whether a model can be loaded from this machine."""
    try:
        resolve(name, offline=True)
    except (NotAvailableError, InputError):
        return False
    return True


def _model(entry: Entry) -> Model:
    here = is_here(entry.alias)
    return Model(
        name=entry.alias,
        licence=entry.licence,
        parameters=entry.parameters,
        here=here,
        download_bytes=0 if here else entry.download_bytes,
        command=None if here else f"zoo-gym models get {entry.alias}",
    )
