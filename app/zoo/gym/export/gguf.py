"""GGUF: one file for llama.cpp, Ollama and LM Studio; llama.cpp opens it before it has its name."""

import difflib
import json
import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from zoo.gym.data import require_unicode
from zoo.gym.errors import InputError
from zoo.gym.export.comparison import prompts_of
from zoo.gym.export.job import Job, Preview, Report
from zoo.gym.export.llamacpp import check_file
from zoo.gym.files import new_file
from zoo.models.gguf.vocabulary import MODEL, SENTENCEPIECE, TOKENS
from zoo.models.gguf.writing.settings import Family, family_of, rope_factors, settings_of
from zoo.models.gguf.writing.tensors import Tensor, plan_tensors
from zoo.models.gguf.writing.types import (
    FILE_TYPES,
    Model,
    Quantization,
    fallbacks,
    require_types,
    stored_bytes,
    type_of,
)
from zoo.models.gguf.writing.vocabulary import Ends, needs_stripping, vocabulary_keys
from zoo.models.gguf.writing.writer import Content, write_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT: Quantization = "q8_0"
FACTORS = "rope_freqs.weight"


@dataclass(frozen=True)
class Plan:
    """What a file will contain.

    Attributes:
        keys: its header.
        tensors: its tensors in order.
        types: the type of each by name.
        fallbacks: those that are too narrow for their type, and what they get.
        factors: the tensor of scaled rotary frequencies, if there is one.
    """

    keys: dict[str, Any]
    tensors: list[Tensor]
    types: dict[str, str]
    fallbacks: dict[str, str]
    factors: "NDArray[np.float32] | None"

    @property
    def weights(self) -> int:
        """The number of weights."""
        return sum(math.prod(tensor.shape) for tensor in self.tensors)

    @property
    def size_bytes(self) -> int:
        """The bytes of the tensors."""
        return sum(stored_bytes(t.shape, self.types[t.name]) for t in self.tensors)

    @property
    def main_type(self) -> str:
        """The type that most bytes have."""
        sizes: dict[str, int] = {}
        for tensor in self.tensors:
            kind = self.types[tensor.name]
            sizes[kind] = sizes.get(kind, 0) + stored_bytes(tensor.shape, kind)
        return max(sizes, key=sizes.__getitem__)

    @property
    def facts(self) -> dict[str, Any]:
        """What is reported."""
        counts: dict[str, int] = {}
        for kind in self.types.values():
            counts[kind] = counts.get(kind, 0) + 1
        return {
            "types": counts,
            "bits_per_weight": 8 * self.size_bytes / self.weights,
            "fallbacks": self.fallbacks,
        }


def quantization_of(job: Job) -> Quantization:
    """Returns the chosen type of weights.

    Raises:
        InputError: there is no such type.
    """
    chosen = job.options.quantization or DEFAULT
    if chosen not in get_args(Quantization):
        near = difflib.get_close_matches(chosen, get_args(Quantization), n=1)
        raise InputError(
            f"quantization: expected one of {', '.join(get_args(Quantization))}, got {chosen!r}",
            hint=f"--quantization {near[0]}" if near else None,
            code="export.bad_quantization",
        )
    return cast("Quantization", chosen)


def plan(job: Job) -> Plan:
    """Decides what a file contains, without its values.

    Raises:
        InputError: the model cannot be written in this format.
        NotAvailableError: what quantises to the chosen type is not installed.
    """
    from transformers import AutoConfig

    quantization = quantization_of(job)
    config: Any = AutoConfig.from_pretrained(str(job.folder), local_files_only=True)
    family = family_of(config)
    shapes = job.tuned.merged_shapes
    tensors = plan_tensors(shapes, config, family)
    keys = _keys(job, config, family, quantization)
    rows = next(t.shape[0] for t in tensors if t.name == "token_embd.weight")
    keys |= vocabulary_keys(job.tokenizer, rows, Ends(job.stops, job.template, _begins(job)))
    named = {tensor.name: tensor.shape for tensor in tensors}
    experts = int(keys.get(f"{family.architecture}.expert_count", 0))
    model = Model(config.num_hidden_layers, experts, is_tied="output.weight" not in named)
    types = {name: type_of(name, shape, quantization, model) for name, shape in named.items()}
    narrow = fallbacks(named, quantization, model)
    _check_types(job, quantization, types, narrow)
    return Plan(keys, tensors, types, narrow, rope_factors(config))


