"""Compares answers of models: by their words, by whether they differ at all, and by blind votes.

The votes of all pairs are a small JSON file. What an interval needs is imported when it is asked
for, because it comes with the models of settings.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TypeAlias, cast

from zoo.gym.errors import StorageError
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.paths import ensure_folder, folders

Span: TypeAlias = tuple[int, int]
"""Where a part of a text begins and ends."""

MOST_WORDS = 2000
"""Longer answers are not marked: the time for it grows with the square."""

FEWEST_VOTES = 6
"""Fewer votes for one or the other say nothing, not even unanimous ones: 2 * 0.5 ** 5 > 5 %."""

_WORD = re.compile(r"\w+|[^\w\s]")


def differing(first: str, second: str) -> tuple[list[Span], list[Span]]:
    """Returns the parts of two texts that differ, by words; white space does not count.

    >>> differing("a red cat", "a blue cat")
    ([(2, 5)], [(2, 6)])
    """
    spans = [[match.span() for match in _WORD.finditer(text)] for text in (first, second)]
    if max(map(len, spans)) > MOST_WORDS:
        return [], []
    words = [
        [text[start:end] for start, end in parts]
        for text, parts in zip((first, second), spans, strict=True)
    ]
    marks: tuple[list[Span], list[Span]] = ([], [])
    for tag, *ends in SequenceMatcher(None, words[0], words[1], autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for side, (start, end) in enumerate((ends[:2], ends[2:])):
            if start < end:
                marks[side].append((spans[side][start][0], spans[side][end - 1][1]))
    return marks


def effect_sentence(name: str, base: str, pairs: Iterable[tuple[str, str]], kind: str) -> str:
    """Says on how many prompts a model answered as its base did; empty where it never did.

    Args:
        name: what the column is called.
        base: what the base is called.
        pairs: the answers of both, a pair for each prompt.
        kind: what has no effect if all are equal, such as `adapter`.
    """
    answers = list(pairs)
    equal, count = sum(first == second for first, second in answers), len(answers)
    if not equal:
        return ""
    sentence = f"{name} equals {base} on {equal} of {count} {'prompt' if count == 1 else 'prompts'}"
    if equal < count:
        return sentence
    return f"{sentence}: this {kind} has no effect on {'it' if count == 1 else 'them'}"


@dataclass(frozen=True)
class Score:
    """The blind votes on a pair of models.

    Attributes:
        models: both, sorted.
        votes: how often each was preferred.
        ties: how often neither was.
    """

    models: tuple[str, str]
    votes: tuple[int, int] = (0, 0)
    ties: int = 0

    def voted(self, winner: str | None) -> "Score":
        """Returns the score with one more vote, for one of both or for neither."""
        if winner is None:
            return Score(self.models, self.votes, self.ties + 1)
        first, second = self.votes
        is_first = winner == self.models[0]
        return Score(self.models, (first + is_first, second + (not is_first)), self.ties)

    def words(self, labels: Mapping[str, str]) -> str:
        """Returns who is preferred, with the numbers and the 95 % interval, ties left out.

        Args:
            labels: what the models are called.
        """
        leader = 0 if self.votes[0] >= self.votes[1] else 1
        won, of = self.votes[leader], sum(self.votes)
        name, other = (labels.get(self.models[i], self.models[i]) for i in (leader, 1 - leader))
        ties = f", {self.ties} {'tie' if self.ties == 1 else 'ties'}" if self.ties else ""
        numbers = f"{name} {won}, {other} {of - won}{ties}"
        if of < FEWEST_VOTES:
            return f"{numbers}: too few votes to say"
        low, high = interval(won, of)
        share = f"{won / of:.0%} for {name} (95 % interval {low:.0%} to {high:.0%})"
        if low > 0.5:
            return f"{numbers}: {name} is preferred, {share}"
        return f"{numbers}: too few votes to say, {share}"


def interval(count: int, of: int) -> tuple[float, float]:
    """Returns the 95 % interval of a share of votes (Wilson 1927)."""
    from zoo.gym.evaluate.intervals import mean_of

    share = mean_of([1.0] * count + [0.0] * (of - count))
    return share.low, share.high


def votes_file() -> Path:
    """Returns the file of all votes."""
    return folders().data / "votes.json"


def read_score(first: str, second: str) -> Score:
    """Returns the votes on a pair so far."""
    pair = (first, second) if first <= second else (second, first)
    return _scores().get(pair, Score(pair))


def add_vote(first: str, second: str, winner: str | None) -> Score:
    """Stores a vote on a pair of models and returns their score.

    Args:
        first: a model, BASE or BASE:NAME.
        second: another one.
        winner: the one that was preferred; None for neither.

    Raises:
        StorageError: it cannot be stored.
    """
    score = read_score(first, second).voted(winner)
    scores = _scores() | {score.models: score}
    path = votes_file()
    ensure_folder(path.parent)
    pairs = [
        {"models": list(each.models), "votes": list(each.votes), "ties": each.ties}
        for each in scores.values()
    ]
    write_beside(path, json.dumps({"pairs": pairs}, indent=1) + "\n")
    return score


def _scores() -> dict[tuple[str, str], Score]:
    if not votes_file().exists():
        return {}
    stored = (read_json_object(votes_file()) or {}).get("pairs")
    listed = cast("list[object]", stored) if isinstance(stored, list) else [None]
    scores = list(map(_score, listed))
    if None in scores:  # writing the others back would lose it
        raise StorageError(
            f"{votes_file()}: expected votes in JSON, got something else",
            hint="move the file away to begin anew",
            code="tui.damaged_votes",
        )
    return {score.models: score for score in scores if score is not None}


def _score(stored: object) -> Score | None:
    """Returns a stored score; None for what is none."""
    match stored:
        case {
            "models": [str(first), str(second)],
            "votes": [int(for_first), int(for_second)],
            "ties": int(ties),
        } if min(for_first, for_second, ties) >= 0:
            return Score((first, second), (for_first, for_second), ties)
        case _:
            return None
