"""`zoo-gym round`: starts community rounds and takes part in them."""

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from zoo.gym.cli.community.options import (
    NO_GATE,
    NO_LESSONS,
    GateOptions,
    LessonOptions,
    given_of,
    refuse_given,
)
from zoo.gym.cli.options import Json, Offline, Switch, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.cli.round_private import promise_of, say_private
from zoo.gym.cli.round_start import begin, new_storage, refuse_offline
from zoo.gym.cli.sources import resolve_base, result_of, run_or_path
from zoo.gym.errors import InputError
from zoo.gym.humanize import human_bytes
from zoo.gym.jobs import Run

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened
    from zoo.gym.rounds.protocol.manifest import Manifest
    from zoo.gym.signing import PublicKey

Round = Annotated[str | None, Parameter(name="--round", metavar="ROUND")]
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
        form: signs with one scale a tensor (1 bit, the default), lowrank for adapters as they are,
            or float for plain differences; a private round has lowrank
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
        newcomers_rounds: keys with fewer accepted rounds are newcomers; by default 3, with --after
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
    watchers = tuple(map(known_key, witness))
    screen, seconds = Output(as_json), seconds_of(commit_days, reveal_days)
    if kind == "experience":
        refuse_of_weights(typed, measured)
        numbers = (min_contributors, max_contributors, *seconds, pool, watchers)
        chosen = lesson_terms(name, base, lessons, gate, numbers)
        opened = begin_lessons(new_storage(out, offline=offline), chosen, own_key())
        return _show(opened, screen)
    refuse_given(given_of(lessons), "a round about weights")
    wish = wish_of(private, force=force)
    coded = form_and_method(form, method, private=wish is not None)
    ranks = rank_of(rank, coded[0], private=wish is not None)
    storage, key = new_storage(out, offline=offline), own_key()
    gated = measured_terms(measured, gate, key.public)
    newcomers, standings = newcomers_after(after, newcomers_rounds, newcomers_share)
    model = resolve_base(base, None, "--base", yes=yes, offline=offline)
    seats = (min_contributors, MOST if max_contributors is None else max_contributors)
    terms = Terms(
        name, *coded, f, *seats, ranks, tensors, *seconds, pool, gated, watchers, newcomers
    )
    opened = begin(storage, model, terms, key, standings, wish)
    screen.say(f"the round is in {storage.address}; you write its log: zoo-gym round take")
    return _show(opened, screen)


def known_key(given: str) -> "PublicKey":
    """Returns a key given as text, or by the name under which the user trusts it."""
    from zoo.gym.signing.public_key import parse_key
    from zoo.gym.signing.trusted import trusted_keys

    named = trusted_keys().get(given)
    return parse_key(given) if named is None else named


def show(round_: Given = None, /, *, as_json: Json = False) -> int:
    """Shows what a round waits for, and who takes part.

    Args:
        round_: its folder, address, name or id; by default the only one seen here
        as_json: print one JSON object as stdout's last line
    """
    return _show(opened_round(round_), Output(as_json))


def list_rounds(*, as_json: Json = False) -> int:
    """Lists the rounds that were seen on this machine.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.rounds.life.places import known_places

    out, places = Output(as_json), known_places()
    for place in places:
        out.answer(f"{place.id[:12]}  {place.name}  {place.address}")
    if not places:
        out.say("no round yet: zoo-gym round show FOLDER opens one, round create starts one")
    rounds = [{"round": one.id, "name": one.name, "address": one.address} for one in places]
    out.result({"rounds": rounds})
    return 0


def contribute(
    source: str,
    /,
    *,
    round_: Round = None,
    base: str | None = None,
    examples: int = 0,
    send: Switch = False,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Codes a fine-tune for a round and commits to it; its weights stay here until the reveal.

    Args:
        source: a run's id or last, a delta, a peft folder or a full model; of lessons a library's
            NAME, NAME@VERSION or file
        round_: the round's folder, address, name or id; by default the only one seen here
        base: the base model's name or folder; by default the round's
        examples: how many examples it was trained on; only the federated average weighs by it
        send: commit; without it everything is prepared and nothing leaves
        yes: commit, and download, without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.cli.community.lessons import contribute_lessons, sent
    from zoo.gym.rounds.life.contributing import prepare, send_commitment
    from zoo.gym.signing import own_key

    typed: dict[str, object] = {"base": base, "examples": examples or None, "send": send}
    out, opened = Output(as_json), opened_round(round_, offline=offline)
    if opened.manifest.kind == "experience":
        return contribute_lessons(opened, source, typed, out, yes=yes)
    key = own_key()
    if examples < 0:
        raise InputError(f"--examples: expected 0 or more, got {examples}")
    if examples and opened.manifest.method != "federated_average":
        raise InputError(
            f"--examples: expected none, got {examples}: the rule {opened.manifest.method} does "
            "not weigh by them"
        )
    model = resolve_base(base, opened.manifest.base.model, "--base", yes=yes, offline=offline)
    found = run_or_path(source)
    folder = result_of(found) if isinstance(found, Run) else found
    own, entry = prepare(opened, folder, model.folder, key, examples=examples)
    out.answer(f"{own.file}: {human_bytes(own.bytes)}, coded as {opened.manifest.form}")
    private = say_private(opened, own, key, out)
    what = f"A commitment (a hash, no weights) goes to {opened.storage.address}."
    receipt = None
    if send or confirmed(f"{what} It cannot be taken back. Send? [y/N] ", yes=yes):
        receipt = send_commitment(own, entry, opened.storage)
        out.answer(f"committed; reveal it after {opened.manifest.deadlines.commit}")
    else:
        out.say(f"nothing was sent. {what} --send sends it")
    out.result(sent(opened, receipt, own) | private)
    return 0


def reveal(
    *, round_: Round = None, send: Switch = False, yes: Yes = False, as_json: Json = False
) -> int:
    """Sends the weights or lessons that you committed to, once nobody can commit any more.

    Args:
        round_: the round's folder, address, name or id; by default the only one seen here
        send: send them; without it nothing leaves
        yes: send without asking
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.cli.community.lessons import sent
    from zoo.gym.rounds.life.contributing import reveal as prepared
    from zoo.gym.rounds.life.contributing import send_reveal
    from zoo.gym.signing import load_key

    out, opened = Output(as_json), opened_round(round_)
    own, entry = prepared(opened, load_key())
    sealed, what_is = own.spends is not None, "weights"
    if opened.manifest.kind == "experience":
        what_is = "lessons"
    weights = "weights, sealed to the round's maker," if sealed else what_is
    what = f"{human_bytes(own.bytes)} of {weights} go to {opened.storage.address}"
    receipt = None
    whose = "" if sealed else ", where anybody with access reads them"
    if send or confirmed(f"{what}{whose}. Send? [y/N] ", yes=yes):
        receipt = send_reveal(own, entry, opened.storage)
        out.answer(f"revealed: {human_bytes(own.bytes)}")
    else:
        out.say(f"nothing was sent. {what} with --send")
    out.result(sent(opened, receipt, own))
    return 0


