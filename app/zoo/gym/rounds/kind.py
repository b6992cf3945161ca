"""A kind of round: its terms, its contributions, its result, and how commands describe it.

Whoever opens, joins, computes or shows a round asks its kind for everything that differs. The steps
that all kinds share (commit, reveal, close, the log) know none. In the log a kind is terms of the
manifest (`kind`, `privacy`, `lessons`); the names are ours.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from zoo.gym.errors import InputError

if TYPE_CHECKING:
    from zoo.gym.rounds.compute.verify import Check
    from zoo.gym.rounds.privacy.contribution import Written
    from zoo.gym.rounds.privacy.ledger import Spending
    from zoo.gym.rounds.protocol.manifest import Manifest
    from zoo.gym.rounds.protocol.records import Measured
    from zoo.gym.rounds.protocol.state import State
    from zoo.gym.rounds.session.contributing import Prepared
    from zoo.gym.rounds.session.opening import Opened
    from zoo.gym.signing import OwnKey, PublicKey, Signed
    from zoo.models import Resolved

Source = TypeVar("Source")
"""What a user contributes."""

Result = TypeVar("Result")
"""What was computed and published."""

Fields = Mapping[str, object]
"""What a command prints for programs."""

Shown: TypeAlias = "tuple[Fields, str | None]"
"""A result for programs, and why there is none if so."""


class Prints(Protocol):
    """Where a command prints."""

    def answer(self, text: str, /) -> None:
        """Prints a line of the answer."""

    def say(self, text: str, /) -> None:
        """Prints a note for people."""


@dataclass(frozen=True)
class FineTune:
    """A fine-tune on this machine.

    Attributes:
        source: see `zoo.gym.tuned.opened.open_tuned`.
        base: the folder of its base.
    """

    source: Path
    base: Path


@dataclass(frozen=True)
class Request:
    """The arguments of a command that contributes, or applies a result.

    Attributes:
        name: the source, as it was typed.
        fine_tune: finds the source as a fine-tune.
        base: finds the base of the round.
        library: the name that an applied library gets.
    """

    name: str
    base: "Callable[[], Resolved]"
    fine_tune: Callable[[], Path] = Path
    examples: int | None = None
    library: str | None = None
    threads: int | None = None


@dataclass(frozen=True)
class Choices:
    """How a maker publishes a result.

    Attributes:
        force: although it is little worth, or waits for others.
        cluster: of Ray; None computes in this process.
        least: publish nothing if fewer contributions count.
        void: make the round void if no result can come of it.
    """

    force: bool = False
    threads: int | None = None
    cluster: str | None = None
    least: int = 0
    void: bool = False


class Kind(ABC, Generic[Source, Result]):
    """A kind of round."""

    combines: ClassVar[str] = "changes of weights"
    """What its rounds combine, in words."""

    content: ClassVar[str] = "weights"
    """What stays on the contributor's machine until the reveal, in words."""

    sends: ClassVar[str] = "weights"
    """What a reveal sends, in words."""

    is_open: ClassVar[bool] = True
    """Whether anybody with access reads what is revealed."""

    example: ClassVar[str] = "last"
    """A source, in commands that are shown."""

    file: ClassVar[str] = "contribution.safetensors"
    """The name of the file that is sent."""

    coded: ClassVar[str] = "contribution.safetensors"
    """The name of the file that the same source gives again: the one sent, if it is not sealed."""

    fixes_training: ClassVar[bool] = False
    """Whether a run has to train with the settings of its rounds, see `training`."""

    void_note: ClassVar[str] = ""
    """What a maker reads besides when a round is void."""

    each_key_measures: ClassVar[bool] = False
    """Whether each key of role gate measures on tasks of its own, also when enough others have."""

    without_effect: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """Options that do nothing, by command, each with the words for such a round."""

    @abstractmethod
    def check(self, manifest: "Manifest") -> None:
        """Refuses terms that contradict each other or have no effect.

        Raises:
            ValueError: the term is named.
        """

    @abstractmethod
    def code(self, manifest: "Manifest", source: Source, out: Path) -> "Written | None":
        """Writes what a source contributes; a file that is there is replaced.

        Returns:
            What became of the source, where that is more than the file.

        Raises:
            GymError: the round cannot take it.
        """

    def seal(self, manifest: "Manifest", round_: str, key: "PublicKey", folder: Path) -> None:
        """Makes the file that is sent from the one that was coded, where these are two."""

    @abstractmethod
    def check_file(self, path: Path, manifest: "Manifest") -> None:
        """Refuses a contribution that the manifest does not allow.

        Raises:
            InputError: it is not allowed.
        """

    def spending(self, manifest: "Manifest") -> "Spending | None":
        """Returns what a reveal spends of its contributor's privacy."""
        del manifest
        return None

    @abstractmethod
    def contribute(
        self, opened: "Opened", request: Request, key: "OwnKey", out: Prints
    ) -> "tuple[Prepared, Signed, Fields]":
        """Prepares what a user gave and says what became of it.

        Returns:
            The contribution, the commitment to it, and what programs read besides.
        """

    @abstractmethod
    def publish(self, opened: "Opened", key: "OwnKey", choices: Choices) -> Result:
        """Computes the result and publishes it, or makes the round void."""

    @abstractmethod
    def show(self, result: Result, opened: "Opened", out: Prints) -> Shown:
        """Prints a published result."""

    @abstractmethod
    def checks(self, opened: "Opened", folder: Path, threads: int | None) -> "Iterator[Check]":
        """Yields the checks of a published round, in the order in which they are made."""

    def void_check(self, opened: "Opened", folder: Path, threads: int | None) -> "Check | None":
        """Returns the check of why a round is void; None if only its maker's word says so."""
        del opened, folder, threads
        return None

    @abstractmethod
    def rewards(self, opened: "Opened", folder: Path) -> tuple[str, Mapping[str, int]]:
        """Returns how points were shared out, and the points of each key, computed again.

        Raises:
            InputError: the published ones are others.
        """

    @abstractmethod
    def apply(self, opened: "Opened", request: Request, out: Prints) -> Fields:
        """Verifies the result, applies it, prints that and returns it for programs."""

    def forget(self, manifest: "Manifest") -> None:
        """Deletes what this machine kept for a result that will never be made."""

    @abstractmethod
    def is_measured(self, state: "State") -> bool:
        """Returns whether all records are there that a result needs."""

    @abstractmethod
    def measure_options(self, manifest: "Manifest", measured: "Measured") -> str:
        """Returns the options that `round measure` still needs, as a user types them."""

    @abstractmethod
    def rule(self, manifest: "Manifest") -> str:
        """Returns how a round combines what, in words."""

    def guards(self, manifest: "Manifest") -> str | None:
        """Returns what is measured and who is capped, in words; None if it can have neither."""
        del manifest
        return None

    def weakness(self, manifest: "Manifest") -> str | None:
        """Returns what a new round does not withstand, in words; None if there is nothing."""
        del manifest
        return None

    def promise(self, opened: "Opened") -> dict[str, Any] | None:
        """Returns what a round promises its contributors, for programs."""
        del opened
        return None

    def training(self, manifest: "Manifest") -> dict[str, object]:
        """Returns the settings with which a run trains for a round.

        Raises:
            InputError: any will do.
        """
        self.expect_weights(manifest, "round", "zoo-gym round contribute LIBRARY takes lessons")
        return {}

    def refuse_as_earlier(self, manifest: "Manifest") -> None:
        """Refuses a round without standings as the one from which reputations go on.

        Raises:
            InputError: it has none.
        """
        self.expect_weights(manifest, "--after", "rounds of lessons have no standings")

    def expect_weights(self, manifest: "Manifest", what: str, hint: str) -> None:
        """Refuses what only rounds about weights can do.

        Args:
            what: the command, option or class.

        Raises:
            InputError: the round combines something else.
        """
        if self.combines == Kind.combines:
            return
        raise InputError(
            f"{what}: expected a round of {Kind.combines}, got {manifest.name}, which combines "
            f"{self.combines}",
            hint=hint,
            code="rounds.other_kind",
        )


