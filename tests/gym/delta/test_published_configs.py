"""Every published setting of a delta changes it, or is refused with what to write instead."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.delta.conftest import SHAPES
from zoo.gym import BitDeltaConfig, DeltaQuantConfig, DeltaSoup, DeltaSoupConfig, QuantMethod
from zoo.gym.delta import apply_delta, create_delta, difference, load_delta
from zoo.gym.delta.file.reader import Delta, tensor_parts
from zoo.gym.delta.reading.weights import open_weights, read_float32
from zoo.gym.errors import InputError

Config = BitDeltaConfig | DeltaQuantConfig
Settings = dict[str, Any]

Q = "model.layers.0.self_attn.q_proj"

EFFECTIVE: list[tuple[type[Config], str, Settings, Settings, Settings]] = [
    (BitDeltaConfig, "full", {}, {"bits": 2}, {"kind": "int", "bits": 2}),
    (BitDeltaConfig, "full", {}, {"bits": 8}, {"kind": "int", "bits": 8}),
    (BitDeltaConfig, "adapter", {}, {"bits": 4}, {"A": "int4", "B": "int4"}),
    (BitDeltaConfig, "adapter", {"bits": 2}, {"symmetric": True}, {"A": "int2", "B": "int2"}),
    (BitDeltaConfig, "adapter", {}, {"bits": 2}, {"A": "codes2", "B": "codes2"}),
    (BitDeltaConfig, "full", {}, {"scale": "column"}, {"scale": "column"}),
    (BitDeltaConfig, "full", {}, {"scale": "group", "group_size": 128}, {"group": 128}),
    (BitDeltaConfig, "full", {}, {"zero": "mask"}, {"zero": "mask"}),
    (BitDeltaConfig, "full", {}, {"planes": 2}, {"planes": 2}),
    (BitDeltaConfig, "full", {}, {"enable_deltasoup": True}, {"scale": "matrix"}),
    (DeltaQuantConfig, "full", {}, {"method": "int2"}, {"kind": "int", "bits": 2}),
    (DeltaQuantConfig, "full", {}, {"method": "INT8"}, {"kind": "int", "bits": 8}),
    (DeltaQuantConfig, "full", {}, {"method": "binary"}, {"kind": "sign", "scale": "row"}),
    (DeltaQuantConfig, "full", {}, {"method": "ternary"}, {"kind": "ternary"}),
    (DeltaQuantConfig, "adapter", {}, {"method": "binary"}, {"A": "sign", "B": "sign"}),
    (DeltaQuantConfig, "adapter", {}, {"method": "int2"}, {"A": "int2", "B": "int2"}),
    (DeltaQuantConfig, "adapter", {"method": "int2"}, {"symmetric": False}, {"A": "codes2"}),
    (DeltaQuantConfig, "full", {"method": "binary"}, {"per_channel": False}, {"scale": "matrix"}),
    (DeltaQuantConfig, "full", {}, {"sensitive_layers": ["*"]}, {"bits": 8}),
    (DeltaQuantConfig, "adapter", {}, {"sensitive_layers": ["*"]}, {"A": "int8"}),
    (DeltaQuantConfig, "full", {}, {"layer_bits": {"*.mlp.*": 1, "*": 2}}, {"bits": 2}),
    (DeltaQuantConfig, "full", {"layer_bits": {"*": 2}}, {"sensitive_layers": [Q]}, {"bits": 8}),
    (DeltaQuantConfig, "full", {}, {"layer_bits": {"*.q_proj": 8, "*": 2}}, {"bits": 8}),
]
"""What a setting makes of the terms of the first matrix, and the settings without it."""


@pytest.fixture
def sources(tuned: Path, adapter: Path) -> dict[str, Path]:
    return {"full": tuned, "adapter": adapter}


def coded(source: Path, base: Path, config: Config, out: Path, *, adapted: bool) -> Delta:
    layers = config.layers(from_adapter=adapted) if isinstance(config, DeltaQuantConfig) else {}
    coding = config.as_delta(from_adapter=adapted)
    create_delta(source, base=base, out=out, config=coding, layers=layers, force=True)
    return load_delta(out)


def term_of(delta: Delta, name: str = Q) -> dict[str, Any]:
    (terms,) = (each.terms for each in delta.header.tensors if each.name == f"{name}.weight")
    return dict(terms[0])


@pytest.mark.parametrize(("kind", "source", "without", "given", "term"), EFFECTIVE)
def test_a_setting_changes_the_delta(
    kind: type[Config],
    source: str,
    without: Settings,
    given: Settings,
    term: Settings,
    sources: dict[str, Path],
    base: Path,
    tmp_path: Path,
) -> None:
    files = [
        coded(
            sources[source],
            base,
            kind(**settings),
            tmp_path / f"{number}.safetensors",
            adapted=source == "adapter",
        )
        for number, settings in enumerate((without, without | given))
    ]
    before, after = map(term_of, files)
    assert term.items() <= after.items()
    assert before != after


REFUSED: list[tuple[type[Config], Settings, str]] = [
    (BitDeltaConfig, {"bits": 3}, "bits: expected 1, 2, 4 or 8, got 3"),
    (BitDeltaConfig, {"group_size": 64}, "group_size: expected 128, got 64"),
    (BitDeltaConfig, {"symmetric": False}, "symmetric: expected true with bits 1: only 2 bits"),
    (BitDeltaConfig, {"enable_compression": False}, "enable_compression: the bits are always pac"),
    (BitDeltaConfig, {"cache_base_model": True}, "cache_base_model: the base is read from its f"),
    (BitDeltaConfig, {"clip_outliers": False}, "clip_outliers: changes are coded as they are"),
    (BitDeltaConfig, {"outlier_threshold": 3.0}, "outlier_threshold: changes are coded as they"),
    (BitDeltaConfig, {"byzantine_robust": True}, "byzantine_robust: DeltaSoupConfig has the meth"),
    (BitDeltaConfig, {"aggregation_weight": 0.1}, "aggregation_weight: a result of DeltaSoup is"),
    (BitDeltaConfig, {"enable_deltasoup": True, "bits": 2}, "bits: expected 1 with enable_delta"),
    (BitDeltaConfig, {"enable_deltasoup": True, "scale": "row"}, "scale: expected matrix with"),
    (BitDeltaConfig, {"enable_deltasoup": True, "planes": 2}, "planes: expected 1 with enable_"),
    (BitDeltaConfig, {"planes": 9}, "planes: expected 1 to 8, got 9"),
    (BitDeltaConfig, {"bit": 1}, "bit: no such setting. Did you mean 'bits'?"),
    (DeltaQuantConfig, {"method": "dynamic"}, "method: expected int2, int4, int8, binary or ter"),
    (DeltaQuantConfig, {"method": QuantMethod.DYNAMIC}, "method: expected int2, int4, int8, bin"),
    (DeltaQuantConfig, {"method": 4}, "method: expected int2, int4, int8, binary or ternary, got"),
    (DeltaQuantConfig, {"symmetric": False}, "symmetric: expected true with int4"),
    (DeltaQuantConfig, {"per_channel": False}, "per_channel: expected true with int4, whose"),
    (DeltaQuantConfig, {"group_size": 32}, "group_size: expected 128, got 32"),
    (DeltaQuantConfig, {"calibration_samples": 0}, "calibration_samples: expected at least 1"),
    (DeltaQuantConfig, {"sensitive_layers": "q"}, "sensitive_layers: expected a list of names"),
    (DeltaQuantConfig, {"layer_bits": {"q": 3}}, "layer_bits: expected 1, 2, 4 or 8, got 3"),
    (
        DeltaQuantConfig,
        {"layer_bits": {"q.weight": 4}, "sensitive_layers": ["q"]},
        "sensitive_layers: expected each layer once, got 'q', which is in layer_bits",
    ),
    (DeltaQuantConfig, {"enable_compression": False}, "enable_compression: the bits are always"),
    (DeltaQuantConfig, {"use_huffman": True}, "use_huffman: codes have a fixed number of bits"),
    (DeltaQuantConfig, {"percentile": 99.9}, "percentile: ranges are not cut at a percentile"),
    (DeltaQuantConfig, {"percentile_calibration": True}, "percentile_calibration: ranges are"),
    (DeltaQuantConfig, {"calibration_percentile": 99.9}, "calibration_percentile: ranges are"),
    (DeltaQuantConfig, {"clip_outliers": True}, "clip_outliers: changes are coded as they are"),
    (DeltaQuantConfig, {"outlier_threshold": 3.0}, "outlier_threshold: changes are coded as"),
    (DeltaQuantConfig, {"use_cuda_kernel": True}, "use_cuda_kernel: changes are coded on the C"),
    (DeltaQuantConfig, {"batch_processing": True}, "batch_processing: tensors are coded one by"),
]


@pytest.mark.parametrize(("kind", "settings", "message"), REFUSED)
def test_a_setting_without_effect_is_refused_by_name(
    kind: type[Config], settings: Settings, message: str
) -> None:
    with raises("config.invalid") as caught:
        kind(**settings)
    assert caught.value.message.startswith(message)
    assert "expected" in caught.value.message or "Did you mean" in caught.value.message


PUBLISHED: dict[type[Config], Settings] = {
    BitDeltaConfig: {
        "bits": 1,
        "group_size": 128,
        "symmetric": None,
        "enable_compression": True,
        "enable_deltasoup": False,
        "safety_threshold": None,
    },
    DeltaQuantConfig: {
        "method": "int4",
        "per_channel": True,
        "calibration_samples": 256,
        "symmetric": True,
        "group_size": 128,
        "enable_compression": True,
        "use_huffman": False,
    },
}


@pytest.mark.parametrize("kind", PUBLISHED)
def test_defaults_are_the_published_ones(kind: type[Config]) -> None:
    made = kind()
    assert {key: getattr(made, key) for key in PUBLISHED[kind]} == PUBLISHED[kind]
    assert kind(**PUBLISHED[kind]).as_delta(from_adapter=False) == made.as_delta(from_adapter=False)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_every_setting_is_in_a_table(kind: type[Config]) -> None:
    effective = {key for each, _, _, given, _ in EFFECTIVE if each is kind for key in given}
    refused = {key for each, given, _ in REFUSED if each is kind for key in given}
    assert kind.model_fields.keys() <= effective | refused | OTHERWISE


OTHERWISE = {"form", "safety_threshold"}
"""Settings with tests of their own: form here, the threshold's warning with the trainers."""

