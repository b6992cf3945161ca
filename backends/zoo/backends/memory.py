"""Estimates the memory of a training run from the model's shape, before it starts.

The factors were fitted to measured peaks of a 0.6 B model on a CPU with torch; an engine with
another memory profile overrides `Backend.estimate_memory`.
"""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from zoo.backends.optimizer_memory import (
    Matrix,
    Trained,
    gradient_bytes,
    rotated_inputs,
    rotations,
    state_bytes,
    step_bytes,
    trained_parameters,
)
from zoo.backends.optimizer_spec import OptimizerSpec
from zoo.backends.spec import ADAMW

if TYPE_CHECKING:
    from zoo.models.registry import Geometry

RESERVE_BYTES = 800_000_000
"""The interpreter and the libraries, without weights."""

TILE_BYTES = 4 * 512 * 4096
"""One tile of logits; see `zoo.backends.torch.vocabulary.tiled_softmax`."""

CHUNK_TOKENS, CHUNK_ARRAYS = 256, 5
"""The tokens of a chunk, and the float32 arrays of all tokens of the vocabulary that its divergence
or entropy and their gradient take: 5.1 measured for each; with values 3.1."""

WIDTHS_A_TOKEN = 8
"""Float32 values per unit of block width that a block keeps until its backward pass."""

DORA_WIDTHS_A_TOKEN = 3
"""The same for the outputs that DoRA multiplies by magnitudes: 2.8 measured."""

DROPOUT_BYTES_AN_INPUT = 6
"""A mask and a dropped copy of each adapted layer's inputs: 5.1 measured for LoRA, 5.6 for DoRA."""

ROTATION_ARRAYS = 4
"""The float32 matrices of a layer's rotation in OFT until its backward pass: the angles, their
square and third power, and the result; as many again while that pass is at the layer."""

EVALUATION_WIDTHS_A_TOKEN = 3
"""The same in a forward pass without gradients."""

SCORE_ARRAYS = 2.5
"""Float32 values for each pair of tokens of a row and head while a block multiplies whole matrices
of attention, and one more that it keeps until its backward pass: 3.5 measured with recomputed
activations, 5.5 in three blocks without, 2.3 without gradients."""


@dataclass(frozen=True)
class Adapted:
    """A layer with an adapter of low rank."""

    outputs: int
    inputs: int
    rank: int


SAMPLING_BYTES = 1 << 30
"""The memory of answers that are sampled in one batch. It is a constant, so that a resumed run
repeats the batches: their size changes the rounding of sums. A GPU, whose sums have no fixed order,
takes `gpu_sampling_bytes`."""

MOST_GPU_SAMPLING_BYTES = 8 << 30

SAMPLING_WIDTHS = 12
"""Float32 values per unit of hidden size that a token takes while its prompt is read."""

DRAW_BYTES_A_TOKEN = 24
"""The memory of one token of the vocabulary while a row is sampled."""


@dataclass(frozen=True)
class MemoryInfo:
    """Peak memory in bytes: of the process, and of the accelerator (0 without one)."""

    peak_host_bytes: int
    peak_device_bytes: int


