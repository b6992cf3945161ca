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
        candidates = candidates_of(opened.state, opened.storage, work_folder(opened.state.id)).first
        self.own = [candidate.item for candidate in candidates if key.public in candidate.authors]
        self.items = [
            candidate.item for candidate in candidates if key.public not in candidate.authors
        ]
        name = f"{opened.state.id}-{key.public.raw.hex()[:16]}.jsonl"
        self.kept_file = folders().data / "rounds" / "measured" / name
        self._measured: dict[str, Measurement] = {}
        if self.kept_file.exists():
            self.add(self.kept_file)

    @property
    def recorded(self) -> Mapping[str, object]:
        """The lessons that this key has signed records of, by id."""
        return self.state.measured.lessons.get(self._key.public, {})

    @property
    def left(self) -> list[Item]:
        """The lessons that were not measured yet."""
        measured = self.recorded.keys() | self._measured.keys()
        return [lesson for lesson in self.items if lesson.id not in measured]

    def add(self, file: Path) -> int:
        """Adds the signed measurements in a file and returns how many are of the round's lessons.

        Raises:
            NotAvailableError: there is no file.
            InputError: it has a line of another key, or one that was changed, or nothing.
        """
        records, left_out = read_measurements(file)
        if left_out:
            raise InputError(left_out[0], code="rounds.bad_measurement")
        strangers = {key for key, _ in records if key != self._key.public}
        if strangers:
            stranger = min(key.fingerprint for key in strangers)
            raise InputError(
                f"{file}: expected measurements of your key {self._key.public.fingerprint}, got "
                f"those of {stranger}",
                hint=f"each key leaves its own: {self.state.manifest.command('measure')}",
                code="rounds.other_key",
            )
        texts = {lesson.text for lesson in self.items}
        ours = [record for _, record in records if record.text in texts]
        self._keep(ours)
        return len(ours)

    def keep(self, measurements: Iterable[Measurement]) -> None:
        """Keeps measurements that were made now, on this machine.

        Raises:
            StorageError: they cannot be written.
        """
        self._keep(list(measurements))
        ensure_folder(self.kept_file.parent)
        write_measurements(self.kept_file, self._measured.values(), self._key)

    def entries(self) -> list[Signed]:
        """Returns the signed records of what was measured, without those that are there already.

        Raises:
            InputError: a measurement is of too few tasks, or of rewards beyond 0 to 1.
        """
        texts = {lesson.text for lesson in self.items}
        return [
            self._entry(measurement)
            for measurement in self._measured.values()
            if measurement.text in texts and measurement.item not in self.recorded
        ]

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

    def _keep(self, measurements: Sequence[Measurement]) -> None:
        """Keeps the measurement of most tasks of each lesson, or one that shows clear harm."""
        for measurement in measurements:
            earlier = self._measured.get(measurement.item)
            if earlier is None or _rank(measurement) > _rank(earlier):
                self._measured[measurement.item] = measurement

    def _entry(self, measurement: Measurement) -> Signed:
        if measurement.tasks < FEWEST_TASKS:
            raise InputError(
                f"measurement of [{measurement.item[:6]}]: expected at least {FEWEST_TASKS} tasks, "
                f"got {measurement.tasks}",
                code="rounds.few_tasks",
            )
        if not -1 <= measurement.low <= measurement.high <= 1:
            raise InputError(
                f"measurement of [{measurement.item[:6]}]: expected rewards of 0 to 1, which a "
                f"round compares, got differences from {measurement.low:g} to {measurement.high:g}",
                code="rounds.reward_range",
            )
        public = {"item": measurement.item, "model": public_name(measurement.model)}
        values = vars(measurement) | public
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
    public = name if at and "://" in address else model
    if "://" in public or public.startswith(("~", ".", "/", "\\")) or PureWindowsPath(public).drive:
        public = public.replace("\\", "/").rstrip("/").rpartition("/")[2]
    plain = "".join(char if " " <= char <= "~" else "?" for char in public).strip()[:200]
    return plain or "?"


def _rank(measurement: Measurement) -> tuple[bool, int, float, float, str]:
    """Orders measurements of one lesson by one key: of equal ones the less favourable counts."""
    of = measurement
    return of.high < 0, of.tasks, -of.effect, -of.high, of.model
