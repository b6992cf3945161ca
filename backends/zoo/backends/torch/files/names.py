"""Maps the tensor names of a model's files to those of the loaded model.

transformers renames and joins tensors on loading: the text part of an image model, renamed layers,
stacked experts. An adapter uses the layer names of the loaded model.
"""

from pathlib import Path
from typing import Any

from zoo.backends.model_folder import read_config
from zoo.backends.torch.quiet import quiet
from zoo.core import read_header
from zoo.models import checkpoint_files
from zoo.models.refusals import refusals


def parameter_names(folder: Path) -> dict[str, str]:
    """Returns the loaded model's parameter names, by tensor name in the files.

    Tensors that are joined, split or transposed on loading, and those that are not part of the
    causal language model, are left out. No weights are read.

    Raises:
        InputError: transformers cannot build this model.
    """
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import (
        WeightConverter,
        WeightRenaming,
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
    names: dict[str, str] = {}
    for file in checkpoint_files(folder):
        for name in read_header(file).tensors:
            renamed, converter = rename_source_key(
                name, renamings, converters, model.base_model_prefix, places
            )
            if converter is None and renamed in places:
                names[name] = renamed
    return names