@dataclass(frozen=True)
class MemoryNeed:
    """The inputs of the memory formula.

    Attributes:
        geometry: the model's shape.
        full: True if weights are trained in place, in float32; False for an adapter.
        rotated: of OFT the inputs of the layers that are named; None: all linear layers of blocks.
        blocks: the number of trained blocks if only some weights are: the last ones, or the first
            ones if it is negative.
        ends: the embedding or the head is trained beside these blocks.
        rank: the rank of the adapter.
        oft: of OFT the number of blocks in a layer and their size, one of them 0; else None.
        start: a frozen copy of the adapter's start is kept.
        whole: the copies of modules that are trained whole beside the adapter.
        named: the matrices that are projected by name (GaLore, APOLLO); None: all of blocks.
        dropout: inputs of the adapter are dropped.
        dora: the adapter has a magnitude for each output of a layer.
        adapted: the layers with a LoRA adapter; None: all linear layers of blocks, of `rank`.
        in_place: the trained weights of the base; None: all of `blocks`.
        tokens: the tokens of a micro-batch, padding included.
        pairs: the pairs of tokens of its rows, if attention is computed by whole matrices; else 0.
        evaluation_pairs: the same of a batch of held-out rows.
        evaluation_tokens: the tokens of a batch of held-out rows; 0 without held-out rows.
        checkpointing: activations are recomputed in the backward pass.
        weight_bytes: the bytes of a base weight: 2 or 4.
        linear_bits: the bits of a weight that is in codes, with its share of scales; 0 without.
        coded: the weights of the base that are in codes in its files; 0 if its linear layers are
            quantised on loading, or nothing is.
        streams: of the blocks of the base, two are in memory at a time.
        hidden_bytes: the bytes of a value between two blocks: 2 or 4.
        reads_vocabulary: the objective reads more than the log-probabilities of the tokens.
        other_parameters: the weights of further models that are not trained.
        sampled_rows: the answers that are sampled for a step or an evaluation; 0 for none.
        sampled_tokens: the length of the longest of them with its prompt.
        prompt_pairs: the pairs of tokens of its prompt, if attention is computed by whole matrices.
        optimizer: the optimizer of the trained weights.
        sampling_bytes: the memory of answers that are sampled in one batch.
        sharing: how many processes divide what is trained, its gradients and the optimizer's state.
    """

    geometry: "Geometry"
    full: bool
    rank: int
    tokens: int
    evaluation_tokens: int
    checkpointing: bool
    weight_bytes: int
    hidden_bytes: int
    reads_vocabulary: bool = False
    other_parameters: int = 0
    start: bool = False
    streams: bool = False
    dora: bool = False
    oft: tuple[int, int] | None = None
    rotated: tuple[int, ...] | None = None
    whole: tuple[Matrix, ...] = ()
    named: tuple[Matrix, ...] | None = None
    adapted: tuple[Adapted, ...] | None = None
    in_place: tuple[Matrix, ...] | None = None
    pairs: int = 0
    evaluation_pairs: int = 0
    dropout: bool = False
    blocks: int | None = None
    ends: bool = False
    sampled_rows: int = 0
    sampled_tokens: int = 0
    prompt_pairs: int = 0
    optimizer: OptimizerSpec = ADAMW
    linear_bits: float = 0.0
    coded: int = 0
    sampling_bytes: int = SAMPLING_BYTES
    sharing: int = 1


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes by purpose; `total` is their peak.

    Attributes:
        source: the source of the total: `formula` or `measured`.
        calculated: the formula's total if `total` was measured, else None.
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


def estimate_memory(need: MemoryNeed) -> MemoryEstimate:
    """Returns the expected peak: the largest of those of passes, steps, evaluations, sampling.

    The base counts as whole also if processes divide it: each reads it whole, and one writes it.
    """
    shape = need.geometry
    learning = trained_weights(need)
    trained, optimizer = learning.size, state_bytes(learning, need.optimizer)
    weights = base_bytes(need) + need.other_parameters * need.weight_bytes
    adapter = 0 if need.full else 4 * trained * (1 + need.start) + index_bytes(need)
    activations = activation_bytes(need)
    statistics = statistics_bytes(need)
    width = block_width(shape)
    evaluation = need.evaluation_tokens * EVALUATION_WIDTHS_A_TOKEN * width * 4
    evaluation += score_bytes(shape.heads, need.evaluation_pairs, kept_blocks=0)
    generation = generation_bytes(need)
    gradients = gradient_bytes(learning, need.optimizer) // need.sharing
    optimizer //= need.sharing
    fixed = weights + adapter + gradients + optimizer + RESERVE_BYTES
    step = step_bytes(learning, need.optimizer) // need.sharing
    return MemoryEstimate(
        weights=weights,
        adapter=adapter,
        gradients=gradients,
        optimizer=optimizer,
        activations=activations,
        statistics=statistics,
        generation=generation,
        evaluation=evaluation,
        reserve=RESERVE_BYTES,
        total=fixed + max(activations + statistics, evaluation, generation, step),
    )


