"""A LoRA whose factor A is everybody's: it is the seed's, stays so, and B alone learns."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.backends import reference
from tests.backends.policies import as_reference, step
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, Stat
from zoo.backends.mlx.settings import refused_settings
from zoo.backends.torch.policy import TorchPolicy
from zoo.models.fixed_factor import fixed_factor

SEED = "c3" * 32
FIXED = LoraSpec(rank=4, alpha=8.0, fixed_a=SEED)


def loaded(folder: Path, spec: LoraSpec = FIXED, **more: object) -> TorchPolicy:
    settings = LoadSpec(train=spec, dtype="f32", **more)  # type: ignore[arg-type]
    return as_reference(load_backend("cpu").load(folder, settings))


def factors(folder: Path) -> dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"]:
    found = load_file(folder / "adapter_model.safetensors")
    return {name.removeprefix("base_model.model."): value for name, value in found.items()}


@pytest.mark.slow
def test_b_alone_learns_and_a_stays_that_of_the_seed(tied: Path, tmp_path: Path) -> None:
    policy = loaded(tied)
    assert policy.parameters
    assert all("lora_B" in name for name in policy.parameters)
    step(policy, reference.example_batch(), 1)
    with policy.reference():  # peft makes all of an adapter learn when it is switched on again
        pass
    step(policy, reference.example_batch(), 2)
    policy.save_result(tmp_path / "result", base=str(tied))
    found = factors(tmp_path / "result")
    for name, value in found.items():
        layer = name.rpartition(".lora_")[0]
        if ".lora_A." in name:
            expected = fixed_factor(SEED, f"{layer}.weight", 4, value.shape[1])
            assert value.tobytes() == expected.tobytes(), name
        else:
            assert np.abs(value).max() > 0, name


@pytest.mark.slow
def test_it_starts_without_effect_and_then_has_one(tied: Path) -> None:
    policy = loaded(tied)
    scores = frozenset({Stat.LOGPROBS})
    with policy.reference() as base:
        before = base.score(reference.example_batch(), scores)[Stat.LOGPROBS]
    at_start = policy.score(reference.example_batch(), scores)[Stat.LOGPROBS]
    np.testing.assert_array_equal(at_start, before)
    step(policy, reference.example_batch(), 1)
    after = policy.score(reference.example_batch(), scores)[Stat.LOGPROBS]
    assert np.abs(after - before).max() > 1e-3


@pytest.mark.slow
def test_a_checkpoint_has_b_alone_and_a_resumed_policy_goes_on_to_the_bit(
    tied: Path, tmp_path: Path
) -> None:
    kept = loaded(tied)
    step(kept, reference.example_batch(), 1)
    kept.save_checkpoint(tmp_path)
    resumed = loaded(tied)
    resumed.load_checkpoint(tmp_path)
    step(kept, reference.example_batch(), 2)
    step(resumed, reference.example_batch(), 2)
    for name, parameter in kept.parameters.items():
        np.testing.assert_array_equal(
            parameter.detach().numpy(), resumed.parameters[name].detach().numpy()
        )


@pytest.mark.slow
def test_other_seeds_give_other_factors(tied: Path, tmp_path: Path) -> None:
    for digit in "12":
        policy = loaded(tied, LoraSpec(rank=4, fixed_a=digit * 64))
        policy.save_result(tmp_path / digit, base=str(tied))
    first, second = (factors(tmp_path / digit) for digit in "12")
    names = [name for name in first if "lora_A" in name]
    assert names
    assert all((first[name] != second[name]).any() for name in names)


def test_mlx_refuses_it_by_name() -> None:
    (found,) = refused_settings(LoadSpec(train=FIXED))
    assert found.startswith("lora_fixed_a: not available on MLX")


@pytest.mark.parametrize(
    "more", [{"dora": True}, {"init": "pissa"}, {"whole": ("norm",)}, {"fixed_a": "c3"}]
)
def test_what_would_train_or_replace_a_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="fixed_a: expected a seed, with a plain LoRA alone"):
        LoraSpec(**({"fixed_a": SEED} | more))  # type: ignore[arg-type]


def test_an_embedding_has_no_fixed_factor(tied: Path) -> None:
    with raises(
        "torch.weight_not_in_files", r"lora_fixed_a: 'model\.embed_tokens': expected a linear"
    ):
        loaded(tied, LoraSpec(rank=4, fixed_a=SEED, targets=("embed_tokens",)))
