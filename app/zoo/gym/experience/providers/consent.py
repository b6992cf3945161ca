"""Which hosts the user has agreed to: what leaves the machine is said before the first time."""

from collections.abc import Callable, Iterable

from zoo.gym.errors import NotAvailableError
from zoo.gym.experience.providers.names import Hosted
from zoo.gym.files import read_small, write_beside
from zoo.gym.paths import ensure_folder, folders

_FILE = "hosts.txt"


def known_hosts() -> set[str]:
    """Returns the hosts that the user has agreed to."""
    try:
        text = read_small(folders().config / _FILE).decode()
    except (OSError, UnicodeDecodeError):
        return set()
    return set(text.split())


def require_consent(models: Iterable[Hosted], leaves: str, confirm: Callable[[str], bool]) -> None:
    """Asks about each host that is new, and remembers a yes.

    Args:
        models: the models that will be called; those of this machine need no consent.
        leaves: what is sent, and what it costs, in a sentence.
        confirm: asks a question.

    Raises:
        NotAvailableError: the user does not agree.
        StorageError: the answer cannot be stored.
    """
    known = known_hosts()
    for host in dict.fromkeys(model.host for model in models if not model.is_local):
        if host in known:
            continue
        if not confirm(f"{leaves} Send to {host}? [y/N] "):
            raise NotAvailableError(
                f"{host}: expected your consent, because {leaves[0].lower()}{leaves[1:]}",
                hint="agree with --yes",
            )
        known.add(host)
        ensure_folder(folders().config)
        write_beside(folders().config / _FILE, "".join(f"{one}\n" for one in sorted(known)))


def refuse_offline(models: Iterable[Hosted]) -> None:
    """Refuses models of other machines.

    Raises:
        NotAvailableError: one is not on this machine.
    """
    far = next((model for model in models if not model.is_local), None)
    if far is not None:
        raise NotAvailableError(
            f"--offline: expected models of this machine, got {far.id} at {far.host}"
        )
