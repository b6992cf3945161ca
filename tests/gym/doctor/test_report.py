"""The report as people read it, and what is said to be missing."""

import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.gym.doctor.conftest import ALL_WELL, Examined
from zoo.gym.cli import doctor as command
from zoo.gym.doctor import as_json, as_lines
from zoo.gym.doctor.capacity import jobs
from zoo.gym.doctor.extras import PURPOSES, lacking_packages, missing_extras, missing_torch
from zoo.gym.doctor.machine import cpuinfo_name, driver_version
from zoo.gym.errors import EXIT_CODES, GymError

ROOT = Path(__file__).parents[3]


def test_every_line_fits_into_eighty_columns(examined: Examined) -> None:
    lines = as_lines(examined(ALL_WELL.replace("well", "a long sentence " * 9)), {"torch": "2"})
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "All good: this machine can train."


def test_the_json_has_what_the_text_has(examined: Examined) -> None:
    report = examined(ALL_WELL)
    found, text = as_json(report, {"torch": "2"}), "\n".join(as_lines(report, {"torch": "2"}))
    assert set(found) == {*asdict(report), "versions", "self_test", "fits"} - {"checks", "jobs"}
    assert all(thing["command"] in text for thing in found["missing"])
    assert all(check["said"] in text for check in found["self_test"])


def test_a_failed_self_test_ends_with_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = (sys.executable, "-c", "raise SystemExit(3)")
    monkeypatch.setattr(sys.modules["zoo.gym.doctor.examine"], "SELF_TEST", argv)
    assert command.doctor() == EXIT_CODES[GymError]


def test_every_extra_has_its_purpose() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(PURPOSES) == set(project["optional-dependencies"]) - {"all"}


def test_an_extra_lacks_what_its_inner_extra_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["zoo-gym[b] ; extra == 'a'", "no-such-thing>=1 ; extra == 'b'"]
    lines += ["pytest", "base-thing ; python_version > '3'"]
    monkeypatch.setattr("zoo.backends.machine.installing.requires", lambda _: lines)
    assert list(lacking_packages("a")) == ["no-such-thing"]


def test_a_version_that_is_too_old_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["pytest>=9999 ; extra == 'serve'", "hypothesis ; extra == 'web'"]
    monkeypatch.setattr("zoo.backends.machine.installing.requires", lambda _: lines)
    for name in ("serve", "web"):
        monkeypatch.setitem(PURPOSES, name, "an extra")
    assert [(found.what, found.packages) for found in missing_extras()] == [("serve", ("pytest",))]


@pytest.mark.parametrize(
    ("gpu", "cuda_built", "device", "start"),
    [(True, False, "cpu", ("pip install", "uv pip")), (True, True, "cpu", ("nvidia-smi",))],
)
def test_a_gpu_that_torch_cannot_use_is_reported_first(
    gpu: bool, cuda_built: bool, device: str, start: tuple[str, ...]
) -> None:
    (found,) = missing_torch(gpu=gpu, cuda_built=cuda_built, device=device)
    assert found.needed
    assert found.command.startswith(start)


@pytest.mark.parametrize(("gpu", "device"), [(False, "cpu"), (True, "cuda")])
def test_a_card_that_is_absent_or_used_is_not_missing(gpu: bool, device: str) -> None:
    assert missing_torch(gpu=gpu, cuda_built=True, device=device) == ()


def test_without_torch_the_command_for_this_machine_is_missing_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zoo.gym.doctor.extras.find_spec", {}.get)
    (found,) = missing_torch(gpu=True, cuda_built=False, device="cpu")
    assert (found.what, found.needed) == ("torch", True)
    assert " install torch==" in found.command


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5", "550.54.15"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  R", "580.95.05"),
        ("nothing of the kind", None),
    ],
)
def test_the_driver_of_a_gpu_is_named(tmp_path: Path, line: str, version: str | None) -> None:
    (tmp_path / "version").write_text(f"{line}\nGCC version: gcc version 13.2.0 (x) \n")
    assert driver_version(tmp_path / "version") == version
    assert driver_version(tmp_path / "absent") is None


def test_the_processor_is_named_as_linux_names_it(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: Fast: 9000\nmodel name\t: other\n")
    assert cpuinfo_name(file) == "Fast: 9000"
    assert cpuinfo_name(tmp_path / "none") is None


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_ways_of_a_device_are_listed_with_their_settings(
    device: str, examined: Examined
) -> None:
    text = "\n".join(as_lines(replace(examined(ALL_WELL), jobs=jobs(device, 10**12)), {}))
    assert text.count("quantization_bit=4") == 3  # a model each
    assert text.count("stream_layers=true") == (3 if device == "cpu" else 0)
    assert text.count("optim=adamw_8bit") == (3 if device == "cuda" else 0)
    assert text.count("  zen-nano    ") == 2  # and once among the models


def test_ways_that_save_memory_need_less() -> None:
    needs = {job.method: job.needs_bytes for job in jobs("cuda", 0) if job.model == "zen-eco"}
    needs |= {job.method: job.needs_bytes for job in jobs("cpu", 0) if job.model == "zen-eco"}
    assert needs["streamed"] < needs["qlora"] < needs["lora"] < needs["badam"]
    assert needs["badam"] < needs["galore"] < needs["adamw_8bit"] < needs["full"]


def test_the_report_and_the_readme_say_that_nothing_is_sent(examined: Examined) -> None:
    (line,) = [each for each in as_lines(examined(ALL_WELL), {}) if "telemetry" in each]
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    for promise in ("no telemetry", "no update check"):
        assert promise in line
        assert promise in readme
