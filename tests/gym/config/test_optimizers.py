"""The keys of optimizers: their names, and what becomes of them in the engine's specification."""

from pathlib import Path

import pytest

from tests.codes import raises
from zoo.backends.base import BlockSpec, ProjectionSpec
from zoo.backends.optimizer_spec import IN_LIBRARY, OPTIMIZERS
from zoo.core.errors import NotAvailableError
from zoo.gym import TrainConfig
from zoo.gym.config import load_config
from zoo.gym.config.keys.optimizer import ONLY_IN_PLACE, READ_BY_OPTIMIZERS
from zoo.gym.train.loading import load_spec
from zoo.gym.train.planning.faults import check_packages

NEEDED = ["model_name_or_path=m", "dataset=d"]


def loaded(*items: str) -> TrainConfig:
    return load_config([], [*NEEDED, *items], {}).config


def kind_of(name: str) -> list[str]:
    """The kind of training that an optimizer is for, where it is not every one."""
    return ["finetuning_type=full"] if name in ONLY_IN_PLACE else []


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_optimizer_that_is_named_is_the_one_of_the_engine(name: str) -> None:
    assert load_spec(loaded(f"optim={name}", *kind_of(name))).optimizer.name == name


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("adamw_torch", "adamw"),
        ("adamw_torch_fused", "adamw"),
        ("lion_32bit", "lion"),
        ("adamw_bnb_8bit", "adamw_8bit"),
        ("paged_adamw", "paged_adamw_32bit"),
    ],
)
def test_the_names_of_other_trainers_mean_the_same_optimizer(theirs: str, ours: str) -> None:
    assert loaded(f"optim={theirs}") == loaded(f"optim={ours}")
    assert TrainConfig(model_name_or_path="m", dataset="d", optim=theirs).optim == ours


@pytest.mark.parametrize("name", ["adam", "adagrad", "lion_8bit", "adamw_apex_fused"])
def test_an_optimizer_that_is_not_here_is_refused_by_name(name: str) -> None:
    expected = f"optim={name}: expected 'adamw', .*, got \"{name}\""
    with raises("config.invalid", expected):
        loaded(f"optim={name}")


SWITCHES = ["muon", "adam_mini", "galore", "apollo", "badam"]


@pytest.mark.parametrize("name", SWITCHES)
def test_a_published_switch_chooses_the_optimizer(name: str) -> None:
    expected = loaded(f"optim={name}", *kind_of(name))
    assert loaded(f"use_{name}=true", *kind_of(name)) == expected
    assert load_config([], [*NEEDED, *kind_of(name)], {f"use_{name}": True}).config == expected


def test_the_published_settings_of_low_memory_optimizers_reach_the_engine() -> None:
    items = ["use_galore=true", "finetuning_type=full", "galore_target=mlp,q_proj"]
    items += ["galore_rank=8", "galore_update_interval=10", "galore_scale=0.5"]
    found = load_spec(loaded(*items)).optimizer.projection
    assert found == ProjectionSpec(8, 10, 0.5, ("mlp", "q_proj"))
    items = ["use_apollo=true", "finetuning_type=full", "apollo_target=mlp", "apollo_scale=2"]
    items += ["apollo_rank=8", "apollo_update_interval=10", "apollo_proj=svd", "seed=3"]
    found = load_spec(loaded(*items, "apollo_scale_type=tensor")).optimizer.projection
    assert found == ProjectionSpec(8, 10, 2.0, ("mlp",), "svd", "tensor", 3)
    items = ["use_badam=true", "finetuning_type=full", "badam_switch_mode=descending"]
    items += ["badam_switch_interval=7", "badam_start_block=1", "seed=3", "badam_mode=layer"]
    assert load_spec(loaded(*items)).optimizer.blocks == BlockSpec("descending", 7, 1, 3)


def test_apollo_mini_is_of_rank_1_with_one_scale_for_a_matrix() -> None:
    found = load_spec(loaded("optim=apollo_mini", "finetuning_type=full")).optimizer.projection
    assert (found.rank, found.scaling, found.scale, found.kind) == (1, "tensor", 128.0, "random")


OTHER_VALUES = {
    "apollo_proj": "svd",
    "apollo_scale_type": "tensor",
    "badam_switch_mode": "random",
    "galore_target": "mlp",
    "apollo_target": "mlp",
}


