"""Models traced by torch.export: as one pass, and with keys and values that go in and out.

Shapes: B rows, T tokens, P past tokens, V vocabulary, H heads of keys, D their width.
Left out: models whose layers remember something else than keys and values.
"""

import inspect
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from transformers import DynamicCache

from zoo.backends.plain import load_plain
from zoo.backends.torch.quiet import quiet
from zoo.core.errors import InputError

ROWS, TOKENS, PAST = 2, 5, 3
"""The sizes that are traced; each differs from the others and from one, which would be fixed."""


@dataclass(frozen=True)
class Traced:
    """A traced model.

    Attributes:
        program: takes `input_ids` [B, T], `attention_mask` [B, P + T], `position_ids` [B, T] and
            keys and values [B, H, P, D] of each layer; returns logits [B, T, V] and their new ones.
        inputs: the names of its arguments in order.
        outputs: the names of its results in order.
    """

    program: ExportedProgram
    inputs: list[str]
    outputs: list[str]


class _Plain(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor) -> Tensor:
        logits_BTV: Tensor = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            use_cache=False,
        ).logits
        return logits_BTV


class _Cached(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        pairs = list(zip(past[::2], past[1::2], strict=True))
        made = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=DynamicCache(pairs),
            use_cache=True,
        )
        present = [part for layer in made.past_key_values.layers for part in _parts(layer)]
        return made.logits, present


def load(folder: Path) -> nn.Module:
    """Returns the model of a folder in float32.

    Raises:
        InputError: it takes no positions, so that rows of a batch could not be padded.
    """
    model: nn.Module = load_plain(folder)
    if "position_ids" not in inspect.signature(model.forward).parameters:
        raise _untraceable(model, "it takes no position_ids")
    return model


def trace(model: nn.Module) -> Traced:
    """Traces a model as one pass over all tokens, of any number of rows and tokens.

    Raises:
        InputError: torch.export cannot trace it.
    """
    sizes = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    with quiet(), _tracing(model):
        program = torch.export.export(
            _Plain(model), _sample(0), dynamic_shapes=(sizes, sizes, sizes), strict=False
        )
    _forget_files(program)
    return Traced(program, ["input_ids", "attention_mask", "position_ids"], ["logits"])


def trace_cached(model: nn.Module) -> Traced:
    """Traces a model that takes the keys and values of past tokens, none at first.

    Raises:
        InputError: torch.export cannot trace it, or it remembers something else.
    """
    sizes = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    past = [torch.zeros(ROWS, heads, PAST, width) for heads, width in _cache_shapes(model)]
    each = {0: Dim.DYNAMIC, 2: Dim.DYNAMIC}
    with quiet(), _tracing(model):
        program = torch.export.export(
            _Cached(model),
            (*_sample(PAST), past),
            dynamic_shapes=(sizes, sizes, sizes, [each] * len(past)),
            strict=False,
        )
    _forget_files(program)
    names = [f"{i // 2}.{'value' if i % 2 else 'key'}" for i in range(len(past))]
    inputs = ["input_ids", "attention_mask", "position_ids"]
    inputs += [f"past_key_values.{name}" for name in names]
    return Traced(program, inputs, ["logits", *(f"present.{name}" for name in names)])


def _sample(past: int) -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.arange(ROWS * TOKENS).reshape(ROWS, TOKENS)
    positions = torch.arange(past, past + TOKENS).expand(ROWS, TOKENS)
    return ids, torch.ones(ROWS, past + TOKENS, dtype=torch.long), positions


def _cache_shapes(model: nn.Module) -> list[tuple[int, int]]:
    """Returns the heads and width of the keys, then of the values, of each layer in order."""
    ids, mask, positions = _sample(0)
    with torch.inference_mode():
        made = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True)
    layers: Sequence[Any] = getattr(made.past_key_values, "layers", ())
    parts = [part for layer in layers for part in _parts(layer)]
    if not parts or any(not isinstance(part, Tensor) or part.ndim != 4 for part in parts):
        raise _untraceable(model, "its layers remember something else than keys and values")
    return [(part.shape[1], part.shape[3]) for part in parts]


def _parts(layer: Any) -> tuple[Any, Any]:  # noqa: ANN401
    return getattr(layer, "keys", None), getattr(layer, "values", None)


def _forget_files(program: ExportedProgram) -> None:
    """Removes the example inputs, which are stored as pickles, and the paths of source files."""
    program.example_inputs = None
    for node in program.graph.nodes:
        for key in ("stack_trace", "nn_module_stack", "source_fn_stack", "from_node"):
            node.meta.pop(key, None)


@contextmanager
def _tracing(model: nn.Module) -> Generator[None]:
    try:
        with torch.no_grad():
            yield
    except RuntimeError as error:
        raise _untraceable(model, str(error).strip().splitlines()[0][:200]) from error


def _untraceable(model: nn.Module, reason: str) -> InputError:
    return InputError(
        f"{type(model).__name__}: expected a model that torch.export traces: {reason}",
        hint="--format gguf, or --format hf",
        code="torch.cannot_be_traced",
    )