def base_bytes(need: MemoryNeed) -> int:
    """Returns the memory of the base's weights.

    A quantised weight is widened for each product, so the largest one is there in full as well.
    """
    shape = need.geometry
    if need.streams:
        blocks = 2 * (shape.linear_parameters() // shape.layers)
        return (shape.vocab * shape.hidden + blocks) * need.weight_bytes
    every = shape.parameters() * need.weight_bytes
    if not need.linear_bits:
        return every
    coded = need.coded or shape.linear_parameters()
    widened = shape.hidden * max(shape.ffn, shape.heads * shape.head_dim) * need.hidden_bytes
    plain = max(0, every - coded * need.weight_bytes)
    return plain + round(coded * need.linear_bits / 8) + widened


def generation_bytes(need: MemoryNeed) -> int:
    """Returns the memory of the answers that are sampled at once: their keys and values, mostly.

    Whole matrices of attention are there while their prompts are read.
    """
    shape = need.geometry
    keys_and_values = 2 * shape.layers * shape.kv_heads * shape.head_dim * need.hidden_bytes
    a_token = max(keys_and_values, 4 * SAMPLING_WIDTHS * shape.hidden)
    a_row = need.sampled_tokens * a_token + DRAW_BYTES_A_TOKEN * shape.vocab
    a_row += score_bytes(shape.heads, need.prompt_pairs, kept_blocks=0)
    return min(need.sampled_rows * a_row, max(need.sampling_bytes, a_row))


def gpu_sampling_bytes(total_bytes: int) -> int:
    """Returns the memory of answers that are sampled in one batch on a GPU with this memory.

    A token takes about as long for one row as for many, so more rows at once take less time.
    """
    return min(MOST_GPU_SAMPLING_BYTES, max(SAMPLING_BYTES, total_bytes // 3))


def trained_weights(need: MemoryNeed) -> Trained:
    """Returns the shapes of the trained weights."""
    trained = _in_place(need) if need.full else _adapter(need)
    return replace(trained, named=need.named)


def _adapter(need: MemoryNeed) -> Trained:
    """Returns the weights of an adapter, and of the modules that are trained whole beside it."""
    shape = need.geometry
    if need.adapted is not None:
        factors = [Matrix(matrix.rank, matrix.inputs, 1) for matrix in need.adapted]
        factors += [Matrix(matrix.outputs, matrix.rank, 1) for matrix in need.adapted]
        magnitudes = need.dora * sum(matrix.outputs for matrix in need.adapted)
        tensors = need.dora * len(need.adapted)
        return Trained([*factors, *need.whole], magnitudes, tensors, blocks=shape.layers)
    if need.oft is not None:
        trained = rotations(shape, *need.oft, need.rotated)
    else:
        trained = trained_parameters(shape, need.rank)
    vectors = need.dora * shape.layers
    return Trained(
        [*trained.matrices, *need.whole],
        vectors * outputs(shape),
        vectors * 7,
        blocks=trained.blocks,
    )


def _in_place(need: MemoryNeed) -> Trained:
    """Returns the weights of the base that are trained."""
    shape = need.geometry
    if need.in_place is not None:
        return Trained(need.in_place, blocks=max(abs(need.blocks or 0), 1))
    trained = trained_parameters(shape, None)
    if need.blocks is None:
        return trained
    blocks = abs(need.blocks)
    linear = [
        replace(matrix, count=matrix.count * blocks // shape.layers)
        for matrix in trained.matrices
        if matrix.linear
    ]
    ends = [matrix for matrix in trained.matrices if not matrix.linear] if need.ends else []
    rest = (trained.vectors, trained.tensors)
    vectors, tensors = (count * blocks // shape.layers for count in rest)
    return Trained([*linear, *ends], vectors, tensors, max(blocks, 1))


def reached_blocks(need: MemoryNeed) -> int:
    """Returns the number of blocks that the gradient runs through."""
    partly = need.full and need.blocks is not None and need.blocks >= 0 and not need.ends
    return need.blocks or 0 if partly else need.geometry.layers


def outputs(shape: "Geometry") -> int:
    """Returns the outputs of the seven linear layers of a block."""
    attention = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    return attention + 2 * shape.hidden + 2 * shape.ffn


def inputs(shape: "Geometry") -> int:
    """Returns the inputs of the seven linear layers of a block."""
    return 5 * shape.hidden + shape.heads * shape.head_dim + shape.ffn


def rotation_bytes(need: MemoryNeed) -> list[int]:
    """Returns what the rotation of each adapted layer keeps; none without OFT."""
    if need.oft is None:
        return []
    sizes = rotated_inputs(need.geometry, *need.oft, need.rotated)
    return [4 * ROTATION_ARRAYS * rotated * width for rotated, width in sizes]


def index_bytes(need: MemoryNeed) -> int:
    """Returns the memory of the places of angles in a rotation, two 64-bit numbers for each pair.

    peft keeps them for every layer, as wide as one block.
    """
    if need.oft is None:
        return 0
    sizes = rotated_inputs(need.geometry, *need.oft, need.rotated)
    return sum(8 * width * (width - 1) for _, width in sizes)


def dora_bytes(shape: "Geometry") -> int:
    """Returns the memory of the widest layer's norm: it needs the product of the factors.

    peft multiplies the factors by an identity matrix, and adds the product to the weight.
    """
    widest = max(shape.hidden, shape.ffn, shape.heads * shape.head_dim)
    return 4 * (widest * widest + 3 * widest * shape.hidden)


def block_width(shape: "Geometry") -> int:
    """Returns the number of values per token in a block's tensors, each kind once."""
    return shape.hidden + shape.ffn + (shape.heads + 2 * shape.kv_heads) * shape.head_dim


def activation_bytes(need: MemoryNeed) -> int:
    """Returns what the backward pass needs: each block's input, and the insides of one or all."""
    shape = need.geometry
    reached = reached_blocks(need)
    bytes_kept = reached * need.tokens * shape.hidden * need.hidden_bytes
    widths = WIDTHS_A_TOKEN + need.dora * DORA_WIDTHS_A_TOKEN
    inside = need.tokens * widths * block_width(shape) * 4
    if need.dropout and need.adapted is not None:
        dropped = sum(matrix.inputs for matrix in need.adapted) // shape.layers
        inside += need.tokens * DROPOUT_BYTES_AN_INPUT * dropped
    elif need.dropout:
        inside += need.tokens * DROPOUT_BYTES_AN_INPUT * inputs(shape)
    rotating = rotation_bytes(need)
    norm = dora_bytes(shape) if need.dora else 0
    widest = max(rotating, default=0)
    blocks = 1 if need.checkpointing else reached
    insides = inside * blocks + sum(rotating) * blocks // shape.layers
    return bytes_kept + norm + widest + insides + score_bytes(shape.heads, need.pairs, blocks)


def score_bytes(heads: int, pairs: int, kept_blocks: int) -> int:
    """Returns the memory of attention scores by whole matrices, which grows with a row's square."""
    return round(4 * heads * pairs * (kept_blocks + SCORE_ARRAYS))


def statistics_bytes(need: MemoryNeed) -> int:
    """Returns a tile of logits, float32 hidden states, and a trained head's two gradients.

    If the objective reads the vocabulary, it is a chunk of tokens in place of a tile.
    """
    shape = need.geometry
    trained = need.full and (need.blocks is None or need.ends) and need.optimizer.name != "badam"
    copied = any(
        matrix.rows * matrix.columns == shape.vocab * shape.hidden for matrix in need.whole
    )
    head = 8 * shape.vocab * shape.hidden if trained or copied else 0
    chunk = CHUNK_ARRAYS * 4 * min(need.tokens, CHUNK_TOKENS) * shape.vocab
    logits = max(TILE_BYTES, chunk) if need.reads_vocabulary else TILE_BYTES
    return logits + 12 * need.tokens * shape.hidden + head
