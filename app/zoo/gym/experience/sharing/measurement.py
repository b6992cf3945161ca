"""A signed record of one user's measurement of one lesson: text, model, number of tasks, and gain.

It has no task, and no clock. Records are lines of a file; such files may be concatenated.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.experience.library.evidence import MOST_COUNT, MOST_FIGURE, is_figure
from zoo.gym.experience.library.item import item_id, lesson_text
from zoo.gym.files import new_file, read_small
from zoo.gym.signing import OwnKey, PublicKey, canonical, sign, verify

CONTEXT = "experience measurement"
MOST_BYTES = 16_000_000


@dataclass(frozen=True)
class Measurement:
    """A measured gain of one lesson.

    Attributes:
        text: the lesson.
        model: the model that answered.
        tasks: how many different tasks were compared; at least six, which an interval needs.
        effect: the mean reward with the lesson, less that without it.
        low: the lower end of its 95 % interval.
        high: the upper end.
    """

    text: str
    model: str
    tasks: int
    effect: float
    low: float
    high: float

    @property
    def item(self) -> str:
        """The lesson's id."""
        return item_id(self.text)


def write_measurements(path: Path, records: Iterable[Measurement], key: OwnKey) -> None:
    """Writes signed records to a new file.

    Raises:
        StorageError: it cannot be written.
    """
    bodies = (asdict(record) | {"item": record.item} for record in records)
    lines = [canonical(sign(key, CONTEXT, body).as_json()) + b"\n" for body in bodies]
    with new_file(path) as beside:
        beside.write_bytes(b"".join(lines))


def read_measurements(path: Path) -> tuple[list[tuple[PublicKey, Measurement]], list[str]]:
    """Returns the records in a file with their signers, and why lines were left out.

    Raises:
        NotAvailableError: there is no file.
        InputError: it cannot be read, or has no record.
    """
    try:
        lines = read_small(path, most_bytes=MOST_BYTES).splitlines()
    except FileNotFoundError:
        raise NotAvailableError(
            f"{path}: expected signed measurements, got nothing", code="experience.no_such_file"
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"{path}: expected signed measurements: {reason}", code="experience.unreadable_file"
        ) from None
    records: list[tuple[PublicKey, Measurement]] = []
    left_out: list[str] = []
    for number, line in enumerate(lines, 1):
        try:
            signed = verify(_json(line), CONTEXT)
            records.append((signed.key, _measurement(signed.body)))
        except InputError as error:
            left_out.append(f"{path}:{number}: {error.message}")
    if not records:
        raise InputError(
            f"{path}: expected signed measurements, got none: {(left_out or ['empty'])[0]}",
            hint="zoo-gym experience gate FILE TASKS --model MODEL --each --out FILE makes them",
            code="experience.no_measurements",
        )
    return records, left_out


def _json(line: bytes) -> object:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(
            "expected a signed object in JSON, got another line", code="experience.measurement"
        ) from None
    return value


def _measurement(body: Mapping[str, object]) -> Measurement:
    """Checks what a key signed: keys sign anything."""
    fields = {"item", *(field.name for field in dataclasses.fields(Measurement))}
    text, model, tasks = body.get("text"), body.get("model"), body.get("tasks")
    if body.keys() != fields or not isinstance(text, str) or not isinstance(model, str):
        raise InputError(
            "measurement: expected text, model and figures, got others",
            code="experience.measurement",
        )
    if lesson_text(text) != text or body["item"] != item_id(text):
        raise InputError(
            "measurement: expected the id of its lesson, got another one",
            code="experience.measurement",
        )
    if type(tasks) is not int or not 0 < tasks < MOST_COUNT or len(model) > 1000:
        raise InputError(
            "measurement: expected a number of tasks and a model, got others",
            code="experience.measurement",
        )
    figures = [body["low"], body["effect"], body["high"]]
    if not all(map(is_figure, figures)):
        raise InputError(
            f"measurement: expected an effect and its interval up to {MOST_FIGURE:g} in size, got "
            "others",
            code="experience.measurement",
        )
    low, effect, high = (float(cast("float", figure)) for figure in figures)
    if not low <= effect <= high:
        raise InputError(
            "measurement: expected an effect in its interval, got one outside",
            code="experience.measurement",
        )
    return Measurement(text, model, tasks, effect, low, high)
