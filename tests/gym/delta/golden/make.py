"""Makes the golden deltas: `.venv/bin/python tests/gym/delta/golden/make.py` writes them anew.

Every input is a small fraction, so that no rounding of any library shows in the bytes.
"""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.core import DType
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta import Origin, create_delta, load_delta, random_signs
from zoo.gym.delta.codecs.floats import to_bf16
from zoo.gym.delta.codecs.lowrank import code_factor
from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.codecs.tensor import Encoded, encode_tensor
from zoo.gym.delta.codecs.values import Values
from zoo.gym.delta.file.header import WHOLE_BASE_KEY, Control, Quality
from zoo.gym.delta.file.privacy import Privacy
from zoo.gym.delta.file.reader import tensor_parts
from zoo.gym.delta.file.terms import LowRankTerm, TensorTerms
from zoo.gym.delta.file.writer import Entry, Spool, replace_header, write_delta, write_safetensors

SHAPES: dict[str, tuple[int, ...]] = {
    "layers.0.up.weight": (5, 11),
    "layers.0.down.weight": (3, 130),
    "norm.weight": (4,),
}
RANK = 2
FIRST = {
    "dense": DeltaConfig(zero="minus"),
    "matrix": DeltaConfig(zero="minus", scale="matrix"),
    "lowrank": DeltaConfig(),
}
DENSE = {
    "column": DeltaConfig(zero="minus", scale="column"),
    "group": DeltaConfig(zero="minus", scale="group"),
    "mask": DeltaConfig(zero="mask"),
    "planes": DeltaConfig(zero="mask", planes=3),
    "ternary": DeltaConfig(codec="ternary"),
    "int2": DeltaConfig(bits=2),
    "int4": DeltaConfig(bits=4),
    "int8": DeltaConfig(bits=8),
    "sparse": DeltaConfig(codec="sparse"),
}
LOWRANK = {
    "lowrank-sign": DeltaConfig(bits=1),
    "lowrank-int2": DeltaConfig(codec="int", bits=2),
    "lowrank-int4": DeltaConfig(bits=4),
    "lowrank-int8": DeltaConfig(bits=8),
    "lowrank-f16": DeltaConfig(codec="f16"),
    "lowrank-bf16": DeltaConfig(codec="bf16"),
    "lowrank-f32": DeltaConfig(codec="f32"),
}
RECORDED = "recorded"
NAMES = (*FIRST, "control", *DENSE, *LOWRANK, "sum", "odd", "private", RECORDED)
"""The files of the first slice come first: their bytes never change."""


def make_all(folder: Path) -> list[Path]:
    """Writes every golden delta into a folder and returns the files."""
    with tempfile.TemporaryDirectory() as name:
        base, tuned, adapter = _inputs(Path(name))
        for kind, config in (FIRST | DENSE | LOWRANK).items():
            source = adapter if kind.startswith("lowrank") else tuned
            create_delta(
                source,
                base=base,
                base_id="golden/base",
                base_revision="v1",
                out=folder / f"{kind}.safetensors",
                config=config,
                origin=Origin(recipe={"learning_rate": 0.002}, seed=42, data="0f" * 32),
                force=True,
            )
            if kind == "lowrank":
                shutil.copyfile(folder / f"{kind}.safetensors", folder / f"{RECORDED}.safetensors")
            _forget_whole_base(folder / f"{kind}.safetensors")
    random_signs(folder / "dense.safetensors", folder / "control.safetensors", seed=7)
    _write_sum(folder)
    _write_odd(folder)
    _write_private(folder)
    made = [folder / f"{name}.safetensors" for name in NAMES]
    for out in made:
        delta = load_delta(out)
        replace_header(delta, delta.header.model_copy(update={"tool": "zoo-gym golden"}))
    return made


def _forget_whole_base(file: Path) -> None:
    """Rewrites a delta as versions before the record of the whole base wrote it."""
    delta = load_delta(file)
    recipe = {key: value for key, value in delta.header.recipe.items() if key != WHOLE_BASE_KEY}
    replace_header(delta, delta.header.model_copy(update={"recipe": recipe}))


def _write_sum(folder: Path) -> None:
    """Writes a delta whose tensors have several terms each, which no command makes."""
    files = [load_delta(folder / f"{name}.safetensors") for name in ("lowrank", "mask", "int4")]
    merged = []
    with Spool(folder) as spool:
        for tensor in files[1].header.tensors:
            named = [(file, file.tensor(tensor.name)) for file in files]
            found = [(file, other) for file, other in named if other is not None]
            unique = {term.kind: term for _, other in found for term in other.terms}
            own = tensor.model_copy(update={"terms": tuple(unique.values())})
            parts = {k: v for file, other in found for k, v in tensor_parts(file, other).items()}
            spool.add_tensor(Encoded(own, parts))
            merged.append(own)
        header = files[1].header.model_copy(update={"tensors": tuple(merged)})
        write_delta(folder / "sum.safetensors", header, spool)


