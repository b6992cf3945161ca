"""Which weights freeze tuning trains, and what it refuses."""

from pathlib import Path

import pytest

from tests.backends.families import write_family
from zoo.backends import load_backend
from zoo.backends.base import FreezeSpec, LoadSpec
from zoo.core.errors import InputError


def trained(folder: Path, spec: FreezeSpec) -> set[str]:
    policy = load_backend("cpu").load(folder, LoadSpec(train=spec, dtype="f32"))
    return {name.removesuffix(".weight") for name, _ in policy.trained()}


def test_the_last_blocks_are_trained_or_the_first_ones(untied: Path) -> None:
    last, first = (trained(untied, FreezeSpec(layers=layers)) for layers in (1, -1))
    assert "model.layers.1.mlp.down_proj" in last
    assert all(name.startswith("model.layers.1.") for name in last)
    assert {name.replace("layers.1.", "layers.0.") for name in last} == first


def test_modules_of_blocks_and_others_are_named(untied: Path) -> None:
    spec = FreezeSpec(layers=2, modules=("q_proj", "input_layernorm"), extra=("lm_head", "norm"))
    assert trained(untied, spec) == {
        "lm_head",
        "model.norm",
        *(f"model.layers.{n}.{m}" for n in (0, 1) for m in ("self_attn.q_proj", "input_layernorm")),
    }


def test_a_tied_head_is_trained_as_the_embedding_that_it_is(tied: Path) -> None:
    spec = FreezeSpec(layers=0, extra=("lm_head",))
    assert trained(tied, spec) == {"model.embed_tokens"}


def test_blocks_of_other_families_are_found(tmp_path: Path) -> None:
    names = trained(write_family(tmp_path, "gpt2"), FreezeSpec(layers=1, modules=("attn",)))
    assert names
    assert all(name.startswith("transformer.h.1.attn.") for name in names)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (FreezeSpec(layers=3), "freeze_trainable_layers: expected at most the model's 2 layers"),
        (FreezeSpec(layers=-3), "freeze_trainable_layers: expected at most the model's 2 layers"),
        (FreezeSpec(modules=("attn",)), "freeze_trainable_modules: expected modules .* got 'attn'"),
        (FreezeSpec(extra=("mlp",)), "freeze_extra_modules: expected modules .* got 'mlp'"),
        (FreezeSpec(extra=("",)), "freeze_extra_modules: expected modules .* got ''"),
    ],
    ids=str,
)
def test_what_a_model_lacks_is_refused(untied: Path, spec: FreezeSpec, said: str) -> None:
    with pytest.raises(InputError, match=said):
        trained(untied, spec)
