"""A version of all lessons of a model, and its limits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from zoo.gym.errors import InputError
from zoo.gym.experience.library.item import Item

MOST_ITEMS = 48
MOST_TOKENS = 2000
"""The longest text of a library, at four bytes a token."""

MOST_SEEN = 32_000
"""The most hashes of tasks that a library can have: as many as fit into its file."""

HEADING = "Lessons from earlier tasks. Follow each lesson that applies to the task:"


@dataclass(frozen=True)
class Library:
    """A version.

    Attributes:
        items: the lessons, in the order of their ids.
        model: the model that they are for.
        teacher: the model that wrote them.
        domain: what the tasks are about, in the user's words.
        parent: the digest of the file that it was made from; empty for one that was learned.
        evidence: the result of the test of this version; empty without one.
        seen: hashes of the tasks that taught or decided when the lessons were learned, in order:
            those are no evidence for them, also after the run is deleted or a text changed.
    """

    items: tuple[Item, ...] = ()
    model: str = ""
    teacher: str = ""
    domain: str = ""
    parent: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict[str, object])
    seen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Checks the limits.

        Raises:
            InputError: too many or too long lessons, or two with the same text; too many tasks.
        """
        if len(self.items) > MOST_ITEMS:
            raise InputError(
                f"library: expected at most {MOST_ITEMS} lessons, got {len(self.items)}",
                code="experience.library_too_large",
            )
        if len({item.id for item in self.items}) < len(self.items):
            raise InputError(
                "library: expected different lessons, got one twice",
                code="experience.duplicate_lesson",
            )
        if self.tokens > MOST_TOKENS:
            raise InputError(
                f"library: expected at most {MOST_TOKENS:,} tokens of text, got {self.tokens:,}",
                code="experience.library_too_large",
            )
        if len(self.seen) > MOST_SEEN:
            raise InputError(
                f"library: expected hashes of at most {MOST_SEEN:,} tasks, got {len(self.seen):,}",
                code="experience.library_too_large",
            )
        object.__setattr__(self, "seen", tuple(sorted(set(self.seen))))
        items = tuple(sorted(self.items, key=lambda item: item.id))
        object.__setattr__(self, "items", items)

    @property
    def text(self) -> str:
        """The text that a model reads: empty without lessons."""
        lines = [f"- {item.text}" for item in self.items]
        return "\n".join([HEADING, *lines]) if lines else ""

    @property
    def tokens(self) -> int:
        """The length of the text in tokens of four bytes: an estimate, the same everywhere."""
        return -(-len(self.text.encode()) // 4)

    @property
    def measured_with(self) -> str:
        """The model of the evidence; without one the model that the lessons are for."""
        return str(self.evidence.get("model") or self.model)

    def has_lessons_of(self, other: "Library") -> bool:
        """Returns whether both put the same lessons into prompts, with the same pins."""
        mine, theirs = ([(i.id, i.pinned) for i in library.items] for library in (self, other))
        return mine == theirs

    def find(self, start: str) -> Item | None:
        """Returns the lesson whose id is or uniquely begins with `start`, None without one."""
        matches = [item for item in self.items if item.id.startswith(start)]
        return matches[0] if start and len(matches) == 1 else None

    def changed(self, removed: Iterable[str], added: Iterable[Item]) -> "Library":
        """Returns the library without some lessons and with others; its evidence is removed.

        Raises:
            InputError: see the class.
        """
        without = set(removed)
        items = [item for item in self.items if item.id not in without]
        ids = {item.id for item in items}
        items += [item for item in added if item.id not in ids]
        return replace(self, items=tuple(items), evidence={})
