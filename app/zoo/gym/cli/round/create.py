"""`zoo-gym round create`: starts a round in a new place."""

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from zoo.gym.cli.options import Json, Offline, Switch, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.round.options import (
    NO_GATE,
    NO_LESSONS,
    GateOptions,
    LessonOptions,
    command,
    new_storage,
    refuse_without_effect,
    witness_keys,
)
from zoo.gym.cli.round.show import show_round
from zoo.gym.cli.round.terms import (
    check_measured,
    lesson_terms,
    measured_terms,
    newcomers_after,
    rank_of,
    seconds_of,
)
from zoo.gym.cli.sources import resolve_base

if TYPE_CHECKING:
    from zoo.gym.rounds.privacy.promise import Wish
    from zoo.gym.rounds.protocol.manifest import Manifest
    from zoo.gym.rounds.session.opening import Opened
    from zoo.gym.rounds.session.terms import Terms
    from zoo.gym.rounds.storage.base import Storage
    from zoo.gym.signing import OwnKey
    from zoo.models import Resolved

Method = Literal[
    "byzantine_robust",
    "mean",
    "federated_average",
    "weighted_mean",
    "trimmed_mean",
    "median",
    "majority",
    "krum",
    "multi_krum",
    "bulyan",
    "geometric_median",
    "norm_clip",
]


