"""The zen family: names, hub ids, licences and shapes, and the status of published names.

zen-pico is ours and built in. The others are Qwen3 models under names of the family. Memory
formulas over a `Geometry` are not in this file.
"""

from dataclasses import dataclass
from typing import Literal

PICO = "zen-pico"
"""Alias of the built-in model."""

State = Literal["exists", "renamed", "never published"]


@dataclass(frozen=True)
class Geometry:
    """The shape of a Qwen3 model.

    Attributes:
        hidden: width of the residual stream.
        layers: number of blocks.
        heads: query heads of a block.
        kv_heads: key and value heads of a block.
        head_dim: width of one head; `heads * head_dim` may differ from `hidden`.
        ffn: inner width of the gated feed-forward part.
        vocab: rows of the embedding.
        tied: True when the output head is the embedding itself.
    """

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool

    def linear_parameters(self) -> int:
        """Returns the number of weights in the seven linear layers of all blocks."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.ffn)

    def parameters(self) -> int:
        """Returns the number of parameters, tied ones once."""
        norms = self.layers * (2 * self.hidden + 2 * self.head_dim) + self.hidden
        embeddings = self.vocab * self.hidden * (1 if self.tied else 2)
        return self.linear_parameters() + norms + embeddings


@dataclass(frozen=True)
class Published:
    """A name that appears in published texts, and the model that it refers to.

    Attributes:
        name: the name as published.
        id: the hub id to use, or the nearest one if nothing was published under the name.
        state: `exists` (another name), `renamed`, or `never published`.
    """

    name: str
    id: str
    state: State


@dataclass(frozen=True)
class Entry:
    """A model of the family.

    Attributes:
        alias: the family's name.
        hub_id: the id on the Hugging Face hub; None for the built-in model.
        licence: SPDX id.
        geometry: the model's shape.
        parameters: number of parameters, tied ones once.
        download_bytes: size of weights, configuration and tokenizer on the hub; 0 if built in.
        published: other names of the same model.
    """

    alias: str
    hub_id: str | None
    licence: str
    geometry: Geometry
    download_bytes: int
    published: tuple[str, ...]

    @property
    def parameters(self) -> int:
        """The number of parameters, tied ones once."""
        return self.geometry.parameters()


# download_bytes: sums over the hub's file lists of Qwen/Qwen3-0.6B at c1899de289a0 and of
# Qwen/Qwen3-4B (three shards, 8,044,982,000 bytes). They are only for display: `resolve` gets the
# current size from the hub before it asks the user. The 0.6B file stores its tied head twice.
_ENTRIES = (
    Entry(
        alias=PICO,
        hub_id=None,
        licence="Apache-2.0",
        geometry=Geometry(128, 4, 4, 2, 32, 384, 264, tied=True),
        download_bytes=0,
        published=(),
    ),
    Entry(
        alias="zen-nano",
        hub_id="Qwen/Qwen3-0.6B",
        licence="Apache-2.0",
        geometry=Geometry(1024, 28, 16, 8, 128, 3072, 151_936, tied=True),
        download_bytes=1_519_182_365,
        published=("zenlm/zen-nano-0.6b", "zen-nano-0.6b", "qwen3-0.6b"),
    ),
    Entry(
        alias="zen-eco",
        hub_id="Qwen/Qwen3-4B",
        licence="Apache-2.0",
        geometry=Geometry(2560, 36, 32, 8, 128, 9728, 151_936, tied=True),
        download_bytes=8_060_896_856,
        published=("zenlm/zen-eco-4b", "zen-eco-4b", "qwen3-4b"),
    ),
)

_PUBLISHED = (
    Published("zenlm/zen-coder-30b-a3b-instruct", "Qwen/Qwen3-Coder-30B-A3B-Instruct", "exists"),
    Published(
        "zenlm/zen-coder-480b-a35b-instruct", "Qwen/Qwen3-Coder-480B-A35B-Instruct", "exists"
    ),
    Published("zenlm/zen-omni-30b-a3b-instruct", "Qwen/Qwen3-Omni-30B-A3B-Instruct", "exists"),
    Published("zenlm/zen-next-80b-a3b-instruct", "Qwen/Qwen3-Next-80B-A3B-Instruct", "exists"),
    Published("Qwen/Qwen3-Omni-30B-A3B", "Qwen/Qwen3-Omni-30B-A3B-Instruct", "renamed"),
    Published("Qwen/Qwen3-4B-Instruct", "Qwen/Qwen3-4B-Instruct-2507", "renamed"),
    Published("Qwen/Qwen3-7B", "Qwen/Qwen3-8B", "never published"),
    Published("Qwen/Qwen3-72B", "Qwen/Qwen3-32B", "never published"),
    Published("Qwen/Qwen3-Coder-7B", "Qwen/Qwen3-Coder-30B-A3B-Instruct", "never published"),
    Published("Qwen/Qwen3-Omni-14B", "Qwen/Qwen3-Omni-30B-A3B-Instruct", "never published"),
    Published("Qwen/Qwen3-Next-32B", "Qwen/Qwen3-Next-80B-A3B-Instruct", "never published"),
)


def registry() -> tuple[Entry, ...]:
    """Returns the models of the family, smallest first."""
    return _ENTRIES


def published_names() -> tuple[Published, ...]:
    """Returns every published name with its real id: other names of the family first."""
    family = tuple(
        Published(name, entry.hub_id, "exists")
        for entry in _ENTRIES
        if entry.hub_id
        for name in entry.published
    )
    return family + _PUBLISHED
