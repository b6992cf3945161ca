"""How answers ended: cut at the limit of tokens, held back by a server's filter, or empty.

Such answers are scored as they are, which is mostly 0: a run with many of them learns nothing, and
should say why.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from zoo.backends.openai.reply import Reply
from zoo.gym.experience.calls.caller import TOO_LONG

KINDS = ("cut", "filtered", "empty")

MANY = 0.1
"""The share of answers that is worth a sentence."""

_LEAST = 3
_MORE = "--max-new-tokens N allows more"


def ended(reply: Reply) -> str | None:
    """Returns how an answer ended that is not whole, one of `KINDS`; None for a whole one."""
    if reply.finish == "content_filter":
        return "filtered"
    if reply.finish == "length":
        return "cut"
    return None if reply.text.strip() or reply.finish == TOO_LONG else "empty"


def sentence(kind: str, most_tokens: int) -> str:
    """Returns what a user should know of answers of a kind, behind their number."""
    return {
        "cut": f"cut at {most_tokens:,} tokens: {_MORE}",
        "filtered": "held back by the server's filter (content_filter)",
        "empty": f"empty: if the model reasons first, {_MORE}",
    }[kind]


@dataclass
class Ends:
    """Counts how the answers of a step ended, and says so if many are not whole.

    Attributes:
        tell: gets a sentence, once for each kind and phase.
    """

    tell: Callable[[str], object]
    counts: Counter[str] = field(default_factory=Counter[str])
    said: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def add(self, phase: str, replies: Sequence[Reply], most_tokens: int) -> None:
        """Counts answers that were drawn together."""
        found = Counter(kind for reply in replies if (kind := ended(reply)) is not None)
        self.counts += found
        for kind, count in found.items():
            if count < max(_LEAST, MANY * len(replies)) or (kind, phase) in self.said:
                continue
            self.said.add((kind, phase))
            share = f"{count:,} of {len(replies):,} answers ({count / len(replies):.0%})"
            self.tell(f"{phase}: {share} are {sentence(kind, most_tokens)}")

    def take(self) -> dict[str, int]:
        """Returns the counts by kind, and begins anew."""
        found = {kind: self.counts[kind] for kind in KINDS}
        self.counts.clear()
        return found
