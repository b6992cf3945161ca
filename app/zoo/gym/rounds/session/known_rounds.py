"""Where the rounds that this user has seen are: by address, id or name."""

import json
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from unicodedata import normalize

from zoo.gym.errors import GymError, InputError, NotAvailableError, StorageError
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.paths import ensure_folder, folders, given_path
from zoo.gym.rounds.kind import kind_of
from zoo.gym.rounds.protocol.manifest import Role, round_id
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.session.opening import MANIFEST, Opened, open_round, stored_manifest
from zoo.gym.rounds.storage.base import FolderStorage, Storage, is_address
from zoo.gym.rounds.storage.http import open_storage
from zoo.gym.signing import has_key, load_key

_SHORTEST = 6
_PARTS: dict[Role, str] = {"log": "maker", "gate": "gate", "witness": "witness"}
_ENDED = {Phase.PUBLISHED.value, Phase.VOID.value}


@dataclass(frozen=True)
class KnownRound:
    """A round that was seen on this machine.

    Attributes:
        address: where this user takes part in it, or where it was seen first.
        kind: what it combines.
        phase: what it waited for when it was seen last; empty if nobody wrote that down.
        roles: the parts of this user by its terms, such as maker.
    """

    id: str
    name: str
    address: str
    kind: str = "delta"
    phase: str = ""
    roles: tuple[str, ...] = ()


def remember_round(opened: Opened, *, used: bool = False) -> None:
    """Remembers where a round is, and its phase; a copy that is only read does not replace it.

    Args:
        used: something of this user was sent there, so that what follows goes there as well.

    Raises:
        StorageError: it cannot be written.
    """
    path, manifest = _folder() / f"{opened.state.id}.json", opened.manifest
    usual_address, address = kept_address(opened.state.id), opened.storage.address
    stored = read_json_object(path) or {}
    seen = _seen_in(stored)
    if seen is None or seen[0] < opened.head.size:
        seen = opened.head.size, address
    if (
        usual_address not in {None, address}
        and not used
        and _may_be_there(str(usual_address), opened.state.id)
    ):
        if _seen_in(stored) != seen:
            write_beside(path, json.dumps(stored | {"seen": seen}))
        return
    roles: list[str] = []
    with suppress(InputError, StorageError):
        key = load_key().public if has_key() else None
        roles = [part for role, part in _PARTS.items() if key in manifest.keys_of(role)]
    fields: dict[str, object] = {
        "seen": list(seen),
        "name": manifest.name,
        "address": address,
        "kind": manifest.kind,
        "phase": opened.state.phase.value,
        "roles": " ".join(roles),
    }
    if stored == fields:
        return
    ensure_folder(path.parent)
    write_beside(path, json.dumps(fields))


def kept_address(round_: str) -> str | None:
    """Returns the address that is kept of a round, None if it was not seen before."""
    address = (read_json_object(_folder() / f"{round_}.json") or {}).get("address")
    return address if isinstance(address, str) else None


def longest_log_address(round_: str) -> str | None:
    """Returns the address at which the longest log of a round was seen, None if it was not."""
    seen = _seen_in(read_json_object(_folder() / f"{round_}.json") or {})
    return None if seen is None else seen[1]


def _seen_in(fields: Mapping[str, object]) -> tuple[int, str] | None:
    """Returns the size of the longest log that was seen, and where; None without a readable one."""
    match fields.get("seen"):
        case [int(size), str(address)]:
            return size, address
        case _:
            return None


def _may_be_there(address: str, round_: str) -> bool:
    """Returns whether a folder still has a round; an address is assumed to."""
    if is_address(address):
        return True
    try:
        return round_id(stored_manifest(FolderStorage(Path(address)))) == round_
    except GymError:
        return False


