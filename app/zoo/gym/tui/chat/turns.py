"""A conversation, or the same prompts to several models: its turns without their widgets."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from zoo.gym.terminal import visible
from zoo.gym.tui.chat.compare import Span, differing, effect_sentence
from zoo.gym.tui.chat.server import Answer
from zoo.gym.tui.chat.sources import Source

BLIND = ("A", "B")
"""What the two columns of a blind vote are called."""


@dataclass
class Turn:
    """A prompt and the answers to it.

    Attributes:
        prompt: what the user said.
        answers: the answer of each source that was asked.
        blind: the sources as A and B if there is to be a vote; None without one.
        voted: whether there was the vote, so that the names may be shown.
        sent: whether the server was asked.
    """

    prompt: str
    answers: dict[Source, Answer]
    blind: tuple[Source, Source] | None = None
    voted: bool = False
    sent: bool = False

    @property
    def is_over(self) -> bool:
        """Whether no answer is being computed."""
        return all(answer.finish is not None for answer in self.answers.values())

    @property
    def is_hidden(self) -> bool:
        """Whether nobody may know yet who answered what."""
        return self.blind is not None and not self.voted

    @property
    def can_be_voted(self) -> bool:
        """Whether a vote on it means something now: both answers are whole, and differ."""
        if self.blind is None or self.voted or not self.is_over:
            return False
        first, second = (self.answers[source] for source in self.blind)
        return first.is_complete and second.is_complete and first.text != second.text

    def marks(self, columns: Sequence[Source]) -> dict[Source, list[Span]]:
        """Returns what differs from the first column; in the first itself only if there are two."""
        asked = [source for source in columns if source in self.answers]
        marks: dict[Source, list[Span]] = {}
        if not asked or not self.answers[asked[0]].is_complete:
            return marks
        first = shown_text(self.answers[asked[0]])
        for source in asked[1:]:
            if self.answers[source].is_complete:
                in_first, marks[source] = differing(first, shown_text(self.answers[source]))
                if len(asked) == 2:
                    marks[asked[0]] = in_first
        return marks


@dataclass
class Talk:
    """The turns so far, newest last."""

    turns: list[Turn] = field(default_factory=list[Turn])

    @property
    def current(self) -> Turn | None:
        """The newest turn."""
        return self.turns[-1] if self.turns else None

    @property
    def is_answering(self) -> bool:
        """Whether an answer is awaited."""
        return self.current is not None and not self.current.is_over

    def stop(self) -> None:
        """Stops the answers that are being computed; the server stops, too."""
        for answer in self.turns[-1].answers.values() if self.turns else ():
            answer.stop()

    def messages(self, source: Source, *, with_history: bool) -> list[dict[str, str]]:
        """Returns what a source is sent for the newest turn.

        Args:
            source: who is asked.
            with_history: send the turns that it has answered before, too.
        """
        sent: list[dict[str, str]] = []
        for turn in self.turns[:-1] if with_history else ():
            answer = turn.answers.get(source)
            if answer is not None and answer.text:
                sent.append({"role": "user", "content": turn.prompt})
                sent.append({"role": "assistant", "content": answer.text})
        return [*sent, {"role": "user", "content": self.turns[-1].prompt}]

    def effects(self, columns: Sequence[Source]) -> list[str]:
        """Returns a sentence for each source that answered some prompts as the base did."""
        base = next((source for source in columns if source.kind == "base"), None)
        if base is None:
            return []
        sentences = [
            effect_sentence(source.label, base.label, self._pairs(base, source), source.what)
            for source in columns
            if source is not base
        ]
        return [sentence for sentence in sentences if sentence]

    def text(self, columns: Sequence[Source]) -> str:
        """Returns all of it as plain text; names that are hidden stay so."""
        lines: list[str] = []
        for turn in self.turns:
            lines.append(f"> {turn.prompt}")
            asked = turn.blind or tuple(turn.answers)
            for i, source in enumerate(asked):
                title = BLIND[i] if turn.is_hidden else source.label
                several = len(asked) > 1 or len(columns) > 1
                lines.append(f"[{title}]" if several else "")
                lines.append(shown_text(turn.answers[source]))
            lines.append("")
        return "\n".join(lines).strip() + "\n"

    def _pairs(self, base: Source, source: Source) -> list[tuple[str, str]]:
        both = [
            (turn.answers[base], turn.answers[source])
            for turn in self.turns
            if base in turn.answers and source in turn.answers
        ]
        return [
            (first.text, second.text)
            for first, second in both
            if first.is_complete and second.is_complete
        ]


def shown_text(answer: Answer) -> str:
    """Returns an answer as it may be written to a terminal."""
    return visible(answer.text.strip("\n"))