def listed(refused: "Mapping[PublicKey, str]") -> list[dict[str, str]]:
    """Returns for programs who does not count, and why."""
    return [{"contributor": str(key), "reason": reason} for key, reason in refused.items()]


@dataclass(frozen=True)
class Listed:
    """A kind in the table: the "module:class" of it, and which manifests it fits."""

    path: str
    fits: "Callable[[Manifest], bool]"


KINDS = {
    "weights": Listed("zoo.gym.rounds.kinds.weights:WeightsRound", lambda _: True),
    "private": Listed(
        "zoo.gym.rounds.kinds.private:PrivateRound", lambda manifest: manifest.privacy is not None
    ),
    "lessons": Listed(
        "zoo.gym.rounds.kinds.lessons:LessonsRound", lambda manifest: manifest.kind == "experience"
    ),
}
"""Every kind by its name; a round is of the last one that fits its manifest."""


def kind_of(manifest: "Manifest") -> Kind[Any, Any]:
    """Returns the kind of a round; its module is imported on demand."""
    return load_kind(next(name for name in reversed(KINDS) if KINDS[name].fits(manifest)))


@cache
def load_kind(name: str) -> Kind[Any, Any]:
    """Returns the kind with a name of the table."""
    module, _, kind = KINDS[name].path.partition(":")
    loaded: Kind[Any, Any] = getattr(import_module(module), kind)()
    return loaded
