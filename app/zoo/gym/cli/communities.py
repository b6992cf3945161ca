"""`zoo-gym round`: starts community rounds and takes part in them."""

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from zoo.gym.cli.community.deadlines import until
from zoo.gym.cli.community.opened import command, opened_round, round_base, witness_keys
from zoo.gym.cli.community.options import (
    NO_GATE,
    NO_LESSONS,
    GateOptions,
    LessonOptions,
    given_of,
    refuse_given,
)
from zoo.gym.cli.community.sending import commit, say_kept, warn_of_other_key
from zoo.gym.cli.community.showing import show_round
from zoo.gym.cli.community.taking import check_close, check_copy
from zoo.gym.cli.community.terms_in_words import withstands_none
from zoo.gym.cli.options import Json, Offline, Switch, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.cli.round_private import say_private
from zoo.gym.cli.round_start import begin, new_storage
from zoo.gym.cli.sources import resolve_base
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.humanize import human_bytes

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened

Round = Annotated[str | None, Parameter(name="--round", metavar="ROUND")]
Named = Annotated[str | None, Parameter(name="--round", metavar="ROUND", group="Arguments")]
"""A round that is an argument, and that --round names as well."""

Given = Annotated[str | None, Parameter(name="ROUND")]
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
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.cli.community.lessons import begin_lessons, lesson_terms, refuse_of_weights
    from zoo.gym.cli.round_terms import measured_terms, newcomers_after, rank_of, seconds_of
    from zoo.gym.rounds.life.terms import MOST, Terms
    from zoo.gym.rounds.privacy.promise import form_and_method, wish_of
    from zoo.gym.signing import own_key

    typed: dict[str, object] = dict(locals())
    screen, seconds = Output(as_json), seconds_of(commit_days, reveal_days)
    key = own_key()
    watchers = witness_keys(witness, key.public)
    if kind == "experience":
        refuse_of_weights(typed, measured)
        numbers = (min_contributors, max_contributors, *seconds, pool, watchers)
        chosen = lesson_terms(name, base, lessons, gate, numbers)
        return _show_new(
            begin_lessons(new_storage(out, offline=offline), chosen, key, screen), screen
        )
    refuse_given(given_of(lessons), "a round about weights")
    wish = wish_of(private, force=force)
    coded = form_and_method(form, method, private=wish is not None)
    ranks = rank_of(rank, coded[0], private=wish is not None)
    storage = new_storage(out, offline=offline)
    gated = measured_terms(measured, gate, key.public)
    newcomers, standings = newcomers_after(after, newcomers_rounds, newcomers_share)
    model = resolve_base(base, None, "--base", yes=yes, offline=offline)
    seats = (min_contributors, MOST if max_contributors is None else max_contributors)
    terms = Terms(
        name, *coded, f, *seats, ranks, tensors, *seconds, pool, gated, watchers, newcomers
    )
    return _show_new(begin(storage, model, terms, key, standings, wish, measured), screen)


def _show_new(opened: "Opened", screen: Output) -> int:
    """Shows a round that was just started, and what its maker does in it."""
    screen.say(f"you write its log: {command('take', opened)}")
    screen.say(f"the round is in {opened.storage.address}")
    if (weak := withstands_none(opened.manifest)) is not None:
        screen.say(f"note: {weak}")
    return show_round(opened, screen)


def show(round_: Given = None, /, *, as_json: Json = False) -> int:
    """Shows what a round waits for, and who takes part.

    Args:
        round_: its folder, address, name or id; by default the only open one seen here
        as_json: print one JSON object as stdout's last line
    """
    return show_round(opened_round(round_), Output(as_json))


