"""Model folders that must be refused, and what is said of each."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from tests.backends.families import write_family
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec
from zoo.backends.model_folder import read_config
from zoo.backends.torch.files.load import load_model
from zoo.backends.torch.files.tied_head import repeats_head
from zoo.core.errors import GymWarning, InputError
from zoo.models import checkpoint_files, pico_folder

WEIGHTS = "model.safetensors"
Q_PROJ = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def folder(tied: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tied, tmp_path / "model"))


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as raised:
        load_backend("cpu").load(folder)
    return str(raised.value)


def rewrite(folder: Path, name: str, value: torch.Tensor | None) -> None:
    tensors = load_file(folder / WEIGHTS)
    if value is None:
        del tensors[name]
    else:
        tensors[name] = value
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def logits(folder: Path) -> torch.Tensor:
    model = load_model(folder, dtype="f32")
    with torch.no_grad():
        found: torch.Tensor = model(torch.arange(12)[None]).logits
    return found


def test_a_folder_that_is_not_there_is_named() -> None:
    with raises("models.no_such_folder", "nowhere"):
        load_backend("cpu").load(Path("nowhere"))


def test_a_nan_is_told_with_its_tensor(folder: Path) -> None:
    tensor = load_file(folder / WEIGHTS)[Q_PROJ]
    tensor[0, 5] = float("nan")
    rewrite(folder, Q_PROJ, tensor)
    assert f"{Q_PROJ}: value 5 is nan" in refused(folder)


def test_a_wrong_shape_is_told_with_both_shapes(folder: Path) -> None:
    rewrite(folder, Q_PROJ, torch.zeros(64, 32))
    said = refused(folder)
    assert Q_PROJ in said
    assert "(64, 64)" in said
    assert "(64, 32)" in said


def test_a_missing_tensor_is_never_made_up(folder: Path) -> None:
    rewrite(folder, Q_PROJ, None)
    assert f"1 tensor is missing, the first is '{Q_PROJ}'" in refused(folder)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float8_e4m3fn])
def test_quantised_weights_are_not_taken_for_numbers(folder: Path, dtype: torch.dtype) -> None:
    rewrite(folder, Q_PROJ, torch.ones(64, 64).to(dtype))
    assert f"{Q_PROJ}: expected weights in F64, F32, F16, BF16, got " in refused(folder)


def test_codes_are_refused_under_any_name(folder: Path) -> None:
    """As fused experts, whose names end in no `.weight`."""
    rewrite(folder, "model.layers.0.mlp.experts.down_proj", torch.ones(2, 4, 4, dtype=torch.int8))
    assert "experts.down_proj: expected weights in F64, F32, F16, BF16, got I8" in refused(folder)


@pytest.mark.slow
def test_codes_whose_config_says_how_they_are_read_are_left_to_transformers(folder: Path) -> None:
    plain = logits(folder)
    weight = load_file(folder / WEIGHTS)[Q_PROJ]
    scale = weight.abs().max() / 448
    rewrite(folder, Q_PROJ, (weight / scale).to(torch.float8_e4m3fn))
    rewrite(folder, f"{Q_PROJ}_scale_inv", scale.reshape(1, 1))
    config = json.loads((folder / "config.json").read_text())
    plain_ones = ["layers.1", "k_proj", "v_proj", "o_proj", "mlp", "lm_head"]
    told = {
        "quant_method": "fp8",
        "weight_block_size": [64, 64],
        "modules_to_not_convert": plain_ones,
    }
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": told}))
    assert (logits(folder) - plain).abs().max() < 0.1 * plain.abs().max()


def test_masks_that_old_checkpoints_store_are_not_worth_a_word(folder: Path) -> None:
    rewrite(folder, "model.layers.0.self_attn.masked_bias", torch.tensor(-1e4))
    load_backend("cpu").load(folder)


def test_a_tensor_without_a_place_in_the_model_is_told(folder: Path) -> None:
    """As of a config that counts fewer layers than there are: the model would only be worse."""
    rewrite(folder, Q_PROJ.replace("0", "2"), torch.ones(64, 64))
    with pytest.warns(GymWarning, match="1 tensor is not part of this model and not used"):
        load_backend("cpu").load(folder)


def test_a_truncated_file_is_refused(folder: Path) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[: len(whole) // 2])
    assert WEIGHTS in refused(folder)


def test_a_git_lfs_pointer_is_recognised(folder: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"
    (folder / WEIGHTS).write_text(pointer)
    assert "LFS" in refused(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_not_loaded(folder: Path, name: str) -> None:
    (folder / WEIGHTS).rename(folder / name)
    assert name in refused(folder)


def test_an_unknown_architecture_is_named(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "quantum_gpt"}))
    assert "unknown architecture 'quantum_gpt'" in refused(folder)


def test_a_broken_config_is_named(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    assert "config.json: expected a JSON object" in refused(folder)


def test_an_output_layer_that_changes_its_logits_unknown_to_us_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import Qwen3ForCausalLM

    plain = Qwen3ForCausalLM.forward

    def doubled(self: Qwen3ForCausalLM, **inputs: object) -> object:
        out = plain(self, **inputs)
        out.logits = out.logits * 2
        return out

    monkeypatch.setattr(Qwen3ForCausalLM, "forward", doubled)
    assert "output layer of Qwen3ForCausalLM is unknown" in refused(folder)


def put_stray_adapter(folder: Path) -> None:
    """As a training library leaves it that saves an adapter into the folder of its base."""
    policy = load_backend("cpu").load(folder, LoadSpec(train=LoraSpec(rank=4, alpha=8.0)))
    policy.load_trained({name: np.full_like(v, 0.1) for name, v in policy.trained()})
    policy.save_result(folder, base=str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("repeated_head", [False, True])
def test_an_adapter_in_a_model_folder_is_told_and_not_put_on(
    folder: Path, *, repeated_head: bool
) -> None:
    if repeated_head:
        embedding = load_file(folder / WEIGHTS)["model.embed_tokens.weight"]
        rewrite(folder, "lm_head.weight", embedding)
    plain = logits(folder)
    put_stray_adapter(folder)
    with pytest.warns(GymWarning, match=r"adapter_config\.json in this model's folder is not used"):
        policy = load_backend("cpu").load(folder)
    assert torch.equal(logits(folder), plain)
    asked = load_backend("cpu").load(folder, LoadSpec(adapter=folder))  # without a warning
    assert asked.parameter_count() == policy.parameter_count()


def test_a_router_s_own_loss_is_told_in_training(untied: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(untied, tmp_path / "routed")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"output_router_logits": True}))
    with pytest.warns(GymWarning, match="output_router_logits., which is not part of"):
        load_backend("cpu").load(folder, LoadSpec(train="full", dtype="f32"))
    load_backend("cpu").load(folder, LoadSpec(dtype="f32"))  # warnings are errors here


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is not used:zoo.core.errors.GymWarning")
def test_full_training_beside_a_stray_adapter_keeps_its_weights(
    folder: Path, tmp_path: Path
) -> None:
    put_stray_adapter(folder)
    policy = load_backend("cpu").load(folder, LoadSpec(train="full"))
    policy.load_trained({name: value + 1 for name, value in policy.trained()})
    policy.save_result(tmp_path / "result", base=str(folder))
    found = load_file(tmp_path / "result" / WEIGHTS)[Q_PROJ]
    assert torch.equal(found, load_file(folder / WEIGHTS)[Q_PROJ] + 1)


@pytest.mark.slow
def test_a_tied_head_that_is_stored_twice_is_loaded_once(folder: Path) -> None:
    expected = load_backend("cpu").load(folder).parameter_count()
    rewrite(folder, "lm_head.weight", load_file(folder / WEIGHTS)["model.embed_tokens.weight"])
    assert repeats_head([folder / WEIGHTS], read_config(folder))
    assert load_backend("cpu").load(folder).parameter_count() == expected


@pytest.mark.slow
def test_a_tied_head_of_gpt2_that_is_stored_twice_is_loaded_once(tmp_path: Path) -> None:
    folder = write_family(tmp_path, "gpt2")
    expected = load_model(folder, dtype="f32").state_dict()
    rewrite(folder, "lm_head.weight", load_file(folder / WEIGHTS)["transformer.wte.weight"])
    assert repeats_head([folder / WEIGHTS], read_config(folder))
    loaded: Any = load_model(folder, dtype="f32")
    assert loaded.lm_head.weight is loaded.transformer.wte.weight
    assert all(torch.equal(value, expected[name]) for name, value in loaded.state_dict().items())


def test_a_stored_head_with_other_values_is_no_repetition(folder: Path) -> None:
    embedding = load_file(folder / WEIGHTS)["model.embed_tokens.weight"]
    rewrite(folder, "lm_head.weight", embedding + 1)
    assert not repeats_head([folder / WEIGHTS], read_config(folder))


def test_a_config_of_several_text_models_is_refused_in_a_sentence(tmp_path: Path) -> None:
    from transformers import MusicgenConfig

    MusicgenConfig().save_pretrained(tmp_path)
    with raises("models.library_refused", "Multiple valid text configs"):
        read_config(tmp_path)


LAYOUTS = {
    "one file": (["model.safetensors"], None),
    "shards": (["index"], None),
    "both": (["model.safetensors", "index"], None),
    "a variant beside": (["model.safetensors", "model.fp16.safetensors"], None),
    "a file of another name": (["model.safetensors", "index"], "other.safetensors"),
    "an index of another name": (["model.safetensors"], "other.safetensors.index.json"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.filterwarnings("ignore:.*two sets of weights")
def test_the_files_of_a_folder_are_those_that_transformers_loads(folder: Path, layout: str) -> None:
    names, explicit = LAYOUTS[layout]
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    for count, name in enumerate([*names, *([explicit] if explicit else [])], 1):
        stem, is_index = name.split(".", 1)[0], "index" in name
        file = folder / (f"{stem}-00001-of-00001.safetensors" if is_index else name)
        save_file({key: value * count for key, value in tensors.items()}, file, {"format": "pt"})
        if is_index:
            index = "model.safetensors.index.json" if name == "index" else name
            content = {"metadata": {}, "weight_map": dict.fromkeys(tensors, file.name)}
            (folder / index).write_text(json.dumps(content))
    settings = json.loads((folder / "config.json").read_text())
    settings["transformers_weights"] = explicit
    (folder / "config.json").write_text(json.dumps(settings))
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()
    [file] = checkpoint_files(folder)
    assert torch.equal(loaded[Q_PROJ], load_file(file)[Q_PROJ].float())


def test_a_second_set_of_weights_is_told_as_the_model_is_loaded(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text("{}")
    with pytest.warns(GymWarning, match="two sets of weights"):
        load_model(folder, dtype="f32")


def test_code_in_a_model_folder_is_never_run(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pico_folder(), tmp_path / "m"))
    (folder / "modeling_own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    config = json.loads((folder / "config.json").read_text())
    own = {"AutoConfig": "modeling_own.C", "AutoModelForCausalLM": "modeling_own.M"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "own", "auto_map": own}))
    with raises("backends.unknown_architecture", "unknown architecture 'own'"):
        load_backend("cpu").load(folder, LoadSpec())
    assert not (tmp_path / "ran").exists()
