"""Bases whose files are in 4 or 8 bits already, as bitsandbytes and transformers write them."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.backends.objectives_for_tests import SFT
from tests.backends.policies import DORA, FREEZE, LORA
from tests.backends.reference import example_batch
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, QuantizationSpec
from zoo.backends.torch.numbers.dtypes import weight_type
from zoo.backends.torch.policy import TorchPolicy
from zoo.backends.torch.quantized.base import quantized_layers
from zoo.backends.torch.quantized.library import import_bitsandbytes
from zoo.models.folder import count_parameters, read_config
from zoo.models.stored_weights import Codes, stored_codes, stored_weights

if import_bitsandbytes() is None:
    pytest.skip("needs the extra qlora", allow_module_level=True)

SETTINGS: dict[int, dict[str, Any]] = {
    4: {
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": True,
        "bnb_4bit_compute_dtype": torch.float16,
    },
    8: {"load_in_8bit": True},
}
BITS = sorted(SETTINGS)


def written(folder: Path, source: Path, bits: int) -> Path:
    """Writes a base in few bits with float16 products, without any code of ours."""
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    options: Any = BitsAndBytesConfig
    auto, told = AutoModelForCausalLM, options(**SETTINGS[bits])
    model: Any = auto.from_pretrained(source, quantization_config=told, device_map={"": "cpu"})
    model.save_pretrained(folder)
    for file in source.iterdir():
        if not (folder / file.name).exists():
            shutil.copyfile(file, folder / file.name)
    return folder


@pytest.fixture(scope="module", params=BITS)
def codes(request: pytest.FixtureRequest, tied: Path, tmp_path_factory: Any) -> tuple[Path, int]:
    folder = written(tmp_path_factory.mktemp("codes") / "model", tied, request.param)
    return folder, request.param


def loaded(folder: Path, **settings: Any) -> TorchPolicy:
    given: dict[str, Any] = {"train": LORA, "dtype": "f32", "seed": 1, **settings}
    policy = load_backend("cpu").load(folder, LoadSpec(**given))
    assert isinstance(policy, TorchPolicy)
    return policy


@pytest.mark.slow
def test_they_are_trained_as_one_that_is_quantised_on_loading(
    codes: tuple[Path, int], tied: Path
) -> None:
    """With products in the type that is asked for, not in the one that the files name."""
    folder, bits = codes
    mine, fresh = loaded(folder), loaded(tied, quantization=QuantizationSpec(bits))
    for policy in (mine, fresh):
        policy.accumulate(SFT, example_batch(), key=0)
        assert policy.optimizer_step(1e-2, 1.0).changed
    assert len(list(quantized_layers(mine.module.model))) == 14
    np.testing.assert_allclose(mine.logits([3, 5]), fresh.logits([3, 5]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"train": "full"}, "cannot be trained in place"),
        ({"train": FREEZE}, "cannot be trained in place"),
        ({"value_head": True, "reward_model": True}, "cannot be turned into a reward model"),
        ({"stream_layers": True}, "cannot be left in its files"),
        ({"sharded": True}, "cannot be divided among processes"),
    ],
    ids=["full", "freeze", "rm", "stream", "shard"],
)
def test_what_would_change_or_stream_codes_is_refused(
    codes: tuple[Path, int], wanted: dict[str, Any], message: str
) -> None:
    """All weights of such a base: only its norms and embedding would be trained, without a word."""
    with raises("backends.already_quantised", message):
        loaded(codes[0], **wanted)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")
def test_dora_reads_no_codes_of_8_bits_new_or_from_a_folder(tied: Path, tmp_path: Path) -> None:
    """peft would take the norm of the codes themselves."""
    first, folder = tmp_path / "first", written(tmp_path / "codes", tied, 8)
    loaded(tied, train=DORA).save_result(first, base=str(tied))
    refused: list[tuple[Path, dict[str, Any]]] = [
        (folder, {"train": DORA}),
        (folder, {"train": None, "adapter": first}),
        (tied, {"train": None, "adapter": first, "quantization": QuantizationSpec(8)}),
        (tied, {"train": "adapter", "adapter": first, "quantization": QuantizationSpec(8)}),
    ]
    for base, settings in refused:
        with raises("torch.codes_not_readable", "DoRA and PiSSA read weights"):
            loaded(base, **settings)


def test_its_codes_count_as_the_weights_that_they_stand_for(
    codes: tuple[Path, int], tied: Path
) -> None:
    folder, bits = codes
    config, plain = read_config(folder), read_config(tied)
    shapes = {name: one.shape for name, one in stored_weights(folder, config).items()}
    assert shapes == {name: one.shape for name, one in stored_weights(tied, plain).items()}
    assert count_parameters(folder) == count_parameters(tied)
    found = stored_codes(folder, config)
    assert found.weights == sum(layer.in_features * layer.out_features for layer in linear(tied))
    tables = found.stored_bytes - found.weights * bits // 8
    assert 0 < tables < 14 * 1_500  # scales, two tables of codes and a record, for each layer
    assert stored_codes(tied, plain) == Codes(0, 0)


def test_codes_are_not_the_type_of_the_weights(codes: tuple[Path, int], tied: Path) -> None:
    assert weight_type(codes[0]) == weight_type(tied)


def linear(folder: Path) -> list[torch.nn.Linear]:
    """The linear layers of a model's blocks."""
    modules = loaded(folder, train=None).module.model.named_modules()
    return [one for name, one in modules if isinstance(one, torch.nn.Linear) and "." in name]
