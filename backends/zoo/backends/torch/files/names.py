"""Maps the tensor names of a model's files to those of the loaded model.

transformers renames and joins tensors on loading: the text part of an image model, renamed layers,
stacked experts. An adapter uses the names of the loaded model.
"""

from pathlib import Path
from typing import Any

from zoo.backends.base import Parts
from zoo.backends.model_folder import read_config, tensor_names
from zoo.backends.torch.quiet import quiet
from zoo.models.refusals import refusals


def parameter_parts(folder: Path) -> dict[str, Parts]:
    """Returns the files' tensors of each parameter; see `Backend.parameter_parts`.

    Raises:
        InputError: transformers cannot build this model.
    """
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import (
        WeightConverter,
        WeightRenaming,
        dot_natural_key,
        rename_source_key,
    )

    config = read_config(folder)
    auto: Any = AutoModelForCausalLM
    with refusals(f"{folder}: this model cannot be built"), quiet(), torch.device("meta"):
        model = auto.from_config(config)
        steps = get_model_conversion_mapping(model)
    renamings = [step for step in steps if isinstance(step, WeightRenaming)]
    converters = [step for step in steps if isinstance(step, WeightConverter)]
    places = model.state_dict()
    stacked: dict[str, dict[str, list[str]]] = {}
    parts: dict[str, Parts] = dict.fromkeys(places, ())
    for name in sorted(tensor_names(folder), key=dot_natural_key):  # experts in their order
        renamed, pattern = rename_source_key(
            name, renamings, converters, model.base_model_prefix, places
        )
        if pattern is not None:
            stacked.setdefault(renamed, {}).setdefault(pattern, []).append(name)
        elif renamed in places:
            parts[renamed] = ((name,),)
    of_pattern = {pattern: step for step in converters for pattern in step.source_patterns}
    for parameter in parts.keys() & stacked.keys():
        step = of_pattern[next(iter(stacked[parameter]))]
        lists = [stacked[parameter].get(pattern, []) for pattern in step.source_patterns]
        # peft has the inputs of such experts in their rows
        turned = getattr(model.get_submodule(parameter.rpartition(".")[0]), "is_transposed", False)
        if _stacks(step) and len(set(map(len, lists))) == 1 and not turned:
            parts[parameter] = tuple(zip(*lists, strict=True))
    return parts


def _stacks(converter: Any) -> bool:  # noqa: ANN401 - of transformers
    """Returns whether one tensor per expert is joined with others by rows, and then stacked."""
    steps = [(type(step).__name__, getattr(step, "dim", None)) for step in converter.operations]
    return steps in ([("MergeModulelist", 0)], [("MergeModulelist", 0), ("Concatenate", 1)])
