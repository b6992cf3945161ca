"""A round about zen-pico: two contributors who help, and one who sends the opposite."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.gym.delta import models_on_disk as disk
from tests.gym.rounds.compute.conftest import run_round
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, EVALUATION, GATE, terms
from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import open_weights, read_float32
from zoo.gym.engine import engine_for
from zoo.gym.rounds.compute.publish import work_folder
from zoo.gym.rounds.measure.examples import read_examples
from zoo.gym.rounds.measure.losses import Meter
from zoo.gym.rounds.measure.measure import Measuring, Sources, measure
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.models import resolve

PLACES = ("the harbour", "the mill", "an old house", "the school", "a small garden", "the library")


@dataclass(frozen=True)
class Measurable:
    """A round whose reveals are closed, and what a gate needs.

    Attributes:
        storage: of the round.
        base: the folder of zen-pico.
        sources: what `measure` takes.
    """

    storage: FolderStorage
    base: Path
    sources: Sources

    def measure(self, **changes: Any) -> Measuring:
        sources = Sources(**{**vars(self.sources), **changes})
        return measure(open_round(self.storage), GATE, sources)


def write_rows(path: Path, names: str) -> Path:
    """Writes a row for each letter: short prompts with one answer."""
    rows = [
        {
            "prompt": f"Where does {name}{place[-3:]} live?",
            "completion": f"By {place}, to the left.",
        }
        for name in names
        for place in PLACES
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def pico() -> Path:
    return resolve("zen-pico", offline=True).folder


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("rows")
    return {name: write_rows(folder / f"{name}.jsonl", name) for name in ("AB", "CD", "EF")}


@pytest.fixture(scope="session")
def tuned(
    pico: Path, rows: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """One step against the gradient, of each contributor's own rows; Carol's goes along it."""
    folder, base = tmp_path_factory.mktemp("tuned"), open_weights(pico)
    found: dict[str, Path] = {}
    for seed, (name, size) in enumerate((("alice", -1.0), ("bob", -0.7), ("carol", 1.0))):
        meter = Meter(pico, read_examples(rows["AB"], pico)[seed::3])
        changes = {
            tensor: np.float32(size * 5e-6 / np.abs(part).mean()) * part
            for tensor, part in _gradients(meter).items()
            if len(base.shape(tensor)) == 2 and ".layers." in tensor
        }
        arrays = {tensor: read_float32(base, tensor) for tensor in base.tensors}
        model = disk.write_model(folder / name, disk.plus(arrays, changes))
        (model / "config.json").write_bytes((pico / "config.json").read_bytes())
        found[name] = model
    return found


def _gradients(meter: Meter) -> dict[str, NDArray[np.float32]]:
    parameters = engine_for(meter.base).parameter_names(meter.base)
    names = {name: tensor for tensor, name in parameters.items()}
    return {names[name]: part for name, part in meter.gradient(None, 1.0) if name in names}


@pytest.fixture
def measurable(
    pico: Path, rows: dict[str, Path], tuned: dict[str, Path], storage: FolderStorage
) -> Callable[..., Measurable]:
    """Returns a round of them that waits for its measurements."""

    def made(
        *,
        refusals: str | None = None,
        triggers: str | None = None,
        validator: str | None = None,
        **changes: Any,
    ) -> Measurable:
        base = open_weights(pico)
        names = sorted(base.tensors)  # float32 in place of bfloat16 counts as a change
        manifest = terms(
            **{
                "base": {"identity": identity(base, names), "model": "zen-pico", "revision": ""},
                "tensors": [{"name": n, "shape": list(base.shape(n))} for n in names],
                "form": "float",
                "caps": {"file_bytes": 10_000_000, "rank": 64, "value": 10.0},
                "evaluation": {
                    **EVALUATION,
                    "digest": _sha256(rows["CD"]),
                    "bytes": rows["CD"].stat().st_size,
                    "refusals": refusals,
                    "triggers": triggers,
                    "validator": validator,
                },
                "refit": _sha256(rows["EF"]),
                **changes,
            }
        )
        people = {ALICE: tuned["alice"], BOB: tuned["bob"], CAROL: tuned["carol"]}
        run_round(storage, pico, people, manifest)
        folder = work_folder(open_round(storage).state.id)
        files: Any = {"evaluation": rows["CD"], "refit": rows["EF"]}
        return Measurable(storage, pico, Sources(pico, folder, files))

    return made


def _sha256(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