OF_THE_SOURCE: list[tuple[Config, bool, str]] = [
    (BitDeltaConfig(form="lowrank"), False, "form: expected 'dense' for a delta of full weights"),
    (BitDeltaConfig(form="dense"), True, "form: expected 'lowrank' for a delta of a LoRA adapter"),
    (BitDeltaConfig(planes=2), True, "planes: expected none for a lowrank delta, got 2"),
    (BitDeltaConfig(bits=4, zero="mask"), False, "zero: expected none for a int delta"),
    (BitDeltaConfig(bits=2, symmetric=False), False, "symmetric: expected true for full weights"),
    (BitDeltaConfig(enable_deltasoup=True), True, "enable_deltasoup: expected false for an adap"),
    (
        DeltaQuantConfig(method=QuantMethod.INT2, symmetric=False),
        False,
        "symmetric: expected true for full weights",
    ),
    (
        DeltaQuantConfig(method=QuantMethod.BINARY, per_channel=False),
        True,
        "per_channel: expected true for an adapter",
    ),
    (
        DeltaQuantConfig(method=QuantMethod.TERNARY),
        True,
        "method: expected int2, int4, int8 or binary for an adapter, got ternary",
    ),
    (
        DeltaQuantConfig(layer_bits={"model.norm": 4}),
        False,
        "layers: expected the name of a matrix of the base, got 'model.norm'",
    ),
    (
        DeltaQuantConfig(sensitive_layers=("lm_head",)),
        True,
        "layers: expected the name of a layer of the adapter, got 'lm_head'",
    ),
    (
        DeltaQuantConfig(layer_bits={"*": 8, f"{Q}.weight": 2}),
        False,
        f"layers: expected '{Q}.weight' before the others that it is among",
    ),
]


