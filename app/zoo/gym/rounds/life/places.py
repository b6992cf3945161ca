"""Where the rounds that this user has seen are: by address, id or name."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.paths import ensure_folder, folders, given_path
from zoo.gym.rounds.life.opening import MANIFEST, Opened, stored_manifest
from zoo.gym.rounds.protocol.manifest import round_id
from zoo.gym.rounds.storage.address import is_address
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.folder import FolderStorage
from zoo.gym.rounds.storage.opening import open_storage

_SHORTEST = 6


@dataclass(frozen=True)
class Place:
    """A round that was seen on this machine.

    Attributes:
        id: the round's.
        name: what its maker calls it.
        address: where this user takes part in it, or where it was seen first.
        kind: what it combines.
    """

    id: str
    name: str
    address: str
    kind: str = "delta"


def remember_place(opened: Opened, *, used: bool = False) -> None:
    """Keeps where a round is; a copy that is only looked at does not take its place.

    Args:
        opened: the round.
        used: something of this user was sent there, so that what follows goes there as well.

    Raises:
        StorageError: it cannot be written.
    """
    path = _folder() / f"{opened.state.id}.json"
    kept = kept_address(opened.state.id)
    if kept is not None and not used and _may_be_there(kept, opened.state.id):
        return
    manifest = opened.manifest
    fields = {"name": manifest.name, "address": opened.storage.address, "kind": manifest.kind}
    ensure_folder(path.parent)
    write_beside(path, json.dumps(fields))


def kept_address(round_: str) -> str | None:
    """Returns the address that is kept of a round, None if it was not seen before."""
    address = (read_json_object(_folder() / f"{round_}.json") or {}).get("address")
    return address if isinstance(address, str) else None


def _may_be_there(address: str, round_: str) -> bool:
    """Says whether a round is still in a folder; any other address is taken to have it."""
    if is_address(address):
        return True
    try:
        return round_id(stored_manifest(FolderStorage(Path(address)))) == round_
    except GymError:
        return False


def known_places() -> list[Place]:
    """Returns the rounds that were seen, by name."""
    found: list[Place] = []
    for path in _folder().glob("*.json"):
        fields = cast("dict[str, str]", read_json_object(path) or {})
        if "name" in fields and "address" in fields:
            kind = fields.get("kind", "delta")
            found.append(Place(path.stem, fields["name"], fields["address"], kind))
    return sorted(found, key=lambda place: (place.name, place.id))


def word_for(opened: Opened) -> str:
    """Returns what a command takes for a round: its name, or its address where that is another."""
    name, address = opened.manifest.name, opened.storage.address
    same = [(place.id, place.address) for place in known_places() if _fits(place, name)]
    is_clear = same == [(opened.state.id, address)] and not _is_round(given_path(name))
    return shlex.quote(name if is_clear and not name.startswith("-") else address)


def find_storage(given: str | None) -> tuple[Storage, str | None]:
    """Returns the storage of a round, and the id that it must have if one was seen before.

    Args:
        given: a folder, an address, or a name, an id or the start of an id that was seen; the only
            round that was seen if None.

    Raises:
        InputError: several rounds fit, or the address is of a kind that cannot be read.
        NotAvailableError: none fits.
    """
    places = known_places()
    if given is not None:
        if is_address(given):
            return open_storage(given), None
        path = given_path(given)
        if path.is_dir():
            return FolderStorage(path.resolve()), None
        places = [place for place in places if _fits(place, given)]
    if len(places) == 1:
        return open_storage(places[0].address), places[0].id
    what = "the only round seen here" if given is None else f"round {given!r}"
    hint = "zoo-gym round list shows those seen here; a new one is given by its folder or address"
    if not places:
        raise NotAvailableError(f"{what}: expected a round, got none", hint=hint)
    names = ", ".join(f"{place.name} ({place.id[:12]})" for place in places)
    raise InputError(f"{what}: expected one, got {len(places)}: {names}", hint=hint)


def _is_round(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def _fits(place: Place, given: str) -> bool:
    return given == place.name or (len(given) >= _SHORTEST and place.id.startswith(given))


def _folder() -> Path:
    return folders().data / "rounds" / "places"
