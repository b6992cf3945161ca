"""Loads, runs and writes a reward model: a sequence classification model with one label.

A language model becomes one: it keeps its layers, and a score takes the place of its output layer.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.base import RewardModel
from zoo.backends.model_folder import read_config_of
from zoo.backends.torch.adapters.dora import merged_weight
from zoo.backends.torch.adapters.names import is_added
from zoo.backends.torch.files.load import NOWHERE, check_weights
from zoo.backends.torch.quiet import quiet
from zoo.core.errors import InputError
from zoo.models import checkpoint_files
from zoo.models.refusals import refusals

VOCABULARY_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
"""The files of a tokenizer."""

SCORE = "score.weight"
"""The name of the score in sequence classification models of transformers."""


@dataclass(frozen=True)
class RewardModelWriter:
    """How a policy becomes a reward model: its value head is the score.

    Attributes:
        padding: the token that fills rows of a batch, None if there is none.
    """

    padding: int | None

    def save(self, model: nn.Module, head: nn.Linear, folder: Path) -> None:
        """Writes a language model with a head as a reward model, float32, adapters merged."""
        tensors = {name: merged_weight(tensor, layer) for name, tensor, layer in _layers(model)}
        tensors[SCORE] = merged_weight(head.weight, None)
        with quiet():
            written: Any = _without_weights(model)
            written.load_state_dict(tensors, strict=True, assign=True)
            written.config.get_text_config().pad_token_id = self.padding
            written.save_pretrained(folder)


class TorchRewardModel(RewardModel):
    """A reward model on one device; rows are scored one by one, so that padding plays no part."""

    def __init__(self, model: nn.Module) -> None:
        self._model: Any = model

    def score(self, rows: Sequence[Sequence[int]]) -> list[float]:
        """Returns the score of each row of token ids."""
        return [self._score(row) for row in rows]

    @torch.inference_mode()
    def _score(self, row: Sequence[int]) -> float:
        ids = torch.tensor([list(row)], device=self._model.device)
        logits = self._model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        return float(logits.float().flatten()[0])


def load_reward_model(folder: Path, device: str) -> TorchRewardModel:
    """Loads a reward model for inference.

    On a CPU its weights are float32, elsewhere as stored.

    Raises:
        NotAvailableError: there is no such folder.
        InputError: it is no sequence classification model with one label, or lacks weights.
    """
    return TorchRewardModel(open_reward_model(folder, device))


def open_reward_model(folder: Path, device: str) -> nn.Module:
    """Returns the module of a reward model; see `load_reward_model`."""
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING as KNOWN
    from transformers import AutoModelForSequenceClassification

    config = read_config_of(folder)
    names = getattr(config, "architectures", None) or ["no architecture"]
    if type(config) not in KNOWN or not str(names[0]).endswith("ForSequenceClassification"):
        raise InputError(
            f"{folder / 'config.json'}: architectures: expected a model for sequence "
            f"classification, got {names[0]}",
            code="torch.not_a_reward_model",
        )
    if config.num_labels != 1:
        raise InputError(
            f"{folder / 'config.json'}: num_labels: expected a reward model with 1 label, got "
            f"{config.num_labels}",
            code="torch.not_a_reward_model",
        )
    checkpoint_files(folder)
    with refusals(f"{folder}: this reward model cannot be loaded", folder), quiet():
        model, report = AutoModelForSequenceClassification.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32 if device == "cpu" else "auto",
            local_files_only=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            adapter_kwargs={"subfolder": NOWHERE},
        )
    check_weights(folder, model, report)
    module: nn.Module = model.to(device).eval().requires_grad_(requires_grad=False)
    return module


def check_can_score(folder: Path, model: Any) -> None:  # noqa: ANN401
    """Refuses a language model whose layers are not those of a reward model.

    Raises:
        InputError: transformers has no such reward model, or one with other layers.
    """
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING as KNOWN

    name = type(model).__name__
    if type(model.config) not in KNOWN:
        raise InputError(
            f"{folder}: {name} cannot become a reward model: transformers has no sequence "
            f"classification for {model.config.model_type}",
            code="torch.cannot_score",
        )
    with quiet():
        expected = set(_without_weights(model).state_dict())
    layers = {layer for layer, *_ in _layers(model)} | {SCORE}
    if odd := sorted(expected ^ layers):
        raise InputError(
            f"{folder}: {name} cannot become a reward model: {odd[0]!r} is part of only one of "
            "the language model and the reward model of transformers",
            code="torch.cannot_score",
        )


def check_scoring_adapter(model: Any) -> None:  # noqa: ANN401
    """Refuses an adapter on the output layer, which a reward model does not have.

    Raises:
        InputError: there is one.
    """
    if any(is_added(name) for name, _ in model.get_output_embeddings().named_parameters()):
        raise InputError(
            "lora_target: a reward model has no output layer: expected other layers",
            hint="lora_target=all is every layer below it",
            code="torch.no_output_layer",
        )


def padding_token(folder: Path) -> int | None:
    """Returns the padding token of the tokenizer in a model folder, None if it has none."""
    from transformers import AutoTokenizer

    if not any((folder / name).is_file() for name in VOCABULARY_FILES):
        return None
    with refusals(f"{folder}: the tokenizer cannot be loaded", folder), quiet():
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    token: int | None = tokenizer.pad_token_id
    return token


def _without_weights(model: Any) -> nn.Module:  # noqa: ANN401
    """Returns the reward model of a language model's family and size, without memory."""
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING as KNOWN

    config = copy.deepcopy(model.config)
    config.num_labels, config.dtype = 1, torch.float32
    kind: Any = KNOWN[type(config)]
    with torch.device("meta"):
        empty: nn.Module = kind(config)
    return empty


def _layers(model: Any) -> Iterator[tuple[str, Tensor, Any]]:  # noqa: ANN401
    """Yields the name, the tensor, and the adapter's layer or None, of all below the output."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    head = model.get_output_embeddings()
    above = next(f"{name}." for name, module in model.named_modules() if module is head)
    adapted: dict[str, Any] = {
        f"{_without_adapter(name)}.{getattr(layer, 'parameter_name', 'weight')}": layer
        for name, layer in model.named_modules()
        if isinstance(layer, BaseTunerLayer)
    }
    for name, tensor in model.state_dict().items():
        if not is_added(name) and not name.startswith(above):
            plain = _without_adapter(name)
            yield plain, tensor, adapted.get(plain)


def _without_adapter(name: str) -> str:
    """Returns the name of a module or tensor without peft's layers around it."""
    return ".".join(part for part in name.split(".") if part != "base_layer")
