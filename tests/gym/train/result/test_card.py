"""The lines of a model card load the result, and it answers in transformers as in zoo-gym."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from zoo.gym import TrainConfig, generate, run_training
from zoo.gym.data import fingerprint
from zoo.gym.delta import apply_delta, create_delta
from zoo.gym.delta.origin.usage import BASE, HERE, PROMPT, usage_of
from zoo.models import PICO, Resolved, pico_folder

ROWS = [{"prompt": f"Say {n}.", "completion": "so it is"} for n in range(8)]
SETTINGS: dict[str, Any] = {"dataset": ROWS, "max_steps": 40, "retention": False}
WITHOUT_TEMPLATE = {"tokenizer_config.json", "tokenizer.json", "config.json", "model.safetensors"}


def plain_pico(folder: Path) -> Path:
    """zen-pico without its chat template."""
    folder.mkdir()
    for name in WITHOUT_TEMPLATE:
        (folder / name).write_bytes((pico_folder() / name).read_bytes())
    return folder


def answer_of(card: Path, base: Path, prompt: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the lines of a card print, with the reader's folders and prompt."""
    code = card.read_text().partition("```python\n")[2].partition("```")[0]
    for placeholder, value in {HERE: str(card.parent), BASE: str(base), PROMPT: prompt}.items():
        code = code.replace(placeholder, value)
    capsys.readouterr()
    exec(code, {})
    return capsys.readouterr().out.strip("\n")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.parametrize(
    ("kind", "templated"),
    [("lora", True), ("full", True), ("lora", False)],
    ids=["adapter", "full weights", "no template"],
)
def test_the_lines_of_a_card_give_the_answer_of_zoo_gym(
    home: Path, capsys: pytest.CaptureFixture[str], kind: str, *, templated: bool
) -> None:
    base = pico_folder() if templated else plain_pico(home / "plain")
    name = PICO if templated else str(base)
    result = run_training(TrainConfig(model_name_or_path=name, finetuning_type=kind, **SETTINGS))
    adapter = result.model if kind == "lora" else None
    model = base if adapter else result.model
    [expected] = generate(model, ["Say 3."], adapter=adapter)
    assert expected == "so it is"
    assert answer_of(result.model / "README.md", base, "Say 3.", capsys) == expected


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_a_model_that_is_rebuilt_from_a_delta_has_a_card_with_such_lines(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_training(TrainConfig(model_name_or_path=PICO, **SETTINGS))
    delta = create_delta(result.model, base=pico_folder(), out=home / "d.safetensors").file
    folder = apply_delta(delta, base=pico_folder(), out=home / "whole").folder
    [expected] = generate(folder, ["Say 3."])
    card = folder / "README.md"
    assert answer_of(card, pico_folder(), "Say 3.", capsys) == expected
    assert "license: apache-2.0" in card.read_text()


FORM: Mapping[str, Any] = MappingProxyType({"joint": "", "system": False, "scores": False})
NAMES = [
    (Resolved("x", "org/x", "a" * 40, Path("none")), '("org/x")', "--model 'org/x'"),
    (Resolved(PICO, PICO, None, pico_folder()), f'("{BASE}")', f"--model '{PICO}'"),
    (Resolved("/x", "x", None, Path("none")), f'("{BASE}")', f"--model '{BASE}'"),
]


@pytest.mark.parametrize(("base", "transformers", "own"), NAMES, ids=["hub", "listed", "folder"])
def test_a_base_is_named_as_each_program_finds_it(
    tmp_path: Path, base: Resolved, transformers: str, own: str
) -> None:
    text = usage_of(tmp_path, base, adapter=True, **FORM).section()
    assert f"AutoTokenizer.from_pretrained{transformers}" in text
    assert own in text


@pytest.mark.parametrize("whole", [False, True], ids=["template alone", "tokenizer"])
def test_the_tokenizer_of_an_adapter_is_used(tmp_path: Path, *, whole: bool) -> None:
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    if whole:
        (tmp_path / "tokenizer.json").write_text("{}")
    base = Resolved("x", "org/x", "a" * 40, tmp_path / "none")
    text = usage_of(tmp_path, base, adapter=True, **FORM).section()
    assert f'AutoTokenizer.from_pretrained("{HERE if whole else "org/x"}")' in text
    assert ("tokenizer.chat_template = " in text) is not whole
    assert "apply_chat_template" in text


@pytest.mark.parametrize(("own", "stated"), [("<|im_end|>", True), ("</s>", False)])
def test_an_adapter_with_an_end_of_its_own_is_asked_with_it(
    tmp_path: Path, own: str, *, stated: bool
) -> None:
    for name, end in (("base", "</s>"), ("adapter", own)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tokenizer_config.json").write_text(f'{{"eos_token": "{end}"}}')
    base = Resolved("x", "org/x", "a" * 40, tmp_path / "base")
    text = usage_of(tmp_path / "adapter", base, adapter=True, **FORM).section()
    assert ("tokenizer.eos_token_id" in text) is stated


def test_a_reward_model_is_loaded_and_not_asked(tmp_path: Path) -> None:
    base = Resolved(PICO, PICO, None, pico_folder())
    form: dict[str, Any] = {**FORM, "scores": True}
    text = usage_of(tmp_path, base, adapter=False, **form).section()
    assert "AutoModelForSequenceClassification" in text
    assert "generate" not in text
    assert "zoo-gym chat" not in text


@pytest.mark.slow
def test_a_card_has_the_digest_of_the_data_and_none_of_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    data = tmp_path / "mine.jsonl"
    rows = ({"prompt": f"quokka {n}", "completion": f"zebra {n}"} for n in range(8))
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("HF_TOKEN", token := "hf_AbCdEfGhIjKlMnOpQr")
    result = run_training(TrainConfig(model_name_or_path=PICO, dataset=str(data), max_steps=1))
    card = (result.model / "README.md").read_text()
    assert {"base_model: zen-pico", "license: apache-2.0"} <= set(card.splitlines())
    assert f"`{fingerprint([data])}`" in card
    assert "learning_rate: " in card
    assert not [word for word in ("quokka", "zebra", str(tmp_path)) if word in card]
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert not [path for path in files if token.encode() in path.read_bytes()]
