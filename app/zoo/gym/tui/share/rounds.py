"""The words for rounds: phases, who counts, what a contribution gives away."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from zoo.gym.humanize import human_bytes
from zoo.gym.tui.share.words import Part, facts, good, grid, note, problem, time_left, title

Json: TypeAlias = dict[str, Any]

PHASES = ("commit", "reveal", "compute", "published")

LESSONS = "experience"
"""The kind of a round of lessons."""

KINDS = {"delta": "weights", LESSONS: "lessons"}

NEXT = {
    "commit": "Next: s contributes: a hash now, weights or lessons later. Its maker takes "
    "what others left with t, and ends the phase with x.",
    "reveal": "Next: v reveals what you committed to. Its maker takes what others left with t, and "
    "ends the phase with x.",
    "compute": "Next: keys of role gate measure with m, and its maker computes the result with a.",
    "published": "Next: Enter computes the result again and compares; p applies it here.",
    "void": "This round is void: it has no result.",
}

KEYS = {
    "contribute": "s", "reveal": "v", "sync": "t", "measure": "m", "aggregate": "a", "verify": "V",
    "void": "X",
}  # fmt: skip
"""The key of each command about a round."""


def round_parts(shown: Json, lines: Sequence[str], address: str) -> list[Part]:
    """Returns the details of a round, of what `round show` answers."""
    phase = str(shown["phase"])
    pairs = [
        ("about", KINDS.get(str(shown["kind"]), "")),
        ("phase", _track(phase)),
        ("time", time_left(shown.get("deadline"))),
        ("seats", f"{shown['committed']} committed, {shown['revealed']} revealed"),
        ("terms", "\n".join(terms(lines))),
        ("where", address),
    ]
    due = [line for line in lines if line.startswith("next: ")]
    parts = [note(next_words(phase, due)), facts(pairs)]
    if mine := [line.removeprefix("you: ") for line in lines if line.startswith("you: ")]:
        parts += [title("You"), ("", with_key(mine[0]))]
    if shown["contributors"]:
        parts += [title("Contributors"), _contributors(shown["contributors"])]
    parts += [
        problem(f"refused: {one['fingerprint']}: {one['reason']}")
        for one in shown["contributors"]
        if one["reason"]
    ]
    if phase in {"commit", "reveal"}:
        parts.append(note("r reads the round again, for what others have sent since."))
    if shown.get("result"):
        parts.append(good(f"Result {shown['result'][:12]} is published."))
    return parts


def terms(lines: Sequence[str]) -> list[str]:
    """Returns the lines of `round show` that say what was agreed."""
    said = list(lines[1:])
    end = next((i for i, line in enumerate(said) if line.startswith("phase: ")), len(said))
    return [line for line in said[:end] if not line.startswith("you take part")]


def next_words(phase: str, due: Sequence[str]) -> str:
    """Returns what this user does next: the command's own line where it has one."""
    return with_key(due[0].replace("next: ", "Next: ", 1)) if due else NEXT.get(phase, "")


def with_key(text: str) -> str:
    """Returns a text with the key that does what the command in it does.

    >>> with_key("Next: zoo-gym round sync summer")
    'Next: zoo-gym round sync summer (key t)'
    """
    verb = text.partition("zoo-gym round ")[2].partition(" ")[0]
    key = "x" if text.endswith("--close") else KEYS.get(verb)
    return f"{text} (key {key})" if key else text


def verdict(answer: Mapping[str, Any]) -> str:
    """Returns what `round verify` found, in a sentence."""
    bad = [f"{one['name']}: {one['detail']}" for one in answer["checks"] if one["ok"] is False]
    if bad:
        return f"Not equal: {'; '.join(bad)}"
    if not answer.get("recomputed"):
        return "The log is intact. There is no result yet to compute again."
    detail = next((one["detail"] for one in answer["checks"] if one["name"] == "result"), "")
    size = next((word for word in detail.split(",") if word.startswith("bytes ")), "")
    count = f", {int(size.removeprefix('bytes ')):,} bytes" if size else ""
    return f"Recomputed here: equal{count}. {len(answer['checks'])} checks hold."


def leaves(sent: Mapping[str, Any], kind: str) -> str:
    """Returns what leaves this machine with a contribution."""
    what = KINDS.get(kind, kind)
    name = Path(str(sent["file"])).name
    return (
        f"Now the hash {str(sent['digest'])[:16]}..., no {what}. At the reveal one file, {name} of "
        f"{human_bytes(int(sent['bytes']))}. No example, no prompt and no answer, now or then."
    )


def learned(
    privacy: Mapping[str, Any] | None, spent: Sequence[Mapping[str, Any]], own: str, kind: str = ""
) -> str:
    """Returns what could be learned from a contribution, with the privacy budget in words."""
    if kind == LESSONS:
        return (
            "Lessons are texts: whoever reads them after the reveal knows all that they say, also "
            "about the tasks that they were learned from. Read yours before you send."
        )
    if privacy is None:
        return (
            "No privacy budget: whoever reads the weights after the reveal can test whether a text "
            "was in your examples, and may draw out what the run learned by heart. In a private "
            "round noise bounds that."
        )
    used = sum(float(one["epsilon"]) for one in spent if one["contributor"] == own)
    epsilon = float(privacy["epsilon"])
    return (
        f"Private: this round spends epsilon {epsilon:g} at delta {privacy['delta']:g}; "
        f"{used:g} was spent before on this machine, {used + epsilon:g} after it. Whether you took "
        f"part changes the odds of any published result by a factor of e^{epsilon:g} at most. Its "
        "maker can open your contribution; others cannot."
    )


def used_for(lines: Sequence[str]) -> str:
    """Returns what the round does with a contribution: its rule, its members, its guards."""
    agreed = "; ".join(terms(lines))
    return (
        f"It is combined with the others by the agreed rule: {agreed}. Outliers are judged by that "
        "rule alone, each refusal stands in the log with its reason, and anybody can compute it "
        "again."
    )


def taken_back(deadline: str | None, kind: str = "") -> str:
    """Returns how a contribution is taken back."""
    what = KINDS.get(kind, "weights")
    left = time_left(deadline)
    until = f" This phase has {left}." if left else ""
    until = " The deadline of this phase is past." if left == "past" else until
    return (
        f"The hash cannot be taken back. The {what} can: they stay here until you reveal them, and "
        f"who does not reveal sends none. After the reveal: no.{until}"
    )


def short_id(row: Mapping[str, Any]) -> str:
    """Returns the id of a round as a command is given it."""
    return str(row["round"])[:12]


def published(answer: Mapping[str, Any]) -> str:
    """Returns what `round aggregate` published, in a sentence."""
    refused = len(answer.get("refused") or ())
    if "kept" in answer:
        count = f"{answer['kept']} of {len(answer['lessons'])} lessons are kept"
    else:
        count = f"{len(answer['weights'])} contributions count"
    return f"Published: {count}, {refused} were refused."


def _track(phase: str) -> str:
    if phase not in PHASES:
        return phase
    return "  ".join(f"[{one}]" if one == phase else one for one in PHASES)


def _contributors(contributors: Sequence[Mapping[str, Any]]) -> Part:
    rows = [
        (
            str(one["fingerprint"]) + (f" ({one['name']})" if one["name"] else ""),
            str(one["state"]),
            "" if one["weight"] is None else f"{one['weight']:.3f}",
            "" if one["points"] is None else f"{one['points']:,}",
        )
        for one in contributors
    ]
    return grid(("who", "state", ">weight", ">points"), rows)
