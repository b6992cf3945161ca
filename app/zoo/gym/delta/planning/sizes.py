"""Computes the payload size of a delta of a Qwen3 model from the model's shape."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from zoo.gym.delta.codecs.dense import dense_term
from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.file.terms import FactorCodec, LowRankTerm, RawTerm, TensorTerms, term_parts

if TYPE_CHECKING:
    from zoo.models import Geometry


Shape = TypeVar("Shape", bound=tuple[int, ...])


def lowrank_bytes(geometry: "Geometry", *, rank: int = 16, codec: FactorCodec = "codes2") -> int:
    """Returns the payload bytes of encoded factors of all linear layers."""
    term = LowRankTerm(rank=rank, A=codec, B=codec)
    return payload_bytes(
        TensorTerms(name=name, shape=shape, terms=(term,))
        for name, shape in linear_shapes(geometry).items()
    )


def dense_bytes(
    geometry: "Geometry", *, coding: Dense | None = None, linear_only: bool = False
) -> int:
    """Returns the payload bytes of a full fine-tune's difference.

    Args:
        geometry: the model's shape.
        coding: the coding of the matrices; by default one bit per weight and a scale per row.
            `auto` does not include a mask.
        linear_only: leave out the embedding (counted once when tied) and the raw norms.

    Raises:
        ValueError: a sparse coding, whose size depends on the changes.
    """
    return payload_bytes(dense_terms(geometry, coding or Dense(), linear_only=linear_only))


def dense_terms(
    geometry: "Geometry", coding: Dense, *, linear_only: bool = False
) -> list[TensorTerms]:
    """Returns the terms of a full fine-tune's difference: matrices encoded, norms raw.

    Raises:
        ValueError: a sparse coding, whose size depends on the changes.
    """
    term = dense_term(coding)
    matrices = dict(linear_shapes(geometry))
    vectors: dict[str, tuple[int, ...]] = {}
    if not linear_only:
        embedding = (geometry.vocab, geometry.hidden)
        matrices["model.embed_tokens.weight"] = embedding
        if not geometry.tied:
            matrices["lm_head.weight"] = embedding
        vectors = norm_shapes(geometry)
    terms = [TensorTerms(name=name, shape=s, terms=(term,)) for name, s in matrices.items()]
    return terms + [
        TensorTerms(name=name, shape=s, terms=(RawTerm(),)) for name, s in vectors.items()
    ]


def payload_bytes(tensors: Iterable[TensorTerms]) -> int:
    """Returns the bytes of all parts of the given terms."""
    return sum(part.nbytes for tensor in tensors for part in term_parts(tensor))


def linear_shapes(geometry: "Geometry") -> Mapping[str, tuple[int, int]]:
    """Returns the shapes [out, in] of the linear layers of all blocks, by their tensors' names."""
    queries = geometry.heads * geometry.head_dim
    keys = geometry.kv_heads * geometry.head_dim
    hidden, ffn = geometry.hidden, geometry.ffn
    shapes = {
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (ffn, hidden),
        "mlp.up_proj": (ffn, hidden),
        "mlp.down_proj": (hidden, ffn),
    }
    return dict(_per_layer(geometry.layers, shapes))


def norm_shapes(geometry: "Geometry") -> dict[str, tuple[int, ...]]:
    """Returns the shapes of all norms, by their tensors' names."""
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm": (geometry.hidden,),
        "post_attention_layernorm": (geometry.hidden,),
        "self_attn.q_norm": (geometry.head_dim,),
        "self_attn.k_norm": (geometry.head_dim,),
    }
    return {**dict(_per_layer(geometry.layers, shapes)), "model.norm.weight": (geometry.hidden,)}


def _per_layer(layers: int, shapes: Mapping[str, Shape]) -> Iterator[tuple[str, Shape]]:
    for layer in range(layers):
        for name, shape in shapes.items():
            yield f"model.layers.{layer}.{name}.weight", shape
