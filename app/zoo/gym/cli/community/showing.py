"""How a round is shown."""

from typing import TYPE_CHECKING, Any

from zoo.gym.cli.community.deadlines import until
from zoo.gym.cli.community.next_step import is_waiting, next_step
from zoo.gym.cli.community.opened import command
from zoo.gym.cli.community.shares import LEFT_OUT, Share, shares_of
from zoo.gym.cli.community.terms_in_words import guards_in_words, rule_in_words
from zoo.gym.cli.output import Output
from zoo.gym.cli.round_private import promise_of

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened
    from zoo.gym.signing import PublicKey

MOST_SHOWN = 20
"""Contributors that are shown; a program gets all of them."""

NOT_TAKEN = "the round's maker has not taken it yet"


def show_round(opened: "Opened", out: Output) -> int:
    """Shows what a round waits for, what was decided, and what this user has done in it."""
    from zoo.gym.rounds.life.places import kept_address
    from zoo.gym.rounds.privacy.promise import in_words

    state, manifest = opened.state, opened.manifest
    out.answer(f"round {manifest.name} ({state.id[:12]}) about {manifest.base.model}")
    if (kept := kept_address(state.id)) not in {None, opened.storage.address}:
        out.answer(f"you take part at {kept}: what you send without an address goes there")
    seats = f"{manifest.quorum} to {manifest.most} contributors"
    out.answer(f"{rule_in_words(manifest)}, {seats}")
    if (guards := guards_in_words(manifest)) is not None:
        out.answer(guards)
    promised = promise_of(opened)
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
        share = Share(one["weight"], one["points"])
        what = f": {share}" if str(share) and not why_not else ""
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
            "refused": [
                {"contributor": str(key), "reason": why} for key, why in state.refused.items()
            ],
            "result": state.result,
            "contributors": contributors,
        }
        | ({"privacy": promised} if promised else {})
    )
    return 0


def _contributors(opened: "Opened") -> list[dict[str, Any]]:
    """Returns who takes part and how far: the refused first, then the left out, then by key."""
    from zoo.gym.signing import signer_name

    state, published = opened.state, shares_of(opened)
    shares = {key: published.get(str(key), Share(None, None)) for key in state.commits}

    def place(key: "PublicKey") -> "tuple[bool, bool, PublicKey]":
        return key not in state.refused, not shares[key].is_left_out, key

    found: list[dict[str, Any]] = []
    for key in sorted(state.commits, key=place):
        far, share = "committed", shares[key]
        if key in state.refused:
            far = "refused"
        elif share.is_left_out:
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
                "weight": share.weight,
                "points": share.points,
            }
        )
    return found


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
