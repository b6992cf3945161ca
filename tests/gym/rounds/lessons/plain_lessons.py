"""Computes a round of lessons again in plain Python, from its folder and docs/reference/rounds.md.

Nothing of zoo-gym: what a stranger needs to distrust us. It takes rounds without refused
contributions, copies and crowded results; signatures are not checked.
"""

import json
from fractions import Fraction
from math import sqrt
from pathlib import Path
from statistics import median_high, median_low
from typing import Any

from tests.gym.rounds.plain_round import bytes_of, entries

Body = dict[str, Any]


def low_of(records: list[Body]) -> float:
    width = median_high(max(r["high"] - r["low"], 3 / r["tasks"]) for r in records)
    error: float = width / (2 * 1.959963984540054) / sqrt(len(records))
    error *= 1.2533141373155003 if len(records) > 2 else 1
    effect: float = median_low(r["effect"] for r in records)
    return round(effect - 1.6448536269514722 * error, 6)


def redo(folder: Path) -> tuple[dict[str, tuple[str, float, float]], dict[str, int]]:
    """Returns author, effect and low of each lesson that is kept, and the points."""
    log = entries(folder)
    terms = log[0]["body"]
    gates = {key["key"] for key in terms["keys"] if key["role"] == "gate"}
    records = [
        (entry["key"], entry["body"]["values"])
        for entry in log
        if entry["context"] == "round record" and entry["key"] in gates
    ]
    authors = {entry["key"] for entry in log if entry["context"] == "round reveal"}
    kept: dict[str, tuple[str, float, float]] = {}
    for entry in log:
        if entry["context"] != "round reveal":
            continue
        author = entry["key"]
        for item in json.loads(bytes_of(folder, entry["body"]["chunks"]))["items"]:
            found = [(key, one) for key, one in records if one["text"] == item["text"]]
            against = {key for key, one in found if one["high"] < 0}
            harmed = len(against) > 1 or bool(against - authors | against & {author})
            counted = [one for key, one in found if key != author]
            if len(counted) < terms["lessons"]["least"] or harmed:
                continue
            effect, low = round(median_low(one["effect"] for one in counted), 6), low_of(counted)
            if effect > 0 and (low > 0 or not terms["lessons"]["clear"]):
                kept[item["text"]] = author, effect, low
    return kept, points_of(kept, terms["pool"])


def points_of(kept: dict[str, tuple[str, float, float]], pool: int) -> dict[str, int]:
    worth: dict[str, Fraction] = {}
    for author, effect, _ in kept.values():
        worth[author] = worth.get(author, Fraction(0)) + Fraction(effect)
    exact = {author: pool * share / sum(worth.values()) for author, share in worth.items()}
    points = {author: int(share) for author, share in exact.items()}
    order = sorted(exact, key=lambda author: (points[author] - exact[author], author))
    for author in order[: pool - sum(points.values())]:
        points[author] += 1
    return points
