"""The keys of others that the user trusts, by name: `trusted-keys.yaml` in the config folder."""

import re
from pathlib import Path

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.signing.keys import PublicKey, has_key, load_key, parse_key

YOU = "you"
"""What the user's own key is called."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")


def trusted_file() -> Path:
    """Returns the place of the list."""
    return folders().config / "trusted-keys.yaml"


def trusted_keys() -> dict[str, PublicKey]:
    """Returns the trusted keys by name, without the user's own.

    Raises:
        InputError: the file is damaged, or has a key twice.
    """
    from zoo.gym.files.yaml_entries import read_entries

    path = trusted_file()
    if not path.exists():
        return {}
    keys: dict[str, PublicKey] = {}
    for entry in read_entries(path):
        where = f"{path}:{entry.line}"
        if not _NAME.fullmatch(entry.key) or entry.key == YOU:
            raise InputError(
                f"{where}: expected NAME: KEY, got another name", code="signing.trusted_file"
            )
        try:
            key = parse_key(entry.value)
        except InputError as error:
            raise InputError(
                f"{where}: {error.message}", hint=error.hint, code=error.code
            ) from None
        if key in keys.values():
            raise InputError(
                f"{where}: expected each key once, got one with two names",
                code="signing.trusted_file",
            )
        keys[entry.key] = key
    return keys


def trust(name: str, key: PublicKey) -> None:
    """Adds a key to the list.

    Raises:
        InputError: the name is none, or it or the key is in the list or the user's own.
        StorageError: the list cannot be written.
    """
    if not _NAME.fullmatch(name) or name == YOU:
        raise InputError(
            f"name '{name}': expected small letters, digits, '.', '-' and '_', at most 40, and not "
            f"'{YOU}'",
            code="signing.bad_name",
        )
    keys = trusted_keys()
    if name in keys:
        raise InputError(
            f"name '{name}': expected a new one, got that of key {keys[name].fingerprint}",
            hint=f"zoo-gym keys distrust {name}",
            code="signing.name_taken",
        )
    if signer := signer_name(key):
        raise InputError(
            f"key {key.fingerprint}: expected a new one, got that of {signer}",
            code="signing.key_known",
        )
    _write({**keys, name: key})


def distrust(name: str) -> PublicKey:
    """Takes a key from the list and returns it.

    Raises:
        NotAvailableError: there is none of that name.
        StorageError: the list cannot be written.
    """
    keys = trusted_keys()
    if name not in keys:
        raise NotAvailableError(
            f"no trusted key '{name}': expected the name of one",
            hint="zoo-gym keys list",
            code="signing.not_trusted",
        )
    key = keys.pop(name)
    _write(keys)
    return key


def signer_name(key: PublicKey) -> str:
    """Returns `you` for the user's own key, the name of a trusted one, else nothing.

    Raises:
        InputError: the list or the user's key cannot be used.
    """
    if has_key() and load_key().public == key:
        return YOU
    return next((name for name, trusted in trusted_keys().items() if trusted == key), "")


def _write(keys: dict[str, PublicKey]) -> None:
    ensure_folder(trusted_file().parent)
    lines = [f'"{name}": {key}\n' for name, key in sorted(keys.items())]
    write_beside(trusted_file(), "".join(lines), sync=True)
