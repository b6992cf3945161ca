"""`zoo-gym delta` from a full model to a delta and back, on one small matrix."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.errors import GymWarning

Call = Callable[..., Any]


@pytest.fixture
def tuned(base: Path) -> Path:
    """The base with every weight moved by 1/8, up and down in turn."""
    import numpy as np
    from safetensors.numpy import load_file, save_file

    folder = base.with_name("tuned")
    folder.mkdir()
    (folder / "config.json").write_text((base / "config.json").read_text())
    [(name, weight)] = load_file(base / "model.safetensors").items()
    step = np.where(np.arange(weight.size).reshape(weight.shape) % 2, 0.125, -0.125)
    save_file({name: weight + step.astype(np.float32)}, folder / "model.safetensors")
    return folder


@pytest.fixture
def made(call: Call, base: Path, tuned: Path) -> Path:
    """A delta file of `tuned`."""
    assert call("delta", "create", str(tuned), "--base", str(base)).code == 0
    return Path("tuned.delta.safetensors").absolute()


def test_a_delta_of_full_weights_is_dense_and_unmeasured(
    call: Call, base: Path, tuned: Path
) -> None:
    found = call("delta", "create", "tuned", "--base", "base", "--out", "d.safetensors", "--json")
    size = Path("d.safetensors").stat().st_size
    assert found.json == {
        "file": "d.safetensors",
        "bytes": size,
        "form": "dense",
        "quality": None,
        "distilled": None,
        "refusals": None,
    }
    assert "quality was not measured" in found.stderr


@pytest.mark.slow
def test_a_file_that_exists_is_replaced_by_force_alone(
    call: Call, base: Path, tuned: Path, made: Path
) -> None:
    before = made.read_bytes()
    words = ("delta", "create", "tuned", "--base", "base", "--planes", "2")
    found = call(*words)
    assert (found.code, "replace the delta with --force" in found.stderr) == (2, True)
    assert made.read_bytes() == before
    assert call(*words, "--force").code == 0
    assert made.read_bytes() != before


def test_applying_a_delta_gives_the_tuned_weights_back(
    call: Call, base: Path, tuned: Path, made: Path
) -> None:
    import numpy as np
    from safetensors.numpy import load_file

    found = call("delta", "apply", str(made), "--base", str(base), "--json")
    assert found.json["folder"] == found.json["model"] == "tuned-model"
    [back] = load_file(next(Path("tuned-model").glob("*.safetensors"))).values()
    [wanted] = load_file(tuned / "model.safetensors").values()
    np.testing.assert_allclose(back, wanted, atol=1e-6)


def test_a_second_set_of_weights_is_not_used_with_a_warning(
    call: Call, base: Path, made: Path
) -> None:
    (base / "model.safetensors.index.json").write_text('{"weight_map": {"a": "b.safetensors"}}')
    with pytest.warns(GymWarning, match=r"two sets of weights: 'model\.safetensors' is loaded"):
        assert call("delta", "apply", str(made), "--base", str(base)).code == 0


def test_applying_in_bf16_reports_what_rounding_loses(call: Call, base: Path, made: Path) -> None:
    found = call("delta", "apply", str(made), "--base", str(base), "--dtype", "bf16")
    assert found.code == 0
    assert found.stderr.startswith("rounding to bf16 loses ")


def test_the_header_is_shown(call: Call, made: Path) -> None:
    found = call("delta", "info", str(made), "--json").json
    assert (found["form"], found["base"]["id"], found["quality"]) == ("dense", "base", None)


def test_a_sound_delta_passes_its_checks(call: Call, base: Path, made: Path) -> None:
    found = call("delta", "check", str(made), "--base", str(base), "--json")
    checks = {check["name"]: check["ok"] for check in found.json["checks"]}
    assert (found.code, found.json["passed"]) == (0, True)
    assert checks.pop("quality") is None
    assert set(checks.values()) == {True}


def test_a_check_finds_the_base_that_the_delta_names(call: Call, base: Path, made: Path) -> None:
    found = call("delta", "check", str(made), "--json")
    assert {check["name"]: check["ok"] for check in found.json["checks"]}["identity"] is True
    base.rename(base.with_name("elsewhere"))
    found = call("delta", "check", str(made), "--json")
    assert found.code == 0
    assert {check["name"]: check["ok"] for check in found.json["checks"]}["identity"] is None
    assert "base 'base' is not on this machine: give its folder with --base" in found.stderr


def test_rows_without_examples_to_take_them_of_are_refused(
    call: Call, base: Path, tuned: Path, made: Path
) -> None:
    for words in (("create", "tuned", "--out", "d2"), ("check", str(made))):
        found = call("delta", *words, "--base", "base", "--rows", "3", "--json")
        assert found.code == 2
        assert found.json["error"]["code"] == "cli.no_examples"
        assert "--rows: expected examples to measure 3 of, got none" in found.stderr
    assert not Path("d2").exists()


@pytest.mark.parametrize("verb", ["create", "check"])
def test_a_control_without_rows_to_measure_it_on_is_refused(
    call: Call, base: Path, tuned: Path, made: Path, verb: str
) -> None:
    source = ("tuned", "--out", "d.safetensors") if verb == "create" else (str(made),)
    words = ("delta", verb, *source, "--base", "base", "--control", str(made))
    found = call(*words)
    assert found.code == 2
    assert "--control: expected held-out rows to measure it on, got none" in found.stderr


def test_a_base_without_a_name_is_not_taken_for_none(call: Call, made: Path) -> None:
    for verb in ("apply", "check"):
        found = call("delta", verb, str(made), "--base", "")
        assert found.code == 2
        assert "--base: expected a model's name or folder, got nothing" in found.stderr


def test_a_flipped_bit_fails_the_check(call: Call, made: Path) -> None:
    content = bytearray(made.read_bytes())
    content[-1] ^= 1
    made.write_bytes(content)
    found = call("delta", "check", str(made), "--json")
    assert (found.code, found.json["passed"]) == (2, False)


@pytest.mark.parametrize("verb", ["info", "apply"])
def test_a_flipped_bit_is_refused(call: Call, made: Path, verb: str) -> None:
    content = bytearray(made.read_bytes())
    content[-1] ^= 1
    made.write_bytes(content)
    assert call("delta", verb, str(made)).code == 2


def test_a_delta_on_another_base_names_both(
    call: Call, base: Path, tuned: Path, made: Path
) -> None:
    found = call("delta", "apply", str(made), "--base", str(tuned), "--out", "never")
    assert found.code == 2
    assert "base" in found.stderr
    assert "tuned" in found.stderr
    assert not Path("never").exists()


def test_a_base_with_another_config_needs_force(call: Call, base: Path, made: Path) -> None:
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | {"rope_theta": 5.0}))
    words = ("delta", "apply", str(made), "--base", str(base), "--json")
    found = call(*words)
    assert (found.code, "delta apply --force" in found.stderr) == (2, True)
    forced = call(*words, "--force")
    assert "'rope_parameters.rope_theta': expected 10000.0, got 5.0" in forced.json["other_base"]
    assert forced.json["other_base"] in forced.stderr


def test_a_file_that_is_no_delta_is_refused(call: Call, base: Path) -> None:
    found = call("delta", "info", str(base / "model.safetensors"))
    assert found.code == 2
    assert found.stderr.startswith("zoo-gym: error: ")


REFUSED = [["--bits", "3"], ["--codec", "bf16"], ["--form", "lowrank"]]


@pytest.mark.parametrize("words", REFUSED)
def test_what_full_weights_cannot_become_is_refused(
    call: Call, base: Path, tuned: Path, words: list[str]
) -> None:
    found = call("delta", "create", "tuned", "--base", "base", *words)
    assert (found.code, found.stdout) == (2, "")
    assert not Path("tuned.delta.safetensors").exists()


def test_a_peft_folder_specifies_its_base(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "zen-nan"}))
    found = call("delta", "create", "adapter")
    assert found.code == 4
    assert "got 'zen-nan'" in found.stderr


def test_a_base_recorded_as_a_folder_s_name_must_be_given(
    call: Call, base: Path, made: Path
) -> None:
    base.rename("elsewhere")
    found = call("delta", "apply", str(made))
    assert found.code == 4
    assert "base model 'base' was not found" in found.stderr
    assert found.stderr.endswith("hint: give its folder: --base FOLDER\n")


def test_a_run_whose_data_is_gone_still_gives_a_delta(call: Call, base: Path, tuned: Path) -> None:
    from zoo.gym.jobs import create_run

    run = create_run(f"model_name_or_path: {base}\ndataset: [gone.jsonl]\n", {})
    tuned.rename(run.result)
    found = call("delta", "create", "last", "--json")
    assert (found.code, found.json["quality"]) == (0, None)
    assert "the run's data was moved or deleted" in found.stderr


def test_a_run_s_adapter_is_not_made_a_delta_of_another_base(
    call: Call, base: Path, tuned: Path
) -> None:
    from zoo.gym.delta.origin.digests import BASE_KEY, base_digests
    from zoo.gym.jobs import create_run

    env = {BASE_KEY: base_digests(base)}
    run = create_run(f"model_name_or_path: {base}\ndataset: [gone.jsonl]\n", env)
    tuned.rename(run.result)
    content = bytearray((base / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (base / "model.safetensors").write_bytes(content)
    found = call("delta", "create", run.id)
    assert found.code == 2
    assert "got other: weights" in found.stderr


def test_a_run_without_a_result_gives_no_delta(call: Call) -> None:
    from zoo.gym.jobs import create_run

    run = create_run("model_name_or_path: zen-pico\ndataset: [a]\n", {})
    run.events.emit("end", state="failed", exit_code=1)
    found = call("delta", "create", "last")
    assert (found.code, "has no result yet" in found.stderr) == (2, True)


@pytest.mark.parametrize("planes", ["0", "9"])
def test_planes_out_of_range_are_refused_by_their_flag(
    call: Call, base: Path, tuned: Path, planes: str
) -> None:
    found = call("delta", "create", "tuned", "--base", "base", "--planes", planes)
    assert found.code == 2
    assert f"--planes: expected 1 to 8, got {planes}" in found.stderr


def test_a_delta_of_a_delta_is_refused_before_its_base_is_wanted(call: Call, made: Path) -> None:
    found = call("delta", "create", str(made))
    assert found.code == 2
    assert "expected a fine-tune, got a delta" in found.stderr
    assert "zoo-gym delta apply" in found.stderr
