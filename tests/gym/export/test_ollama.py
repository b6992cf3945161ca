"""A folder for Ollama: its Modelfile, and what is started after consent."""

import json
import shutil
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.export.conftest import MakeJob
from tests.gym.export.tuned import adapter
from zoo.gym.cli import main
from zoo.gym.export.ollama import modelfile
from zoo.gym.export.run import export
from zoo.gym.tuned.record import Record
from zoo.models import pico_folder
from zoo.models.gguf.parts import open_gguf

PROGRAM = """#!/bin/sh
echo "$@" >> {log}
test "$1" = show && exit {shown}
exit 0
"""


@pytest.fixture
def fake_ollama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `ollama` that writes how it is called; it has no model yet."""
    _install(tmp_path, shown=1)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path / "calls"


def _install(folder: Path, shown: int) -> None:
    program = folder / "bin/ollama"
    program.parent.mkdir(exist_ok=True)
    program.write_text(PROGRAM.format(log=folder / "calls", shown=shown))
    program.chmod(0o755)


def test_the_modelfile_has_the_template_and_the_ends_alone(job: MakeJob, tmp_path: Path) -> None:
    report = export(job("zen-pico", name="Pico"), "ollama", tmp_path / "m")
    lines = (tmp_path / "m/Modelfile").read_text().splitlines()
    assert lines[0] == "FROM ./model.gguf"
    assert [line for line in lines if line.startswith("PARAMETER stop")] == [
        'PARAMETER stop "<|im_end|>"'
    ]
    assert "<|im_start|><|system|>{{ end }}" in lines[1]
    assert report.next == f"ollama create pico -f {tmp_path}/m/Modelfile"
    open_gguf(tmp_path / "m/model.gguf")


def test_an_adapter_stays_beside_its_base(job: MakeJob, tmp_path: Path) -> None:
    made = job(adapter(tmp_path / "a"), quantization="q8_0")
    report = export(made, "ollama-lora", tmp_path / "m")
    lines = (tmp_path / "m/Modelfile").read_text().splitlines()
    assert lines[:2] == ["FROM ./model.gguf", "ADAPTER ./adapter.gguf"]
    assert report.check is not None
    assert report.check["kl_of_base"] > 1e-3
    assert any("tools are not in the template" in note for note in report.notes)
    assert open_gguf(tmp_path / "m/model.gguf").tensors["output_norm.weight"]


def test_every_end_of_an_answer_is_a_stop(job: MakeJob, tmp_path: Path) -> None:
    shutil.copytree(pico_folder(), tmp_path / "b")
    (tmp_path / "b/generation_config.json").write_text('{"eos_token_id": [258, 256]}')
    export(job(tmp_path / "b"), "ollama", tmp_path / "m")
    text = (tmp_path / "m/Modelfile").read_text()
    assert 'PARAMETER stop "<|im_end|>"\nPARAMETER stop "<|endoftext|>"\n' in text
    metadata = open_gguf(tmp_path / "m/model.gguf").metadata
    assert metadata.integer("tokenizer.ggml.eos_token_id") == 258
    assert metadata.integer("tokenizer.ggml.eot_token_id") == 256


def test_a_plain_token_is_no_stop_but_ends_answers(job: MakeJob, tmp_path: Path) -> None:
    shutil.copytree(pico_folder(), tmp_path / "b")
    (tmp_path / "b/generation_config.json").write_text('{"eos_token_id": [258, 97]}')
    report = export(job(tmp_path / "b"), "ollama", tmp_path / "m")
    lines = (tmp_path / "m/Modelfile").read_text().splitlines()
    assert [line for line in lines if " stop " in line] == ['PARAMETER stop "<|im_end|>"']
    assert any("no stop in Ollama: token 97, 'a'" in note for note in report.notes)
    metadata = open_gguf(tmp_path / "m/model.gguf").metadata
    assert metadata.integer("tokenizer.ggml.eot_token_id") == 97


def _with_end(folder: Path, text: str) -> Path:
    """Writes zen-pico with another text of the token that ends an answer."""
    shutil.copytree(pico_folder(), folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        content = (folder / name).read_text()
        escaped = json.dumps(text)[1:-1] if name.endswith("json") else text.replace("'", "")
        (folder / name).write_text(content.replace("<|im_end|>", escaped))
    return folder


@pytest.mark.parametrize(
    "text", ['<e"\nADAPTER /etc/passwd\nPARAMETER stop "x', "<e\\>", "<e\u200b>"]
)
def test_a_token_writes_no_line_of_the_modelfile(text: str, job: MakeJob, tmp_path: Path) -> None:
    made = job(_with_end(tmp_path / "b", text))
    lines = modelfile(made, "{{ .Prompt }}", "./model.gguf").splitlines()
    assert [line.split(" ")[0] for line in lines] == ["FROM", "TEMPLATE"]


def test_a_system_prompt_that_a_modelfile_would_change_is_refused(
    job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job("zen-pico")
    for system in ('""\u200b"\nFROM evil', "Réponds\u00a0: oui", 'say "', '"""'):
        monkeypatch.setattr(Record, "system", system)
        with raises("export.not_quotable"):
            modelfile(made, "{{ .Prompt }}", "./model.gguf")


def test_a_date_that_stays_is_noted(job: MakeJob, tmp_path: Path) -> None:
    template = tmp_path / "date.jinja"
    template.write_text(
        "{{ '<|im_start|>' + strftime_now('%d %b %Y') + '<|im_end|>' }}{% for m in messages %}"
        "{{ '<|im_start|>' + m.role + m.content + '<|im_end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant' }}{% endif %}"
    )
    report = export(job("zen-pico", template=str(template)), "ollama", tmp_path / "m")
    assert any("prints the date" in note for note in report.notes)
    assert report.check is not None
    assert report.check["chats"] == 8


def test_a_template_beyond_texts_between_turns_is_refused(job: MakeJob, tmp_path: Path) -> None:
    template = tmp_path / "odd.jinja"
    template.write_text(
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content.upper() }}"
        "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
        "{% endif %}"
    )
    with raises("export.template_not_in_go") as refused:
        export(job("zen-pico", template=str(template)), "ollama", tmp_path / "m")
    assert "--format gguf" in str(refused.value.hint)


def test_ollama_is_started_after_consent_alone(place: Path, fake_ollama: Path) -> None:
    words = ["export", "zen-pico", "--format", "ollama", "--no-check"]
    assert main([*words, "--out", "a"]) == 0
    assert not fake_ollama.exists()  # no terminal, so nobody agreed
    assert main([*words, "--out", "b", "--yes"]) == 0
    assert fake_ollama.read_text().splitlines() == [
        "show zen-pico",
        "create zen-pico -f b/Modelfile",
    ]


def test_a_model_that_ollama_has_is_replaced_by_force_alone(
    place: Path, fake_ollama: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _install(place, shown=0)
    words = ["export", "zen-pico", "--format", "ollama", "--no-check", "--out", "m", "--yes"]
    assert main(words) == 2
    assert "Ollama has a model 'zen-pico'" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0
    assert fake_ollama.read_text().splitlines()[-1] == "create zen-pico -f m/Modelfile"


def test_the_system_prompt_of_the_training_is_in_the_modelfile(
    job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job("zen-pico")
    monkeypatch.setattr(Record, "system", "Be brief.")
    lines = modelfile(made, "{{ .Prompt }}", "./model.gguf").splitlines()
    assert 'SYSTEM """Be brief."""' in lines
