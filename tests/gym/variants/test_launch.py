"""What other servers need: adapters that answer as our server does, and a command to start them."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.codes import raises
from tests.gym.serving.conftest import write_variant
from zoo.gym import create_delta, generate
from zoo.gym.cli import main
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.tuned.source import source_at
from zoo.gym.variants import store
from zoo.gym.variants.launch import Launch, Served, Server, launch
from zoo.models import pico_folder, resolve


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An adapter of rank 4, and a delta of it in 2 bits."""
    folder = tmp_path_factory.mktemp("variants")
    ann, bob = write_variant(folder / "ann", 0), folder / "bob.safetensors"
    create_delta(ann, base=pico_folder(), out=bob, config=DeltaConfig(bits=2))
    return {"ann": ann, "bob": bob}


Start = Callable[..., Launch]


@pytest.fixture
def start(paths: dict[str, Path], tmp_path: Path) -> Start:
    """Writes what a server needs into a folder with a blank in its name."""

    def run(server: Server, **changes: Any) -> Launch:
        sources = {name: source_at(path) for name, path in paths.items()}
        served = Served(pico_folder(), "zen-pico", sources, None, "0.0.0.0", 8000)
        return launch(server, replace(served, **changes), tmp_path / "a folder")

    return run


def test_an_adapter_answers_as_the_variant(start: Start, paths: dict[str, Path]) -> None:
    def answers(**fine_tune: Any) -> list[str]:
        return generate(pico_folder(), ["abc", "reverse: cat"], max_new_tokens=8, **fine_tune)

    written = start("vllm").adapters
    assert answers(adapter=written["ann"]) == answers(adapter=paths["ann"])
    assert answers(adapter=written["bob"]) == answers(delta=paths["bob"])


def test_an_adapter_has_one_rank_and_names_kinds_of_layers(start: Start) -> None:
    folder = start("vllm").adapters["ann"]
    config = json.loads((folder / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["rank_pattern"]) == (4, 4.0, {})
    assert not any("." in layer for layer in config["target_modules"])
    factors = load_file(folder / "adapter_model.safetensors")
    assert {min(factor.shape) for factor in factors.values()} == {4}
    assert all(factor.dtype == np.float32 for factor in factors.values())


COMMANDS: dict[Server, list[str]] = {
    "vllm": [
        *("env", "VLLM_NO_USAGE_STATS=1", "vllm", "serve", "BASE"),
        *("--served-model-name", "zen-pico", "--host", "0.0.0.0", "--port", "8000"),
        *("--enable-lora", "--max-lora-rank", "8"),
        *("--lora-modules", "ann=OUT/adapters/ann", "bob=OUT/adapters/bob"),
        *("--chat-template", "OUT/chat_template.jinja"),
    ],
    "sglang": [
        *("python", "-m", "sglang.launch_server", "--model-path", "BASE"),
        *("--served-model-name", "zen-pico", "--host", "0.0.0.0", "--port", "8000"),
        *("--lora-paths", "ann=OUT/adapters/ann", "bob=OUT/adapters/bob"),
        *("--chat-template", "OUT/chat_template.jinja"),
    ],
    "tgi": [
        *("text-generation-launcher", "--model-id", "BASE", "--usage-stats", "off"),
        *("--hostname", "0.0.0.0", "--port", "8000"),
        *("--lora-adapters", "ann=OUT/adapters/ann,bob=OUT/adapters/bob"),
        *("--tokenizer-config-path", "OUT/tokenizer_config.json"),
    ],
}


@pytest.mark.parametrize("server", COMMANDS)
def test_a_shell_reads_the_command(server: Server, start: Start, tmp_path: Path) -> None:
    words = shlex.split(start(server).command)
    places = {"OUT": str(tmp_path / "a folder"), "BASE": str(pico_folder())}
    expected = COMMANDS[server]
    for short, place in places.items():
        expected = [word.replace(short, place) for word in expected]
    assert words == expected
    assert all(Path(word).exists() for word in words if word.startswith(str(tmp_path)))


def test_the_template_is_in_the_form_that_a_server_reads(start: Start, tmp_path: Path) -> None:
    start("tgi", template="chatml")
    text = (tmp_path / "a folder" / "chat_template.jinja").read_text()
    config = json.loads((tmp_path / "a folder" / "tokenizer_config.json").read_text())
    assert "<|im_start|>" in text
    assert config["chat_template"] == text


def test_variants_with_other_templates_are_refused(
    start: Start, paths: dict[str, Path], tmp_path: Path
) -> None:
    other = write_variant(tmp_path / "carl", 1)
    template = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    (other / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    sources = {"ann": source_at(paths["ann"]), "carl": source_at(other)}
    with raises("variants.other_template", "carl: expected the chat template of ann, got another"):
        start("vllm", sources=sources)
    assert not (tmp_path / "a folder").exists()


def test_a_variant_of_whole_weights_is_refused_by_name(start: Start) -> None:
    with raises("variants.not_low_rank", "ann: expected a fine-tune of low rank, got a model"):
        start("vllm", sources={"ann": source_at(pico_folder())})


REFUSED = [
    (["--print", "vllm"], "expected --print with --out FOLDER, got only one"),
    (["--out", "new"], "expected --print with --out FOLDER, got only one"),
    (["--print", "vllm", "--out", "new", "--no-token"], "--no-token: has no effect with --print"),
    (["--print", "vllm", "--out", "new", "--port", "0"], "--port: expected 1 to 65,535 with"),
    (["--print", "vllm", "--out", "a=b"], "expected a path without ',' and '='"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED)
def test_what_has_no_effect_is_refused(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "--model", "zen-pico", *words]) == 2
    assert said in capsys.readouterr().err


def test_the_command_prints_the_line_and_takes_a_folder_of_variants(
    paths: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = str(paths["ann"].parent)
    Path(folder, "readme.md").write_text("hi")  # no variant
    words = ["--variants", folder, "--print", "sglang", "--out", "new", "--json"]
    assert main(["serve", "--model", "zen-pico", *words]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed["adapters"]) == ["ann", "bob"]
    assert shlex.split(printed["command"])[:3] == ["python", "-m", "sglang.launch_server"]


def test_a_variant_without_a_name_has_that_of_its_path_and_stored_ones_are_counted(
    paths: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.put(paths["bob"], resolve("zen-pico", offline=True), "cy")
    words = ["--variant", str(paths["bob"]), "--print", "vllm", "--out", str(tmp_path / "out")]
    assert main(["serve", "--model", "zen-pico", *words]) == 0
    said = capsys.readouterr()
    assert f"bob={tmp_path / 'out' / 'adapters' / 'bob'}" in said.out
    assert "not written: 1 variant of `zoo-gym variants list`" in said.err


def test_a_template_without_effect_has_none_in_a_settings_file_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "serving.yaml"
    file.write_text("serving: {model: zen-pico, template: qwen3}")
    words = ["--print", "vllm", "--out", str(tmp_path / "out")]
    assert main(["serve", "--config", str(file), *words]) == 0
    assert "without effect: --template qwen3" in capsys.readouterr().err
    written = (tmp_path / "out" / "chat_template.jinja").read_text()
    assert written == (pico_folder() / "chat_template.jinja").read_text()


def test_a_run_is_named_as_a_variant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--run", "r0001"]) == 2
    assert "--run: expected zoo-gym serve --variant RUN" in capsys.readouterr().err
