"""Training from Python: the same run folder, in this process."""

import hashlib
import json
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.codes import raises
from zoo.backends.machine.detect import detect, device_key
from zoo.gym import TrainConfig, quality_input, run_training
from zoo.gym.config import load_config
from zoo.gym.data import inspect_dataset, load_tokenizer, read_dataset, split_records
from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.jobs import create_run, open_run, read_status, remove, run_folders, tail_events
from zoo.gym.jobs.queue import turn_on_device
from zoo.gym.paths import folders
from zoo.gym.train.rows import encode_options
from zoo.gym.train.run_folder.env import check_as_began
from zoo.gym.train.run_folder.settings import stored_settings
from zoo.models import pico_folder


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    path = tmp_path / "rows.jsonl"
    turns = [{"prompt": f"Say {n}.", "completion": f"It is {n}."} for n in range(20)]
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    return path


def config(rows: Path, **settings: Any) -> TrainConfig:
    plain: dict[str, Any] = {"model_name_or_path": "zen-pico", "max_steps": 2}
    return TrainConfig(dataset=(str(rows),), **(plain | settings))


@pytest.mark.slow
def test_a_run_gives_its_model_and_what_was_measured(rows: Path) -> None:
    offline = os.environ.get("HF_HUB_OFFLINE")
    result = run_training(config(rows))
    assert (result.model / "adapter_model.safetensors").is_file()
    assert result.metrics["best_loss"] < result.metrics["base_loss"]
    assert read_status(open_run(result.run)).state == "done"
    assert os.environ.get("HF_HUB_OFFLINE") == offline


@pytest.mark.slow
def test_a_callers_own_peak_is_no_runs_footprint(rows: Path) -> None:
    run_training(config(rows))
    assert not (folders().cache / "footprints.json").exists()


@pytest.mark.slow
def test_what_a_model_folder_holds_in_vain_stays_with_the_run(rows: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pico_folder(), tmp_path / "model"))
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"model.layers.9.norm.weight": torch.ones(8)}, folder / "model.safetensors")
    result = run_training(config(rows, model_name_or_path=str(folder)))
    events = (result.folder / "events.jsonl").read_text().splitlines()
    told = [event for event in map(json.loads, events) if event["kind"] == "warn"]
    assert [event["message"] for event in told if "not used" in event["message"]] == [
        f"{folder}: 1 tensor is not part of this model and not used, "
        "the first is 'model.layers.9.norm.weight'"
    ]


