"""What a contribution has of its fine-tune, and what is refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.rounds.contribution.conftest import (
    LAYERS,
    MATRICES,
    SHAPES,
    Round,
    exact_change,
    tuned_model,
)
from zoo.gym.delta import create_delta
from zoo.gym.delta.codecs.dense import Coded, code_matrix
from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.codecs.values import Values
from zoo.gym.delta.file.reader import Delta, tensor_parts
from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.delta.rebuild import difference
from zoo.gym.errors import InputError
from zoo.gym.rounds.contribution.check import open_contribution
from zoo.gym.rounds.contribution.write import kept_of_adapter, write_contribution
from zoo.gym.rounds.protocol.manifest import Manifest

FORMS = ("signs", "float", "lowrank")


def change_in(delta: Delta, name: str) -> np.ndarray:
    tensor = delta.tensor(name)
    assert tensor
    return difference(delta, tensor)


def test_floats_are_the_change_itself(
    base: Path, tuned: Path, round_of: Round, tmp_path: Path
) -> None:
    found = write_contribution(tuned, base, round_of("float"), tmp_path / "c")
    for name in LAYERS:
        assert np.array_equal(change_in(found, name), exact_change(name))


def test_signs_have_the_mean_size_of_each_tensor(
    base: Path, tuned: Path, round_of: Round, tmp_path: Path
) -> None:
    found = write_contribution(tuned, base, round_of("signs"), tmp_path / "c")
    for name in LAYERS:
        change = exact_change(name)
        expected = np.where(change > 0, 1, -1) * np.abs(change).mean()
        assert np.allclose(change_in(found, name), expected, rtol=1e-6)


def test_share_kept_by_signs_is_the_squared_cosine(
    base: Path, tuned: Path, adapter: Path, round_of: Round, tmp_path: Path
) -> None:
    found = write_contribution(adapter, base, round_of("signs"), tmp_path / "c")
    plain = write_contribution(adapter, base, round_of("float"), tmp_path / "d")
    coded, whole = (
        np.concatenate([change_in(one, name).ravel() for name in LAYERS]) for one in (found, plain)
    )
    cosine = coded @ whole / np.linalg.norm(coded) / np.linalg.norm(whole)
    assert kept_of_adapter(adapter, base, round_of("signs")) == pytest.approx(cosine**2, rel=1e-5)
    assert kept_of_adapter(adapter, base, round_of("lowrank")) is None
    assert kept_of_adapter(tuned, base, round_of("signs")) is None


def test_a_product_keeps_the_factors_of_its_adapter(
    base: Path, adapter: Path, round_of: Round, tmp_path: Path
) -> None:
    factors = write_contribution(adapter, base, round_of("lowrank"), tmp_path / "c")
    floats = write_contribution(adapter, base, round_of("float"), tmp_path / "d")
    for name in LAYERS:
        assert np.allclose(change_in(factors, name), change_in(floats, name), atol=1e-6)
        assert change_in(floats, name).any()


def test_a_delta_contributes_what_it_changes(
    base: Path, adapter: Path, round_of: Round, tmp_path: Path
) -> None:
    delta = create_delta(adapter, base=base, out=tmp_path / "delta").file
    found = write_contribution(delta, base, round_of("float"), tmp_path / "c")
    plain = write_contribution(adapter, base, round_of("float"), tmp_path / "d")
    for name in LAYERS:
        kept, whole = change_in(found, name), change_in(plain, name)
        assert np.abs(kept - whole).max() < 0.5 * np.abs(whole).max()  # 2 bits


@pytest.mark.parametrize("form", FORMS)
def test_same_source_gives_the_same_anonymous_bytes(
    form: str, base: Path, adapter: Path, round_of: Round, tmp_path: Path
) -> None:
    first, second = (
        write_contribution(adapter, base, round_of(form), tmp_path / name) for name in "ab"
    )
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.header.recipe == {}
    assert first.header.data is None
    assert set(load_file(first.path)) == {
        f"{tensor.name}.{part}"
        for tensor in first.header.tensors
        for part in tensor_parts(first, tensor)
    }


def test_a_tensor_that_did_not_change_contributes_nothing(
    base: Path, round_of: Round, tmp_path: Path
) -> None:
    tuned = tuned_model(tmp_path / "some", LAYERS[1:])
    for form in ("signs", "float"):
        found = write_contribution(tuned, base, round_of(form), tmp_path / form)
        assert not change_in(found, LAYERS[0]).any()


def refused(source: Path, base: Path, manifest: object, out: Path, said: str) -> None:
    with pytest.raises(InputError, match=said):
        write_contribution(source, base, manifest, out)  # type: ignore[arg-type]
    assert not out.exists()


def test_a_fine_tune_that_the_round_cannot_take_is_refused(
    base: Path, tuned: Path, adapter: Path, round_of: Round, tmp_path: Path
) -> None:
    out = tmp_path / "c"
    few = round_of("float", LAYERS[:3])
    refused(tuned, base, few, out, f"tensors only, got one of '{LAYERS[3]}'")
    refused(tuned, base, round_of("lowrank"), out, "expected factors")
    refused(base, base, round_of("float"), out, "got no change from the base")
    other = disk.write_model(tmp_path / "other", disk.random_arrays(SHAPES, 7))
    refused(adapter, other, round_of("float"), out, "expected the base tiny of the round")
    sparse = tuned_model(tmp_path / "sparse", LAYERS[:1])
    refused(sparse, base, round_of("signs"), out, "expected changes of most weights")
    whole = tuned_model(tmp_path / "whole", MATRICES)
    refused(whole, base, round_of("signs"), out, "got one of 'model.embed_tokens.weight'")


def hint_for(source: Path, base: Path, manifest: Manifest, said: str) -> str | None:
    with pytest.raises(InputError, match=said) as caught:
        write_contribution(source, base, manifest, source.with_name("c"))
    return caught.value.hint


def test_a_delta_in_a_round_of_factors_is_called_one(
    base: Path, tuned: Path, adapter: Path, round_of: Round, tmp_path: Path
) -> None:
    one, other = (
        create_delta(source, base=base, out=tmp_path / f"{source.name}-delta").file
        for source in (adapter, tuned)
    )
    hint = hint_for(one, base, round_of("lowrank"), "got a delta of coded factors")
    assert hint == "contribute the run or the adapter that the delta was made of"
    hint = hint_for(other, base, round_of("lowrank"), "got a delta of coded weights")
    assert hint == "contribute a LoRA adapter"


def test_a_fine_tune_of_too_much_reads_how_to_train_less(
    base: Path, adapter: Path, round_of: Round, tmp_path: Path
) -> None:
    names = [name for name in LAYERS if "up_proj" in name or "q_proj" in name]
    layers = len({name.split(".")[2] for name in names})
    few, said = round_of("float", names), "expected changes of the round's tensors only"
    adapters = "lora_target=q_proj,up_proj trains adapters of its layers"
    assert hint_for(adapter, base, few, said) == adapters
    freezes = f"finetuning_type=freeze freeze_trainable_layers=-{layers}"
    whole = tuned_model(tmp_path / "whole", MATRICES)
    expected = f"{freezes} freeze_trainable_modules=q_proj,up_proj trains these alone; {adapters}"
    assert hint_for(whole, base, few, said) == expected


@pytest.mark.parametrize("size", [0.0, 1e-15])
@pytest.mark.parametrize("form", FORMS)
def test_an_adapter_that_was_not_trained_is_refused(
    form: str, size: float, base: Path, round_of: Round, tmp_path: Path
) -> None:
    # beside B = 0: B = 1e-16, whose squared norm is below the unit of a Gram matrix, 2^-80
    arrays = disk.lora_arrays(SHAPES, 3, 2)
    given = {name: value * (size if "lora_B" in name else 1) for name, value in arrays.items()}
    source = disk.write_adapter(tmp_path / "new", given, 3)
    refused(source, base, round_of(form), tmp_path / "c", "got no change from the base")


def test_the_same_values_in_another_type_are_refused(
    base: Path, round_of: Round, tmp_path: Path
) -> None:
    whole = {name: np.round(value) for name, value in disk.random_arrays(SHAPES, 0).items()}
    rounded, source = (
        disk.write_model(tmp_path / kind, whole, kind) for kind in ("float32", "bfloat16")
    )
    names = sorted(SHAPES)
    found = {"identity": identity(open_weights(rounded), names), "model": "tiny", "revision": ""}
    manifest = round_of("float", names, base=found)
    refused(source, rounded, manifest, tmp_path / "c", "got no change from the base")


def test_a_value_beyond_the_cap_is_refused_by_tensor(
    base: Path, round_of: Round, tmp_path: Path
) -> None:
    large = tuned_model(tmp_path / "large", LAYERS, 100.0)
    for form in ("signs", "float"):
        said = r"tensor 'model.*': .*expected values up to 10"
        refused(large, base, round_of(form), tmp_path / form, said)


def test_a_file_that_the_manifest_does_not_allow_is_refused(
    base: Path, tuned: Path, adapter: Path, round_of: Round, tmp_path: Path
) -> None:
    signs = write_contribution(tuned, base, round_of("signs"), tmp_path / "signs").path
    factors = write_contribution(adapter, base, round_of("lowrank"), tmp_path / "factors").path
    plain = create_delta(tuned, base=base, out=tmp_path / "plain").file
    low = {"file_bytes": 100_000, "rank": 2, "value": 10.0}
    small = {"file_bytes": 100, "rank": 64, "value": 10.0}
    cases = [
        (signs, round_of("float"), "one term of form float"),
        (signs, round_of("signs", LAYERS[1:]), "a change of the round's base"),
        (factors, round_of("lowrank", caps=low), "a rank of at most 2, got 3"),
        (signs, round_of("signs", caps=small), "expected at most 100 bytes"),
        (plain, round_of("signs", MATRICES), "round's base"),
    ]
    for path, manifest, said in cases:
        with pytest.raises(InputError, match=said):
            open_contribution(path, manifest)


def test_padding_bits_that_are_set_are_refused(
    base: Path, tuned: Path, round_of: Round, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def padded(before: Values, after: Values, coding: Dense) -> Coded:
        coded = code_matrix(before, after, coding)
        assert coded
        term, arrays = coded
        bits = arrays["sign"].copy()
        bits[:, -1] |= 0x80
        return term, {**arrays, "sign": bits}

    monkeypatch.setattr("zoo.gym.rounds.contribution.write.code_matrix", padded)
    with raises("rounds.padding") as caught:
        write_contribution(tuned, base, round_of("signs"), tmp_path / "c")  # in has 20 columns
    assert caught.value.code == "rounds.padding"


def test_each_changed_byte_is_noticed(
    base: Path, tuned: Path, round_of: Round, tmp_path: Path
) -> None:
    manifest = round_of("signs")
    path = write_contribution(tuned, base, manifest, tmp_path / "c").path
    whole = path.read_bytes()
    for at in range(0, len(whole), 101):
        changed = tmp_path / "changed"
        shutil.copy(path, changed)
        changed.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with raises("rounds.no_delta"):
            open_contribution(changed, manifest)