def create(
    name: str,
    /,
    *,
    base: str,
    out: str,
    kind: Literal["delta", "experience"] = "delta",
    form: Literal["signs", "lowrank", "float"] | None = None,
    method: Method | None = None,
    f: int | None = None,
    min_contributors: int = 10,
    max_contributors: int | None = None,
    rank: int | None = None,
    tensors: tuple[str, ...] = (),
    commit_days: float = 7.0,
    reveal_days: float = 2.0,
    pool: int = 1000,
    measured: GateOptions = NO_GATE,
    gate: Annotated[tuple[str, ...], Parameter(name="--gate", negative=())] = (),
    lessons: LessonOptions = NO_LESSONS,
    witness: Annotated[tuple[str, ...], Parameter(name="--witness", negative=())] = (),
    after: str | None = None,
    newcomers_rounds: int | None = None,
    newcomers_share: float | None = None,
    private: str | None = None,
    force: Switch = False,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Starts a round in a folder, which you give to others in any way you like, or on a server.

    Args:
        name: what you call it
        base: the base model's name or folder; of lessons the name of the model that they are for
        out: a new folder, on a network share or a USB stick, too, https://HOST/rounds/NAME or s3://BUCKET/NAME
        kind: delta combines changes of weights, experience lessons in text
        form: lowrank for adapters (LoRA runs) as they are, signs with one scale a tensor for full
            fine-tunes (1 bit, the default; it costs an adapter much), or float for plain
            differences; a private round has lowrank
        method: the aggregation rule; byzantine_robust by default, and in a private round mean
        f: how many contributors may be malicious; by default 30 %, if the rule can
        min_contributors: fewer make the round void, after one extension
        max_contributors: no more are taken; by default 1000, of lessons 1600 / --most
        rank: the largest rank of an adapter, in form lowrank only; by default 64. In a private
            round the rank of all, by default 8
        tensors: patterns of names of what may change; by default the matrices inside the layers
        commit_days: days until contributors have committed
        reveal_days: days after that until they have revealed
        pool: points that are shared out
        measured: what a gate measures
        gate: the key that measures, ed25519:... or a name that you trust; by default yours. Of
            lessons several keys, each with tasks and a model of its own
        lessons: which lessons are kept
        witness: keys that will sign the log's heads, or names of those that you trust
        after: an earlier round that is published: reputations go on from there
        newcomers_rounds: keys with fewer accepted rounds (1 or more) are newcomers; by default 3,
            with --after
        newcomers_share: what newcomers have at most of seats, weight and points; by default .2
        private: differential privacy, as epsilon=1,delta=1e-6,clip=1: contributions are sealed to
            you, clipped to that norm and added up, with noise for that epsilon (0.1 to 10)
        force: start a private round even if its noise is larger than any signal
        yes: download without asking
        offline: never use the network
    """
    from zoo.gym.rounds.kinds.lessons import LessonsRound
    from zoo.gym.rounds.kinds.weights import WeightsRound
    from zoo.gym.rounds.lessons.measuring import public_name
    from zoo.gym.rounds.privacy.promise import form_and_method, wish_of
    from zoo.gym.rounds.session.terms import Common, Terms, lessons_manifest
    from zoo.gym.signing import own_key

    typed = {**locals(), **vars(measured), **vars(lessons)}
    screen, seconds = Output(as_json), seconds_of(commit_days, reveal_days)
    key = own_key()
    watchers = witness_keys(witness, key.public)
    common = Common(name, min_contributors, max_contributors, *seconds, pool, watchers)
    if kind == "experience":
        refuse_without_effect(LessonsRound, "create", typed)
        kept, gates = lesson_terms(lessons, gate)
        now = dt.datetime.now(dt.UTC)
        manifest = lessons_manifest(common, public_name(base), kept, gates, key.public, now)
        opened = _begin(new_storage(out, offline=offline), manifest, key)
        if len(gates) == kept.least:
            screen.say(
                "note: each key of --gate must measure each lesson, and none measures its own:"
            )
            screen.say("lessons that a key of --gate contributes cannot be kept")
        return _show_new(opened, screen)
    refuse_without_effect(WeightsRound, "create", typed)
    wish = wish_of(private, force=force)
    coded = form_and_method(form, method, private=wish is not None)
    ranks = rank_of(rank, coded[0], private=wish is not None)
    storage = new_storage(out, offline=offline)
    gated = measured_terms(measured, gate, key.public)
    newcomers, standings = newcomers_after(after, newcomers_rounds, newcomers_share)
    model = resolve_base(base, None, "--base", yes=yes, offline=offline)
    terms = Terms(common, *coded, f, ranks, tensors, gated, newcomers)
    check_measured(measured, model.folder)
    manifest = _manifest_about(model, terms, wish, key)
    return _show_new(_begin(storage, manifest, key, standings), screen)


def _manifest_about(
    model: "Resolved", terms: "Terms", wish: "Wish | None", key: "OwnKey"
) -> "Manifest":
    """Returns the manifest of a round about a base, and keeps the key of a private one."""
    from zoo.gym.rounds.privacy.sealing import keep_round_key, new_key
    from zoo.gym.rounds.session.terms import manifest_for

    secret = new_key()
    if wish is not None:
        terms = replace(terms, privacy=wish.terms(secret))
    now = dt.datetime.now(dt.UTC)
    manifest = manifest_for(model.folder, model.id, model.revision, terms, key.public, now)
    if wish is not None:
        wish.check(manifest)
        keep_round_key(secret)
    return manifest


def _begin(
    storage: "Storage", manifest: "Manifest", key: "OwnKey", standings: bytes | None = None
) -> "Opened":
    """Starts a round in a storage, and keeps where it is."""
    from zoo.gym.rounds.session.known_rounds import remember_round
    from zoo.gym.rounds.session.opening import open_round
    from zoo.gym.rounds.session.writing import create_round

    create_round(storage, manifest, key, standings)
    opened = open_round(storage)
    remember_round(opened, used=True)
    return opened


def _show_new(opened: "Opened", screen: Output) -> int:
    """Shows a round that was just started, and what its maker does in it."""
    from zoo.gym.rounds.kind import kind_of

    screen.say(f"you write its log: {command('sync', opened)}")
    screen.say(f"the round is in {opened.storage.address}")
    if (weak := kind_of(opened.manifest).weakness(opened.manifest)) is not None:
        screen.say(f"note: {weak}")
    return show_round(opened, screen)
