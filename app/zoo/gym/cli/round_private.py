"""What `zoo-gym round` does and says of private rounds."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from zoo.gym.cli.community.voiding import or_void
from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted, human_bytes
from zoo.gym.signing import parse_key

if TYPE_CHECKING:
    from zoo.gym.rounds.life.contributing import Own
    from zoo.gym.rounds.life.opening import Opened
    from zoo.gym.signing import OwnKey


def say_private(opened: "Opened", own: "Own", key: "OwnKey", out: Output) -> dict[str, object]:
    """Says what is left of a contribution to a private round, and what it spends."""
    if own.written is None or own.spends is None:
        return {}
    from zoo.gym.rounds.privacy.ledger import all_spent

    found, spends = own.written, own.spends
    out.answer(
        f"kept in the round's factors: {found.kept:.1%} of the squared norm; norm "
        f"{found.norm:.3g}, clipped to {found.clipped:.1%} of it"
    )
    said = "nothing before"
    for before in all_spent(str(key.public), but=opened.state.id):
        rounds = counted(before.rounds, "round")
        said = f"before, in {rounds}, epsilon {before.epsilon:.3g} at delta {before.delta:g}"
    out.answer(f"this round spends epsilon {spends.epsilon:g} at delta {spends.delta:g}; {said}")
    return {"private": {**vars(found), "epsilon": spends.epsilon, "delta": spends.delta}}


def promise_of(opened: "Opened") -> dict[str, Any] | None:
    """Returns what a private round promises, with those who count or as many as it needs."""
    from zoo.gym.rounds.privacy.contribution import values_of
    from zoo.gym.rounds.privacy.promise import described

    manifest, privacy = opened.manifest, opened.manifest.privacy
    if privacy is None:
        return None
    count = max(manifest.quorum, len(opened.state.accepted))
    return described(privacy, values_of(manifest), count)


def say_sealed(promised: Mapping[str, Any], out: Output) -> None:
    """Says of a private result that is used what nobody could verify, and how much noise it has."""
    out.answer(
        "its contributions are sealed and its noise is secret: nobody can compute its numbers again"
    )
    ratio = promised["noise_to_signal"]
    said = f"the noise is {ratio:.3g} times the norm of what all contributors can agree on"
    if ratio > 1:
        out.say(f"warning: of no use: {said}")
    else:
        out.answer(said)


def aggregate_private(
    opened: "Opened",
    out: Output,
    *,
    ray: str | None,
    force: bool,
    threads: int | None,
    yes: bool,
) -> int:
    """Draws and publishes the result of a private round, once."""
    from zoo.gym.rounds.compute.private import publish_private
    from zoo.gym.rounds.privacy.contribution import values_of
    from zoo.gym.rounds.privacy.promise import described, in_words
    from zoo.gym.signing import load_key

    if ray is not None:
        raise InputError("--ray: has no effect in a private round: one machine opens and adds up")
    act = partial(publish_private, opened.storage, load_key(), force=force, threads=threads)
    found = or_void(act, yes=yes)
    report, privacy = found.report, opened.manifest.privacy
    assert privacy is not None, "asked before"
    count = len(report["contributions"])
    said = described(privacy, values_of(opened.manifest), count)
    digest, size = report["result"]["digest"], report["result"]["bytes"]
    out.answer(
        f"result {digest[:12]}, {human_bytes(size)}: {counted(count, 'contribution')}, "
        f"{report['rule']['method']}"
    )
    for line in in_words(said):
        out.answer(line)
    for key, reason in found.refused.items():
        out.answer(f"refused {key.fingerprint}: {reason}")
    out.answer(f"the result is a delta: zoo-gym delta apply {found.delta.path}")
    warnings = ["more noise than signal: of no use"] if said["noise_to_signal"] > 1 else []
    for warning in warnings:
        out.say(f"note: {warning}")
    out.result(
        {
            "result": str(found.delta.path),
            "digest": digest,
            "rule": report["rule"]["method"],
            "f": 0,
            "weights": None,
            "refused": [{"contributor": str(k), "reason": r} for k, r in found.refused.items()],
            "refit": None,
            "warnings": warnings,
            "privacy": said,
        }
    )
    return 0


def rewards_private(opened: "Opened", out: Output) -> int:
    """Shows the points of a published private round: equal parts, which anybody can check."""
    from zoo.gym.rounds.compute.checks import published_report
    from zoo.gym.rounds.compute.private import checked_points
    from zoo.gym.rounds.compute.report import BY_WEIGHT

    points = checked_points(opened.state, published_report(opened))
    for key, share in points.items():
        out.answer(f"{share:>8}  {parse_key(key).fingerprint}")
    out.result({"pool": opened.manifest.pool, "rule": BY_WEIGHT, "rewards": points})
    return 0


def ledger(*, as_json: Json = False) -> int:
    """Shows what private rounds have spent on this machine, by contributor; nothing gives it back.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.rounds.privacy.ledger import all_spent

    out, spent = Output(as_json), all_spent()
    for one in spent:
        again = "" if one.draws == one.rounds else f", {one.draws} draws"
        out.answer(
            f"{_who(one.contributor)}  epsilon {one.epsilon:.3g} at delta "
            f"{one.delta:g}: {counted(one.rounds, 'round')}{again}"
        )
    if not spent:
        out.say("nothing was spent yet")
    out.result({"spent": [vars(one) for one in spent]})
    return 0


def _who(contributor: str) -> str:
    """Returns the fingerprint of a key, or the name of a user of a soup."""
    return contributor if contributor.startswith("user ") else parse_key(contributor).fingerprint
