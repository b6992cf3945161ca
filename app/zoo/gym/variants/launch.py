"""How another server serves a base and its variants: adapters, a chat template, a command.

vLLM, SGLang and TGI read adapters as peft folders and have one chat template for all. A variant
that they cannot serve is refused; what requests have to do themselves there is a note.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from zoo.gym.data.own_tokenizer import own_tokenizer
from zoo.gym.data.reading.turns.values import shown
from zoo.gym.delta.reading.adapter import padded, write_adapter
from zoo.gym.delta.reading.weights import Weights, open_weights
from zoo.gym.errors import InputError
from zoo.gym.files import new_folder
from zoo.gym.tuned.opened import Tuned, open_tuned
from zoo.gym.tuned.source import Source, source_at
from zoo.gym.variants.store import files_in
from zoo.models.adapters import CONFIG_FILE
from zoo.models.folder import read_object

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Factors: TypeAlias = tuple[str, NDArray[np.float32], NDArray[np.float32]]

Server: TypeAlias = Literal["vllm", "sglang", "tgi"]

VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM's `--max-lora-rank` may be (`vllm/config/lora.py`)."""

TEMPLATE, CONFIG = "chat_template.jinja", "tokenizer_config.json"


@dataclass(frozen=True)
class Served:
    """What is served.

    Attributes:
        base: the folder of the base.
        name: what requests call it.
        sources: its variants by name.
        template: the chat template of all, in place of their own.
        host: the address to listen at.
        port: the port.
    """

    base: Path
    name: str
    sources: Mapping[str, Source]
    template: str | None
    host: str
    port: int


@dataclass(frozen=True)
class Launch:
    """How a server is started.

    Attributes:
        command: a line of a shell.
        adapters: the peft folders by name.
        notes: what requests have to do themselves.
    """

    command: str
    adapters: dict[str, Path]
    notes: list[str]


@dataclass(frozen=True)
class _Variant:
    template: object
    factors: "list[Factors]"


def sources_in(folder: Path | None) -> dict[str, Source]:
    """Returns the deltas and adapters of a folder of variants by name."""
    return {name: source_at(file) for name, file in files_in(folder).items()}


def launch(server: Server, served: Served, folder: Path) -> Launch:
    """Writes what a server needs into a new folder, and returns how it is started.

    Args:
        server: which one.
        served: what it serves; no model is loaded.
        folder: the folder.

    Raises:
        InputError: a variant cannot be served there, or the folder is not new.
        StorageError: it cannot be written.
    """
    weights, notes, root = open_weights(served.base), list[str](), folder.absolute()
    if any(mark in str(root) for mark in ",="):
        raise InputError(
            f"output {str(folder)!r}: expected a path without ',' and '=', which separate adapters",
            code="variants.bad_folder",
        )
    variants: dict[str, _Variant] = {}
    for name, source in served.sources.items():
        variants[name] = _read(name, open_tuned(source, served.base), served, notes)
    template = _common(served, variants)
    rank = max((len(A) for each in variants.values() for _, A, _ in each.factors), default=0)
    with new_folder(folder) as written:
        for name, variant in variants.items():
            _write(written / "adapters" / name, variant, served.name, weights)
        if template is not None:
            (written / TEMPLATE).write_text(template, encoding="utf-8")
            stated = read_object(served.base / CONFIG) | {"chat_template": template}
            (written / CONFIG).write_text(json.dumps(stated), encoding="utf-8")
    adapters = {name: root / "adapters" / name for name in variants}
    words = _COMMANDS[server](served, adapters, rank, None if template is None else root)
    return Launch(shlex.join(words), adapters, notes)


def _read(name: str, tuned: Tuned, served: Served, notes: list[str]) -> _Variant:
    """Returns the factors and the template of a variant, and adds to the notes.

    Raises:
        InputError: it changes more than low-rank factors of linear layers.
    """
    source = tuned.source
    if source.artifact == "model":
        raise InputError(
            f"{name}: expected a fine-tune of low rank, got a model of its own: {source.path}",
            hint=f"serve it alone, as {source.path}",
            code="variants.not_low_rank",
        )
    changes = tuned.changes
    factors: list[Factors] = []
    for tensor in changes.names:
        if (pair := changes.decoded_factors(tensor)) is None:
            raise InputError(
                f"{name}: expected low-rank changes, got {changes.kind} with {tensor!r}",
                hint="zoo-gym delta apply FILE --out MODEL makes a model of its own; leave it out",
                code="variants.not_low_rank",
            )
        factors.append((tensor, *pair))
    stored = tuned.record.tokenizer if source.artifact == "delta" else None
    own = own_tokenizer(served.base, source.path, served.template, stored)
    if (end := own.parts.get("eos_token")) is not None:
        notes.append(f"{name}: its answers end with {end}, which requests have to state as stop")
    if tuned.record.system is None:
        notes.append(f"{name}: was trained with a system prompt that is not on this machine")
    if tuned.record.system:
        notes.append(
            f"{name}: requests have to state its system prompt, {shown(tuned.record.system)}"
        )
    return _Variant(own.tokenizer.chat_template, factors)


