"""Converts model folders with mlx-lm, and computes with them and with its adapters."""

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from zoo.core.errors import InputError
from zoo.models import checkpoint_files
from zoo.models.checkpoint_files import INDEX_FILE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GROUP = 64
"""The weights that share a scale and a bias, mlx-lm's default."""

SHARD_BYTES = 2_000_000_000


@dataclass(frozen=True)
class Codes:
    """A quantised matrix of an mlx-lm folder.

    Attributes:
        codes: [rows, words] uint32, each of several codes, the first in the lowest bits.
        scales: [rows, groups].
        biases: [rows, groups]; a weight is its code times the scale plus the bias.
        bits: those of a code.
    """

    codes: "NDArray[np.uint32]"
    scales: "NDArray[np.float32]"
    biases: "NDArray[np.float32]"
    bits: int

    def values(self) -> "NDArray[np.float32]":
        """Returns the weights, computed here rather than by MLX."""
        import numpy as np

        rows = len(self.codes)
        as_bits = np.unpackbits(self.codes.view(np.uint8), axis=1, bitorder="little")
        digits = as_bits.reshape(rows, -1, self.bits).astype(np.float32)
        numbers = digits @ (2.0 ** np.arange(self.bits)).astype(np.float32)
        groups = numbers.reshape(rows, self.scales.shape[1], -1)
        weights = groups * self.scales[:, :, None] + self.biases[:, :, None]
        return weights.reshape(rows, -1)


def missing_package() -> str | None:
    """Returns a package of the extra that is not installed, or None."""
    packages = ("mlx", "mlx_lm")
    return next((package for package in packages if find_spec(package) is None), None)


def write_settings(folder: Path, out: Path) -> None:
    """Writes the config of a folder with transformers' defaults, under the names mlx-lm reads.

    mlx-lm has other defaults, or none, and some of its models ignore the rotary settings of
    transformers 5.

    Args:
        folder: a model folder of transformers.
        out: the folder of the new `config.json`, which may be the same.

    Raises:
        InputError: mlx-lm lacks the architecture, or computes it otherwise.
    """
    from zoo.backends.mlx.files.families import build, settings_of
    from zoo.backends.model_folder import read_config

    config: dict[str, Any] = read_config(folder).to_dict()
    where = f"{folder.name}/config.json"
    build(where, config)  # its refusals; the random weights are never computed
    text = json.dumps(settings_of(where, config), indent=2, sort_keys=True) + "\n"
    (out / "config.json").write_text(text, encoding="utf-8")


def convert(folder: Path, out: Path, bits: int | None) -> None:
    """Converts a model folder with mlx-lm.

    Args:
        folder: a model folder, see `write_settings`.
        out: a folder that does not exist yet.
        bits: quantises all matrices whose rows are a multiple of `GROUP`; None keeps the weights.

    Raises:
        InputError: mlx-lm lacks the architecture.
    """
    convert_folder = import_module("mlx_lm.convert").convert
    quantization = {} if bits is None else {"quantize": True, "q_bits": bits, "q_group_size": GROUP}
    with _silent(), _unsupported(folder):
        convert_folder(str(folder), str(out), **quantization)


def next_logprobs(
    folder: Path, prompts: Sequence[Sequence[int]], most: int, adapter: Path | None = None
) -> list[dict[int, float]]:
    """Returns the log-probabilities of the most likely next tokens after each prompt, in float32.

    Args:
        folder: a model folder that mlx-lm loads.
        prompts: token ids, at least one each.
        most: how many tokens, or all that there are.
        adapter: a folder of mlx-lm's adapters, which it applies.

    Raises:
        InputError: mlx-lm lacks the architecture, or refuses the adapter.
    """
    import mlx.core as mx
    from mlx_lm.tuner.utils import load_adapters
    from mlx_lm.utils import load_model

    with _silent(), _unsupported(folder):
        model: Any = load_model(folder)[0]
        if adapter is not None:
            model = load_adapters(model, str(adapter))
    model.set_dtype(mx.float32)
    model.eval()
    rows: list[dict[int, float]] = []
    for prompt in prompts:
        logits = model(mx.array([list(prompt)]))[0, -1].astype(mx.float32)
        logprobs = logits - mx.logsumexp(logits)
        order = mx.argsort(-logprobs)[:most]
        values: Any = logprobs[order].tolist()
        tokens: Any = order.tolist()
        rows.append(dict(zip(tokens, values, strict=True)))
    return rows


def write_values(folder: Path, out: Path, bits: int) -> None:
    """Writes the weights of a quantised folder as their values, in float32.

    Args:
        folder: a model folder of mlx-lm.
        out: an existing folder, which gets the files of weights.
        bits: those of its codes.
    """
    from safetensors.numpy import save_file

    places: dict[str, str] = {}
    shard: dict[str, NDArray[Any]] = {}
    for name, values in _values(folder, bits):
        file = f"model-{len(set(places.values())):05}.safetensors"
        shard[name] = values
        if sum(each.nbytes for each in shard.values()) > SHARD_BYTES:
            save_file(shard, out / file, {"format": "pt"})
            places |= dict.fromkeys(shard, file)
            shard = {}
    file = f"model-{len(set(places.values())):05}.safetensors"
    save_file(shard, out / file, {"format": "pt"})
    places |= dict.fromkeys(shard, file)
    index = json.dumps({"metadata": {}, "weight_map": places})
    (out / INDEX_FILE).write_text(index, encoding="utf-8")


def _values(folder: Path, bits: int) -> "Iterator[tuple[str, NDArray[Any]]]":
    import mlx.core as mx
    import numpy as np

    tensors: dict[str, Any] = {}  # of all files, since a matrix and its scales may be in two
    for file in checkpoint_files(folder):
        tensors |= cast("dict[str, Any]", mx.load(str(file)))

    def read(name: str) -> Any:  # noqa: ANN401
        return np.array(tensors[name].astype(mx.float32))

    for name in sorted(tensors):
        stem, _, part = name.rpartition(".")
        if part in {"scales", "biases"}:
            continue
        if f"{stem}.scales" not in tensors:
            yield name, read(name)
            continue
        scales, biases = read(f"{stem}.scales"), read(f"{stem}.biases")
        yield name, Codes(np.array(tensors[name]), scales, biases, bits).values()


@contextmanager
def _silent() -> Generator[None]:
    """Keeps what mlx-lm prints from stdout, where our results go."""
    from zoo.backends.torch.quiet import quiet

    with quiet(), redirect_stdout(StringIO()):
        yield


@contextmanager
def _unsupported(folder: Path) -> Generator[None]:
    try:
        yield
    except ValueError as error:
        raise InputError(
            f"{folder.name}: expected a model that mlx-lm loads: {str(error).splitlines()[0]:.200}",
            hint="--format gguf, or --format hf",
            code="mlx.model_not_supported",
        ) from error