def known_rounds() -> list[KnownRound]:
    """Returns the rounds that were seen, by name."""
    rounds: list[KnownRound] = []
    for path in _folder().glob("*.json"):
        fields = cast("dict[str, str]", read_json_object(path) or {})
        if "name" in fields and "address" in fields:
            kind, phase = fields.get("kind", "delta"), fields.get("phase", "")
            roles = tuple(fields.get("roles", "").split())
            rounds.append(
                KnownRound(path.stem, fields["name"], fields["address"], kind, phase, roles)
            )
    return sorted(rounds, key=lambda round_: (round_.name, round_.id))


def word_for(opened: Opened) -> str:
    """Returns the argument for a round in a command: its name if unambiguous, or its address."""
    name, address = opened.manifest.name, opened.storage.address
    same = [(round_.id, round_.address) for round_ in known_rounds() if _fits(round_, name)]
    is_clear = same == [(opened.state.id, address)] and not _is_round(given_path(name))
    is_clear &= not is_address(name) and name.isprintable()  # also of rounds that others made
    return shlex.quote(name if is_clear and not name.startswith("-") else address)


def current_phase(round_: KnownRound) -> str:
    """Returns the phase of a round: in a folder the one of now, elsewhere the one seen last."""
    if is_address(round_.address):
        return round_.phase
    storage = FolderStorage(Path(round_.address))
    with suppress(GymError):
        return open_round(storage, expected=round_.id, remember=False).state.phase.value
    return round_.phase


def find_storage(name: str | None, *, published: bool = False) -> tuple[Storage, str | None]:
    """Returns the storage of a round, and the id that it must have if one was seen before.

    Args:
        name: a folder, an address, or a name, an id or the start of an id that was seen. A folder
            that has no round hides none that was seen. If None, the only round that was seen and
            has not ended, or the only one.
        published: whether None is the only one with a result instead.

    Raises:
        InputError: several rounds fit, or the address is of a kind that cannot be read.
        NotAvailableError: none fits, or its folder is not there.
    """
    places = known_rounds()
    if name is not None:
        if is_address(name):
            return open_storage(name), None
        fitting, path = [round_ for round_ in places if _fits(round_, name)], given_path(name)
        if path.is_dir() and (_is_round(path) or not fitting):
            return FolderStorage(path.resolve()), None
        places = fitting
    elif len(places) > 1:
        phases = {round_: current_phase(round_) for round_ in places}
        places = [
            round_
            for round_, phase in phases.items()
            if (phase == Phase.PUBLISHED if published else phase not in _ENDED)
        ] or places
    if len(places) == 1:
        (seen,) = places
        if is_address(seen.address) or _is_round(Path(seen.address)):
            return open_storage(seen.address), seen.id
        raise NotAvailableError(
            f"round {seen.name}: {seen.address} is not reachable: is the share or disk mounted?",
            hint="if the round has moved, give its folder: zoo-gym round show FOLDER",
            code="rounds.unreachable",
        )
    what = "the only round seen here" if name is None else f"round {name!r}"
    hint = "zoo-gym round list shows those seen here; a new one is given by its folder or address"
    if not places:
        raise NotAvailableError(
            f"{what}: expected a round, got none", hint=hint, code="rounds.no_round"
        )
    names = ", ".join(f"{round_.name} ({round_.id[:12]})" for round_ in places)
    if name is None:
        raise InputError(
            f"several rounds are known: name one of {names}",
            hint=hint,
            code="rounds.several_rounds",
        )
    raise InputError(
        f"{what}: expected one, got {len(places)}: {names}", hint=hint, code="rounds.several_rounds"
    )


def _is_round(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def _fits(round_: KnownRound, name: str) -> bool:
    same = normalize("NFC", name) == normalize("NFC", round_.name)
    return same or (len(name) >= _SHORTEST and round_.id.startswith(name))


def _folder() -> Path:
    return folders().data / "rounds" / "places"


def settings_for(name: str) -> dict[str, object]:
    """Returns the settings that a round fixes, the default of the base among them.

    Raises:
        InputError: it is not a private round, or has tensors that no layer's weight is.
        NotAvailableError: there is no such round.
        StorageError: it cannot be read.
    """
    storage, expected = find_storage(name)
    manifest = open_round(storage, expected=expected).manifest
    return kind_of(manifest).training(manifest)
