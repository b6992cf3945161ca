"""What the torch engine refuses before it reads weights, and that loading refuses it as well."""

import pytest

from zoo.backends.base import FreezeSpec, LoadSpec, LoraSpec, OptimizerSpec, ProjectionSpec
from zoo.backends.rope import RopeSpec
from zoo.backends.spec import OftSpec, QuantizationSpec
from zoo.backends.torch.backend import TorchBackend
from zoo.models import pico_folder

GALORE = ProjectionSpec(targets=("q_prj",))

REFUSED = {
    "lora_target": LoadSpec(train=LoraSpec(targets=("q_proj", "q_prj"))),
    "oft_target": LoadSpec(train=OftSpec(targets=("q_prj",))),
    "additional_target": LoadSpec(train=LoraSpec(whole=("nrm",))),
    "freeze_trainable_layers": LoadSpec(train=FreezeSpec(layers=99)),
    "freeze_trainable_modules": LoadSpec(train=FreezeSpec(modules=("q_prj",))),
    "galore_target": LoadSpec(
        train="full", optimizer=OptimizerSpec(name="galore", projection=GALORE)
    ),
    "quantization_bit": LoadSpec(train=LoraSpec(), quantization=QuantizationSpec(bits=3)),
    "quantization_method": LoadSpec(train=LoraSpec(), quantization=QuantizationSpec(method="mlx")),
    "enable_liger_kernel": LoadSpec(train=LoraSpec(), liger=True),
    "rope_scaling": LoadSpec(train="full", rope=RopeSpec("yarn", 16)),
    "optim": LoadSpec(train=LoraSpec(), optimizer=OptimizerSpec(name="adamw_8bit")),
}


@pytest.mark.parametrize("key", REFUSED)
def test_each_setting_that_cannot_be_is_found_before_loading(key: str) -> None:
    (fault,) = TorchBackend("cpu").faults(pico_folder(), REFUSED[key])
    assert f"{key}: " in fault.message


@pytest.mark.parametrize("key", sorted(set(REFUSED) - {"galore_target", "optim"}))
def test_loading_says_the_same(key: str) -> None:
    engine = TorchBackend("cpu")
    (fault,) = engine.faults(pico_folder(), REFUSED[key])
    with pytest.raises(type(fault)) as caught:
        engine.load(pico_folder(), REFUSED[key])
    assert caught.value.message == fault.message


def test_all_faults_are_found_together() -> None:
    train = LoraSpec(targets=("q_prj",), whole=("nrm",))
    spec = LoadSpec(train=train, liger=True, optimizer=OptimizerSpec(name="paged_adamw_8bit"))
    found = [
        one.message.partition(":")[0] for one in TorchBackend("cpu").faults(pico_folder(), spec)
    ]
    assert found == ["enable_liger_kernel", "optim", "additional_target", "lora_target"]


@pytest.mark.parametrize(
    "spec",
    [
        LoadSpec(),
        LoadSpec(train=LoraSpec(targets=("q_proj",), whole=("norm",))),
        LoadSpec(train=FreezeSpec(extra=("embed_tokens",))),
        LoadSpec(train="full", optimizer=OptimizerSpec(name="galore")),
        LoadSpec(train=LoraSpec(), stream_layers=True),
    ],
)
def test_what_can_be_loaded_has_no_fault(spec: LoadSpec) -> None:
    assert TorchBackend("cpu").faults(pico_folder(), spec) == []