def _write_odd(folder: Path) -> None:
    """Writes what a reader seldom meets: odd shapes and names, mixed factors, long steps."""
    tensors = [
        _changed("blocks.3d", (2, 3, 5), "f32", range(30), Dense(scale="group")),
        _mixed("mixed.weight", (5, 130)),
        _changed("scalar", (), "f32", range(1), Dense()),
        _changed("sparse.skips", (1, 700), "f16", (5, 600), Dense(codec="sparse")),
        _changed("sparse.wide", (300, 300), "bf16", (0, 70_000, 89_999), Dense(codec="sparse")),
        Encoded(TensorTerms(name="unverändert.weight", shape=(2, 3), terms=()), {}),
    ]
    quality = Quality(rows=2, tokens=7, base=1.5, tuned=1.0, delta=1.125, recovered=0.75, kl=0.0625)
    found = {"tensors": tuple(encoded.tensor for encoded in tensors), "quality": quality}
    header = load_delta(folder / "mask.safetensors").header.model_copy(update=found)
    with Spool(folder) as spool:
        for encoded in tensors:
            spool.add_tensor(encoded)
        write_delta(folder / "odd.safetensors", header, spool)


def _write_private(folder: Path) -> None:
    """Writes a delta of version 2: the shape of a private round's result, with everything known."""
    name, shape = "private.weight", (5, 130)
    A = np.where(values((RANK, shape[1]), 2) > 0, 0.0625, -0.0625).astype(np.float32)
    parts = code_factor(name, "A", A, "sign")
    parts |= code_factor(name, "B", values((RANK, shape[0]), 8), "f32")
    term = LowRankTerm(rank=RANK, A="sign", B="f32")
    encoded = Encoded(TensorTerms(name=name, shape=shape, terms=(term,)), parts)
    privacy = Privacy(
        mechanism="discrete-gaussian",
        unit="contribution",
        epsilon=1.0,
        delta=1e-6,
        sigma=4.5,
        clip=0.5,
        contributors=9,
        values=4,
        noise_to_signal=1.0,
    )
    controls = (Control(kind="random-signs", loss=1.75), Control(kind="zeros", loss=1.5))
    quality = Quality(
        rows=2, tokens=7, base=1.5, tuned=1.0, delta=1.125, recovered=0.75, kl=0.0625,
        top1=0.875, drift=-0.03125, controls=controls,
    )  # fmt: skip
    found = {"tensors": (encoded.tensor,), "privacy": privacy, "quality": quality}
    found |= {"parents": ("1e" * 32, "0f" * 32)}
    header = load_delta(folder / "lowrank.safetensors").header.model_copy(update=found)
    with Spool(folder) as spool:
        spool.add_tensor(encoded)
        write_delta(folder / "private.safetensors", header, spool)


def _changed(
    name: str, shape: tuple[int, ...], dtype: DType, places: Sequence[int], coding: Dense
) -> Encoded:
    """Codes a tensor that differs from its base by 1/4 at some places."""
    base = values(shape, 1)
    tuned = base.copy()
    tuned.reshape(-1)[list(places)] += 0.25
    narrow = {"f32": np.float32, "f16": np.float16}

    def stored(array: NDArray[np.float32]) -> Values:
        kept = to_bf16(array) if dtype == "bf16" else array.astype(narrow[dtype])
        return Values(kept, dtype, name)

    encoded = encode_tensor(name, stored(base), stored(tuned), coding)
    assert encoded is not None
    return encoded


def _mixed(name: str, shape: tuple[int, int]) -> Encoded:
    """Codes a product whose factors have codecs of their own."""
    A, B = values((RANK, shape[1]), 2), values((RANK, shape[0]), 8)
    parts = code_factor(name, "A", A, "int4") | code_factor(name, "B", B, "f16")
    term = LowRankTerm(rank=RANK, A="int4", B="f16")
    return Encoded(TensorTerms(name=name, shape=shape, terms=(term,)), parts)


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
    layers = ["layers.0.up", "layers.0.down"]
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 4, "target_modules": layers}
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(config))
    return folder / "base", folder / "tuned", folder / "adapter"


def _write(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    path.parent.mkdir()
    entries = [Entry(name, "F32", array.shape) for name, array in arrays.items()]
    write_safetensors(path, entries, {"format": "pt"}, arrays.values())


if __name__ == "__main__":
    for file in make_all(Path(__file__).parent):
        print(file, file.stat().st_size)
