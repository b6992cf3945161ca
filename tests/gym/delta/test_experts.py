"""Deltas of adapters on experts that transformers stacks and the files store one by one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.backends.families import write_family
from tests.codes import raises
from tests.gym.delta.test_families import scores
from zoo.backends.torch.quiet import quiet
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta.apply import apply_delta
from zoo.gym.delta.check import check_delta
from zoo.gym.delta.create import create_delta
from zoo.gym.delta.file.reader import load_delta
from zoo.gym.delta.latent_factors import LatentFactors
from zoo.gym.delta.loadable import delta_model
from zoo.gym.delta.reading.adapter import read_adapter
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import InputError

STACKS = ["gate_up_proj", "down_proj"]
FAMILIES = ["mixtral", "phimoe"]
"""Two whose experts are stored one by one; peft has no mapping of its own for the second."""

A_NAME = "base_model.model.model.layers.1.mlp.experts.lora_A.weight"


def model_of(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    with quiet():
        return auto.from_pretrained(folder, dtype=torch.float32)


def adapt(base: Path, folder: Path, targets: list[str], **config: Any) -> dict[str, Any]:
    """Saves peft's random adapter on these parameters; returns the merged parameters."""
    from peft import LoraConfig, get_peft_model

    settings: dict[str, Any] = {"r": 3, "lora_alpha": 6, "target_modules": ["q_proj"]} | config
    torch.manual_seed(0)
    with quiet():
        made = LoraConfig(task_type="CAUSAL_LM", target_parameters=targets, **settings)
        model = get_peft_model(model_of(base), made)
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(parameter, std=0.1)
        model.save_pretrained(str(folder))
        return dict(model.merge_and_unload().named_parameters())


# peft looks for patterns among modules alone, and uses them for parameters nevertheless
pytestmark = pytest.mark.filterwarnings("ignore:.*_pattern keys did not match:RuntimeWarning")


@pytest.fixture(scope="module", params=FAMILIES)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family(tmp_path_factory.mktemp("experts") / "base", request.param)


@pytest.fixture(scope="module")
def mixtral(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family(tmp_path_factory.mktemp("experts") / "base", "mixtral")


def make(adapter: Path, base: Path, file: Path, **config: Any) -> Path:
    create_delta(adapter, base=base, base_id="tiny", out=file, config=DeltaConfig(**config))
    return file


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"use_rslora": True, "target_modules": []},
        {"rank_pattern": {"gate_up_proj": 2}, "alpha_pattern": {r".*\.1\..*down_proj": 1}},
    ],
    ids=str,
)
def test_base_and_delta_are_what_peft_merges(
    base: Path, config: dict[str, Any], tmp_path: Path
) -> None:
    expected = adapt(base, tmp_path / "lora", STACKS, **config)
    file = make(tmp_path / "lora", base, tmp_path / "d.safetensors", codec="f32")
    apply_delta(file, base=base, out=tmp_path / "applied")
    before = dict(model_of(base).named_parameters())
    for name, parameter in model_of(tmp_path / "applied").named_parameters():
        assert (parameter - expected[name]).abs().max() < 1e-6
        adapted = (*STACKS, *config.get("target_modules", ["q_proj.weight"]))
        assert torch.equal(parameter, before[name]) != name.endswith(adapted)


@pytest.mark.parametrize(("bits", "error"), [(8, 0.02), (4, 0.2), (2, 0.7)])
def test_codes_of_few_bits_are_close(
    bits: int, error: float, mixtral: Path, tmp_path: Path
) -> None:
    exact = adapt(mixtral, tmp_path / "lora", STACKS)
    file = make(tmp_path / "lora", mixtral, tmp_path / "d.safetensors", bits=bits)
    apply_delta(file, base=mixtral, out=tmp_path / "applied")
    coded = dict(model_of(tmp_path / "applied").named_parameters())
    for name, before in model_of(mixtral).named_parameters():
        if any(end in name for end in STACKS):
            change = exact[name] - before
            assert (coded[name] - exact[name]).norm() < error * change.norm()


@pytest.mark.parametrize("codec", ["f32", "auto"])
def test_the_delta_in_a_chat_is_the_model_that_is_applied(
    codec: Any, base: Path, tmp_path: Path
) -> None:
    """The router is a parameter, too; ranks and scales of the two stacks differ."""
    targets = (
        [*STACKS, "gate.weight"] if "mixtral" in (base / "config.json").read_text() else STACKS
    )
    adapt(
        base,
        tmp_path / "lora",
        targets,
        alpha_pattern={"down_proj": 1},
        rank_pattern={"w|.*up_proj": 5},
    )
    file = make(tmp_path / "lora", base, tmp_path / "d.safetensors", codec=codec)
    apply_delta(file, base=base, out=tmp_path / "applied")
    assert all(check.ok is not False for check in check_delta(file, base=base))
    with delta_model(load_delta(file), base) as model:
        assert model.folder == base
        chatted = scores(base, model.adapter)
    assert np.abs(chatted - scores(tmp_path / "applied")).max() < 1e-5
    if codec == "f32":
        expected = scores(base, tmp_path / "lora")
        assert np.abs(expected - scores(base)).max() > 0.01
        assert np.abs(chatted - expected).max() < 1e-5


