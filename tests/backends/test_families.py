"""Architectures that are unlike Qwen3: what is taken works, what cannot be used says why."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from tests.backends.families import write_family
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec, Sampling, Stat
from zoo.backends.torch.adapters.add import add_adapter
from zoo.backends.torch.files.load import load_model
from zoo.backends.torch.loss import LossModule
from zoo.core.errors import GymWarning
from zoo.models.folder import IN_BY_OUT

LORA = LoraSpec(rank=4, alpha=8.0)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "llama4_text", "phimoe"])
def test_a_family_learns_with_lora_on_all_linear_layers(family: str, tmp_path: Path) -> None:
    """Llama 4 gives itself for its decoder; it and Phimoe have routers that are linear layers."""
    folder = write_family(tmp_path, family)
    policy = load_backend("cpu").load(folder, LoadSpec(train=LORA))
    ids = np.arange(10, 22)[None]
    batch = Batch(ids, np.array([12]), np.arange(12)[None] > 0)
    scores = policy.score(batch, frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS]
    assert np.isfinite(scores).all()
    assert not any("router" in name for name, _ in policy.trained())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")
def test_a_router_that_is_named_for_lora_is_refused_in_a_sentence(tmp_path: Path) -> None:
    folder = write_family(tmp_path, "phimoe")
    with raises("models.library_refused", "adapter cannot be used on PhimoeForCausalLM"):
        load_backend("cpu").load(folder, LoadSpec(train=LoraSpec(4, 8.0, targets=("router",))))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "modernbert-decoder"])
def test_an_output_layer_with_layers_of_its_own_is_refused(family: str, tmp_path: Path) -> None:
    folder = write_family(tmp_path, family)
    with raises("backends.unknown_output_layer", r"output layer of .* is unknown"):
        load_backend("cpu").load(folder)


@pytest.mark.slow
def test_a_model_that_looks_ahead_is_refused(tmp_path: Path) -> None:
    folder = write_family(tmp_path, "xlnet")
    with raises("backends.not_causal", "XLNetLMHeadModel is not causal"):
        load_backend("cpu").load(folder)


@pytest.mark.parametrize("layers", [0, -1])
def test_a_number_of_layers_below_one_is_refused(layers: int, tmp_path: Path) -> None:
    folder = write_family(tmp_path, "gpt2")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(re.sub(r'"n_layer": 2', f'"n_layer": {layers}', text))
    with raises("backends.bad_config", f"number of layers: expected at least 1, got {layers}"):
        load_backend("cpu").load(folder)


@pytest.mark.parametrize(
    ("family", "targets", "what"),
    [
        ("gpt2", ("wte",), "'transformer.wte', which is no linear layer"),
        ("gpt2", ("c_attn", "lm_head"), "'lm_head', which is tied to the embedding"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings:UserWarning")
def test_an_adapter_that_no_delta_carries_is_told_before_it_is_trained(
    family: str, targets: tuple[str, ...], what: str, tmp_path: Path
) -> None:
    folder = write_family(tmp_path, family)
    with pytest.warns(GymWarning, match=f"no delta can be made of this adapter: it trains {what}"):
        load_backend("cpu").load(folder, LoadSpec(train=LoraSpec(4, 8.0, targets=targets)))


def test_only_experts_that_the_files_stack_are_told_before_they_are_trained(tmp_path: Path) -> None:
    """Of those that the files have one by one a delta can be made."""
    folder, spec = write_family(tmp_path, "mixtral"), LoadSpec(train=LORA)
    policy: Any = load_backend("cpu").load(folder, spec)  # a warning would be an error
    stacks = {
        name: tensor
        for name, tensor in load_model(folder, dtype="f32").state_dict().items()
        if "experts" in name
    }
    assert any("experts" in name for name, _ in policy.trained())
    file = folder / "model.safetensors"
    others = {name: tensor for name, tensor in load_file(file).items() if "experts" not in name}
    save_file(others | stacks, file, {"format": "pt"})
    with pytest.warns(
        GymWarning, match=r"experts\.down_proj', stacked experts, which the files do"
    ):
        load_backend("cpu").load(folder, spec)


def test_layers_that_the_files_call_otherwise_are_told_before_they_are_trained(
    tmp_path: Path,
) -> None:
    """transformers renames what old checkpoints hold; deltas go by the names in the files."""
    folder = write_family(tmp_path, "gpt2")
    with pytest.warns(GymWarning, match="attn.c_attn', which the model's files store"):
        add_adapter(load_model(folder, dtype="f32"), LORA, seed=0, stored={"other"})


@pytest.mark.slow
def test_lora_on_all_layers_leaves_those_out_that_a_state_space_model_reads_itself(
    tmp_path: Path,
) -> None:
    policy = load_backend("cpu").load(write_family(tmp_path, "mamba"), LoadSpec(train=LORA))
    names = [name for name, _ in policy.trained()]
    assert names
    assert not any("out_proj" in name or "dt_proj" in name for name in names)


@pytest.mark.slow
def test_an_adapter_that_peft_cannot_read_back_is_refused_before_it_is_trained(
    tmp_path: Path,
) -> None:
    """By name; "all" leaves such layers out."""
    folder = write_family(tmp_path, "laguna")
    named = LoraSpec(rank=4, targets=("gate_proj",))
    with raises(
        "torch.adapter_not_readable", "peft cannot read back an adapter on LagunaForCausalLM"
    ):
        load_backend("cpu").load(folder, LoadSpec(train=named))


def test_a_model_that_cannot_be_sampled_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_backend("cpu").load(write_family(tmp_path, "gpt2"))

    def broken(*given: object, **options: object) -> None:
        raise AttributeError("'GPT2Config' object has no attribute 'layers'")

    monkeypatch.setattr(LossModule, "next_logits", broken)
    with raises("models.library_refused", "GPT2LMHeadModel cannot be sampled: 'GPT2Config' object"):
        policy.generate([[5]], Sampling(max_new_tokens=1), keys=[0])


@pytest.mark.slow
def test_models_that_store_their_layers_the_other_way_are_known() -> None:
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    models = Path(transformers.__file__).parent / "models"
    found = {
        config.model_type
        for config in MODEL_FOR_CAUSAL_LM_MAPPING
        for file in (models / config.__module__.split(".")[2]).glob("modeling_*.py")
        if "Conv1D(" in file.read_text(encoding="utf-8")
    }
    assert found == IN_BY_OUT
