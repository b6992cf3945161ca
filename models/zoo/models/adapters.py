"""Reads an adapter's config without peft, and finds the modules it targets.

Everything that loads adapters uses this one reader, so that all refuse the same ones. Tensors are
read elsewhere.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.core.errors import InputError
from zoo.models.checkpoint_files import ADAPTER_FILE
from zoo.models.folder import read_object
from zoo.models.patterns import Job, find, is_plain

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = ADAPTER_FILE
ALL_LINEAR = "all-linear"
WEIGHT = ".weight"

LORA_SETTINGS = frozenset(
    [
        "alora_invocation_tokens",
        "alpha_pattern",
        "arrow_config",
        "auto_mapping",
        "base_model_name_or_path",
        "bias",
        "corda_config",
        "ensure_weight_tying",
        "eva_config",
        "exclude_modules",
        "fan_in_fan_out",
        "inference_mode",
        "init_lora_weights",
        "kasa_config",
        "layer_replication",
        "layers_pattern",
        "layers_to_transform",
        "loftq_config",
        "lora_alpha",
        "lora_bias",
        "lora_dropout",
        "lora_ga_config",
        "megatron_config",
        "megatron_core",
        "modules_to_save",
        "monteclora_config",
        "peft_type",
        "peft_version",
        "qalora_group_size",
        "r",
        "rank_pattern",
        "revision",
        "runtime_config",
        "target_modules",
        "target_parameters",
        "task_type",
        "trainable_token_indices",
        "use_bdlora",
        "use_dora",
        "use_qalora",
        "use_rslora",
        "velora_config",
    ]
)
"""The LoRA settings of peft 0.21, which silently ignores unknown ones."""

_FIRST_NUMBER = re.compile(r".*?\.[^.]*\.(?P<idx>\d+)\.")  # from peft, for layers without a pattern


def read_adapter_config(path: Path) -> dict[str, Any]:
    """Returns the settings of an `adapter_config.json`.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: it is damaged, has no adapter type, or a setting that selects modules has the
            wrong type.
    """
    config = read_object(path)
    if not isinstance(config.get("peft_type"), str):
        raise InputError(
            f"{path}: peft_type: expected an adapter type, got {config.get('peft_type')!r}",
            code="models.bad_adapter_config",
        )
    for key, kinds in _KINDS.items():
        value = config.get(key)
        if value is not None and not any(_is(value, kind) for kind in kinds):
            expected = " or ".join(kinds)
            raise InputError(
                f"{path}: {key}: expected {expected}, got {value!r:.80}",
                code="models.bad_adapter_config",
            )
    lora = config["peft_type"] == "LORA"
    unknown = sorted(key for key, value in config.items() if value and key not in LORA_SETTINGS)
    if lora and unknown:
        raise InputError(
            f"{path}: {unknown[0]}: unknown setting of a LoRA adapter: {config[unknown[0]]!r:.80}",
            hint="it was made with a newer peft; without the setting it would differ",
            code="models.bad_adapter_config",
        )
    if lora and not (config.get("target_modules") or config.get("target_parameters")):
        raise InputError(
            f"{path}: target_modules: expected the adapted layers, got none",
            code="models.bad_adapter_config",
        )
    if isinstance(config.get("target_modules"), str) and config.get("layers_to_transform"):
        raise InputError(
            f"{path}: layers_to_transform: expected none with an expression in target_modules",
            code="models.bad_adapter_config",
        )
    return config


_KINDS = {
    "target_modules": ("a text", "a list of names"),
    "target_parameters": ("a list of names",),
    "exclude_modules": ("a text", "a list of names"),
    "modules_to_save": ("a list of names",),
    "layers_to_transform": ("a number", "a list of numbers"),
    "layers_pattern": ("a text", "a list of names"),
    "rank_pattern": ("an object of numbers",),
    "alpha_pattern": ("an object of numbers",),
}


def _is(value: object, kind: str) -> bool:
    if kind == "a text":
        return isinstance(value, str)
    if kind == "a number":
        return _is_number(value)
    if kind == "an object of numbers":
        # AdaLoRA stores lists of ranks under this name
        return isinstance(value, dict) and all(
            _is_number(each) or isinstance(each, list) for each in value.values()
        )
    of = str if kind == "a list of names" else int
    return isinstance(value, list) and all(isinstance(each, of) for each in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def guard_patterns(config: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Checks that no expression in a config takes long on these names, however it is used.

    Raises:
        InputError: one takes too long.
    """
    jobs: list[Job] = []
    for text in sorted(set(_expressions(config))):
        if not is_plain(text):
            jobs.append(("fullmatch", text, text))
            forms = (
                rf"(.*\.)?({text})$",
                rf".*\.{text}$",
                rf"(^|.*\.){text}($|\..*)",
                rf"(?:^|.*?\.){text}\.(?P<idx>\d+)\.",
            )
            jobs.extend(("match", text, form) for form in forms)
    find(jobs, names, where)


def _expressions(value: object, *, named: bool = False) -> Iterator[str]:
    """Yields every string of a config that may be used as an expression over names."""
    if isinstance(value, str):
        if named:
            yield value
    elif isinstance(value, list):
        for each in value:
            yield from _expressions(each, named=named)
    elif isinstance(value, dict):
        for key, each in value.items():
            if named:
                yield str(key)
            inside = named or "pattern" in str(key) or "module" in str(key)
            yield from _expressions(each, named=inside)