@pytest.mark.parametrize(("config", "adapted", "message"), OF_THE_SOURCE)
def test_a_setting_of_the_other_source_is_refused_by_name(
    config: Config,
    adapted: bool,
    message: str,
    sources: dict[str, Path],
    base: Path,
    tmp_path: Path,
) -> None:
    source = sources["adapter" if adapted else "full"]
    with pytest.raises(InputError) as caught:
        coded(source, base, config, tmp_path / "d.safetensors", adapted=adapted)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize("source", ["full", "adapter"])
def test_each_layer_is_coded_as_it_would_be_alone(
    source: str, sources: dict[str, Path], base: Path, tmp_path: Path
) -> None:
    adapted = source == "adapter"
    config = DeltaQuantConfig(
        method=QuantMethod.INT2, layer_bits={"*.mlp.*": 1}, sensitive_layers=(Q,)
    )
    mixed = coded(sources[source], base, config, tmp_path / "mixed.safetensors", adapted=adapted)
    alone = {
        bits: coded(
            sources[source],
            base,
            BitDeltaConfig(bits=bits, symmetric=True),
            tmp_path / f"{bits}.safetensors",
            adapted=adapted,
        )
        for bits in (1, 2, 8)
    }
    folder = tmp_path / "out"
    apply_delta(mixed.path, base=base, out=folder)
    weights, rebuilt = open_weights(base), open_weights(folder)
    for tensor in mixed.header.tensors:
        bits = 8 if tensor.name == f"{Q}.weight" else 1 if ".mlp." in tensor.name else 2
        expected = difference(alone[bits], tensor_named(alone[bits], tensor.name))
        np.testing.assert_array_equal(difference(mixed, tensor), expected)
        change = read_float32(rebuilt, tensor.name) - read_float32(weights, tensor.name)
        np.testing.assert_allclose(change, expected, atol=1e-6)


def tensor_named(delta: Delta, name: str) -> Any:
    return next(tensor for tensor in delta.header.tensors if tensor.name == name)


def test_a_delta_for_deltasoup_is_contributed_as_it_is(base32: Path, tmp_path: Path) -> None:
    before, change = disk.random_arrays(SHAPES, 0), disk.random_arrays(SHAPES, 1, 0.01)
    matrices = {name: change[name] for name in change if change[name].ndim == 2}
    source = disk.write_model(tmp_path / "tuned", disk.plus(before, matrices))
    config = BitDeltaConfig(enable_deltasoup=True)
    delta = coded(source, base32, config, tmp_path / "d.safetensors", adapted=False)
    soup = DeltaSoup(DeltaSoupConfig(use_bitdelta=True), base32)
    soup.contribute_bitdelta("alice", delta)
    (contribution,) = soup._contributions.values()
    sent = load_delta(contribution.file)
    for tensor in delta.header.tensors:
        parts = tensor_parts(delta, tensor)
        other = tensor_parts(sent, tensor_named(sent, tensor.name))
        np.testing.assert_array_equal(other["sign"], parts["sign"])
        np.testing.assert_array_equal(other["scale"], parts["scale"])