def test_experts_that_did_not_change_are_no_part_of_the_delta(
    mixtral: Path, tmp_path: Path
) -> None:
    adapt(mixtral, tmp_path / "lora", ["down_proj"], target_modules=[])
    file = tmp_path / "lora" / "adapter_model.safetensors"
    factors = load_file(file)
    factors[A_NAME].view(2, 3, -1)[0] = 0  # A of the first of two experts
    save_file(factors, file, {"format": "pt"})
    delta = load_delta(make(tmp_path / "lora", mixtral, tmp_path / "d.safetensors", codec="f32"))
    inside = "model.layers.{}.block_sparse_moe.experts.{}.w2.weight"
    assert [t.name for t in delta.header.tensors] == [
        inside.format(layer, expert) for layer, expert in ((0, 0), (0, 1), (1, 1))
    ]
    with delta_model(delta, mixtral) as model:
        chatted = scores(mixtral, model.adapter)
    assert np.abs(chatted - scores(mixtral, tmp_path / "lora")).max() < 1e-5


@pytest.mark.parametrize("family", ["llama4_text", "granitemoe"])
def test_experts_that_the_files_stack_are_refused(family: str, tmp_path: Path) -> None:
    base = write_family(tmp_path / "base", family)
    adapt(base, tmp_path / "lora", ["down_proj"])
    with raises("delta.stacked_experts", r"down_proj': expected experts that .* one by one") as no:
        make(tmp_path / "lora", base, tmp_path / "d.safetensors")
    assert no.value.code == "delta.stacked_experts"


def test_another_parameter_is_refused(mixtral: Path, tmp_path: Path) -> None:
    adapt(mixtral, tmp_path / "lora", ["lm_head.weight"])
    with raises("delta.adapter_not_supported", r"what is beside them, got 'lm_head\.weight'"):
        make(tmp_path / "lora", mixtral, tmp_path / "d.safetensors")


def _widen(factors: dict[str, Any]) -> None:
    factors[A_NAME] = torch.ones(6, 47)


def _shorten(factors: dict[str, Any]) -> None:
    """Five components for two experts."""
    factors[A_NAME] = factors[A_NAME][:5]
    B = A_NAME.replace("lora_A", "lora_B")
    factors[B] = factors[B][:, :5].contiguous()


def _drop(factors: dict[str, Any]) -> None:
    for side in "AB":
        del factors[A_NAME.replace("experts.lora_A", f"experts.base_layer.lora_{side}")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_widen, r"expected \[2 r, 48\] and \[32, 2 r\] as in the base, got \[6, 47\]"),
        (_shorten, r"expected \[2 r, 48\] and \[32, 2 r\] as in the base, got \[5, 48\]"),
        (_drop, r"1 fewer: 'model.layers.1.mlp.experts.base_layer'"),
    ],
)
def test_factors_that_do_not_fit_the_experts_are_refused(
    change: Callable[[dict[str, Any]], None], message: str, mixtral: Path, tmp_path: Path
) -> None:
    adapt(mixtral, tmp_path / "lora", STACKS)
    file = tmp_path / "lora" / "adapter_model.safetensors"
    factors = load_file(file)
    change(factors)
    save_file(factors, file, {"format": "pt"})
    with pytest.raises(InputError, match=message):
        make(tmp_path / "lora", mixtral, tmp_path / "d.safetensors")


def test_factors_of_an_expert_beside_those_of_its_stack_are_refused(
    mixtral: Path, tmp_path: Path
) -> None:
    adapt(mixtral, tmp_path / "lora", ["down_proj"], target_modules=[])
    file, settings = (
        tmp_path / "lora" / f"adapter_{n}" for n in ("model.safetensors", "config.json")
    )
    factors = load_file(file)
    layer = "base_model.model.model.layers.1.block_sparse_moe.experts.0.w2"
    for side, shape in (("A", (3, 48)), ("B", (32, 3))):
        factors[f"{layer}.lora_{side}.weight"] = torch.ones(shape)
    save_file(factors, file, {"format": "pt"})
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"target_modules": ".*0.w2"}))
    with raises("delta.tensor_twice", r"experts\.0\.w2\.weight' once, got them twice"):
        make(tmp_path / "lora", mixtral, tmp_path / "d.safetensors")


def test_training_the_delta_is_refused_by_name(mixtral: Path, tmp_path: Path) -> None:
    adapt(mixtral, tmp_path / "lora", ["down_proj"])
    delta = load_delta(make(tmp_path / "lora", mixtral, tmp_path / "d.safetensors"))
    adapter = read_adapter(tmp_path / "lora", open_weights(mixtral))
    with raises("delta.stacked_experts", r"stacked experts for .*w2\.weight"):
        LatentFactors(delta.header.tensors[0], adapter)