def _common(served: Served, variants: Mapping[str, _Variant]) -> str | None:
    """Returns the chat template of all.

    Raises:
        InputError: two variants have different ones.
    """
    templates = {name: variant.template for name, variant in variants.items()}
    first = next(iter(templates), None)
    common = own_tokenizer(served.base, None, served.template).tokenizer.chat_template
    if first is not None:
        common = templates[first]
    for name, template in templates.items():
        if template != common:
            raise InputError(
                f"{name}: expected the chat template of {first}, got another: these servers have "
                "one for all",
                hint="give one for all with --template, or leave it out",
                code="variants.other_template",
            )
    if isinstance(common, dict):
        common = common.get("default")
    return common if isinstance(common, str) else None


def _write(folder: Path, variant: _Variant, base_id: str, weights: Weights) -> None:
    """Writes an adapter that has one rank in all layers and names kinds of layers, as all read it.

    Raises:
        InputError: it changes stacked experts.
    """
    folder.mkdir(parents=True)
    rank = max(len(A) for _, A, _ in variant.factors)
    factors = ((name, padded(A, rank), padded(B, rank)) for name, A, B in variant.factors)
    write_adapter(folder, factors, base_id, 1.0, base=weights)
    config = read_object(folder / CONFIG_FILE)
    if config.pop("target_parameters"):
        raise InputError(
            f"{folder.name}: expected changes of linear layers, got some of stacked experts",
            hint="zoo-gym serve serves them; leave it out here",
            code="variants.not_low_rank",
        )
    layers = (str(layer) for layer in config["target_modules"])
    config["target_modules"] = sorted({layer.rpartition(".")[2] for layer in layers})
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _vllm(
    served: Served, adapters: Mapping[str, Path], rank: int, root: Path | None
) -> Sequence[str]:
    # without the variable it sends figures of its use
    words = ["env", "VLLM_NO_USAGE_STATS=1", "vllm", "serve", str(served.base)]
    words += ["--served-model-name", served.name, "--host", served.host, "--port", f"{served.port}"]
    if adapters:
        if rank > VLLM_RANKS[-1]:
            raise InputError(
                f"rank: expected at most {VLLM_RANKS[-1]} for vllm, got {rank}",
                hint="sglang takes more",
                code="variants.rank_too_large",
            )
        largest = next(allowed for allowed in VLLM_RANKS if allowed >= rank)
        words += ["--enable-lora", "--max-lora-rank", str(largest), "--lora-modules"]
        words += [f"{name}={path}" for name, path in adapters.items()]
    return [*words, *([] if root is None else ["--chat-template", str(root / TEMPLATE)])]


def _sglang(
    served: Served, adapters: Mapping[str, Path], rank: int, root: Path | None
) -> Sequence[str]:
    del rank  # it reads that of the adapters
    words = ["python", "-m", "sglang.launch_server", "--model-path", str(served.base)]
    words += ["--served-model-name", served.name, "--host", served.host, "--port", f"{served.port}"]
    if adapters:
        words += ["--lora-paths", *(f"{name}={path}" for name, path in adapters.items())]
    return [*words, *([] if root is None else ["--chat-template", str(root / TEMPLATE)])]


def _tgi(
    served: Served, adapters: Mapping[str, Path], rank: int, root: Path | None
) -> Sequence[str]:
    del rank
    words = ["text-generation-launcher", "--model-id", str(served.base), "--usage-stats", "off"]
    words += ["--hostname", served.host, "--port", f"{served.port}"]
    if adapters:
        words += ["--lora-adapters", ",".join(f"{name}={path}" for name, path in adapters.items())]
    return [*words, *([] if root is None else ["--tokenizer-config-path", str(root / CONFIG)])]


_COMMANDS = {"vllm": _vllm, "sglang": _sglang, "tgi": _tgi}
