"""Estimates the memory of a run before it starts, from the model's shape, and checks that it fits.

The factors were fitted to measured peaks of a 0.6 B model on a CPU; the shares are reported with
the plan. Generation needs nothing in supervised training. Measured peaks of earlier runs are in
`zoo.gym.train.footprints`; such a peak alone refuses no run, because it may have had another cause.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from zoo.gym.errors import DoesNotFitError

if TYPE_CHECKING:
    from zoo.models.registry import Geometry

RESERVE_BYTES = 800_000_000
"""The interpreter and the libraries, before any weight."""

TILE_BYTES = 4 * 512 * 4096
"""A tile of logits; see `zoo.backends.torch.tiled_softmax`."""

WIDTHS_A_TOKEN = 8
"""Float32 copies of each inner width that one block keeps while its gradient is formed."""

EVALUATION_WIDTHS_A_TOKEN = 3
"""The same in a forward pass alone."""


@dataclass(frozen=True)
class Need:
    """What decides how much memory a run needs.

    Attributes:
        geometry: the model's shape.
        full: all weights learn, in float32; otherwise an adapter does.
        rank: of the adapter.
        tokens: of one micro-batch, padding included.
        evaluation_tokens: of one batch of held-out rows; 0 without any.
        checkpointing: activations are computed again in the backward pass.
        weight_bytes: of one base weight: 2 or 4.
        hidden_bytes: of one value between two blocks: 2 or 4.
    """

    geometry: "Geometry"
    full: bool
    rank: int
    tokens: int
    evaluation_tokens: int
    checkpointing: bool
    weight_bytes: int
    hidden_bytes: int


@dataclass(frozen=True)
class Fit:
    """Bytes by purpose; `total` is their peak.

    Attributes:
        source: of the total: `formula` or `measured`.
        calculated: the formula's total beside a measured one, else None.
    """

    weights: int
    adapter: int
    gradients: int
    optimizer: int
    activations: int
    statistics: int
    generation: int
    evaluation: int
    reserve: int
    total: int
    source: str = "formula"
    calculated: int | None = None

    def as_json(self) -> dict[str, object]:
        """Returns the fields by name."""
        return asdict(self)


def estimate(need: Need) -> Fit:
    """Returns the expected peak; training and evaluation follow each other, the larger counts."""
    shape = need.geometry
    trained = shape.parameters() if need.full else adapter_parameters(shape, need.rank)
    weights = shape.parameters() * need.weight_bytes
    adapter = 0 if need.full else 4 * trained
    activations = activation_bytes(need)
    statistics = statistics_bytes(need)
    width = block_width(shape)
    evaluation = need.evaluation_tokens * EVALUATION_WIDTHS_A_TOKEN * width * 4
    kept = weights + adapter + 12 * trained + RESERVE_BYTES
    return Fit(
        weights=weights,
        adapter=adapter,
        gradients=4 * trained,
        optimizer=8 * trained,
        activations=activations,
        statistics=statistics,
        generation=0,
        evaluation=evaluation,
        reserve=RESERVE_BYTES,
        total=kept + max(activations + statistics, evaluation),
    )


def adapter_parameters(shape: "Geometry", rank: int) -> int:
    """Returns the weights of an adapter on all seven linear layers of each block."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = 2 * (shape.hidden + queries) + 2 * (shape.hidden + keys)
    return shape.layers * rank * (attention + 3 * (shape.hidden + shape.ffn))


def block_width(shape: "Geometry") -> int:
    """Returns the values that a block's widest tensors hold for one token, each kind once."""
    return shape.hidden + shape.ffn + (shape.heads + 2 * shape.kv_heads) * shape.head_dim


def activation_bytes(need: Need) -> int:
    """Returns what the backbone keeps: a row for each block, and the insides of one or of all."""
    shape = need.geometry
    kept = shape.layers * need.tokens * shape.hidden * need.hidden_bytes
    inside = need.tokens * WIDTHS_A_TOKEN * block_width(shape) * 4
    return kept + inside * (1 if need.checkpointing else shape.layers)


def statistics_bytes(need: Need) -> int:
    """Returns a tile of logits, float32 hidden states, and a trained head's two gradients."""
    shape = need.geometry
    head = 8 * shape.vocab * shape.hidden if need.full else 0
    return TILE_BYTES + 12 * need.tokens * shape.hidden + head


def available_bytes(device: str) -> int:
    """Returns the memory that is free now, on the device that will hold the model."""
    if device == "cuda":
        import torch

        return int(torch.cuda.mem_get_info()[0])
    import psutil

    return int(psutil.virtual_memory().available)


def check_fit(fit: Fit, device: str, free_bytes: int) -> str | None:
    """Refuses a run that needs more than there is, by the formula too where a peak was measured.

    Returns:
        A warning where only the measured peak is more than there is, else None.

    Raises:
        DoesNotFitError: the message has both figures, the hint what changes no result.
    """
    # the interpreter and the libraries are not on the accelerator; a peak there is without them
    formula = (fit.calculated or fit.total) - (fit.reserve if device == "cuda" else 0)
    needed = min(fit.total, formula) if fit.source == "measured" else formula
    if needed > free_bytes:
        raise DoesNotFitError(
            f"memory: the run needs {needed / 1e9:.2f} GB ({fit.source}): "
            f"expected at most the {free_bytes / 1e9:.2f} GB that are free on {device}",
            hint="per_device_train_batch_size=1 with more gradient_accumulation_steps, "
            "a smaller cutoff_len, or gradient_checkpointing=true",
        )
    if fit.source == "measured" and fit.total > free_bytes:
        return (
            f"memory: an earlier run like this one took {fit.total / 1e9:.2f} GB, "
            f"{free_bytes / 1e9:.2f} GB are free on {device}: it may end for lack of memory"
        )
    return None
