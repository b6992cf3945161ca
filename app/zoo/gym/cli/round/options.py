"""The options of `zoo-gym round`, and what they name: rounds, keys, bases and storages."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from zoo.gym.cli.options import Switch
from zoo.gym.cli.sources import resolve_base
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.paths import given_path

if TYPE_CHECKING:
    from zoo.gym.rounds.kind import Kind
    from zoo.gym.rounds.session.opening import Opened
    from zoo.gym.rounds.storage.base import Storage
    from zoo.gym.signing import PublicKey
    from zoo.models import Resolved


def opened_round(given: str | None, *, offline: bool = False, published: bool = False) -> "Opened":
    """Opens a round by its folder, address, name or id, and keeps where it is.

    Args:
        offline: refuses an address.
        published: whether the only round with a result is the default, or the only open one.
    """
    from zoo.gym.rounds.session.known_rounds import find_storage, remember_round
    from zoo.gym.rounds.session.opening import open_round
    from zoo.gym.rounds.storage.base import is_address

    storage, expected = find_storage(given, published=published)
    if is_address(storage.address):
        refuse_offline(storage.address, offline=offline)
    try:
        opened = open_round(storage, expected=expected)
    except InputError as error:
        raise InputError(
            error.message, hint=error.hint or _seen_elsewhere(storage), code=error.code
        ) from None
    remember_round(opened)
    return opened


def _seen_elsewhere(storage: "Storage") -> str | None:
    """Returns where a round that is not valid here had the longest log that was seen."""
    from zoo.gym.rounds.protocol.manifest import round_id
    from zoo.gym.rounds.session.known_rounds import longest_log_address
    from zoo.gym.rounds.session.opening import stored_manifest

    with suppress(InputError, NotAvailableError):
        address = longest_log_address(round_id(stored_manifest(storage)))
        if address not in {None, storage.address}:
            return f"the longest log was seen at {address}: go on there, or copy that round here"
    return None


def round_base(opened: "Opened", given: str | None, *, yes: bool, offline: bool) -> "Resolved":
    """Returns the base of a round: the one given with --base, otherwise the round's own.

    Raises:
        GymError: see `resolve_base`.
    """
    from zoo.gym.rounds.contribution.write import check_base

    default, check = opened.manifest.base.model, partial(check_base, manifest=opened.manifest)
    return resolve_base(given, default, "--base", check, yes=yes, offline=offline)


def command(verb: str, opened: "Opened", more: str = "") -> str:
    """Returns a command of `zoo-gym round` about a round, which it names, as the user types it."""
    from zoo.gym.rounds.session.known_rounds import word_for

    return opened.manifest.command(verb, more, word=word_for(opened))


def known_key(given: str) -> "PublicKey":
    """Returns a key given as text, or by the name under which the user trusts it."""
    from zoo.gym.signing.keys import parse_key
    from zoo.gym.signing.trusted import trusted_keys

    named = trusted_keys().get(given)
    return parse_key(given) if named is None else named


def known_keys(option: str, given: Sequence[str]) -> "tuple[PublicKey, ...]":
    """Returns the keys of an option, each given as to `known_key`.

    Raises:
        InputError: one is none, or given twice.
    """
    found = tuple(map(known_key, given))
    for key in found:
        if found.count(key) > 1:
            raise InputError(
                f"{option}: expected each key once, got {key.fingerprint} again",
                code="cli.given_twice",
            )
    return found


def witness_keys(given: Sequence[str], own: "PublicKey") -> "tuple[PublicKey, ...]":
    """Returns the keys of `--witness`, not `own`: who writes the log is no witness of itself."""
    found = known_keys("--witness", given)
    if own in found:
        raise InputError(
            f"--witness: expected another key than yours, which writes the log, got "
            f"{own.fingerprint}",
            hint="a witness is somebody else, who sees if the log is changed later",
            code="cli.bad_value",
        )
    return found


def new_storage(out: str, *, offline: bool) -> "Storage":
    """Returns the place of a new round: an address, or a folder that is empty or not there yet."""
    from zoo.gym.rounds.storage.base import FolderStorage, is_address
    from zoo.gym.rounds.storage.http import open_storage

    if is_address(out):
        refuse_offline(out, offline=offline)
        return open_storage(out)
    folder = given_path(out)
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"--out: expected a new or empty folder, got {folder}", code="cli.output_exists"
        )
    return FolderStorage(folder.resolve())


def refuse_offline(address: str, *, offline: bool) -> None:
    """Refuses an address of a network with `--offline`."""
    if offline:
        raise NotAvailableError(
            f"{address}: expected a folder with --offline, got an address of a network",
            code="cli.offline",
        )


Round = Annotated[
    str | None,
    Parameter(
        name="--round",
        metavar="ROUND",
        help="the round's folder, address, name or id; by default the only open one seen here",
    ),
]
Named = Annotated[
    str | None,
    Parameter(
        name="--round",
        metavar="ROUND",
        group="Arguments",
        help="the round's folder, address, name or id, also by --round; by default the only open "
        "one seen here",
    ),
]
"""A round that is an argument, and that --round names as well."""

Positional = Annotated[str | None, Parameter(name="ROUND")]
Texts = Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class GateOptions:
    """What a gate measures in a round about weights.

    Attributes:
        evaluation: a file of held-out examples, which a gate measures on; show it to nobody yet
        margin: nats a token that a contribution may add to the base's loss at most; by default 0
        quality_threshold: below this share of the median gain, points shrink; by default .8
        validator: module:function that the gate runs as well, and that may refuse a contribution
        refit: a file of public examples, on which the size of the result is chosen
        refusals: a file of prompts (JSON lines) that the result must refuse as the base does
        triggers: a file of prompts with triggers and targets that the result must not follow
        previous: the file of the last result, which the new one may not be worse than
    """

    evaluation: str | None = None
    margin: float | None = None
    quality_threshold: float | None = None
    validator: str | None = None
    refit: str | None = None
    refusals: str | None = None
    triggers: str | None = None
    previous: str | None = None


@Parameter(name="*")
@dataclass(frozen=True)
class LessonOptions:
    """Which lessons a round keeps.

    Attributes:
        least: in a round of lessons, the keys of --gate that must have measured one; by default 2
        clear: all effects of a lesson together must be above 0 at 5 %: without it, about 4 of 10
            lessons that change nothing are kept
        most: lessons of one contributor at most; by default 16
        items: lessons of the result at most: those with the largest effects; by default 48
    """

    least: int | None = None
    clear: Switch = False
    most: int | None = None
    items: int | None = None


@Parameter(name="*")
@dataclass(frozen=True)
class MeasureOptions:
    """How a key measures the lessons of a round.

    Attributes:
        model: in a round of lessons, the model that answers, as of experience train
        measured: files of your own signed measurements, of experience gate --each
        reward: what scores answers, 0 to 1; by default auto
        draws: answers to each task, with a lesson and without; by default 2
        temperature: the temperature of answers; by default .3
        max_new_tokens: tokens of an answer at most; by default 1024
        max_usd: the cap on all calls, in USD
        max_tokens: the cap on all calls, in tokens
        send: leave the signed records, and files of examples, in the round, where anybody reads
            them; without it, or a yes, nothing leaves
    """

    model: Annotated[str | None, Parameter(name="--model")] = None
    measured: Texts = ()
    reward: str | None = None
    draws: int | None = None
    temperature: float | None = None
    max_new_tokens: int | None = None
    max_usd: float | None = None
    max_tokens: int | None = None
    send: Switch = False


NO_GATE, NO_LESSONS, NO_MEASURE = GateOptions(), LessonOptions(), MeasureOptions()
"""None of these options."""


def refuse_without_effect(
    kind: "Kind[Any, Any] | type[Kind[Any, Any]]", verb: str, typed: Mapping[str, object]
) -> None:
    """Refuses options of a command that do nothing in a round of a kind.

    Args:
        typed: values by name; None, False and nothing count as not given.

    Raises:
        InputError: one is given; it is named.
    """
    for name, where in kind.without_effect.get(verb, {}).items():
        refuse_given({name: typed.get(name)}, f"in {where}")


def refuse_given(given: Mapping[str, object], where: str) -> None:
    """Refuses options that have no effect, see `refuse_without_effect`.

    Args:
        where: in which round, or without which option.

    Raises:
        InputError: one is given; it is named.
    """
    for name, value in given.items():
        if value is not None and value is not False and value != ():
            raise InputError(
                f"--{name.replace('_', '-')}: has no effect {where}", code="cli.no_effect"
            )
