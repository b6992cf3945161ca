"""`zoo-gym round show, list, ledger`: what rounds wait for, and what private ones spent."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output
from zoo.gym.cli.round.next_step import is_waiting, next_step, until
from zoo.gym.cli.round.options import Positional, command, opened_round
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.humanize import counted

if TYPE_CHECKING:
    from zoo.gym.rounds.session.opening import Opened
    from zoo.gym.signing import PublicKey

MOST_SHOWN = 20
"""Contributors that are shown; a program gets all of them."""

LABELS = {"experience": ", lessons"}
"""What the list says of rounds by the `kind` of their manifests."""

NOT_TAKEN = "the round's maker has not taken it yet"


Share: TypeAlias = tuple[float | None, int | None]
"""The weight of a contribution in the result, 0 to 1, None for rules of columns; and its points."""


def show(round_: Positional = None, /, *, as_json: Json = False) -> int:
    """Shows what a round waits for, and who takes part.

    Args:
        round_: its folder, address, name or id; by default the only open one seen here
    """
    return show_round(opened_round(round_), Output(as_json))


def list_rounds(*, as_json: Json = False) -> int:
    """Lists the rounds that were seen on this machine."""
    from zoo.gym.rounds.session.contributing import has_sent
    from zoo.gym.rounds.session.known_rounds import current_phase, known_rounds

    out, rounds = Output(as_json), list[dict[str, object]]()
    places = known_rounds()
    for place in places:
        phase = current_phase(place)
        yours = [*place.roles, *(["contributor"] if has_sent(place.id) else [])]
        you = f", you: {' and '.join(yours)}" if yours else ""
        out.answer(
            f"{place.id[:12]}  {place.name}  {phase or 'not seen'}{you}{LABELS.get(place.kind, '')}"
        )
        out.answer(f"              {place.address}")
        fields = {"round": place.id, "name": place.name, "address": place.address}
        rounds.append({**fields, "kind": place.kind, "phase": phase or None, "yours": yours})
    if not places:
        out.say("no round yet: zoo-gym round show FOLDER opens one, round create starts one")
    out.result({"rounds": rounds})
    return 0


def ledger(*, as_json: Json = False) -> int:
    """Shows what private rounds have spent on this machine, by contributor; nothing gives it back.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.rounds.privacy.ledger import all_spent
    from zoo.gym.signing import parse_key

    out, spent = Output(as_json), all_spent()
    for one in spent:
        again = "" if one.draws == one.rounds else f", {one.draws} draws"
        is_user = one.contributor.startswith("user ")  # of a soup, by name
        who = one.contributor if is_user else parse_key(one.contributor).fingerprint
        out.answer(
            f"{who}  epsilon {one.epsilon:.3g} at delta "
            f"{one.delta:g}: {counted(one.rounds, 'round')}{again}"
        )
    if not spent:
        out.say("nothing was spent yet")
    out.result({"spent": [vars(one) for one in spent]})
    return 0


def show_round(opened: "Opened", out: Output) -> int:
    """Shows what a round waits for, what was decided, and what this user has done in it."""
    from zoo.gym.rounds.kind import kind_of, listed
    from zoo.gym.rounds.privacy.promise import in_words
    from zoo.gym.rounds.session.known_rounds import kept_address

    state, manifest, kind = opened.state, opened.manifest, kind_of(opened.manifest)
    out.answer(f"round {manifest.name} ({state.id[:12]}) about {manifest.base.model}")
    if (kept := kept_address(state.id)) not in {None, opened.storage.address}:
        out.answer(f"you take part at {kept}: what you send without an address goes there")
    seats = f"{manifest.quorum} to {manifest.most} contributors"
    out.answer(f"{kind.rule(manifest)}, {seats}")
    if (guards := kind.guards(manifest)) is not None:
        out.answer(guards)
    promised = kind.promise(opened)
    for line in in_words(promised) if promised else ():
        out.answer(line)
    out.answer(f"phase: {state.phase}{until(opened)}")
    out.answer(f"committed: {len(state.commits)}, revealed: {len(state.reveals)}")
    if (own := _own_part(opened)) is not None:
        out.answer(own)
    if (step := next_step(opened)) is not None:
        out.answer(step)
    contributors = _contributors(opened)
    for one in contributors[:MOST_SHOWN]:
        name = f" ({one['name']})" if one["name"] else ""
        why_not = f": {one['reason']}" if one["reason"] else ""
        share = _in_words(one["weight"], one["points"])
        what = f": {share}" if share and not why_not else ""
        out.answer(f"  {one['fingerprint']}{name} {one['state']}{why_not}{what}")
    if len(contributors) > MOST_SHOWN:
        out.answer(f"  and {len(contributors) - MOST_SHOWN} more: --json shows all")
    if state.result:
        out.answer(f"result: {state.result}")
        out.answer(f"check it: {command('verify', opened)}")
        out.answer(f"use it: {command('apply', opened)}")
    out.result(
        {
            "round": state.id,
            "kind": manifest.kind,
            "phase": state.phase.value,
            "deadline": state.deadline,
            "committed": len(state.commits),
            "revealed": len(state.reveals),
            "accepted": len(state.accepted),
            "refused": listed(state.refused),
            "result": state.result,
            "contributors": contributors,
        }
        | ({"privacy": promised} if promised else {})
    )
    return 0