def list_rounds(*, as_json: Json = False) -> int:
    """Lists the rounds that were seen on this machine.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.rounds.life.contributing import has_sent
    from zoo.gym.rounds.life.places import current_phase, known_places

    out, rounds = Output(as_json), list[dict[str, object]]()
    places = known_places()
    for place in places:
        phase = current_phase(place)
        yours = [*place.roles, *(["contributor"] if has_sent(place.id) else [])]
        lessons = ", lessons" if place.kind == "experience" else ""
        you = f", you: {' and '.join(yours)}" if yours else ""
        out.answer(f"{place.id[:12]}  {place.name}  {phase or 'not seen'}{you}{lessons}")
        out.answer(f"              {place.address}")
        fields = {"round": place.id, "name": place.name, "address": place.address}
        rounds.append({**fields, "kind": place.kind, "phase": phase or None, "yours": yours})
    if not places:
        out.say("no round yet: zoo-gym round show FOLDER opens one, round create starts one")
    out.result({"rounds": rounds})
    return 0


def contribute(
    source: str,
    /,
    *,
    round_: Round = None,
    base: str | None = None,
    examples: int | None = None,
    send: Switch = False,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Codes a fine-tune for a round and commits to it; its weights stay here until the reveal.

    Args:
        source: a run's id or last, a delta, a peft folder or a full model; of lessons a library's
            NAME, NAME@VERSION or file
        round_: the round's folder, address, name or id; by default the only open one seen here
        base: the base model's name or folder; by default the round's
        examples: how many examples it was trained on: the federated average weighs by it, and has
            your word alone; no other rule takes it
        send: commit; without it everything is prepared and nothing leaves
        yes: commit, and download, without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.cli.community.lessons import contribute_lessons, sent
    from zoo.gym.rounds.life.contributing import check_examples, prepare
    from zoo.gym.signing import own_key
    from zoo.gym.tuned.source import resolve_tuned

    typed: dict[str, object] = {"base": base, "examples": examples, "send": send}
    out, opened = Output(as_json), opened_round(round_, offline=offline)
    if opened.manifest.kind == "experience":
        return contribute_lessons(opened, source, typed, out, yes=yes)
    key = own_key()
    warn_of_other_key(opened, key.public, out)
    claimed = check_examples(opened.manifest, examples, "--examples")
    if base is not None:
        _check_base_name(opened, base)
    model = round_base(opened, base, yes=yes, offline=offline)
    folder = resolve_tuned(source).path
    own, entry = prepare(opened, folder, model.folder, key, examples=claimed)
    out.answer(f"{own.file}: {human_bytes(own.bytes)}, coded as {opened.manifest.form}")
    say_kept(opened, folder, model.folder, out)
    if claimed:
        out.answer(f"weighed by {claimed} examples: as you say, nobody can check it")
    private = say_private(opened, own, key, out)
    receipt = commit(opened, own, entry, "weights", out, send=send, yes=yes)
    out.result(sent(opened, receipt, own) | private)
    return 0


def _check_base_name(opened: "Opened", given: str) -> None:
    """Refuses another base by its name, before anything is downloaded."""
    from zoo.models.resolve import is_path, model_of_text

    named = opened.manifest.base.model
    if is_path(given) or given == named:
        return
    if (model_of_text(named) or named) != (model_of_text(given) or given):
        raise InputError(
            f"--base: expected {named}, the base of the round, or a folder of it, got {given}"
        )


def reveal(
    round_: Named = None, *, send: Switch = False, yes: Yes = False, as_json: Json = False
) -> int:
    """Sends the weights or lessons that you committed to, once nobody can commit any more.

    Args:
        round_: the round's folder, address, name or id, also by --round; by default the only open
            one seen here
        send: send them; without it nothing leaves
        yes: send without asking
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.cli.community.lessons import sent
    from zoo.gym.rounds.life.contributing import receipt_of, send_reveal
    from zoo.gym.rounds.life.contributing import reveal as prepared
    from zoo.gym.rounds.life.places import remember_place
    from zoo.gym.signing import has_key, load_key

    out, opened = Output(as_json), opened_round(round_)
    if not has_key():
        raise NotAvailableError(
            "reveal: expected the key that you committed with, got none",
            hint="it is in the data folder of the machine where you ran: zoo-gym round contribute",
        )
    own, entry = prepared(opened, load_key())
    sealed, what_is = own.spends is not None, "weights"
    if opened.manifest.kind == "experience":
        what_is = "lessons"
    weights = "weights, sealed to the round's maker," if sealed else what_is
    what = f"{human_bytes(own.bytes)} of {weights} go to {opened.storage.address}"
    receipt = receipt_of(opened, entry)
    whose = "" if sealed else ", where anybody with access reads them"
    if receipt and not send:
        out.say(f"revealed before in {opened.storage.address}: nothing was sent again")
    elif send or confirmed(f"{what}{whose}. Send? [y/N] ", yes=yes):
        receipt = send_reveal(own, entry, opened.storage)
        remember_place(opened, used=True)
        out.answer(f"revealed in {opened.storage.address}: {human_bytes(own.bytes)}")
    else:
        out.say(f"nothing was sent. {what} with --send")
    out.result(sent(opened, receipt, own))
    return 0


def take(
    round_: Named = None, *, close: Switch = False, yes: Yes = False, as_json: Json = False
) -> int:
    """Adds what contributors left to the log of your round, and closes phases.

    Args:
        round_: the round's folder, address, name or id, also by --round; by default the only open
            one seen here
        close: close the phase now, whatever its deadline is
        yes: do it without asking: close with too few contributors, even if that spends the
            extension before the deadline or makes the round void; write the log of a copy
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.rounds.life.writing import close_phase
    from zoo.gym.rounds.life.writing import take as take_in
    from zoo.gym.signing import load_key

    out, opened, key = Output(as_json), opened_round(round_), load_key()
    check_copy(opened, yes=yes)
    taken = take_in(opened.storage, key)
    out.answer(f"added to the log: {len(taken.added)}")
    for name, reason in taken.refused:
        out.answer(f"refused {name}: {reason}")
    if close:
        check_close(opened_round(round_), out, yes=yes)
        close_phase(opened.storage, key)
    now = opened_round(round_)
    out.answer(f"phase: {now.state.phase}{until(now)}")
    refused = [{"entry": name, "reason": reason} for name, reason in taken.refused]
    fields = {"round": now.state.id, "phase": now.state.phase.value, "added": len(taken.added)}
    out.result({**fields, "refused": refused})
    return 0
