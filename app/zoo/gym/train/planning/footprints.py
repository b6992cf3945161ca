"""Expected memory of a planned run: the measured peak of an earlier run like it, or the formula's.

Peaks are kept in one file of the cache, each under a hash of everything known to affect it. The
formula is the engine's; `zoo.gym.train.planning.memory` refuses a run that does not fit.
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.config.stages import load_method
from zoo.gym.config.train import TrainConfig
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.train.loading import quantization_spec
from zoo.gym.train.plan import Plan, batch_tokens
from zoo.gym.train.planning.parts import (
    adapted_layers,
    adapter_of,
    named_matrices,
    rotated_layers,
    trained_in_place,
    whole_modules,
)
from zoo.models.folder import count_parameters, model_geometry, read_config
from zoo.models.stored_weights import stored_codes

if TYPE_CHECKING:
    from zoo.backends.base import Backend, Policy
    from zoo.backends.memory import MemoryEstimate, MemoryNeed
    from zoo.gym.train.rows import Rows
    from zoo.models import Resolved

ROW_TOKEN_BYTES = 64
"""About the memory of a row's token in Python: two list entries and a number."""


def need_of(plan: Plan, folder: Path, rows: "Rows") -> "MemoryNeed | None":
    """Returns what determines the memory of a run, or None for an unknown model architecture.

    It assumes 16-bit weights until the number format is chosen.
    """
    from zoo.backends.memory import MemoryNeed
    from zoo.backends.optimizer_memory import Matrix
    from zoo.backends.optimizer_spec import OptimizerSpec
    from zoo.models import resolve

    # the numbers of a delta are few, and no optimizer steps the weights
    stateless = OptimizerSpec(name="sgd")
    geometry, config = model_geometry(folder), plan.config
    if geometry is None:
        return None
    method, cutoff = load_method(config.stage), rows.cutoff_len
    widest = max(method.width(config, unit, cutoff) for unit in rows.seen)
    held_out = max((method.width(config, unit, cutoff) for unit in rows.held_out_seen), default=0)
    limit = batch_tokens(count_parameters(folder))
    other_folders = [resolve(name, offline=True).folder for name in config.other_models.values()]
    scored = min(max(limit, held_out), held_out * plan.evaluation_rows)
    scores = 0 if method.generates else scored
    tokens = method.micro_batch_tokens(config, widest, count_parameters(folder))
    full, rows_per_unit = not config.trains_adapter, method.rows_per_unit(config)
    codes = stored_codes(folder, read_config(folder))
    quantization = quantization_spec(config)
    adapter = adapter_of(config)
    sampled = max(widest, held_out) // rows_per_unit if method.generates else 0
    prompt = max(0, sampled - method.answer_tokens(config, cutoff)) if method.generates else 0
    compares = method.keeps_reference(config) or bool(getattr(config, "retain", None))
    frozen = count_parameters(folder) if full and compares else 0
    in_place = trained_in_place(config, folder, geometry.layers)
    if full and config.stream_layers:  # one gradient of a layer at a time; the embedding's is whole
        in_place = (Matrix(geometry.vocab, geometry.hidden, 1),)
    return MemoryNeed(
        geometry=geometry,
        full=full,
        rank=adapter.rank,
        start=config.pissa_init or config.loftq_init or config.adapter_name_or_path is not None,
        dora=adapter.dora,
        dropout=adapter.dropout,
        oft=adapter.oft,
        rotated=rotated_layers(config, folder),
        whole=whole_modules(folder, adapter.whole),
        named=named_matrices(config, folder, geometry.layers),
        adapted=adapted_layers(config, folder),
        in_place=in_place,
        pairs=tokens * widest if config.flash_attn == "disabled" else 0,
        evaluation_pairs=scores * held_out if config.flash_attn == "disabled" else 0,
        blocks=config.freeze_trainable_layers if config.finetuning_type == "freeze" else None,
        ends=config.freeze_extra_modules is not None,
        tokens=tokens,
        evaluation_tokens=scores,
        checkpointing=bool(config.gradient_checkpointing),
        weight_bytes=2,
        streams=config.stream_layers,
        hidden_bytes=4,
        reads_vocabulary=method.reads_vocabulary(config),
        other_parameters=sum(map(count_parameters, other_folders)) + frozen,
        sampled_rows=max(plan.rows_per_step * rows_per_unit, plan.evaluation_rows)
        if method.generates
        else 0,
        sampled_tokens=sampled,
        prompt_pairs=prompt**2 if config.flash_attn == "disabled" else 0,
        optimizer=method.load_spec(config).optimizer if method.result == "model" else stateless,
        sharing=config.num_processes if config.sharding == "full" else 1,
        linear_bits=quantization.bits_a_weight if quantization is not None else codes.bits_a_weight,
        coded=codes.weights,
    )


def circumstances(
    config: TrainConfig, base: "Resolved", device: str, threads: int, row_tokens: int
) -> dict[str, object]:
    """Returns what else affects a run's peak; a stored peak is valid only for equal values."""
    from importlib.metadata import version

    return {
        "model": base.id,
        "revision": base.revision,
        "device": device,
        "threads": threads,
        "engine": version("mlx" if device == "mlx" else "torch"),
        "lora_target": config.lora_target,
        "oft_target": config.oft_target,
        "additional_target": config.additional_target,
        "adapter": config.adapter_name_or_path,
        "frozen_but": (config.freeze_trainable_modules, config.freeze_extra_modules),
        "lora_dropout": config.lora_dropout > 0,
        "dtype": config.dtype,
        "packing": config.packing,
        "attention": config.flash_attn,
        "offloads": config.activation_offloading,
        "liger": config.enable_liger_kernel,
        "rows_100_mb": row_tokens * ROW_TOKEN_BYTES // 100_000_000,
        **({"processes": config.num_processes} if config.num_processes > 1 else {}),
    }


def expected(
    engine: "Backend", need: "MemoryNeed | None", conditions: Mapping[str, object]
) -> "MemoryEstimate | None":
    """Returns the estimate: the peak of an earlier run like this one, else the formula's."""
    if need is None:
        return None
    peak = known_peak(footprints(), footprint_key(need, conditions))
    estimate = engine.estimate_memory(need)
    if peak is None:
        return estimate
    return replace(estimate, total=peak, source="measured", calculated=estimate.total)


def footprints() -> Path:
    """Returns the file of measured peaks."""
    return folders().cache / "footprints.json"


def footprint_key(need: "MemoryNeed", circumstances: Mapping[str, object]) -> str:
    """Returns the key under which a peak is stored.

    Args:
        need: the inputs of the formula.
        circumstances: what else affects the peak: model, device, threads, libraries.
    """
    machine = f"{platform.node()} {platform.machine()} {platform.system()}"
    facts = asdict(need) | dict(circumstances) | {"machine": machine}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def known_peak(file: Path, key: str) -> int | None:
    """Returns the peak of an earlier run in bytes, or None, as for a damaged file."""
    peak = (read_json_object(file) or {}).get(key)
    return peak if isinstance(peak, int) and peak > 0 else None


def remember_peak(file: Path, key: str, peak_bytes: int) -> None:
    """Stores a measured peak for later estimates."""
    peaks = read_json_object(file) or {}
    ensure_folder(file.parent)
    write_beside(file, json.dumps(peaks | {key: peak_bytes}, indent=2, sort_keys=True) + "\n")


def peak_bytes(policy: "Policy") -> int:
    """Returns the peak memory of this process, on the accelerator if there is one."""
    memory = policy.memory()
    return memory.peak_device_bytes or memory.peak_host_bytes