@pytest.mark.parametrize("key", sorted(READ_BY_OPTIMIZERS.keys() - {"badam_mode"}))
def test_a_setting_of_another_optimizer_is_refused(key: str) -> None:
    item, (start, _, _) = f"{key}={OTHER_VALUES.get(key, 3)}", key.partition("_")
    for name in (name for name in OPTIMIZERS if name not in READ_BY_OPTIMIZERS[key]):
        message = f"{item}: has no effect with optim {name}: expected optim {start}"
        with raises("config.invalid", message):
            loaded(item, f"optim={name}", *kind_of(name))


@pytest.mark.parametrize("name", sorted(ONLY_IN_PLACE))
def test_an_optimizer_for_all_weights_is_refused_with_an_adapter(name: str) -> None:
    with raises("config.invalid", f"optim={name}: .* expected finetuning_type full or free"):
        loaded(f"optim={name}")


def test_an_optimizer_for_all_weights_refuses_what_is_for_adapters_at_once() -> None:
    with raises("config.invalid") as caught:
        loaded("optim=badam", "quantization_bit=4", "lora_rank=8", "lora_alpha=16")
    keys = [line.partition("=")[0] for line in caught.value.message.splitlines()]
    assert keys == ["optim", "quantization_bit", "lora_rank", "lora_alpha"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("badam_mode=ratio", "masks of single weights are not supported: expected layer"),
        ("badam_update_ratio=0.1", "mode ratio is not supported: expected badam_mode layer"),
        ("galore_layerwise=true", "steps in the backward pass are not supported"),
        ("finetuning_type=galore", "expected finetuning_type full with use_galore"),
        ("finetuning_type=badam", "expected finetuning_type full with use_badam"),
        ("finetuning_type=apollo", "expected finetuning_type full with use_apollo"),
    ],
)
def test_forms_that_are_not_here_are_refused_by_name(item: str, message: str) -> None:
    with raises("config.invalid", f"{item}: .*{message}"):
        loaded(item)


def test_the_interval_of_a_single_layer_is_refused() -> None:
    with raises("config.invalid", "badam_switch_interval=3: has no effect with badam_swit"):
        loaded(
            "optim=badam",
            "finetuning_type=full",
            "badam_switch_mode=fixed",
            "badam_switch_interval=3",
        )


def test_modules_outside_of_layers_are_refused_with_an_optimizer_of_layers() -> None:
    given = ["optim=badam", "finetuning_type=freeze", "freeze_extra_modules=norm"]
    with raises("config.invalid", "freeze_extra_modules=norm: has no effect with optim bad"):
        loaded(*given)


def test_the_plain_optimizer_beside_a_switch_is_reported() -> None:
    found = load_config([], [*NEEDED, "optim=adamw_torch", "use_muon=true"], {})
    assert found.config.optim == "muon"
    [ignored] = found.ignored
    assert (ignored.key, ignored.reason) == ("optim", "use_muon chooses the optimizer")


def test_two_optimizers_are_refused() -> None:
    for items in (["optim=lion", "use_muon=true"], ["use_adam_mini=true", "use_muon=true"]):
        with raises("config.invalid", f"use_muon=true: already given as '{items[0]}'"):
            loaded(*items)


def test_a_switch_that_is_off_changes_nothing_beside_another() -> None:
    found = load_config([], [*NEEDED, "use_muon=true", "use_adam_mini=false"], {})
    assert (found.config.optim, [one.key for one in found.ignored]) == ("muon", ["use_adam_mini"])


