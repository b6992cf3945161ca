"""What one user measured of one lesson, signed: the text, the model, how many tasks, and the gain.

It has no task, and no clock. Records are lines of a file, which may be put one behind the other.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.experience.library.evidence import MOST_FIGURE, is_figure
from zoo.gym.experience.library.item import Item, item_id, lesson_text
from zoo.gym.files import new_file, read_small
from zoo.gym.signing import OwnKey, PublicKey, canonical, sign, verify

CONTEXT = "experience measurement"
MOST_BYTES = 16_000_000

_FIELDS = {"item", "text", "model", "tasks", "effect", "low", "high"}


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


def write_measurements(path: Path, found: Iterable[Measurement], key: OwnKey) -> None:
    """Writes signed records to a new file.

    Raises:
        StorageError: it cannot be written.
    """
    signed = [sign(key, CONTEXT, _body(one)).as_json() for one in found]
    with new_file(path) as beside:
        beside.write_bytes(b"".join(canonical(one) + b"\n" for one in signed))


def read_measurements(path: Path) -> tuple[list[tuple[PublicKey, Measurement]], list[str]]:
    """Returns the records in a file with their signers, and why lines were left out.

    Raises:
        NotAvailableError: there is no file.
        InputError: it cannot be read, or has no record.
    """
    try:
        lines = read_small(path, most_bytes=MOST_BYTES).splitlines()
    except FileNotFoundError:
        raise NotAvailableError(f"{path}: expected signed measurements, got nothing") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"{path}: expected signed measurements: {reason}") from None
    found: list[tuple[PublicKey, Measurement]] = []
    left_out: list[str] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(_read(line))
        except InputError as error:
            left_out.append(f"{path}:{number}: {error.message}")
    if not found:
        raise InputError(
            f"{path}: expected signed measurements, got none: {(left_out or ['empty'])[0]}",
            hint="zoo-gym experience gate FILE TASKS --model MODEL --each --out FILE makes them",
        )
    return found, left_out


def _read(line: bytes) -> tuple[PublicKey, Measurement]:
    try:
        fields: object = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError("expected a signed object in JSON, got another line") from None
    signed = verify(fields, CONTEXT)
    return signed.key, _measurement(signed.body)


def _body(one: Measurement) -> dict[str, object]:
    return {
        "item": one.item,
        "text": one.text,
        "model": one.model,
        "tasks": one.tasks,
        "effect": one.effect,
        "low": one.low,
        "high": one.high,
    }


def _measurement(body: Mapping[str, object]) -> Measurement:
    """Checks what a key signed: keys sign anything."""
    text, model, tasks = body.get("text"), body.get("model"), body.get("tasks")
    if body.keys() != _FIELDS or not isinstance(text, str) or not isinstance(model, str):
        raise InputError("measurement: expected text, model and figures, got others")
    if lesson_text(text) != text or body["item"] != Item(text).id:
        raise InputError("measurement: expected the id of its lesson, got another one")
    if type(tasks) is not int or not 0 < tasks < 1 << 31 or len(model) > 1000:
        raise InputError("measurement: expected a number of tasks and a model, got others")
    figures = [body["low"], body["effect"], body["high"]]
    if not all(map(is_figure, figures)):
        raise InputError(
            f"measurement: expected an effect and its interval up to {MOST_FIGURE:g} in size, got "
            "others"
        )
    low, effect, high = (float(cast("float", one)) for one in figures)
    if not low <= effect <= high:
        raise InputError("measurement: expected an effect in its interval, got one outside")
    return Measurement(text, model, tasks, effect, low, high)
