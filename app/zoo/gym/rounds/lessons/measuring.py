"""What a key of role gate measures of the lessons of a round, on tasks and a model of its own.

What was measured is kept on this machine, so that no lesson is measured twice, and becomes records
of the round when it is sent. A record has no task, and of the model its name alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PureWindowsPath

from zoo.gym.errors import InputError
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.sharing.measurement import (
    Measurement,
    read_measurements,
    write_measurements,
)
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.compute.publish import work_folder
from zoo.gym.rounds.lessons.contribution import candidates_of
from zoo.gym.rounds.measure.measure import refuse_no_gate, with_inbox
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.records import FEWEST_TASKS, record_of
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.session.opening import Opened
from zoo.gym.rounds.session.writing import leave
from zoo.gym.signing import OwnKey, Signed, sign


class LessonMeasuring:
    """The measurements of a round that one key makes.

    Raises:
        InputError: the key has no role gate.
        NotAvailableError: the round is in another phase.
        StorageError: something cannot be read or written.
    """

    def __init__(self, opened: Opened, key: OwnKey) -> None:
        refuse_no_gate(opened.state, key)
        self.state: State = with_inbox(opened)
        self._opened, self._key = opened, key
        found = candidates_of(opened.state, opened.storage, work_folder(opened.state.id)).first
        self.own = [one.item for one in found if key.public in one.authors]
        self.items = [one.item for one in found if key.public not in one.authors]
        name = f"{opened.state.id}-{key.public.raw.hex()[:16]}.jsonl"
        self.kept_file = folders().data / "rounds" / "measured" / name
        self._found: dict[str, Measurement] = {}
        if self.kept_file.exists():
            self.add(self.kept_file)

    @property
    def recorded(self) -> Mapping[str, object]:
        """The lessons that this key has signed records of, by id."""
        return self.state.measured.lessons.get(self._key.public, {})

    @property
    def left(self) -> list[Item]:
        """The lessons that were not measured yet."""
        known = self.recorded.keys() | self._found.keys()
        return [item for item in self.items if item.id not in known]

    def add(self, file: Path) -> int:
        """Adds the signed measurements in a file and returns how many are of the round's lessons.

        Raises:
            NotAvailableError: there is no file.
            InputError: it has a line of another key, or one that was changed, or nothing.
        """
        records, left_out = read_measurements(file)
        if left_out:
            raise InputError(left_out[0], code="rounds.bad_measurement")
        others = {key for key, _ in records if key != self._key.public}
        if others:
            said = min(key.fingerprint for key in others)
            raise InputError(
                f"{file}: expected measurements of your key {self._key.public.fingerprint}, got "
                f"those of {said}",
                hint=f"each key leaves its own: {self.state.manifest.command('measure')}",
                code="rounds.other_key",
            )
        texts = {item.text for item in self.items}
        ours = [one for _, one in records if one.text in texts]
        self._keep(ours)
        return len(ours)

    def keep(self, found: Iterable[Measurement]) -> None:
        """Keeps measurements that were made now, on this machine.

        Raises:
            StorageError: they cannot be written.
        """
        self._keep(list(found))
        ensure_folder(self.kept_file.parent)
        write_measurements(self.kept_file, self._found.values(), self._key)

    def entries(self) -> list[Signed]:
        """Returns the signed records of what was measured, without those that are there already.

        Raises:
            InputError: a measurement is of too few tasks, or of rewards beyond 0 to 1.
        """
        texts = {item.text: item for item in self.items}
        found = [one for one in self._found.values() if one.text in texts]
        return [self._entry(one) for one in found if one.item not in self.recorded]

    def send(self, entries: Sequence[Signed]) -> list[str]:
        """Leaves records for the log's writer and returns their names.

        Raises:
            InputError: one may not follow.
            StorageError: it cannot be written.
        """
        state = self.state
        for entry in entries:
            state = state.after(entry)
        names = [leave(self._opened.storage, entry) for entry in entries]
        self.state = state
        return names

    def _keep(self, found: Sequence[Measurement]) -> None:
        """Keeps the measurement of most tasks of each lesson, or one that shows clear harm."""
        for one in found:
            known = self._found.get(one.item)
            if known is None or _rank(one) > _rank(known):
                self._found[one.item] = one

    def _entry(self, one: Measurement) -> Signed:
        if one.tasks < FEWEST_TASKS:
            raise InputError(
                f"measurement of [{one.item[:6]}]: expected at least {FEWEST_TASKS} tasks, got "
                f"{one.tasks}",
                code="rounds.few_tasks",
            )
        if not -1 <= one.low <= one.high <= 1:
            raise InputError(
                f"measurement of [{one.item[:6]}]: expected rewards of 0 to 1, which a round "
                f"compares, got differences from {one.low:g} to {one.high:g}",
                code="rounds.reward_range",
            )
        values = {**vars(one), "item": one.item, "model": public_name(one.model)}
        record_of("lesson", values)
        body = objects.body_of(self.state.id, kind="lesson", values=values)
        return sign(self._key, objects.RECORD, body)


def public_name(model: str) -> str:
    """Returns the name of a model without the address or the folder that it is in.

    >>> public_name("http://10.0.0.7:8000/v1#llama")
    'llama'
    >>> public_name("/home/ann/models/llama")
    'llama'
    >>> public_name("deepseek/deepseek-chat")
    'deepseek/deepseek-chat'
    """
    address, at, name = model.rpartition("#")
    found = name if at and "://" in address else model
    if "://" in found or found.startswith(("~", ".", "/", "\\")) or PureWindowsPath(found).drive:
        found = found.replace("\\", "/").rstrip("/").rpartition("/")[2]
    plain = "".join(one if " " <= one <= "~" else "?" for one in found).strip()[:200]
    return plain or "?"


def _rank(one: Measurement) -> tuple[bool, int, float, float, str]:
    """Orders measurements of one lesson by one key: of equal ones the less favourable counts."""
    return one.high < 0, one.tasks, -one.effect, -one.high, one.model
