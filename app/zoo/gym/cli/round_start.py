"""How `zoo-gym round create` starts a round in a new place."""

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.cli.community.options import NO_GATE, GateOptions
from zoo.gym.config.items import existing
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.paths import given_path

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened
    from zoo.gym.rounds.life.terms import Terms
    from zoo.gym.rounds.privacy.promise import Wish
    from zoo.gym.rounds.protocol.records import Purpose
    from zoo.gym.rounds.storage.base import Storage
    from zoo.gym.signing import OwnKey
    from zoo.models import Resolved


def begin(
    storage: "Storage",
    model: "Resolved",
    terms: "Terms",
    key: "OwnKey",
    standings: bytes | None,
    wish: "Wish | None",
    measured: GateOptions = NO_GATE,
) -> "Opened":
    """Starts a round in a storage, and keeps where it is and, of a private one, its key.

    Files of `measured` with which a gate could not measure are refused first.
    """
    from zoo.gym.rounds.life.opening import open_round
    from zoo.gym.rounds.life.places import remember_place
    from zoo.gym.rounds.life.terms import manifest_for
    from zoo.gym.rounds.life.writing import create_round
    from zoo.gym.rounds.privacy.round_key import keep_round_key
    from zoo.gym.rounds.privacy.sealing import new_key

    _check_measured(measured, model.folder)
    now, secret = dt.datetime.now(dt.UTC), new_key()
    if wish is not None:
        terms = replace(terms, privacy=wish.terms(secret))
    manifest = manifest_for(model.folder, model.id, model.revision, terms, key.public, now)
    if wish is not None:
        wish.check(manifest)
        keep_round_key(secret)
    create_round(storage, manifest, key, standings)
    opened = open_round(storage)
    remember_place(opened, used=True)
    return opened


def _check_measured(measured: GateOptions, base: Path) -> None:
    """Refuses files with which a gate could not measure contributions to a base."""
    from zoo.gym.rounds.measure.examples import check_rows
    from zoo.gym.rounds.measure.measure import check_last_result
    from zoo.gym.rounds.measure.probes import check_probes

    for file in filter(None, (measured.evaluation, measured.refit)):
        check_rows(Path(existing(file)), base)
    probes: dict[Purpose, str | None] = {
        "refusals": measured.refusals,
        "triggers": measured.triggers,
    }
    for purpose, prompts in probes.items():
        if prompts is not None:
            check_probes(Path(existing(prompts)), purpose, base)
    if measured.previous is not None:
        check_last_result(Path(existing(measured.previous)), base)


def new_storage(out: str, *, offline: bool) -> "Storage":
    """Returns the place of a new round: an address, or a folder that is empty or not there yet."""
    from zoo.gym.rounds.storage.address import is_address
    from zoo.gym.rounds.storage.folder import FolderStorage
    from zoo.gym.rounds.storage.opening import open_storage

    if is_address(out):
        refuse_offline(out, offline=offline)
        return open_storage(out)
    folder = given_path(out)
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"--out: expected a new or empty folder, got {folder}")
    return FolderStorage(folder.resolve())


def refuse_offline(address: str, *, offline: bool) -> None:
    """Refuses an address of a network with `--offline`."""
    if offline:
        raise NotAvailableError(
            f"{address}: expected a folder with --offline, got an address of a network"
        )