def press_ctrl_c_in_a_step() -> None:
    """Raises SIGINT once the only run has taken a step."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.02)
        with suppress(GymError):
            if any(e["kind"] == "step" for e in tail_events(open_run("last").events.path)[0]):
                break
    signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
def test_ctrl_c_saves_before_it_stops(rows: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    pressed = Thread(target=press_ctrl_c_in_a_step, daemon=True)
    pressed.start()
    with raises("train.stopped", "stopped at step"):
        run_training(config(rows, max_steps=100_000, val_size=0))
    pressed.join()
    run = open_run("last")
    assert read_status(run).state == "interrupted"
    assert (run.checkpoints / "latest").is_file()
    assert signal.getsignal(signal.SIGINT) is before


def test_an_output_folder_with_files_is_refused_before_the_training(
    rows: Path, tmp_path: Path
) -> None:
    with raises("train.bad_output", "output_dir: expected no folder or an empty one"):
        run_training(config(rows, output_dir=str(tmp_path)))


@pytest.mark.slow
def test_held_out_rows_that_are_all_too_long_do_not_stop_a_run(rows: Path) -> None:
    lines = rows.read_text().splitlines()
    (drawn,) = split_records(read_dataset([rows]).records, 1, seed=42).held_out
    lines[drawn] = json.dumps({"prompt": "x" * 600, "completion": "too late"})
    rows.write_text("\n".join(lines))
    result = run_training(config(rows, val_size=1))
    assert result.metrics["evaluation_rows"] == 0
    events = (result.folder / "events.jsonl").read_text()
    assert "the held-out rows cannot be evaluated" in events


@pytest.mark.slow
def test_equal_rows_are_counted_and_the_split_is_stored_before_the_first_step(rows: Path) -> None:
    with rows.open("a") as file:
        file.write(rows.read_text())
    result = run_training(config(rows))
    kinds = [json.loads(e) for e in (result.folder / "events.jsonl").read_text().splitlines()]
    told = [event["message"] for event in kinds if event["kind"] == "warn"]
    assert told[0] == "20 duplicate rows: duplicates stay on one side of the split"
    stored = json.loads((result.folder / "split.json").read_text())["split"]
    assert [place + 20 for place in stored["held_out"][:2]] == stored["held_out"][2:]


@pytest.mark.slow
def test_training_warns_of_its_data_as_inspecting_does(rows: Path) -> None:
    odd = [{"prompt": "<image>", "completion": ""}, {"prompt": "a", "completion": "<|im_end|>b"}]
    odd += [odd[1], {"prompt": "x" * 600, "completion": "y"}]
    rows.write_text(rows.read_text() + "".join(json.dumps(row) + "\n" for row in odd))
    settings = config(rows, date="2026-01-01")
    options = encode_options(settings, pico_folder())
    warnings = inspect_dataset([rows], pico_folder(), options).warnings
    result = run_training(settings)
    events = map(json.loads, (result.folder / "events.jsonl").read_text().splitlines())
    told = [event["message"] for event in events if event["kind"] == "warn"]
    assert told[:5] == list(warnings)
    assert all(text.startswith(("no gain", "the held-out loss is that of")) for text in told[5:])


@pytest.mark.slow
def test_a_run_keeps_its_system_prompt_and_a_result_its_digest(rows: Path) -> None:
    turns = [("system", "Be a pirate."), ("user", "Hi"), ("assistant", "Ahoy")]
    chat = {"messages": [{"role": role, "content": text} for role, text in turns]}
    other = {"messages": [*chat["messages"][1:], *chat["messages"][1:]]}
    rows.write_text(f"{json.dumps(chat)}\n{json.dumps(other)}\n")
    result = run_training(config(rows))
    assert json.loads((result.folder / "env.json").read_text())["system_prompt"] == "Be a pirate."
    digest = hashlib.sha256(b"Be a pirate.").hexdigest()
    origin = json.loads((result.model / "zoo-gym.json").read_text())
    assert (origin["system_prompt_sha256"], "pirate" in str(origin)) == (digest, False)


@pytest.mark.slow
def test_a_device_that_another_run_has_is_refused_in_a_sentence(rows: Path) -> None:
    other = create_run("", {})
    key = device_key(detect().name)
    with (
        turn_on_device(other, key),
        pytest.raises(NotAvailableError, match="got run 'r0001' on it"),
    ):
        run_training(config(rows))
    assert [run.id for run in run_folders()] == ["r0001"]


@pytest.mark.slow
def test_a_run_that_ended_can_be_removed_while_the_process_lives(rows: Path) -> None:
    result = run_training(config(rows))
    remove(open_run(result.run))
    assert not list(run_folders())


@pytest.mark.parametrize("method", ["lora", "full"])
@pytest.mark.slow
def test_plain_libraries_load_the_result_and_find_the_same_loss(rows: Path, method: str) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from zoo.backends.torch.quiet import quiet
    from zoo.gym.data.batches import collate
    from zoo.gym.train.rows import prepare_rows
    from zoo.models import resolve

    result = run_training(config(rows, max_steps=8, finetuning_type=method))
    base = resolve("zen-pico").folder
    with quiet():
        model: Any = AutoModelForCausalLM.from_pretrained(
            result.model if method == "full" else base, dtype=torch.float32
        )
        if method == "lora":
            model = PeftModel.from_pretrained(model, str(result.model))
    held_out = prepare_rows(config(rows, date="2026-01-01"), base).held_out
    batch = collate(held_out)
    labels = torch.from_numpy(batch.ids_BT).masked_fill(~torch.from_numpy(batch.loss_mask_BT), -100)
    loss = model.eval()(input_ids=torch.from_numpy(batch.ids_BT), labels=labels).loss.item()
    assert result.metrics["evaluation_rows"] == len(held_out)
    assert loss == pytest.approx(result.metrics["best_loss"], rel=1e-5)


@pytest.mark.slow
def test_a_run_is_the_same_from_every_folder(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(pico_folder(), tmp_path / "m" / "x"))
    monkeypatch.chdir(tmp_path)
    result = run_training(config(Path(rows.name), model_name_or_path="m/x", output_dir="out"))
    stored = load_config([open_run(result.run).config_file], [], {}).config
    assert Path(stored.model_name_or_path).is_absolute()
    assert stored.dataset == (str(rows),)
    assert stored.date is not None
    adapter = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == str(folder.resolve())


@pytest.mark.slow
def test_rows_of_python_are_trained_on_and_stored_with_the_run(rows: Path) -> None:
    given = [json.loads(line) for line in rows.read_text().splitlines()]
    plain: dict[str, Any] = {"model_name_or_path": "zen-pico", "max_steps": 2, "dataset": given}
    result = run_training(TrainConfig(**plain))
    run = open_run(result.run)
    assert run.rows_file.stat().st_mode & 0o777 == 0o600
    stored = stored_settings(run.config_file, run.env_file)
    assert stored.dataset == (str(run.rows_file),)
    assert read_dataset([run.rows_file]).records
    check_as_began(run.env_file)  # as a resume does
    same = run_training(config(rows))
    assert same.metrics["best_loss"] == result.metrics["best_loss"]


def test_rows_that_json_cannot_hold_make_no_run(rows: Path) -> None:
    odd: dict[str, Any] = {"model_name_or_path": "zen-pico", "dataset": [{"prompt": {1, 2}}]}
    with raises("published.bad_rows", "dataset: row 1: expected text, numbers"):
        run_training(TrainConfig(**odd))
    assert not folders().runs.exists()


@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        ("absent.jsonl", "absent.jsonl"),
        ([{"x": 1}], "dataset: row 1: no known format"),
        ([{"prompt": "a", "completion": "b"}] * 2 + [3], "dataset: expected only files or only"),
    ],
)
def test_data_that_cannot_be_used_makes_no_run(rows: Path, dataset: Any, sentence: str) -> None:
    odd: dict[str, Any] = {"model_name_or_path": "zen-pico", "dataset": dataset}
    with pytest.raises((InputError, NotAvailableError), match=sentence):
        run_training(TrainConfig(**odd))
    assert not folders().runs.exists()


def test_rows_to_measure_on_are_encoded_as_an_adapter_was_asked(tmp_path: Path) -> None:
    (tmp_path / "adapter").mkdir()
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
    (tmp_path / "adapter/chat_template.jinja").write_text(template)
    (tmp_path / "rows.jsonl").write_text('{"prompt": "Hi", "completion": "Ho"}\n')
    files, base = [tmp_path / "rows.jsonl"], pico_folder()
    own = quality_input(files, base=base, adapter=tmp_path / "adapter").examples[0]
    plain = quality_input(files, base=base).examples[0]
    assert load_tokenizer(base).decode(own.ids.tolist()).startswith("user: Hi")
    assert own.ids.tolist() != plain.ids.tolist()


@pytest.mark.slow
def test_a_run_without_held_out_rows_says_what_is_not_known(tmp_path: Path) -> None:
    one = tmp_path / "one.jsonl"
    one.write_text('{"prompt": "Hi", "completion": "Ho"}\n')
    for val_size, warned in ((0.1, True), (0.0, False)):  # nothing left to hold out; not wanted
        run_training(config(one, val_size=val_size))
        events = open_run("last").folder / "events.jsonl"
        assert ("no row was held out" in events.read_text()) is warned
