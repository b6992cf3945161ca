"""A model without a chat template is asked as its rows had it: chat begins what was learned."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from zoo.gym import TrainConfig, open_chat, run_training
from zoo.gym.data import EncodeOptions, encode_prompt, load_tokenizer
from zoo.gym.data.inspection import inspect_dataset
from zoo.gym.data.notes import survey
from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.data.records import LEARNED, Kind
from zoo.gym.data.report import report
from zoo.gym.data.rows import as_chat, encode_row, make_encoder
from zoo.gym.delta import apply_delta, create_delta
from zoo.gym.train.rows import prepare_rows
from zoo.models import pico_folder

ROWS: dict[str, dict[str, Any]] = {
    "prompt and completion": {"prompt": "2 + 2 =", "completion": " 4"},
    "prompt and response": {"prompt": "Say a.", "response": " a"},
    "instruction and output": {"instruction": "Say a.", "output": "a"},
    "instruction, input and output": {"instruction": "Say it.", "input": "a", "output": "a"},
    "history": {"instruction": "And b?", "output": "b", "history": [["Say a.", "a"]]},
    "self-instruct": {"instruction": "Say a.", "instances": [{"input": "b", "output": "a"}]},
    "dolly": {"instruction": "Say a.", "context": "b", "response": "a", "category": "c"},
    "pair": {"prompt": "Say a.", "chosen": " a", "rejected": " b"},
    "pair of an instruction": {"instruction": "Say a.", "chosen": "a", "rejected": "b"},
    "rated": {"prompt": "Say a.", "completion": " a", "label": True},
}


def without_template(folder: Path) -> Path:
    """Copies zen-pico without its chat template."""
    shutil.copytree(pico_folder(), folder)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("form", ROWS)
def test_the_prompt_of_each_format_begins_what_is_learned(form: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(ROWS[form]) + "\n")
    kinds: dict[str, set[Kind]] = {"pair": {"pair"}, "rated": {"rated"}}
    [record] = read_dataset([file], kinds=kinds.get(form.split(maxsplit=1)[0], LEARNED)).records
    tokenizer = load_tokenizer(without_template(tmp_path / "base"))
    encoder = make_encoder(tokenizer, EncodeOptions(200))
    surveyed = survey([record], encoder)
    learned = record.sides[0] if record.sides else record
    row = encode_row(encoder, learned)
    options = EncodeOptions(200, joint=surveyed.common_joint)
    asked = encode_prompt(as_chat(learned)[:-1], tokenizer, options)
    assert row.ids[: len(asked)] == asked
    assert row.learned.index(True) == len(asked)


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("has_template", [True, False])
def test_inspect_shows_the_prompt_of_each_format(
    form: str, tmp_path: Path, has_template: bool
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(ROWS[form]) + "\n")
    kinds: dict[str, set[Kind]] = {"pair": {"pair"}, "rated": {"rated"}}
    base = pico_folder() if has_template else without_template(tmp_path / "base")
    found = inspect_dataset(
        [file], base, EncodeOptions(200), kinds.get(form.split(maxsplit=1)[0], LEARNED)
    )
    read = "".join(piece.text for piece in found.example)
    assert found.prompt
    assert read.startswith(found.prompt)
    assert found.prompt in report(found, show_prompt=True)
    assert "ask for this answer" not in report(found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_the_form_goes_with_the_result_and_the_delta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    base = without_template(tmp_path / "base")
    rows = [{"instruction": f"Say {n}.", "output": f"{n} it is"} for n in range(8)]
    config = TrainConfig(model_name_or_path=base, dataset=rows, max_steps=2)
    adapter = run_training(config).model
    with open_chat(base, adapter=adapter) as chat:
        assert chat.options.joint == "\n\n"
    with open_chat(base) as chat:
        assert chat.options.joint == ""
    assert "ends with a blank line" in (adapter / "README.md").read_text()
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "Say 9.", "answer": "9"}\n' * 8)
    asked = TrainConfig(
        model_name_or_path=base,
        dataset=str(prompts),
        stage="grpo",
        date="2026-11-27",
        adapter_name_or_path=str(adapter),
    )
    rewarded = prepare_rows(asked, base)
    assert rewarded.joint == "\n\n"
    tokenizer = load_tokenizer(base)
    assert tokenizer.decode(rewarded.train[0].rows[0].ids.tolist()).endswith(".\n\n")
    delta = create_delta(adapter, base=base, out=tmp_path / "a.safetensors").file
    with open_chat(base, delta=delta) as chat:
        assert chat.options.joint == "\n\n"
    with open_chat(apply_delta(delta, base=base, out=tmp_path / "rebuilt").folder) as chat:
        assert chat.options.joint == "\n\n"
