"""An adapter on a base whose linear layers are in 4 or 8 bits."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tests.backends.conftest import write_tiny
from tests.backends.families import write_family
from tests.backends.objectives_for_tests import SFT
from tests.backends.reference import example_batch
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, QuantizationSpec, Sampling, Stat
from zoo.backends.libraries import quantization
from zoo.backends.machine.installing import install_command
from zoo.backends.memory import MemoryNeed, base_bytes
from zoo.backends.torch.policy import TorchPolicy
from zoo.backends.torch.quantized.base import quantized_layers, stored_bytes
from zoo.backends.torch.quantized.int8 import LARGEST, Int8Linear
from zoo.backends.torch.quantized.library import import_bitsandbytes
from zoo.core.errors import InputError
from zoo.models import resolve
from zoo.models.folder import model_geometry
from zoo.models.registry import registry

bnb: Any = import_bitsandbytes()
if bnb is None:
    pytest.skip("needs the extra qlora", allow_module_level=True)

NF4 = QuantizationSpec()
KINDS = [NF4, QuantizationSpec(double=False), QuantizationSpec(kind="fp4"), QuantizationSpec(8)]
LORA = LoraSpec(rank=4, alpha=8.0)
WEIGHTS = "model.safetensors"
NEED = MemoryNeed(
    geometry=registry()[0].geometry,
    full=False,
    rank=4,
    tokens=8,
    evaluation_tokens=8,
    checkpointing=False,
    weight_bytes=2,
    hidden_bytes=2,
)


def loaded(folder: Path, spec: QuantizationSpec | None = NF4, **settings: Any) -> TorchPolicy:
    usual: dict[str, Any] = {"train": LORA, "dtype": "f32", "seed": 1}
    policy = load_backend("cpu").load(folder, LoadSpec(quantization=spec, **usual | settings))
    assert isinstance(policy, TorchPolicy)
    return policy


def float_weight(layer: Any) -> Tensor:
    """The float32 weight that a quantised layer stands for."""
    if isinstance(layer, Int8Linear):
        scale: Any = layer.scale
        weight: Tensor = layer.weight.float() * scale[:, None]
        return weight
    values: Tensor = bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    return values.float()


def gradient_of(policy: TorchPolicy) -> dict[str, Any]:
    """The gradient of a batch; weights stay as they are."""
    policy.accumulate(SFT, example_batch(), key=0)
    found = dict(policy.gradients())
    policy.module.zero_grad(set_to_none=True)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("spec", [NF4, QuantizationSpec(8)], ids=["nf4", "int8"])
def test_a_rollout_and_an_evaluation_leave_the_gradient_of_layer_0(
    tied: Path, spec: QuantizationSpec, dtype: str
) -> None:
    """In evaluation mode `Linear4bit` repacks its weight for a product without a gradient."""
    policy = loaded(tied, spec, dtype=dtype)
    before = gradient_of(policy)
    policy.generate([[1, 2, 3]], Sampling(max_new_tokens=3), keys=[1])
    policy.score(example_batch(), frozenset({Stat.LOGPROBS}))
    with policy.reference() as base:
        base.score(example_batch(), frozenset({Stat.LOGPROBS}))
    after = gradient_of(policy)
    first = [name for name in before if ".layers.0." in name and "lora_B" in name]
    assert first
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert all(np.linalg.norm(before[name]) > 0 for name in first)


def digests(policy: TorchPolicy) -> dict[str, str]:
    """A digest of each frozen weight, of codes with all their scales."""
    found: dict[str, str] = {}
    for name, tensor in (*policy.module.named_parameters(), *policy.module.named_buffers()):
        if tensor.requires_grad:
            continue
        parts, state = [tensor.detach()], getattr(tensor, "quant_state", None)
        while state is not None:
            parts.append(state.absmax)
            state = state.state2
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part.contiguous().view(torch.uint8).numpy().tobytes())
        found[name] = digest.hexdigest()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("spec", [NF4, QuantizationSpec(8)], ids=["nf4", "int8"])
def test_training_sampling_and_scoring_leave_every_code_of_the_base(
    tied: Path, spec: QuantizationSpec
) -> None:
    policy = loaded(tied, spec, dtype="bf16")
    before, logits = digests(policy), policy.logits([3, 5, 8])
    for key in range(2):
        policy.accumulate(SFT, example_batch(), key=key)
        assert policy.optimizer_step(1e-2, 1.0).changed
        policy.generate([[1, 2, 3]], Sampling(max_new_tokens=3), keys=[1])
        policy.score(example_batch(), frozenset({Stat.LOGPROBS}))
    assert len(before) > 14
    assert digests(policy) == before
    assert not np.allclose(policy.logits([3, 5, 8]), logits)


@pytest.mark.slow
def test_no_layer_may_repack_its_weight(tied: Path) -> None:
    """What the test above sees only on processors with bf16 units."""
    layers = [layer for _, layer in quantized_layers(loaded(tied).module.model)]
    assert len(layers) == 14  # seven in each of two blocks
    assert not any(getattr(layer, "support_avx512bf16_for_cpu", True) for layer in layers)


@pytest.mark.skipif(
    not bnb.functional.has_avx512bf16(), reason="only processors with bf16 units repack"
)
def test_a_layer_that_repacks_loses_its_gradient(tied: Path) -> None:
    policy = loaded(tied)
    before = gradient_of(policy)
    for _, layer in quantized_layers(policy.module.model):
        unsafe: Any = layer
        unsafe.support_avx512bf16_for_cpu = True
    policy.generate([[1, 2, 3]], Sampling(max_new_tokens=3), keys=[1])
    with pytest.warns(UserWarning, match="autograd kernel was not registered"):
        after = gradient_of(policy)
    assert any(not np.allclose(before[name], after[name], rtol=0.05) for name in before)


@pytest.mark.slow
@pytest.mark.parametrize("spec", KINDS, ids=str)
def test_a_quantised_model_computes_with_the_weights_that_its_codes_stand_for(
    tied: Path, spec: QuantizationSpec
) -> None:
    policy, ids = loaded(tied, spec, dtype="f32"), [3, 5, 8, 13]
    logits, gradient = policy.logits(ids), gradient_of(policy)
    for name, layer in list(quantized_layers(policy.module.model)):
        plain = nn.Linear(layer.in_features, layer.out_features, bias=False)
        plain.weight = nn.Parameter(float_weight(layer), requires_grad=False)
        policy.module.model.set_submodule(name, plain)
    np.testing.assert_allclose(logits, policy.logits(ids), rtol=1e-4, atol=1e-4)
    for name, value in gradient_of(policy).items():
        np.testing.assert_allclose(gradient[name], value, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_each_kind_of_code_gives_other_logits(tied: Path) -> None:
    found = [loaded(tied, spec).logits([3, 5, 8]) for spec in (None, *KINDS)]
    pairs = [(a, b) for i, a in enumerate(found) for b in found[:i]]
    assert all(not np.allclose(a, b, rtol=1e-3) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("spec", KINDS, ids=str)
def test_the_codes_are_close_to_the_weights(tied: Path, spec: QuantizationSpec) -> None:
    """The error of a normal weight is 0.09 of it in NF4, and 0.11 in FP4; 0.007 in 8 bits."""
    stored = load_file(tied / WEIGHTS)
    limit = 0.01 if spec.bits == 8 else 0.13
    for name, layer in quantized_layers(loaded(tied, spec).module.model):
        weight = stored[name.removesuffix(".base_layer") + ".weight"]
        assert (float_weight(layer) - weight).norm() < limit * weight.norm()


@pytest.mark.slow
def test_the_bytes_of_a_base_are_those_of_its_bits() -> None:
    """zen-pico in bf16: 786,432 weights in linear layers, 35,200 others."""
    folder = resolve("zen-pico", offline=True).folder
    shape = model_geometry(folder)
    assert shape is not None
    others = 2 * (shape.parameters() - shape.linear_parameters())
    for spec in KINDS:
        policy = loaded(folder, spec, train=None, dtype="bf16")
        linear = shape.linear_parameters() * spec.bits_a_weight / 8
        assert stored_bytes(policy.module.model) == pytest.approx(others + linear, rel=0.03)
        need = replace(NEED, geometry=shape, linear_bits=spec.bits_a_weight)
        widened = 2 * shape.hidden * max(shape.ffn, shape.heads * shape.head_dim)
        assert base_bytes(need) - widened == pytest.approx(others + linear)
        assert policy.parameter_count() == shape.parameters()


@pytest.mark.slow
def test_head_and_embedding_keep_their_values(untied: Path) -> None:
    model: Any = loaded(untied).module.model
    stored = load_file(untied / WEIGHTS)
    assert torch.equal(model.get_input_embeddings().weight, stored["model.embed_tokens.weight"])
    assert torch.equal(model.get_output_embeddings().weight, stored["lm_head.weight"])


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "mamba", "openai-gpt"])
def test_other_families_learn_on_a_quantised_base(tmp_path: Path, family: str) -> None:
    policy = loaded(write_family(tmp_path / "model", family))
    assert list(quantized_layers(policy.module.model))
    batch = example_batch()
    policy.accumulate(SFT, replace(batch, ids_BT=batch.ids_BT % 97), key=0)
    assert policy.optimizer_step(1e-2, 1.0).changed


def test_a_model_of_stacked_experts_is_refused(tmp_path: Path) -> None:
    folder = write_family(tmp_path / "model", "mixtral")
    with raises("torch.too_few_linear_weights"):
        loaded(folder)


def rewrite(folder: Path, name: str, value: Tensor | None) -> None:
    tensors = load_file(folder / WEIGHTS)
    if value is None:
        del tensors[name]
    else:
        tensors[name] = value
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


BROKEN = [
    (torch.full((64, 64), float("nan")), "q_proj.weight: value 0 is nan: expected finite weights"),
    (torch.ones(32, 64), "q_proj.weight: shape mismatch: expected"),
    (None, "1 tensor is missing, the first is"),
    (torch.ones(64, 64, dtype=torch.int8), "q_proj.weight: expected weights in F64, F32, F16"),
]


@pytest.mark.parametrize(("value", "message"), BROKEN, ids=[text for _, text in BROKEN])
def test_damaged_weights_are_refused(tmp_path: Path, value: Tensor | None, message: str) -> None:
    folder = write_tiny(tmp_path / "model", tied=True)
    rewrite(folder, "model.layers.0.self_attn.q_proj.weight", value)
    with pytest.raises(InputError, match=message):
        loaded(folder)


def quantised_files(folder: Path, source: Path) -> Path:
    """Writes a checkpoint whose weights are in 4 bits already."""
    model: Any = loaded(source, train=None).module.model
    model.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_base_that_is_in_4_bits_on_disk_is_trained_as_it_is(tmp_path: Path, tied: Path) -> None:
    folder = quantised_files(tmp_path / "codes", tied)
    policy = loaded(folder, None)
    np.testing.assert_allclose(policy.logits([3, 5]), loaded(tied).logits([3, 5]), rtol=1e-4)
    layers = [layer for _, layer in quantized_layers(policy.module.model)]
    assert len(layers) == 14
    assert not any(getattr(layer, "support_avx512bf16_for_cpu", True) for layer in layers)
    with raises(
        "backends.already_quantised", "expected a base that is not quantised, got one that"
    ):
        loaded(folder)


@pytest.mark.parametrize("method", ["gptq", "awq", "hqq", "torchao", "of-tomorrow"])
def test_bases_of_other_formats_are_refused_by_name(tmp_path: Path, method: str) -> None:
    folder = write_tiny(tmp_path / "model", tied=True)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))
    with raises("backends.codes_not_supported", f"quantised by {method} are not supported"):
        loaded(folder, None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [{"dora": True}, {"init": "pissa"}], ids=str)
@pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")
def test_adapters_that_read_the_base_read_4_bits_and_refuse_8(
    tied: Path, kind: dict[str, Any]
) -> None:
    """Both start without effect, if they read the weight that a code stands for."""
    spec = replace(LORA, **kind)
    logits = loaded(tied, train=spec).logits([3, 5])
    np.testing.assert_allclose(logits, loaded(tied).logits([3, 5]), rtol=1e-4, atol=1e-4)
    with raises("torch.codes_not_readable", "expected 4, 16 or 32 bits, got 8"):
        loaded(tied, QuantizationSpec(8), train=spec)


@pytest.mark.parametrize("bits", [2, 3, 6])
def test_bits_that_torch_lacks_are_refused(tied: Path, bits: int) -> None:
    with raises(
        "backends.setting_not_supported", f"expected one of \\(4, 8\\) with torch, got {bits}"
    ):
        loaded(tied, QuantizationSpec(bits))


def test_without_the_library_the_extra_is_named(
    tied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantization, "find_spec", lambda _: None)
    with raises("backends.missing_package", "needs the package bitsandbytes") as caught:
        loaded(tied)
    assert caught.value.hint == install_command("qlora")


@pytest.mark.slow
def test_importing_the_library_reaches_for_no_network(tmp_path: Path) -> None:
    """On processors with bf16 units its import downloads with `kernels`; the compiler is slow."""
    (tmp_path / "kernels.py").write_text("raise SystemExit('kernels was imported')\n")
    code = (
        "import socket, sys, torch\n"
        "def refuse(*_): raise SystemExit('a socket was opened')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "compile = torch.compile\n"
        "from zoo.backends.torch.quantized.library import import_bitsandbytes\n"
        "assert import_bitsandbytes() is not None\n"
        "import peft.tuners.lora.bnb\n"
        "assert 'kernels' not in sys.modules and torch.compile is compile\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "import kernels\n"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "kernels was imported"  # by the last line, so it could be


@pytest.mark.slow
def test_an_adapter_of_a_quantised_base_fits_the_base_as_it_is_stored(
    tied: Path, tmp_path: Path
) -> None:
    policy = loaded(tied)
    for key in range(3):
        policy.accumulate(SFT, example_batch(), key=key)
        policy.optimizer_step(1e-2, 1.0)
    expected = policy.logits([3, 5, 8])
    policy.save_result(tmp_path / "adapter", base="tiny")
    plain = load_backend("cpu").load(tied, LoadSpec(adapter=tmp_path / "adapter", dtype="f32"))
    apart = np.linalg.norm(plain.logits([3, 5, 8]) - expected) / np.linalg.norm(expected)
    without = loaded(tied, train=None).logits([3, 5, 8])
    exact = load_backend("cpu").load(tied, LoadSpec(dtype="f32")).logits([3, 5, 8])
    rounding = np.linalg.norm(without - exact) / np.linalg.norm(exact)
    assert 0 < apart < 2 * rounding
    policy.reopen(tmp_path / "adapter")
    np.testing.assert_array_equal(policy.logits([3, 5, 8]), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_8_bit_product_and_its_gradient_are_those_of_its_weight(dtype: torch.dtype) -> None:
    codes = torch.tensor([[127, -64], [1, 127], [0, -127]], dtype=torch.int8)
    layer = Int8Linear(codes, torch.tensor([2.54, 1.27, 127.0]), None)
    # rows times 2.54 / 127 = 0.02, 0.01 and 1
    x = torch.tensor([[1.0, 2.0]], dtype=dtype, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    tolerance = 1e-6 if dtype is torch.float32 else 2e-2
    expected = torch.tensor([[-0.02, 2.55, -254.0]])
    torch.testing.assert_close(y.float(), expected, rtol=tolerance, atol=tolerance)
    assert x.grad is not None
    slope = torch.tensor([[2.54 + 0.01, -1.28 + 1.27 - 127.0]])
    torch.testing.assert_close(x.grad.float(), slope, rtol=tolerance, atol=tolerance)
    assert LARGEST == 127
