"""Bad settings, data and models: a sentence, an exit code, and nothing lost."""

import errno
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.gym import broken
from tests.gym.conftest import Refused
from zoo.gym.cli import main
from zoo.gym.jobs import run_folders

GOOD = "model_name_or_path: zen-pico\ndataset: chat.jsonl\n"
TRAIN = ("train", "chat.jsonl", "--max_steps", "1", "--model")


@pytest.fixture(autouse=True)
def rows(place: Path) -> Path:
    """A good file of chats."""
    return broken.chat_rows(place / "chat.jsonl")


SETTINGS = {
    "misspelt": (
        "learning_rte: 1.0e-3",
        "my.yaml:3: learning_rte: no such setting. Did you mean 'learning_rate'?",
    ),
    "type": ("lora_rank: many", 'my.yaml:3: lora_rank: expected a whole number, got "many"'),
    "range": ("val_size: -1", "my.yaml:3: val_size: expected at least 0, got -1"),
    "choice": ("think: hard", "my.yaml:3: think: expected 'template', 'keep' or 'drop', got"),
    "two": ("seed: x\nlora_rank: y", 'my.yaml:4: lora_rank: expected a whole number, got "y"'),
    "yaml": ("seed: [1,\nmax_steps: }", "my.yaml:4: broken YAML: "),
    "mixed": ("- a", "my.yaml:3: broken YAML: "),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", SETTINGS.values(), ids=SETTINGS)
def test_a_bad_setting_is_told_with_its_line(refused: Refused, case: tuple[str, str]) -> None:
    Path("my.yaml").write_text(GOOD + case[0] + "\n")
    assert case[1] in refused("train", "my.yaml", code=2)
    assert run_folders() == []


WORDS = {
    "flag": (["--learning_rte", "3"], "--learning_rte: no such option. Did you mean '--learning_r"),
    "override": (["learning_rte=3"], "learning_rte=3: no such setting. Did you mean 'learning_r"),
    "flag type": (["--lora_rank", "1.5"], '--lora_rank: expected a whole number, got "1.5"'),
    "flag range": (["--cutoff_len", "2"], '--cutoff_len: expected 8 to 1,048,576, got "2"'),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WORDS.values(), ids=WORDS)
def test_a_bad_word_is_told_as_it_was_typed(refused: Refused, case: tuple[list[str], str]) -> None:
    assert refused(*TRAIN, "zen-pico", *case[0], code=2).startswith(case[1])


@pytest.mark.slow
def test_settings_that_are_not_text_are_refused(refused: Refused) -> None:
    Path("my.yaml").write_bytes(b"\xff\x00\x01")
    assert refused("train", "my.yaml", code=2).startswith("my.yaml: not text")


ASK = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
CUT = b'{"prompt": "a", "comp'
DATA = {
    "no assistant": ("my.jsonl", ASK, "my.jsonl:1: no assistant turn: expected at least one"),
    "empty": ("my.jsonl", b"", "my.jsonl: empty file: expected rows of data, got none"),
    "blank": ("my.jsonl", b"\n \n", "my.jsonl: empty file: expected rows of data, got none"),
    "cut": ("my.jsonl", CUT, "my.jsonl:1: truncated JSON: unterminated string at column 17"),
    "cut list": ("my.json", b"[[],\n" + CUT, "my.json:2: truncated JSON: unterminated string"),
    "binary": ("my.jsonl", bytes(range(256)), "my.jsonl: not text: expected json, jsonl, csv"),
    "picture": ("my.jsonl", b"\x89PNG\r\n\xf0", "my.jsonl:1: not UTF-8 text: got byte 0x89"),
    "latin-1": ("my.txt", "caf\xe9".encode("latin1"), "my.txt:1: not UTF-8 text: got the byte"),
    "pointer": ("my.jsonl", broken.LFS.encode(), "my.jsonl: expected json, jsonl, csv, tsv,"),
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", [["train"], ["data", "inspect"]], ids=["train", "inspect"])
@pytest.mark.parametrize("case", DATA.values(), ids=DATA)
def test_bad_data_is_told_with_its_line(
    refused: Refused, case: tuple[str, bytes, str], verb: list[str]
) -> None:
    name, content, start = case
    Path(name).write_bytes(content)
    assert refused(*verb, name, "--model", "zen-pico", code=2).startswith(start)
    assert run_folders() == []


@pytest.mark.slow
def test_a_cut_line_among_good_ones_is_named_and_the_rest_is_learned(
    place: Path, near_worker: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with (place / "chat.jsonl").open("ab") as file:
        file.write(b"\n" + CUT)
    assert main([*TRAIN, "zen-pico"]) == 0
    assert f"warning: {place}/chat.jsonl:13: truncated JSON" in capsys.readouterr().err


@pytest.mark.slow
def test_a_length_that_leaves_no_label_is_refused(refused: Refused) -> None:
    row = {"prompt": "words and words and words", "completion": "x"}
    Path("my.jsonl").write_text(json.dumps(row))
    words = ["train", "my.jsonl", "--model", "zen-pico", "--cutoff_len", "8"]
    assert refused(*words, code=2).startswith("no row has a token to learn within cutoff_len 8")


@pytest.mark.slow
def test_chats_are_refused_for_a_model_without_a_template(refused: Refused, place: Path) -> None:
    broken.remove("chat_template.jinja")(broken.pico(place / "model"))
    message = refused(*TRAIN, "./model", code=2)
    assert "chat.jsonl:1: chat data, but the model" in message
    assert "chat.jsonl:1" in refused("data", "inspect", "chat.jsonl", "--model", "./model", code=2)


UNKNOWN = broken.set_config(model_type="quantum_gpt", architectures=["QuantumForCausalLM"])
MODELS: dict[str, tuple[broken.Break, str]] = {
    "truncated": (broken.cut(broken.WEIGHTS), "model.safetensors: truncated file: expected at"),
    "pointer": (broken.write(broken.WEIGHTS, broken.LFS), "model.safetensors' is a Git LFS point"),
    "shape": (broken.reshape, f"{broken.NORM}: shape mismatch: expected (128,), got (64,)"),
    "sizes": (broken.set_config(num_hidden_layers=2), "must be equal to the number of"),
    "nan": (broken.put_nan, f"{broken.NORM}: value 3 is nan: expected finite weights"),
    "architecture": (UNKNOWN, "config.json: model_type: unknown architecture 'quantum_gpt'"),
    "no language": (broken.set_config(model_type="vit"), "a causal language model, got 'vit'"),
    "bin": (broken.rename("pytorch_model.bin"), "expected safetensors, got 'pytorch_model.bin'"),
    "pt": (broken.rename("model.pt"), "expected safetensors, got 'model.pt'"),
    "no weights": (broken.remove(broken.WEIGHTS), "no weights in '"),
    "no config": (broken.remove("config.json"), "expected a 'config.json' next to the weights"),
    "config": (broken.write("config.json", "[]"), "config.json: expected a JSON object, got a lis"),
    "config cut": (broken.cut("config.json"), "config.json: expected a JSON object, got a damaged"),
    "config pointer": (broken.write("config.json", broken.LFS), "got a Git LFS pointer"),
    "no tokenizer": (broken.remove("tokenizer.json"), "no tokenizer: expected tokenizer.json"),
    "tokenizer": (broken.cut("tokenizer.json"), "tokenizer.json: expected a JSON object, got a"),
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["train", "chat"])
@pytest.mark.parametrize("case", MODELS.values(), ids=MODELS)
def test_a_bad_model_is_told(
    refused: Refused, place: Path, case: tuple[broken.Break, str], verb: str
) -> None:
    spoil, part = case
    spoil(broken.pico(place / "model"))
    words = [*TRAIN, "./model"] if verb == "train" else ["chat", "--model", "./model"]
    assert part in refused(*words, code=2)


@pytest.mark.slow
def test_a_vocabulary_that_is_too_small_for_the_tokenizer_is_told(
    refused: Refused, place: Path
) -> None:
    broken.set_config(vocab_size=10)(broken.pico(place / "model"))
    named = "expected one of the 10 tokens that the model has embeddings for"
    assert named in refused(*TRAIN, "./model", code=2)
    assert "this model cannot be loaded: " in refused("chat", "--model", "./model", code=2)


ABSENT = {
    "data": (["train", "cat.jsonl", "--model", "zen-pico"], "Did you mean 'chat.jsonl'?"),
    "settings": (["train", "my.yaml"], "my.yaml: no such file: expected a YAML file of settings"),
    "folder": ([*TRAIN, "./nowhere"], "no such model folder: 'nowhere'"),
    "name": ([*TRAIN, "zen-nan"], "no such model: expected one of zen-pico, smollm2, zen-nano"),
    "chat": (["chat", "--model", "zen-nano"], "'Qwen/Qwen3-0.6B' is not on this machine"),
    "adapter": (["chat", "--adapter_name_or_path", "a"], "a: no such file: expected a peft folder"),
    "delta": (["delta", "apply", "d.safetensors"], "d.safetensors: no such file: expected a delta"),
    "source": (["delta", "create", "tuned"], "tuned: expected a run, a model folder or a .safete"),
    "run": (["runs", "show", "last"], "no run 'last': expected a run id"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ABSENT.values(), ids=ABSENT)
def test_what_is_absent_is_named(refused: Refused, case: tuple[list[str], str]) -> None:
    assert case[1] in refused(*case[0], code=4)
    assert run_folders() == []


@pytest.mark.slow
@pytest.mark.parametrize("way", ["--offline", "HF_HUB_OFFLINE"])
def test_offline_an_absent_model_is_refused_without_a_call(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def call(*_: object) -> None:
        pytest.fail("the network was used")

    monkeypatch.setattr(socket.socket, "connect", call)
    monkeypatch.setattr(socket, "getaddrinfo", call)
    flags = ["--offline"] if way == "--offline" else []
    monkeypatch.setenv("HF_HUB_OFFLINE", "0" if flags else "1")
    message = refused(*TRAIN, "zen-nano", *flags, code=4)
    assert message == (
        "model 'Qwen/Qwen3-0.6B' is not on this machine, and the hub is not contacted while offline"
    )


UNWRITABLE = ["chat.jsonl/below"] + ["/proc/below"] * (sys.platform == "linux")


@pytest.mark.slow
@pytest.mark.parametrize("folder", UNWRITABLE)
def test_an_unwritable_home_is_told(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", folder)
    message = refused(*TRAIN, "zen-pico", code=1)
    assert message.startswith(f"cannot write '{Path(folder).absolute()}/data/runs': ")


@pytest.mark.slow
@pytest.mark.parametrize("folder", [*UNWRITABLE, "chat.jsonl"])
def test_an_unwritable_output_is_told_before_the_training(refused: Refused, folder: str) -> None:
    message = refused(*TRAIN, "zen-pico", "--output_dir", folder, code=1)
    assert message.startswith(f"cannot write '{folder}': ")
    assert run_folders() == []


@pytest.mark.slow
def test_an_output_folder_with_files_is_refused_before_the_training(refused: Refused) -> None:
    Path("kept").mkdir()
    Path("kept", "notes.txt").write_text("mine")
    message = refused(*TRAIN, "zen-pico", "--output_dir", "kept", code=2)
    assert message.startswith("output_dir: expected no folder or an empty one, got files in 'kept'")
    assert run_folders() == []


@pytest.mark.slow
def test_a_full_disk_ends_a_run_in_a_sentence(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    message = refused(*TRAIN, "zen-pico", code=1)
    [run] = run_folders()
    assert message.startswith(f"cannot write '{run.checkpoints}")
    assert message.endswith(": no space left on device")


@pytest.mark.slow
def test_without_json_a_refusal_leaves_stdout_to_others(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "chat.jsonl", "--model", "./nowhere"]) == 4
    assert capsys.readouterr().out == ""