def _contributors(opened: "Opened") -> list[dict[str, Any]]:
    """Returns who takes part and how far: the refused first, then the left out, then by key."""
    from zoo.gym.rounds.kinds.weights import LEFT_OUT
    from zoo.gym.signing import signer_name

    state, published = opened.state, _shares_of(opened)
    shares = {key: published.get(str(key), (None, None)) for key in state.commits}

    def place(key: "PublicKey") -> "tuple[bool, bool, PublicKey]":
        return key not in state.refused, shares[key][0] != 0, key

    found: list[dict[str, Any]] = []
    for key in sorted(state.commits, key=place):
        far, (weight, points) = "committed", shares[key]
        if key in state.refused:
            far = "refused"
        elif weight == 0:
            far = LEFT_OUT
        elif key in state.reveals:
            far = "counts" if state.result else "revealed"
        found.append(
            {
                "contributor": str(key),
                "fingerprint": key.fingerprint,
                "name": signer_name(key),
                "state": far,
                "reason": state.refused.get(key, ""),
                "weight": weight,
                "points": points,
            }
        )
    return found


def _in_words(weight: float | None, points: int | None) -> str:
    parts = [] if weight is None else [f"weight {weight:.3g}"]
    if points is not None and weight != 0:
        parts.append(f"{points} points")
    return ", ".join(parts)


def _own_part(opened: "Opened") -> str | None:
    """Returns what this user's key has done in a round, and what is next; None without a key."""
    from zoo.gym.rounds.protocol import objects
    from zoo.gym.rounds.protocol.state import Phase
    from zoo.gym.signing import has_key, load_key

    if not has_key():
        return None
    state, key = opened.state, load_key().public
    if key in state.refused or key in state.reveals:
        return f"you: {'refused' if key in state.refused else 'revealed'}"
    if key not in state.commits:
        how = f"; {NOT_TAKEN}" if state.phase is Phase.COMMIT else "; it was not taken"
        return f"you: committed{how}" if is_waiting(opened, key, objects.COMMIT) else None
    if state.phase is not Phase.REVEAL:
        late = " in time" if state.phase in {Phase.COMPUTE, Phase.PUBLISHED} else ""
        return f"you: committed, not revealed{late}"
    if is_waiting(opened, key, objects.REVEAL):
        return f"you: revealed; {NOT_TAKEN}"
    return f"you: committed, not revealed: {to_reveal(opened)}"


def to_reveal(opened: "Opened") -> str:
    """Returns the command that reveals in a round."""
    return command("reveal", opened, "--send")


def _shares_of(opened: "Opened") -> Mapping[str, Share]:
    """Returns the share of each contribution of a published round, by key as text.

    The report is shown as it is published, which `verify` computes again. Empty without a result,
    and where the report is missing or damaged.
    """
    from zoo.gym.rounds.compute.verify import published_report

    if opened.state.result is None:
        return {}
    with suppress(InputError, NotAvailableError):
        return _read(published_report(opened))
    return {}


def _read(report: Mapping[str, Any]) -> Mapping[str, Share]:
    keys = [str(one["key"]) for one in report["contributions"]]
    weights = _weights(report.get("weights"), report.get("rest"), len(keys))
    match report.get("rewards"):
        case {"points": {**paid}} if paid:
            found = [paid.get(key, 0) for key in keys]
        case _:
            found = [None] * len(keys)
    points: list[Any] = [one if _is_number(one) else None for one in found]
    return dict(zip(keys, zip(weights, points, strict=True), strict=True))


def _weights(found: object, rest: object, count: int) -> list[float | None]:
    """Returns weights that add up to 1 with the rest; None each if there are none."""
    numbers = found if isinstance(found, list) else []
    others = rest if _is_number(rest) else 0
    if len(numbers) != count or not all(map(_is_number, numbers)):
        return [None] * count
    total = sum(numbers) + cast("float", others)
    return [one / total for one in numbers] if total > 0 else [None] * count


def _is_number(value: object) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and 0 <= cast("float", value) < 2**63
