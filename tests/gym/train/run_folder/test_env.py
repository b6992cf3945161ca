"""What a session checks before it trains."""

import json
import shutil
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.config import TrainConfig
from zoo.gym.delta.origin.digests import BASE_KEY
from zoo.gym.errors import NotAvailableError
from zoo.gym.train.result.card import write_card
from zoo.gym.train.run_folder.base import check_same_base, refuse_other_base
from zoo.gym.train.run_folder.env import check_same_data, note_versions, remembered, stored_device
from zoo.gym.train.run_folder.settings import changes_of
from zoo.gym.versions import versions
from zoo.models import Resolved, pico_folder


@pytest.fixture
def env_file(tmp_path: Path) -> Path:
    path = tmp_path / "env.json"
    path.write_text("{}")
    return path


def test_a_number_chosen_once_is_used_again(env_file: Path) -> None:
    answers = iter((3, 1))
    assert remembered(env_file, "threads", lambda: next(answers)) == 3
    assert remembered(env_file, "threads", lambda: next(answers)) == 3
    assert json.loads(env_file.read_text()) == {"threads": 3}


def test_a_new_run_uses_the_device_of_its_settings_and_keeps_it(
    env_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoo.backends.machine import detect

    monkeypatch.setattr(detect, "probe", lambda name: (name != "cuda", "no CUDA device found"))
    with pytest.raises(NotAvailableError, match="'cuda' is not available: no CUDA device found"):
        stored_device(env_file, "cuda")
    assert stored_device(env_file, "mlx") == "mlx"
    assert stored_device(env_file, "cpu") == "mlx"
    assert json.loads(env_file.read_text()) == {"device": "mlx"}


def test_a_resumed_run_refuses_other_data(env_file: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "one"}\n')
    config = TrainConfig(model_name_or_path="zen-pico", dataset=(str(rows),))
    check_same_data(env_file, config)
    check_same_data(env_file, config)
    rows.write_text('{"text": "two"}\n')
    with raises("train.data_changed"):
        check_same_data(env_file, config)


def test_other_libraries_are_named_once_and_recorded(env_file: Path) -> None:
    env_file.write_text(json.dumps({"versions": versions()}))
    assert note_versions(env_file, 3) is None
    env_file.write_text(json.dumps({"versions": versions() | {"torch": "1.0"}}))
    told = note_versions(env_file, 3)
    assert told is not None
    assert told.endswith(f"torch {versions()['torch']} (was 1.0)")
    assert note_versions(env_file, 4) is None
    [change] = changes_of(env_file)
    assert (change["step"], change["versions"]) == (3, {"torch": ["1.0", versions()["torch"]]})


def test_a_card_says_what_was_changed_on_the_way(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "one"}\n')
    config = TrainConfig(model_name_or_path="zen-pico", dataset=(str(rows),), learning_rate=0.5)
    base = Resolved("zen-pico", "zen-pico", None, tmp_path)
    write_card(tmp_path, config, base, {})
    assert "resumed" not in (tmp_path / "README.md").read_text()
    changes = [{"step": 20, "changed": {"learning_rate": [0.02, 0.5]}}]
    write_card(tmp_path, config, base, {}, changes)
    assert "- after step 20: learning_rate 0.02 -> 0.5\n" in (tmp_path / "README.md").read_text()


def test_a_resumed_run_whose_data_is_gone_says_so(env_file: Path, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.jsonl")
    config = TrainConfig(model_name_or_path="zen-pico", dataset=(gone,))
    with raises("train.data_gone"):
        check_same_data(env_file, config)


@pytest.mark.parametrize(
    ("name", "old", "new", "part"),
    [
        ("model.safetensors", b"", b"0", "weights"),
        (
            "config.json",
            b'"num_attention_heads": 4',
            b'"num_attention_heads": 2',
            "num_attention_heads",
        ),
        ("tokenizer.json", b'"a"', b'"aa"', "tokenizer"),
        ("tokenizer_config.json", b"{", b'{"add_bos_token": true, ', "tokenizer"),
        ("chat_template.jinja", b"", b"hi", "chat template"),
        ("additional_chat_templates/tool_use.jinja", b"", b"hi", "chat template"),
    ],
)
def test_a_base_of_which_one_part_changed_is_refused_by_that_part_s_name(
    env_file: Path, tmp_path: Path, name: str, old: bytes, new: bytes, part: str
) -> None:
    folder = shutil.copytree(pico_folder(), tmp_path / "m1")
    check_same_base(env_file, folder)
    check_same_base(env_file, folder)
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    content = path.read_bytes() if path.exists() else b""
    path.write_bytes(content.replace(old, new, 1))
    with raises("train.changed_base", f"got other: {part}\n"):
        check_same_base(env_file, folder)


def test_a_run_that_stored_no_base_takes_any_and_stores_it_when_it_goes_on(env_file: Path) -> None:
    refuse_other_base(env_file, pico_folder())
    assert json.loads(env_file.read_text()) == {}
    check_same_base(env_file, pico_folder())
    assert list(json.loads(env_file.read_text())) == [BASE_KEY]


def test_a_copy_of_the_base_is_the_same_base(env_file: Path, tmp_path: Path) -> None:
    check_same_base(env_file, pico_folder())
    refuse_other_base(env_file, shutil.copytree(pico_folder(), tmp_path / "copy"))
