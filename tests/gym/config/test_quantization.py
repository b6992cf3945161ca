"""Each published way to ask for a quantised base gives the same settings, or is refused."""

from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.backends.base import LoraSpec, QuantizationSpec
from zoo.gym.config import TrainConfig, dump_config, load_config
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.train.loading import load_spec
from zoo.gym.train.planning.faults import check_engine, check_packages

GIVEN = ["model=zen-pico", "dataset=d.jsonl"]


def settings(*items: str, flags: dict[str, object] | None = None) -> TrainConfig:
    return load_config([], [*GIVEN, *items], flags or {}).config


NF4 = settings("quantization_bit=4")
OF_BNB = settings("quantization_bit=4", "quantization_method=bnb")
SAME = [
    (["finetuning_type=qlora"], NF4),
    (["quantization=4"], NF4),
    (["quantization={method: bnb, bits: 4}"], OF_BNB),
    (["quantization_bit=4", "quantization_method=bitsandbytes", "finetuning_type=qlora"], OF_BNB),
]


@pytest.mark.parametrize(("items", "expected"), SAME, ids=str)
def test_every_spelling_of_4_bits_means_the_same(items: list[str], expected: TrainConfig) -> None:
    assert settings(*items) == expected


@pytest.mark.parametrize(
    "items",
    [
        ["quantization=nf4"],
        ["quantization={method: bitsandbytes, bits: 4, type: nf4}"],
        ["quantization_bit=4", "quantization_type=nf4"],
        ["quantization_bit=4", "quantization_method=bnb"],
    ],
    ids=str,
)
def test_nf4_by_name_is_that_of_bitsandbytes_on_every_engine(items: list[str]) -> None:
    found = load_spec(settings(*items)).quantization
    assert found == QuantizationSpec(4, "nf4", method="bnb")


@pytest.mark.parametrize(
    ("item", "bits"),
    [
        ("quantization=bitdelta", 1),
        ("quantization=deltaquant", 4),
        ("quantization={method: BitDelta, bits: 2}", 2),
        ("quantization={method: bitdelta, bits: '2'}", 2),
        ("quantization={method: bitdelta, bits: null}", 1),
        ("delta_bits=8", 8),
    ],
)
def test_a_quantised_delta_is_an_adapter_of_as_many_bits(item: str, bits: int) -> None:
    config = settings(item)
    assert (config.delta_bits, config.quantization_bit) == (bits, None)
    train = load_spec(config).train
    assert isinstance(train, LoraSpec)
    assert train.delta_bits == bits


def test_contributing_is_no_setting_of_a_training() -> None:
    text = "quantization={method: bitdelta, bits: 1, enable_deltasoup: true}"
    loaded = load_config([], [*GIVEN, text], {})
    assert loaded.config.delta_bits == 1
    assert [each.key for each in loaded.ignored] == ["quantization: enable_deltasoup"]


@pytest.mark.parametrize(
    "other",
    [
        *(
            "use_dora=true",
            "pissa_init=true",
            "additional_target=norm",
            "lora_fixed_a=" + "5a" * 32,
        ),
        *("stage=rm", "sharding=full"),
    ],
)
def test_what_no_delta_of_few_bits_carries_is_refused_with_them(other: str) -> None:
    more = ["num_processes=2"] if other.startswith("sharding") else []
    with raises("config.invalid", "delta_bits"):
        settings("delta_bits=1", other, *more)


def test_qlora_with_8_bits_keeps_the_8_bits() -> None:
    assert settings("finetuning_type=qlora", "quantization_bit=8").quantization_bit == 8
    flags: dict[str, object] = {"finetuning_type": "qlora"}
    assert settings("quantization_bit=8", flags=flags).quantization_bit == 8


EFFECTS: list[tuple[list[str], tuple[object, ...] | None]] = [
    ([], None),
    (["quantization_bit=4"], (4, "nf4", True, "auto")),
    (["quantization_bit=8"], (8, "nf4", True, "auto")),
    (["quantization=int8"], (8, "nf4", True, "auto")),
    (["quantization=fp4"], (4, "fp4", True, "bnb")),
    (["quantization_bit=4", "double_quantization=false"], (4, "nf4", False, "bnb")),
    (["quantization_bit=3", "quantization_method=mlx"], (3, "nf4", True, "mlx")),
]


