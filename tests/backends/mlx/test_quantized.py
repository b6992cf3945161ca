"""An adapter on a base in 2 to 8 bits: MLX's affine codes, made on loading or by mlx-lm."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from safetensors.numpy import load_file, save_file

from tests.backends import reference
from tests.backends.objectives_for_tests import SFT
from tests.backends.policies import DORA, LORA, moved, step
from tests.codes import raises
from tests.gym.train.planning.needs import LORA as NEED
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, QuantizationSpec, Sampling, Stat
from zoo.backends.memory import estimate_memory
from zoo.backends.mlx.policy import MlxPolicy
from zoo.backends.spec import BITS
from zoo.core.errors import InputError
from zoo.models.folder import count_parameters
from zoo.models.stored_weights import stored_codes

IDS = [5, 6, 7, 100, 3]
FOUR = QuantizationSpec()


def loaded(folder: Path, spec: QuantizationSpec | None = FOUR, **settings: Any) -> MlxPolicy:
    usual: dict[str, Any] = {"train": LORA, "dtype": "f32", "seed": 1}
    policy = load_backend("mlx").load(folder, LoadSpec(quantization=spec, **usual | settings))
    assert isinstance(policy, MlxPolicy)
    return policy


def coded(policy: MlxPolicy) -> dict[str, Any]:
    """The quantised layers by name."""
    kinds = (nn.QuantizedLinear, nn.QuantizedEmbedding)
    return {n: m for n, m in policy.language.model.named_modules() if isinstance(m, kinds)}


def float_weight(layer: Any) -> mx.array:
    return mx.dequantize(
        layer.weight, layer.scales, layer.biases, group_size=layer.group_size, bits=layer.bits
    )


def by_mlx_lm(folder: Path, place: Path, bits: int = 4) -> Path:
    """A folder that mlx-lm has quantised, embedding and head too."""
    from mlx_lm.utils import load_model, quantize_model, save_config, save_model

    model, config = load_model(folder)
    model, config = quantize_model(model, config, 64, bits)
    place.mkdir()
    save_model(place, model)
    save_config(config, place / "config.json")
    return place


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")
@pytest.mark.parametrize(
    ("bits", "train"), [*((bits, LORA) for bits in BITS), (4, DORA), (8, DORA)], ids=str
)
def test_a_base_computes_with_the_weights_that_its_codes_stand_for(
    tied: Path, bits: int, train: LoraSpec
) -> None:
    policy = moved(loaded(tied, QuantizationSpec(bits), train=train))
    batch = reference.example_batch()
    logits, stored = policy.logits(IDS), load_file(tied / "model.safetensors")
    policy.accumulate(SFT, batch, key=0)
    gradient = dict(policy.gradients())
    policy.optimizer_step(0.0, 1.0)
    layers = coded(policy)
    assert len(layers) == 14  # seven in each of two blocks: not the embedding, which is the head
    for name, layer in layers.items():
        weight = stored[name.removesuffix(".base") + ".weight"]
        lost = np.array(float_weight(layer)) - weight
        assert np.linalg.norm(lost) < 2.0 ** (1 - bits) * np.linalg.norm(weight)
        plain: Any = nn.Linear
        plain = plain(weight.shape[1], weight.shape[0], bias=False)
        plain.weight = float_weight(layer)
        parent, _, key = name.rpartition(".")
        dict(policy.language.model.named_modules())[parent][key] = plain
    np.testing.assert_allclose(policy.logits(IDS), logits, rtol=1e-4, atol=1e-4)
    policy.accumulate(SFT, batch, key=0)
    assert reference.relative_error(dict(policy.gradients()), gradient) < 1e-4


@pytest.mark.slow
def test_each_number_of_bits_gives_other_logits(tied: Path) -> None:
    found = [loaded(tied, QuantizationSpec(bits)).logits(IDS) for bits in BITS]
    found.append(loaded(tied, None).logits(IDS))
    pairs = [(a, b) for i, a in enumerate(found) for b in found[:i]]
    assert all(not np.allclose(a, b, rtol=1e-3) for a, b in pairs)


@pytest.mark.slow
def test_training_lowers_the_loss_and_leaves_codes_and_files(tied: Path) -> None:
    policy, batch, before = loaded(tied), reference.example_batch(), digest(tied)
    codes = {name: np.array(layer.weight) for name, layer in coded(policy).items()}
    losses = [policy.accumulate(SFT, batch, key=0)["loss"]]
    for key in range(5):
        step(policy, batch, key)
    losses.append(policy.accumulate(SFT, batch, key=0)["loss"])
    assert losses[1] < losses[0]
    assert digest(tied) == before
    assert all(np.array_equal(codes[name], layer.weight) for name, layer in coded(policy).items())


@pytest.mark.slow
def test_a_rollout_and_an_evaluation_leave_the_gradient(tied: Path) -> None:
    policy, batch = moved(loaded(tied)), reference.example_batch()

    def gradient() -> dict[str, Any]:
        policy.accumulate(SFT, batch, key=0)
        found = dict(policy.gradients())
        policy.optimizer_step(0.0, 1.0)
        return found

    before = gradient()
    policy.generate([[1, 2, 3]], Sampling(max_new_tokens=3), keys=[1])
    with policy.reference() as base:
        base.score(batch, frozenset({Stat.LOGPROBS}))
    assert all(np.array_equal(before[name], value) for name, value in gradient().items())


@pytest.mark.slow
def test_an_adapter_of_a_quantised_base_fits_the_plain_one(tied: Path, tmp_path: Path) -> None:
    policy = moved(loaded(tied, QuantizationSpec(8)))
    policy.save_result(tmp_path, base=str(tied))
    plain = load_backend("cpu").load(tied, LoadSpec(adapter=tmp_path, dtype="f32"))
    bare = load_backend("cpu").load(tied, LoadSpec(dtype="f32"))
    lost = np.abs(plain.logits(IDS) - policy.logits(IDS)).max()
    assert lost < 0.1 * np.abs(bare.logits(IDS) - plain.logits(IDS)).max()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("base", ["tied", "untied"])
def test_a_folder_of_mlx_lm_gives_its_logits(
    base: str, bits: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    from mlx_lm.utils import load_model

    folder = by_mlx_lm(request.getfixturevalue(base), tmp_path / "coded", bits)
    model: Any = load_model(folder)[0]
    policy = loaded(folder, None)
    assert len(coded(policy)) == (15 if base == "tied" else 16)
    expected: Any = np.array(model(mx.array([IDS]))[0])
    np.testing.assert_allclose(policy.logits(IDS), expected, atol=2e-3)


def test_a_folder_of_mlx_lm_trains(untied: Path, tmp_path: Path) -> None:
    folder = by_mlx_lm(untied, tmp_path / "coded")
    before, policy = digest(folder), loaded(folder, None)
    step(policy, reference.example_batch(), 1)
    expected = policy.logits(IDS)
    policy.save_result(tmp_path / "result", base=str(folder))
    policy.reopen(tmp_path / "result")
    np.testing.assert_allclose(policy.logits(IDS), expected, atol=1e-5)
    assert digest(folder) == before


def test_layers_may_have_bits_of_their_own(untied: Path, tmp_path: Path) -> None:
    from mlx_lm.utils import load_model, quantize_model, save_config, save_model

    def bits_of(name: str, _: object) -> bool | dict[str, int]:
        return {"bits": 8, "group_size": 32} if "v_proj" in name else "lm_head" not in name

    model, config = load_model(untied)
    model, config = quantize_model(model, config, 64, 4, quant_predicate=bits_of)
    (folder := tmp_path / "coded").mkdir()
    save_model(folder, model)
    save_config(config, folder / "config.json")
    layers = coded(loaded(folder, None))
    found = {n.split(".")[-2]: (m.bits, m.group_size) for n, m in layers.items() if ".base" in n}
    assert (found["v_proj"], found["q_proj"]) == ((8, 32), (4, 64))
    assert "lm_head" not in layers


def with_config(change: dict[str, Any]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        config["quantization"] |= change
        config["quantization_config"] = config["quantization"]
        (folder / "config.json").write_text(json.dumps(config))

    return edit


def without_scales(folder: Path) -> None:
    tensors: Any = mx.load(str(folder / "model.safetensors"))
    tensors = dict(tensors)
    del tensors["model.layers.0.mlp.up_proj.scales"]
    mx.save_safetensors(str(folder / "model.safetensors"), tensors, {"format": "mlx"})


def with_a_nan(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.0.mlp.up_proj.scales"][0, 0] = np.nan
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (with_config({"bits": 5}), "quantization: bits: expected 2, 3, 4, 6, 8 on MLX, got 5"),
        (with_config({"mode": "mxfp4"}), "mode: expected affine on MLX, got 'mxfp4'"),
        (with_config({"group_size": 48}), "group_size: expected 32, 64, 128 on MLX, got 48"),
        (with_config({"bits": 8}), "shape mismatch"),
        (with_config({"quant_method": "gptq"}), "quantised by gptq are not supported on MLX"),
        (without_scales, "up_proj.weight"),
        (with_a_nan, "up_proj.scales: value 0 is nan"),
    ],
    ids=["bits", "mode", "group", "other bits", "gptq", "no scales", "nan"],
)
def test_a_damaged_or_other_quantisation_is_refused(
    untied: Path, tmp_path: Path, edit: Callable[[Path], None], said: str
) -> None:
    folder = by_mlx_lm(untied, tmp_path / "coded")
    edit(folder)
    with pytest.raises(InputError, match=said):
        loaded(folder, None)


def test_scales_are_added_to_codes_that_are_made_alone(tied: Path, tmp_path: Path) -> None:
    folder, engine = by_mlx_lm(tied, tmp_path / "coded"), load_backend("mlx")
    codes = stored_codes(folder, json.loads((folder / "config.json").read_text()))
    assert count_parameters(folder) == count_parameters(tied)
    assert codes.bits_a_weight == FOUR.bits + 2 * 32 / 64  # the model is in float32
    made = replace(NEED, linear_bits=4.1)
    stored = replace(made, coded=codes.weights, linear_bits=codes.bits_a_weight)
    assert engine.estimate_memory(stored) == estimate_memory(stored)
    assert engine.estimate_memory(made) == estimate_memory(replace(made, linear_bits=4.5))


def test_what_this_engine_or_torch_cannot_do_is_refused(tied: Path, tmp_path: Path) -> None:
    coded_folder = by_mlx_lm(tied, tmp_path / "coded")
    with raises(
        "backends.setting_not_supported", "expected mlx on MLX, got bnb: NF4, FP4 and int8 of bits"
    ):
        loaded(tied, QuantizationSpec(method="bnb"))
    with raises(
        "backends.already_quantised", "expected a base that is not quantised, got one that"
    ):
        loaded(coded_folder)
    with raises(
        "backends.already_quantised", "not quantised for finetuning_type full, got one in 4"
    ):
        loaded(coded_folder, None, train="full")
    with raises("backends.codes_not_supported", "quantised by mlx-lm are not supported"):
        load_backend("cpu").load(coded_folder)
    for spec in (QuantizationSpec(method="mlx"), QuantizationSpec(3)):
        with raises("backends.setting_not_supported", r"quantization_(method|bit): expected"):
            load_backend("cpu").load(tied, LoadSpec(train=LORA, quantization=spec))


def test_rows_that_no_group_divides_are_refused(tmp_path: Path) -> None:
    from tests.backends.conftest import write_tiny

    folder = write_tiny(tmp_path, tied=True, intermediate_size=100)
    with raises("mlx.not_whole_groups", "down_proj: expected a multiple of 32 inputs on MLX, got"):
        loaded(folder)


@pytest.mark.slow
def test_one_layer_at_a_time_is_in_floats(tmp_path: Path) -> None:
    """The codes and scales are a fifth of the float copy, which never is whole."""
    from tests.backends.conftest import write_tiny

    folder = write_tiny(tmp_path, tied=True, num_hidden_layers=12, intermediate_size=1024)
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    policy = loaded(folder, FOUR, train=None)
    assert policy is not None
    floats = sum(v.nbytes for v in load_file(folder / "model.safetensors").values())
    assert mx.get_peak_memory() - before < floats / 2
