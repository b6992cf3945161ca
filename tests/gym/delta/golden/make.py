"""Makes the golden deltas: `.venv/bin/python tests/gym/delta/golden/make.py` writes them anew.

Every input is a small fraction, so that no rounding of any library shows in the bytes.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta import Origin, create_delta, load_delta, random_signs
from zoo.gym.delta.safetensors import Entry, write_safetensors
from zoo.gym.delta.writer import replace_header

SHAPES = {"layers.0.up.weight": (5, 11), "layers.0.down.weight": (3, 130), "norm.weight": (4,)}
RANK = 2


def make_all(folder: Path) -> list[Path]:
    """Writes every golden delta into a folder and returns the files."""
    made = [folder / f"{name}.safetensors" for name in ("dense", "matrix", "lowrank", "control")]
    with tempfile.TemporaryDirectory() as name:
        base, tuned, adapter = _inputs(Path(name))
        sources = [(tuned, "row"), (tuned, "matrix"), (adapter, "row")]
        for out, (source, scale) in zip(made, sources, strict=False):
            create_delta(
                source,
                base=base,
                base_id="golden/base",
                base_revision="v1",
                out=out,
                config=DeltaConfig(scale=scale, zero="minus"),  # type: ignore[arg-type]
                origin=Origin(recipe={"learning_rate": 0.002}, seed=42, data="0f" * 32),
            )
    random_signs(made[0], made[3], seed=7)
    for out in made:
        delta = load_delta(out)
        replace_header(delta, delta.header.model_copy(update={"tool": "zoo-gym golden"}))
    return made


def values(shape: tuple[int, ...], seed: int) -> NDArray[np.float32]:
    """Returns multiples of 1/16 that look like nothing in particular."""
    numbers = np.arange(np.prod(shape, dtype=int)) * (2 * seed + 17) % 101 % 33 - 16
    return (numbers / 16).astype(np.float32).reshape(shape)


def _inputs(folder: Path) -> tuple[Path, Path, Path]:
    base = {name: values(shape, 1) for name, shape in SHAPES.items()}
    tuned = {name: array + values(array.shape, 5) / 4 for name, array in base.items()}
    factors = {}
    for place, (name, shape) in enumerate(list(SHAPES.items())[:2]):
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        factors[f"{stem}.lora_A.weight"] = values((RANK, shape[1]), place + 2)
        factors[f"{stem}.lora_B.weight"] = values((shape[0], RANK), place + 8)
    for kind, arrays in (("base", base), ("tuned", tuned)):
        _write(folder / kind / "model.safetensors", arrays)
        (folder / kind / "config.json").write_text('{"tie_word_embeddings": false}')
    _write(folder / "adapter" / "adapter_model.safetensors", factors)
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 4}
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(config))
    return folder / "base", folder / "tuned", folder / "adapter"


def _write(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    path.parent.mkdir()
    entries = [Entry(name, "F32", array.shape) for name, array in arrays.items()]
    write_safetensors(path, entries, {"format": "pt"}, arrays.values())


if __name__ == "__main__":
    for file in make_all(Path(__file__).parent):
        print(file, file.stat().st_size)