@pytest.mark.parametrize(("items", "expected"), EFFECTS, ids=str)
def test_each_setting_reaches_the_engine(
    items: list[str], expected: tuple[object, ...] | None
) -> None:
    found = load_spec(settings(*items)).quantization
    assert (found and (found.bits, found.kind, found.double, found.method)) == expected


WRONG = [
    (
        ["quantization_bit=4", "finetuning_type=full"],
        "quantization_bit=4: cannot be with fine",
    ),
    (["quantization_bit=4", "finetuning_type=freeze"], "quantization_bit=4: cannot be with fine"),
    (["quantization_bit=8", "use_dora=true"], "use_dora=true: reads the weights of the base"),
    (["quantization_bit=8", "pissa_init=true"], "pissa_init=true: reads the weights of the base"),
    (["quantization_bit=4", "stage=rm"], "quantization_bit=4: cannot be with stage rm"),
    (
        ["quantization_bit=8", "quantization_type=fp4"],
        "quantization_type=fp4: has no effect with",
    ),
    (["quantization_type=fp4"], "quantization_type=fp4: has no effect without"),
    (
        ["quantization_bit=4", "quantization_method=mlx", "quantization_type=nf4"],
        "quantization_type=nf4: has no effect with quantization_method mlx",
    ),
    (["quantization={bits: 4, way: x}"], "quantization={bits: 4, way: x}: expected 4, 8, nf4"),
    (["quantization=nf4", "quantization_bit=4"], "quantization_bit=4: already given as"),
]


@pytest.mark.parametrize(("items", "message"), WRONG, ids=str)
def test_what_would_have_no_effect_is_refused(items: list[str], message: str) -> None:
    with raises("config.invalid") as caught:
        settings(*items)
    assert message in caught.value.message


def test_scales_in_8_bits_are_refused_where_codes_have_none() -> None:
    check_engine(settings("quantization_bit=4", "backend=mlx"))
    for given in ("double_quantization=true", "double_quantization=false"):
        with pytest.raises(InputError, match=r"got bnb: .* \(quantization_type, double_quant"):
            check_engine(settings("quantization_bit=4", "backend=mlx", given))


@pytest.mark.parametrize("given", ["double_quantization=true", "double_quantization=false"])
def test_what_is_said_of_scales_is_stored(given: str, tmp_path: Path) -> None:
    found = settings("quantization_bit=4", given)
    (tmp_path / "config.yaml").write_text(dump_config(found))
    assert load_config([tmp_path / "config.yaml"], [], {}).config == found


def test_dora_at_8_bits_is_refused_with_bitsandbytes_alone() -> None:
    assert settings("quantization_bit=8", "use_dora=true", "backend=mlx").dora
    with raises("config.invalid", "reads the weights of the base"):
        settings("quantization_bit=8", "use_dora=true", "backend=cpu")


def test_without_the_library_no_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        del name

    monkeypatch.setattr("zoo.backends.libraries.quantization.find_spec", absent)
    check_packages(settings())
    with pytest.raises(NotAvailableError, match="needs the package bitsandbytes"):
        check_packages(NF4)


def test_mlx_needs_no_bitsandbytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        del name

    monkeypatch.setattr("zoo.backends.libraries.quantization.find_spec", absent)
    check_packages(settings("quantization_bit=4", "backend=mlx"))
    monkeypatch.setattr("zoo.backends.machine.detect.sys.platform", "darwin")
    monkeypatch.setattr("zoo.backends.machine.detect._probe_mlx", lambda: (True, ""))
    monkeypatch.setattr("zoo.backends.machine.detect.has_apple_gpu", lambda: True)
    check_packages(NF4)
    with pytest.raises(NotAvailableError, match="needs the package bitsandbytes"):
        check_packages(settings("quantization_bit=4", "backend=cpu"))