def preview(job: Job) -> Preview:
    """Returns what the file will be.

    Raises:
        GymError: see `plan`.
    """
    planned, quantization = plan(job), quantization_of(job)
    is_as_named = planned.main_type == FILE_TYPES[quantization][1]
    tag = quantization if is_as_named else planned.main_type.lower()
    return Preview(planned.size_bytes, planned.facts, tag)


def write(job: Job, out: Path) -> Report:
    """Writes the file.

    Raises:
        InputError: see `plan`; or what llama.cpp computes differs from the source.
        StorageError: it cannot be written.
    """
    planned = plan(job)
    notes = list(job.own.notes)
    if "NFC" in str(cast("Any", job.tokenizer).backend_tokenizer.normalizer):
        notes.append("llama.cpp reads accents in two parts as they are; the tokenizer joins them")
    if planned.keys[MODEL] == SENTENCEPIECE and "<0x00>" not in planned.keys[TOKENS]:
        notes.append("llama.cpp cannot read letters that are no token: there are none of bytes")
    with new_file(out, replace=job.options.force) as partial:
        write_file(partial, planned.keys, contents(job, planned))
        checked = check_file(job, partial, quantization_of(job)) if job.options.check else None
    command = f"zoo-gym chat --model {shlex.quote(str(out))}"
    return Report(out, "gguf", planned.facts, checked, tuple(notes), command)


def contents(job: Job, planned: Plan) -> list[Content]:
    """Returns the tensors of a file, whose values are computed when they are written."""
    found: list[Content] = []
    if planned.factors is not None:
        factors = planned.factors
        found.append((FACTORS, factors.shape, "F32", lambda: factors))
    for tensor in planned.tensors:
        kind = planned.types[tensor.name]
        found.append((tensor.name, tensor.shape, kind, _values(job, tensor)))
    return found


def _values(job: Job, tensor: Tensor) -> Any:  # noqa: ANN401
    return lambda: tensor.values(job.tuned.merged)


def _keys(job: Job, config: Any, family: Family, quantization: Quantization) -> dict[str, Any]:  # noqa: ANN401
    return {
        "general.architecture": family.architecture,
        "general.type": "model",
        "general.name": _name(job),
        "general.file_type": FILE_TYPES[quantization][0],
        "general.quantization_version": 2,
        **settings_of(config, family),
    }


def _begins(job: Job) -> bool | None:
    """Returns whether a rendered chat begins with BOS, or None without a chat template."""
    if job.template is None:
        return None
    first = cast("Any", job.tokenizer).bos_token_id
    return first is not None and prompts_of(job)[0][:1] == [first]


def _name(job: Job) -> str:
    """Returns the model's name in the file.

    llama.cpp changes how tokens are read for some names, so those are written for such a tokenizer
    alone.

    Raises:
        InputError: the name that was given is such a name, or no text.
    """
    backend = cast("Any", job.tokenizer).backend_tokenizer
    if needs_stripping(json.loads(backend.to_str())):
        return "phi-3"
    given = job.options.name
    require_unicode(given or "", "name")
    name = given or Path(job.label).name
    if not any(part in name.lower() for part in _RULES):
        return name
    if given is None:
        return "model"
    raise InputError(
        f"name: expected one without {', '.join(_RULES)}, which change how llama.cpp reads tokens, "
        f"got {given!r}",
        hint="--name another",
        code="export.name_changes_tokens",
    )


_RULES = ("phi-3", "phi3", "jina-v2", "modern-bert")
"""Parts of `general.name` by which llama.cpp chooses rules of special tokens."""


def _check_types(
    job: Job, quantization: Quantization, types: dict[str, str], narrow: dict[str, str]
) -> None:
    """Refuses a file that would not be what its name says.

    Raises:
        InputError: no tensor has the chosen type, or one has not and that was not allowed.
        NotAvailableError: what quantises is not installed.
    """
    from zoo.backends.machine.installing import install_command

    main = FILE_TYPES[quantization][1]
    if main not in types.values():
        raise InputError(
            f"quantization: expected matrices whose rows are a multiple of 256 for {main}, got "
            f"none: no tensor would have that type",
            hint="--quantization q8_0",
            code="export.no_such_type",
        )
    if narrow and job.options.strict:
        name, kind = next(iter(narrow.items()))
        raise InputError(
            f"--strict: expected every matrix in the type of {quantization}, got {len(narrow)} "
            f"others, such as {name} in {kind}",
            hint="--quantization q8_0",
            code="export.narrow",
        )
    require_types(set(types.values()), install_command("gguf"))
