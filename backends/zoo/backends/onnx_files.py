"""Writes a model as two ONNX graphs with one file of weights; onnxruntime computes with both.

`model.onnx` computes all tokens at once; `model_with_past.onnx` continues from keys and values that
it returned. Names of inputs and outputs are those of Optimum's exports.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.torch.traced import Traced

PLAIN, CACHED, WEIGHTS = "model.onnx", "model_with_past.onnx", "model.onnx.data"

INPUTS = ("input_ids", "attention_mask", "position_ids")
"""The inputs of both graphs, beside keys and values."""

PAGE_BYTES = 4096
"""Tensors in the file of weights start at a multiple of this, so that they can be mapped."""

LEAST_BYTES = 256
"""Smaller tensors stay in the graphs, whose shapes may depend on them."""

LEAST = -12.0
"""The log-probability of the least likely token whose difference counts."""


def missing_package() -> str | None:
    """Returns a package of the extra that is not installed, or None."""
    packages = ("onnx", "onnxscript", "onnxruntime")
    return next((package for package in packages if find_spec(package) is None), None)


def write_graphs(folder: Path, out: Path) -> None:
    """Traces the model of a folder in float32 and writes both graphs.

    Args:
        folder: a model folder of transformers.
        out: an existing folder, which may be the same.

    Raises:
        InputError: the model cannot be traced.
    """
    import onnx_ir

    from zoo.backends.torch.traced import load, trace, trace_cached

    model = load(folder)
    graphs = {PLAIN: _graph(trace(model)), CACHED: _graph(trace_cached(model))}
    with (out / WEIGHTS).open("wb") as file:
        places: dict[bytes, int] = {}
        for graph in graphs.values():
            _move_weights(graph, out, file, places)
    for name, graph in graphs.items():
        onnx_ir.save(graph, out / name)


def _graph(traced: "Traced") -> Any:  # noqa: ANN401
    import torch

    from zoo.backends.torch.quiet import quiet

    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # it warns that torchvision is not installed
    try:
        with quiet():
            made: Any = torch.onnx.export(
                traced.program,
                dynamo=True,
                verbose=False,
                input_names=traced.inputs,
                output_names=traced.outputs,
            )
    finally:
        log.setLevel(level)
    for node in made.model.graph:
        node.metadata_props.clear()  # paths of source files on this machine
        node.doc_string = None
    return made.model


def _move_weights(graph: Any, out: Path, file: Any, places: dict[bytes, int]) -> None:  # noqa: ANN401
    """Writes the large tensors of a graph to the file of weights, each once for all graphs."""
    import onnx_ir

    for name, value in graph.graph.initializers.items():
        tensor = value.const_value
        if tensor.nbytes < LEAST_BYTES:
            continue
        content = tensor.tobytes()
        digest = hashlib.sha256(content).digest()
        if digest not in places:
            file.write(b"\0" * (-file.tell() % PAGE_BYTES))
            places[digest] = file.tell()
            file.write(content)
        value.const_value = onnx_ir.ExternalTensor(
            WEIGHTS,
            places[digest],
            len(content),
            tensor.dtype,
            shape=tensor.shape,
            name=name,
            base_dir=out,
        )
    file.flush()


@dataclass(frozen=True)
class Graphs:
    """Both graphs in onnxruntime; see `open_graphs`.

    Attributes:
        plain: the session of all tokens at once.
        cached: that with keys and values.
    """

    plain: Any
    cached: Any

    def logits(
        self, ids_BT: "NDArray[np.int64]", mask_BT: "NDArray[np.int64]"
    ) -> "NDArray[np.float32]":
        """Returns logits [B, T, V] without a cache."""
        feed = {
            "input_ids": ids_BT,
            "attention_mask": mask_BT,
            "position_ids": positions_of(mask_BT),
        }
        logits_BTV: NDArray[np.float32] = self.plain.run(["logits"], feed)[0]
        return logits_BTV

    def stepwise(
        self, ids_BT: "NDArray[np.int64]", mask_BT: "NDArray[np.int64]", first: int
    ) -> "NDArray[np.float32]":
        """Returns logits [B, T, V] with a cache: the first tokens at once, then one at a time."""
        import numpy as np

        past = self._empty(len(ids_BT))
        names = [output.name for output in self.cached.get_outputs()]
        positions_BT = positions_of(mask_BT)
        logits: list[NDArray[np.float32]] = []
        start = 0
        for stop in (first, *range(first + 1, ids_BT.shape[1] + 1)):
            feed = {
                "input_ids": ids_BT[:, start:stop],
                "attention_mask": mask_BT[:, :stop],
                "position_ids": positions_BT[:, start:stop],
            }
            made = dict(zip(names, self.cached.run(names, feed | past), strict=True))
            logits.append(made.pop("logits"))
            past = {name.replace("present", "past_key_values"): made[name] for name in made}
            start = stop
        return np.concatenate(logits, axis=1)

    def _empty(self, rows: int) -> "dict[str, NDArray[np.float32]]":
        import numpy as np

        return {
            each.name: np.zeros((rows, each.shape[1], 0, each.shape[3]), np.float32)
            for each in self.cached.get_inputs()
            if each.name.startswith("past_key_values.")
        }


def open_graphs(folder: Path) -> Graphs:
    """Opens both graphs of a folder in onnxruntime, on the CPU."""
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    sessions = (
        onnxruntime.InferenceSession(str(folder / name), options, ["CPUExecutionProvider"])
        for name in (PLAIN, CACHED)
    )
    return Graphs(*sessions)


def next_logprobs(
    graphs: Graphs, prompts: Sequence[Sequence[int]], most: int
) -> list[dict[int, float]]:
    """Returns the log-probabilities of the most likely next tokens after each prompt.

    Args:
        graphs: see `open_graphs`.
        prompts: token ids, at least one each.
        most: how many tokens, or all that there are.
    """
    import numpy as np

    rows: list[dict[int, float]] = []
    for prompt in prompts:
        ids_BT = np.array([prompt], np.int64)
        logprobs_V = log_softmax(graphs.logits(ids_BT, np.ones_like(ids_BT)))[0, -1]
        order = np.argsort(-logprobs_V)[:most]
        rows.append({int(token): float(logprobs_V[token]) for token in order})
    return rows


def cache_difference(graphs: Graphs, prompts: Sequence[Sequence[int]]) -> float:
    """Returns the largest difference of a log-probability with the cache and without.

    Each prompt alone, a token at a time; then all as one batch, padded on the left, their first
    half at once.
    """
    import numpy as np

    largest = 0.0
    for prompt in prompts:
        ids_BT = np.array([prompt], np.int64)
        mask_BT = np.ones_like(ids_BT)
        plain, steps = graphs.logits(ids_BT, mask_BT), graphs.stepwise(ids_BT, mask_BT, 1)
        largest = max(largest, _difference(plain, steps))
    length = max(map(len, prompts))
    ids_BT = np.array([[0] * (length - len(row)) + list(row) for row in prompts], np.int64)
    mask_BT = np.array([[0] * (length - len(row)) + [1] * len(row) for row in prompts], np.int64)
    steps = graphs.stepwise(ids_BT, mask_BT, max(1, length // 2))[:, -1]
    batch = graphs.logits(ids_BT, mask_BT)[:, -1]
    for row, prompt in enumerate(prompts):
        alone = graphs.logits(np.array([prompt], np.int64), np.ones((1, len(prompt)), np.int64))
        for padded in (steps, batch):
            largest = max(largest, _difference(alone[0, -1], padded[row]))
    return largest


def positions_of(mask_BT: "NDArray[np.int64]") -> "NDArray[np.int64]":
    """Returns the positions of tokens, which start at the first one that is not masked."""
    import numpy as np

    return np.maximum(np.cumsum(mask_BT, axis=1) - 1, 0)


def log_softmax(logits: "NDArray[np.float32]") -> "NDArray[np.float64]":
    """Returns log-probabilities over the last axis."""
    import numpy as np

    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    logprobs: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logprobs


def _difference(expected: "NDArray[np.float32]", got: "NDArray[np.float32]") -> float:
    import numpy as np

    ours, theirs = log_softmax(expected), log_softmax(got)
    return float(np.abs(ours - theirs)[ours >= LEAST].max())
