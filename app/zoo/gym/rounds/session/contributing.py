"""A contributor's part: codes a fine-tune, commits to it, and reveals it when that counts.

Everything is written on this machine first, the nonce before all, so that a command that was cut
gives the same commitment again. Nothing is sent until `send` is called.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import read_errors, read_small, write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.kind import FineTune, kind_of
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.rules.method import AggregationMethod
from zoo.gym.rounds.session.opening import Opened, inbox_name
from zoo.gym.rounds.session.writing import leave
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import describe, store
from zoo.gym.signing import OwnKey, PublicKey, Signed, sign

if TYPE_CHECKING:
    from zoo.gym.rounds.privacy.contribution import Written
    from zoo.gym.rounds.privacy.ledger import Spending

NOT_IN_TIME = "you committed already, and did not reveal in time"

_AGAIN = "again"
_NONCE, _ABOUT, _SENT = "nonce", "about.json", "sent"


@dataclass(frozen=True)
class Prepared:
    """What this user contributes to a round.

    Attributes:
        file: the coded contribution.
        examples: training examples, as the user says.
        digest: BLAKE3 of the file.
        spends: what a private round tells about it.
        written: what became of the fine-tune in a private round.
    """

    file: Path
    nonce: str
    examples: int
    digest: str
    bytes: int
    spends: "Spending | None" = None
    written: "Written | None" = None


def prepare(
    opened: Opened, source: Path, base: Path, key: OwnKey, *, examples: int = 0
) -> tuple[Prepared, Signed]:
    """Codes a fine-tune for a round and returns it with the signed commitment to it.

    Until the commitment is sent, another source replaces the first one.

    Args:
        source: see `zoo.gym.tuned.opened.open_tuned`.
        examples: training examples; they count in federated average alone.

    Raises:
        NotAvailableError: the source or the base is missing.
        InputError: the round takes no commitments any more, has one of this key to another file,
            or cannot take this source.
        StorageError: the file cannot be written.
    """
    hint = "zoo-gym round contribute LIBRARY takes lessons"
    kind_of(opened.manifest).expect_weights(opened.manifest, "contribution", hint)
    return prepare_source(opened, FineTune(source, base), str(source), key, examples=examples)


def check_examples(manifest: Manifest, examples: int | None, name: str) -> int:
    """Returns the number of training examples that a commitment names, 0 where nobody weighs by it.

    Args:
        name: of the option, for messages.

    Raises:
        InputError: the rule weighs by it and there is none, or does not and there is one.
    """
    if manifest.method != AggregationMethod.FEDERATED_AVERAGE:
        if examples is None:
            return 0
        raise InputError(
            f"{name}: expected none, got {examples}: the rule {manifest.method} does not weigh by "
            "them",
            code="rounds.examples_unused",
        )
    if not examples or not objects.is_size(examples):
        got = "nothing" if examples is None else examples
        raise InputError(
            f"{name}: expected 1 to 2^40, because federated_average weighs by them, got {got}",
            hint="give the number of examples that it was trained on",
            code="rounds.examples_missing",
        )
    return examples


def prepare_source(
    opened: Opened, source: object, name: str, key: OwnKey, *, examples: int = 0
) -> tuple[Prepared, Signed]:
    """Codes what the round's kind takes, as `prepare` does a fine-tune.

    Raises:
        GymError: as `prepare`.
    """
    manifest, kind, folder = opened.manifest, kind_of(opened.manifest), _folder(opened, key)
    committed = opened.state.commits.get(key.public)
    refuse_new(opened, key.public)
    if committed is not None or (folder / _SENT).exists():
        prepared, recoded = own_contribution(opened, key), folder / _AGAIN
        kind.code(manifest, source, recoded)
        is_same = describe(recoded)[0].digest == describe(folder / kind.coded)[0].digest
        recoded.unlink()
        if not is_same or examples != prepared.examples:
            raise InputError(
                f"{name}: expected the contribution that you committed to, got another",
                hint="a commitment cannot be changed; contribute this one to the next round",
                code="rounds.other_file",
            )
        return prepared, _commitment(opened, prepared, key)
    ensure_folder(folder)
    with read_errors(folder / _NONCE):
        has_nonce = (folder / _NONCE).exists()
    if not has_nonce:
        write_beside(folder / _NONCE, secrets.token_hex(32), sync=True)
    written = kind.code(manifest, source, folder / kind.coded)
    kind.seal(manifest, opened.state.id, key.public, folder)
    details = {"examples": examples} | ({"private": vars(written)} if written else {})
    write_beside(folder / _ABOUT, json.dumps(details), sync=True)
    prepared = own_contribution(opened, key)
    return prepared, _commitment(opened, prepared, key)


def refuse_new(opened: Opened, key: PublicKey) -> None:
    """Refuses a contributor who has not committed when nobody can any more.

    Raises:
        NotAvailableError: it is too late.
    """
    if key not in opened.state.commits and opened.state.phase is not Phase.COMMIT:
        raise NotAvailableError(
            f"round {opened.manifest.name}: expected phase commit, got {opened.state.phase}: it "
            "takes no new contributions",
            code="rounds.other_phase",
        )


def own_contribution(opened: Opened, key: OwnKey) -> Prepared:
    """Returns what was prepared for a round.

    Raises:
        NotAvailableError: nothing was prepared on this machine.
        InputError: it is not the file of the commitment.
    """
    folder = _folder(opened, key)
    with read_errors(folder):
        try:
            nonce = read_small(folder / _NONCE, most_bytes=100).decode()
            details = cast("dict[str, Any]", json.loads(read_small(folder / _ABOUT)))
        except FileNotFoundError:
            raise NotAvailableError(
                f"round {opened.manifest.name}: expected a contribution of yours in {folder}, got "
                "nothing",
                hint=f"it is on the machine where you ran: {opened.manifest.command('contribute')}",
                code="rounds.nothing_prepared",
            ) from None
    kind = kind_of(opened.manifest)
    stored, _ = describe(folder / kind.file)
    prepared = Prepared(
        folder / kind.file,
        nonce,
        details["examples"],
        stored.digest,
        stored.bytes,
        kind.spending(opened.manifest),
        _written(details["private"]) if "private" in details else None,
    )
    committed = opened.state.commits.get(key.public)
    if committed not in {None, objects.commitment(prepared.digest, prepared.nonce, key.public)}:
        raise InputError(
            f"{prepared.file}: expected the file that you committed to, got another",
            code="rounds.other_file",
        )
    kind.check_file(prepared.file, opened.manifest)
    return prepared


def _written(fields: Mapping[str, float]) -> "Written":
    from zoo.gym.rounds.privacy.contribution import Written

    return Written(**fields)


def reveal(opened: Opened, key: OwnKey) -> tuple[Prepared, Signed]:
    """Returns the contribution of this user and the signed entry that reveals it.

    Raises:
        NotAvailableError: the round takes no reveals, or nothing was prepared here.
        InputError: the key has not committed, or to another file.
    """
    phase = opened.state.phase
    if phase is not Phase.REVEAL and key.public not in opened.state.reveals:
        is_late = key.public in opened.state.commits and phase in {Phase.COMPUTE, Phase.PUBLISHED}
        late = f": {NOT_IN_TIME}" if is_late else ""
        early = "contributions are revealed after the deadline for commitments"
        raise NotAvailableError(
            f"round {opened.manifest.name}: expected phase reveal, got {phase}{late}",
            hint=early if phase is Phase.COMMIT else None,
            code="rounds.other_phase",
        )
    if key.public not in opened.state.commits:
        raise InputError(
            f"round {opened.manifest.name}: expected a commitment of your key "
            f"{key.public.fingerprint}, got none",
            code="rounds.not_committed",
        )
    prepared = own_contribution(opened, key)
    stored, _ = describe(prepared.file)
    details = {"nonce": prepared.nonce, "examples": prepared.examples}
    body = objects.body_of(opened.state.id, **vars(stored), **details)
    return prepared, sign(key, objects.REVEAL, body)


def send_commitment(prepared: Prepared, entry: Signed, storage: Storage) -> str:
    """Sends a commitment and returns its name: no weights leave the machine with it.

    From then on it stands, whether or not it arrived.

    Raises:
        StorageError: it could not be sent.
    """
    write_beside(prepared.file.with_name(_SENT), str(entry.body["commitment"]), sync=True)
    return leave(storage, entry)


def send_reveal(prepared: Prepared, entry: Signed, storage: Storage) -> str:
    """Sends the chunks that are not there yet, then the entry that reveals them.

    What a private round spends is booked before.

    Raises:
        StorageError: something could not be sent; what was stays.
    """
    if prepared.spends is not None:
        from zoo.gym.rounds.privacy.ledger import note_own

        note_own(str(entry.body["round"]), str(entry.key), prepared.spends)
    store(prepared.file, storage)
    return leave(storage, entry)


def receipt_of(opened: Opened, entry: Signed) -> str | None:
    """Returns the name of an entry of this user's that was sent before; None if it was not.

    Raises:
        StorageError: the storage cannot be read.
    """
    content = objects.encode(entry)
    name = inbox_name(content)
    return name if content in opened.entries or opened.storage.read(name) == content else None


def has_sent(round_: str, *, but: PublicKey | None = None) -> bool:
    """Returns whether this user has sent a commitment to a round, with any other key than `but`."""
    passed = None if but is None else _short(but)
    notes = (_top() / round_).glob(f"*/{_SENT}")
    return any(path.parent.name != passed for path in notes)


def _commitment(opened: Opened, prepared: Prepared, key: OwnKey) -> Signed:
    commitment = objects.commitment(prepared.digest, prepared.nonce, key.public)
    return sign(key, objects.COMMIT, objects.body_of(opened.state.id, commitment=commitment))


def _folder(opened: Opened, key: OwnKey) -> Path:
    return _top() / opened.state.id / _short(key.public)


def _short(key: PublicKey) -> str:
    return key.raw.hex()[:16]


def _top() -> Path:
    return folders().data / "rounds" / "own"