def take(*, round_: Round = None, close: Switch = False, as_json: Json = False) -> int:
    """Adds what contributors left to the log of your round, and closes phases.

    Args:
        round_: the round's folder, address, name or id; by default the only one seen here
        close: close the phase now, whatever its deadline is
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.rounds.life.writing import close_phase
    from zoo.gym.rounds.life.writing import take as take_in
    from zoo.gym.signing import load_key

    out, opened, key = Output(as_json), opened_round(round_), load_key()
    taken = take_in(opened.storage, key)
    out.answer(f"added to the log: {len(taken.added)}")
    for name, reason in taken.refused:
        out.answer(f"refused {name}: {reason}")
    if close:
        close_phase(opened.storage, key)
    now = opened_round(round_)
    out.answer(f"phase: {now.state.phase}{_why(now)}")
    refused = [{"entry": name, "reason": reason} for name, reason in taken.refused]
    fields = {"round": now.state.id, "phase": now.state.phase.value, "added": len(taken.added)}
    out.result({**fields, "refused": refused})
    return 0


def opened_round(given: str | None, *, offline: bool = False) -> "Opened":
    """Opens a round by its folder, address, name or id, and keeps where it is."""
    from zoo.gym.rounds.life.opening import open_round
    from zoo.gym.rounds.life.places import find_storage, remember_place
    from zoo.gym.rounds.storage.address import is_address

    storage, expected = find_storage(given)
    if is_address(storage.address):
        refuse_offline(storage.address, offline=offline)
    opened = open_round(storage, expected=expected)
    remember_place(opened)
    return opened


def _show(opened: "Opened", out: Output) -> int:
    from zoo.gym.rounds.privacy.promise import in_words

    state, manifest = opened.state, opened.manifest
    out.answer(f"round {manifest.name} ({state.id[:12]}) about {manifest.base.model}")
    out.answer(f"{_rule(manifest)}, {manifest.quorum} to {manifest.most} contributors")
    promised = promise_of(opened)
    for line in in_words(promised) if promised else ():
        out.answer(line)
    out.answer(f"phase: {state.phase}{_why(opened)}")
    out.answer(f"committed: {len(state.commits)}, revealed: {len(state.reveals)}")
    for key, reason in state.refused.items():
        out.answer(f"refused {key.fingerprint}: {reason}")
    if state.result:
        out.answer(f"result: {state.result}")
    out.result(
        {
            "round": state.id,
            "kind": manifest.kind,
            "phase": state.phase.value,
            "deadline": state.deadline,
            "committed": len(state.commits),
            "revealed": len(state.reveals),
            "accepted": len(state.accepted),
            "refused": [
                {"contributor": str(key), "reason": why} for key, why in state.refused.items()
            ],
            "result": state.result,
        }
        | ({"privacy": promised} if promised else {})
    )
    return 0


def _rule(manifest: "Manifest") -> str:
    """Returns how a round combines what, in words."""
    if manifest.lessons is None:
        return f"{manifest.method}, form {manifest.form}, {len(manifest.tensors)} tensors"
    clear = ", with a clear gain" if manifest.lessons.clear else ""
    gates = len(manifest.keys_of("gate"))
    return f"lessons, kept at {manifest.lessons.least} of {gates} keys that measure{clear}"


def _why(opened: "Opened") -> str:
    state = opened.state
    if state.reason:
        return f": {state.reason}"
    extended = " (extended)" if state.phase in state.extended else ""
    return f" until {state.deadline}{extended}" if state.deadline else ""