def test_a_stronger_source_switches_an_optimizer_off(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("use_muon: true\n")
    assert load_config([file], [*NEEDED, "use_muon=false"], {}).config.optim == "adamw"
    assert load_config([file], [*NEEDED, "use_adam_mini=false"], {}).config.optim == "muon"
    assert load_config([file], [*NEEDED, "optim=lion"], {}).config.optim == "lion"


def test_a_switch_is_true_or_false() -> None:
    with raises("config.invalid", 'use_muon=maybe: expected true or false, got "maybe"'):
        loaded("use_muon=maybe")


def test_lora_plus_is_a_group_of_the_second_factors() -> None:
    [group] = load_spec(loaded("loraplus_lr_ratio=16")).optimizer.groups
    assert (group.suffix, group.lr_scale) == ("lora_B.weight", 16)
    assert load_spec(loaded()).optimizer.groups == ()


def test_lora_plus_is_also_for_an_adapter_that_is_trained_further() -> None:
    spec = load_spec(loaded("loraplus_lr_ratio=16", "adapter_name_or_path=a"))
    assert (spec.train, spec.optimizer.groups[0].lr_scale) == ("adapter", 16)


def test_noise_on_embeddings_is_the_engines_to_add() -> None:
    assert load_spec(loaded("neftune_noise_alpha=5")).neftune_noise_alpha == 5
    assert load_spec(loaded()).neftune_noise_alpha == 0


@pytest.mark.parametrize(
    ("theirs", "ours"), [("constant_with_warmup", "constant"), ("warmup_stable_decay", "wsd")]
)
def test_the_names_of_other_trainers_mean_the_same_schedule(theirs: str, ours: str) -> None:
    assert loaded(f"lr_scheduler_type={theirs}").lr_scheduler_type == ours


REFUSED = [
    ("decay_ratio", 0.6, "warmup_ratio=0.5", "expected at most 0.5 with warmup_ratio 0.5"),
    ("loraplus_lr_ratio", 4, "finetuning_type=full", "has no effect with finetuning_type full"),
    ("loraplus_lr_ratio", 1, "seed=1", "expected more than 1"),
    ("neftune_noise_alpha", -1, "seed=1", "expected 0"),
    ("neftune_noise_alpha", 5, "stage=grpo", "has no place where answers are sampled"),
    ("neftune_noise_alpha", 5, "stage=ppo", "has no place where answers are sampled"),
    ("decay_ratio", 0.2, "lr_scheduler_type=cosine", "has no effect without lr_scheduler_type wsd"),
    ("lr_scheduler_type", "polynomial", "seed=1", "expected 'cosine', "),
]


@pytest.mark.parametrize(("key", "value", "other", "message"), REFUSED)
def test_a_setting_without_effect_is_refused(
    key: str, value: object, other: str, message: str
) -> None:
    with raises("config.invalid", f"{key}={value}: {message}"):
        loaded(f"{key}={value}", other, *(["lr_scheduler_type=wsd"] if "warm" in other else []))


def test_a_decay_that_begins_in_the_warm_up_is_refused() -> None:
    given = ["lr_scheduler_type=wsd", "max_steps=10", "decay_ratio=0.6"]
    assert loaded(*given, "warmup_steps=5").decay_ratio == 0.6  # both rounded up
    with raises("config.invalid", r"decay_ratio=0.6: expected at most 0.4 with 6 warm-up"):
        loaded(*given, "warmup_steps=6")


def test_no_noise_is_accepted_everywhere() -> None:
    assert loaded("neftune_noise_alpha=0", "stage=grpo").neftune_noise_alpha == 0


@pytest.mark.parametrize("name", IN_LIBRARY)
def test_a_missing_library_is_said_before_there_is_a_run(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "zoo.backends.machine.detect.probe", lambda device: (device in {"cuda", "cpu"}, "")
    )
    monkeypatch.setattr("zoo.backends.libraries.quantization.find_spec", lambda _: None)
    check_packages(loaded())
    with pytest.raises(NotAvailableError, match=f"optim: {name} needs the package bitsandbytes"):
        check_packages(loaded(f"optim={name}"))


def test_the_hint_for_badam_names_all_that_has_to_go() -> None:
    with raises("config.invalid") as caught:
        loaded("optim=badam", "quantization_bit=4", "lora_rank=4")
    keys = {line.partition("=")[0] for line in caught.value.message.splitlines()}
    assert keys == {"optim", "quantization_bit", "lora_rank"}
    assert caught.value.hint is not None
    assert "finetuning_type=full without quantization_bit, lora_rank" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "key"),
    [("pissa", "pissa_init true"), ("loftq", "loftq_init true"), ("vera", "expected lora")],
)
def test_a_start_of_lora_given_as_a_kind_is_told_its_key(kind: str, key: str) -> None:
    with raises("config.invalid", key):
        loaded(f"finetuning_type={kind}")