def targeted(config: Mapping[str, Any], modules: Sequence[str], where: str) -> set[str]:
    """Returns the modules that an adapter targets, selected as in peft.

    Args:
        config: from `read_adapter_config`.
        modules: full names.
        where: the config's file, for error messages.

    Raises:
        InputError: an expression takes too long, or is invalid.
    """
    left_out = _excluded(config, modules, where)
    target = config.get("target_modules")
    if target is None:
        return set()
    if isinstance(target, str):
        if target.lower() == ALL_LINEAR:
            return set(modules) - left_out
        [matching] = _find([("fullmatch", target, target)], modules, where)
        return matching - left_out
    ends, named = tuple(f".{each}" for each in target), set(target)
    by_end = {m for m in _in_layers(config, modules, where) if m.endswith(ends)}
    return (by_end | named.intersection(modules)) - left_out


def _excluded(config: Mapping[str, Any], modules: Sequence[str], where: str) -> set[str]:
    excluded_modules: set[str] = set()
    excluded = config.get("exclude_modules")
    if isinstance(excluded, str) and excluded:
        [excluded_modules] = _find([("fullmatch", excluded, excluded)], modules, where)
    elif excluded:
        ends = tuple(f".{each}" for each in excluded)
        excluded_modules = {
            module for module in modules if module in excluded or module.endswith(ends)
        }
    saved: list[Job] = [
        ("match", name, rf"(^|.*\.){name}($|\..*)") for name in config.get("modules_to_save") or ()
    ]
    return excluded_modules.union(*_find(saved, modules, where))


def _in_layers(config: Mapping[str, Any], modules: Sequence[str], where: str) -> set[str]:
    layer_numbers = config.get("layers_to_transform")
    if layer_numbers is None or layer_numbers == []:
        return set(modules)
    numbers = {layer_numbers} if isinstance(layer_numbers, int) else set(layer_numbers)
    lists = config.get("layers_pattern") or []
    patterns = [_FIRST_NUMBER]
    if lists:
        names = [lists] if isinstance(lists, str) else lists
        odd = [name for name in names if not is_plain(name)]
        if odd:
            raise InputError(
                f"{where}: layers_pattern: expected names of layer lists, got {odd[0]!r:.80}",
                code="models.bad_adapter_config",
            )
        patterns = [re.compile(rf"(?:^|.*?\.){name}\.(?P<idx>\d+)\.") for name in names]
    chosen: set[str] = set()
    for module in modules:
        matches = (pattern.match(module) for pattern in patterns)
        match = next((candidate for candidate in matches if candidate), None)
        if match and int(match["idx"]) in numbers:
            chosen.add(module)
    return chosen


def stored_name(module: str, tensors: Container[str]) -> str | None:
    """Returns the name of a layer's weight in the model's files, or None if it has none.

    Files may omit the prefix of the backbone (GPT-2, Bloom).
    """
    name = module + WEIGHT
    _, _, short = name.partition(".")
    return next((candidate for candidate in (name, short) if candidate in tensors), None)


def pattern_values(
    patterns: Mapping[str, Any], modules: Sequence[str], default: object, where: str
) -> dict[str, Any]:
    """Returns each module's value: that of the first pattern matching its end, as in peft.

    Raises:
        InputError: an expression takes too long, or is invalid.
    """
    jobs: list[Job] = [("match", key, rf"(.*\.)?({key})$") for key in patterns]
    values: dict[str, Any] = dict.fromkeys(modules, default)
    for value, matching in reversed(
        [*zip(patterns.values(), _find(jobs, modules, where), strict=True)]
    ):
        values |= dict.fromkeys(sorted(matching), value)
    return values


def _find(jobs: Sequence[Job], modules: Sequence[str], where: str) -> list[set[str]]:
    results: list[set[str]] = []
    for (_, stranger, _), hits in zip(jobs, find(jobs, modules, where), strict=True):
        if hits is None:
            raise InputError(
                f"{where}: expected a regular expression, got {stranger!r:.80}",
                code="models.bad_adapter_config",
            )
        results.append({module for module, hit in zip(modules, hits, strict=True) if hit})
    return results


def refuse_strays(
    where: str, unexpected: Sequence[str], missing: Sequence[str], *, config: str = CONFIG_FILE
) -> None:
    """Refuses an adapter whose tensors do not match its config.

    Args:
        where: the file.
        unexpected: tensors in the file that the config does not mention.
        missing: tensors that the config requires and the file lacks.
        config: the config's name.

    Raises:
        InputError: there are any.
    """
    if unexpected:
        raise InputError(
            f"{where}: expected only tensors covered by {config}, got {len(unexpected)} more: "
            f"{min(unexpected)!r}",
            hint="target_modules, exclude_modules, layers_to_transform must match the file",
            code="models.adapter_tensors",
        )
    if missing:
        raise InputError(
            f"{where}: expected all tensors required by {config}, got {len(missing)} fewer: "
            f"{min(missing)!r}",
            code="models.adapter_tensors",
        )
