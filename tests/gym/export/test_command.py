"""`zoo-gym export`: sources, names, refusals, and what a kill leaves."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.gym.export.tuned import adapter
from zoo.gym.cli import main
from zoo.models import pico_folder

pytest.importorskip("xllamacpp")


def _answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return answer


def test_the_default_is_a_checked_file_named_after_source_and_type(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "zen-pico", "--json"]) == 0
    answer = _answer(capsys)
    assert answer["path"] == "zen-pico-q8_0.gguf"
    assert answer["check"]["by"] == "llama.cpp"
    assert (place / "zen-pico-q8_0.gguf").stat().st_size == answer["bytes"]


def test_a_dry_run_writes_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "zen-pico", "--dry-run", "--json"]) == 0
    assert _answer(capsys)["types"] == {"Q8_0": 29, "F32": 17}
    assert list(place.glob("*.gguf")) == []


def test_the_published_options_name_an_adapter_its_base_and_the_folder(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter(place / "a")
    words = ["--model_name_or_path", "zen-pico", "--adapter_name_or_path", "a"]
    words += ["--export_dir", "merged", "--format", "hf"]
    assert main(["export", *words, "--json"]) == 0
    assert _answer(capsys)["check"]["by"] == "transformers"
    assert (place / "merged/model.safetensors").is_file()


def test_what_is_there_is_replaced_by_force_alone(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "m.gguf").write_text("mine")
    words = ["export", "zen-pico", "--out", "m.gguf", "--no-check"]
    assert main(words) == 2
    assert (place / "m.gguf").read_text() == "mine"
    assert "--force replaces it" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0
    assert (place / "m.gguf").stat().st_size > 800_000


def test_force_replaces_no_folder_that_is_no_export(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "thesis").mkdir()
    (place / "thesis/text.txt").write_text("years of work")
    shutil.copytree(pico_folder(), place / "source")
    for out, words in (
        ("thesis", "without export.json"),
        (".", "expected a name of its own"),
        ("source", "expected a name of its own"),
        (str(place), "expected a name of its own"),
    ):
        command = ["export", "source", "--format", "hf", "--out", out, "--force", "--no-check"]
        assert main(command) == 2
        assert words in capsys.readouterr().err
    assert (place / "thesis/text.txt").read_text() == "years of work"
    assert (place / "source/model.safetensors").is_file()
    monkeypatch.setenv("HOME", str(place / "home"))
    for name in ("..", ".", "-h", "a/b"):
        words_ = ["export", "source", "--format", "lmstudio", f"--name={name}", "--force"]
        assert main(words_) == 2
        assert "name: expected a-z" in capsys.readouterr().err


def test_a_folder_of_ours_is_replaced_and_says_what_it_is(place: Path) -> None:
    words = ["export", "zen-pico", "--format", "hf", "--out", "m"]
    assert main(words) == 0
    mark = json.loads((place / "m/export.json").read_text())
    assert (mark["format"], mark["check"]["by"]) == ("hf", "transformers")
    (place / "m/old.txt").touch()
    assert main([*words, "--force", "--dtype", "f32"]) == 0
    assert not (place / "m/old.txt").exists()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("m.onnx", "--format onnx --out m"),
        ("m.safetensors", "--format hf --out m"),
        ("m", "expected a name that ends with .gguf"),
    ],
)
def test_another_ending_is_no_gguf_file(
    out: str, message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "zen-pico", "--out", out]) == 2
    assert message in capsys.readouterr().err
    assert main(["export", "zen-pico", "--format", "hf", "--out", "m.gguf"]) == 2
    assert "expected the name of a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["zen-pico", "--format", "gguuf"], "format: expected one of"),
        (["zen-pico", "--format", "hf", "--quantization", "q8_0"], "has no effect"),
        (["zen-pico", "--format", "gguf", "--dtype", "f32"], "has no effect"),
        (["zen-pico", "--format", "gguf-lora", "--template", "chatml"], "has no effect"),
        (["zen-pico", "--quantization", "iq2_xxs"], "quantization: expected one of"),
        (["zen-pico", "--base", "zen-pico"], "--base: expected none with whole weights"),
        (["no-such-thing"], "no-such-thing"),
        ([], "SOURCE: expected one run"),
    ],
)
def test_what_has_no_effect_or_no_meaning_is_refused(
    words: list[str], message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", *words]) in {2, 4}
    assert message in capsys.readouterr().err
    assert not list(place.glob("*.gguf"))


def test_a_full_disk_is_reported_before_anything_is_written(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    usage = shutil.disk_usage(place)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    assert main(["export", "zen-pico", "--out", "m.gguf"]) == 3
    assert "disk too small" in capsys.readouterr().err
    assert not (place / "m.gguf").exists()


def test_no_other_program_is_needed_and_no_network(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    connect = socket.socket.connect

    def local(self: socket.socket, address: Any) -> None:
        assert address[0] == "127.0.0.1", address  # llama.cpp's server in this process
        connect(self, address)

    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(socket.socket, "connect", local)
    assert main(["export", "zen-pico", "--out", "m.gguf"]) == 0


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        pytest.param("gguf", 1, marks=pytest.mark.slow),
        pytest.param("gguf", 10, marks=pytest.mark.nightly),
        pytest.param("hf", 10, marks=pytest.mark.nightly),
    ],
)
def test_a_kill_leaves_no_half_file_and_the_same_command_ends(
    kind: str, kills: int, place: Path
) -> None:
    file = "" if kind == "gguf" else "model.safetensors"
    name = "m.gguf" if kind == "gguf" else "m"
    words = [sys.executable, "-m", "zoo.gym", "export", "zen-pico", "--format", kind, "--out", name]
    started = time.monotonic()
    subprocess.run([*words[:-1], f"whole-{name}"], check=True, capture_output=True)
    whole_s = time.monotonic() - started
    for share in range(1, kills + 1):
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(whole_s * share / (kills + 1))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if (written := place / name / file).exists():  # it was done
            assert written.read_bytes() == (place / f"whole-{name}" / file).read_bytes()
            break
    subprocess.run([*words, "--force"], check=True, capture_output=True)
    assert (place / name / file).read_bytes() == (place / f"whole-{name}" / file).read_bytes()


def test_lm_studio_finds_the_file_in_its_own_folder(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(place / "home"))
    assert main(["export", "zen-pico", "--format", "lmstudio", "--no-check"]) == 0
    file = place / "home/.lmstudio/models/zoo-gym/zen-pico/zen-pico.gguf"
    assert file.stat().st_size > 800_000
