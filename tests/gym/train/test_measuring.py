"""Which rows a finished run is measured on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.config import TrainConfig
from zoo.gym.data import fingerprint, load_tokenizer, read_dataset, rows_of
from zoo.gym.train.measuring import rows_of_files, rows_of_run
from zoo.gym.train.rows import prepare_rows
from zoo.gym.train.run_folder.pinned import left_out, pinned
from zoo.gym.train.run_folder.settings import read_env
from zoo.gym.train.run_folder.split import SPLIT_FILE, SPLIT_KEY, run_split, stored_split
from zoo.models import pico_folder, resolve

TEN = [{"prompt": f"Say {n}.", "completion": str(n)} for n in range(10)]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run on ten rows, as its session leaves it, but for the model."""
    data = write(tmp_path / "rows.jsonl", TEN)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "env.json").write_text(json.dumps({"data": fingerprint([data])}))
    run_split(folder, settings(folder), read_dataset([data]), fingerprint([data]))
    return folder


def settings(run: Path, **others: object) -> TrainConfig:
    dataset = str(run.parent / "rows.jsonl")
    given = {"model_name_or_path": "zen-pico", "dataset": dataset, "val_size": 2, **others}
    return TrainConfig.model_validate({"date": "2026-01-01", **given})


def sources(run: Path, config: TrainConfig) -> list[str]:
    return [row.source for row in rows_of_run(run, config, pico_folder()).examples]


def test_a_run_is_measured_on_the_rows_that_its_session_held_out(run: Path) -> None:
    held_out = prepare_rows(settings(run), pico_folder()).held_out
    assert sources(run, settings(run)) == [row.source for row in rows_of(held_out)]


def test_settings_edited_after_the_run_change_none_of_its_held_out_rows(run: Path) -> None:
    assert sources(run, settings(run, seed=7, val_size=5)) == sources(run, settings(run))


@pytest.mark.parametrize(
    ("row", "learned"),
    [
        ({"prompt": "Say {n}.", "answer": "{n}"}, ["{n}"]),
        ({"prompt": "Say {n}.", "answer": ["{n}", "x"], "completion": "it {n}"}, ["it {n}"]),
        ({"prompt": [{"role": "user", "content": "Say {n}."}], "answer": "{n}"}, ["{n}"]),
        ({"prompt": "Say {n}."}, []),
    ],
)
def test_a_run_on_prompts_is_measured_on_their_answers(
    tmp_path: Path, row: dict[str, Any], learned: list[str]
) -> None:
    rows = [json.loads(json.dumps(row).replace("{n}", str(n))) for n in range(10)]
    data, folder = write(tmp_path / "rows.jsonl", rows), tmp_path / "run"
    folder.mkdir()
    (folder / "env.json").write_text(json.dumps({"data": fingerprint([data])}))
    config = settings(folder, stage="grpo", val_size=1)
    dataset = read_dataset([data], kinds=frozenset({"prompt"}))
    run_split(folder, config, dataset, fingerprint([data]))
    found = rows_of_run(folder, config, pico_folder())
    decode = load_tokenizer(pico_folder()).decode
    texts = [decode(example.ids[example.mask].tolist()) for example in found.examples]
    assert len(texts) == len(learned)
    assert all(
        wanted.replace("{n}", "") in text for wanted, text in zip(learned, texts, strict=True)
    )
    assert bool(found.notes) == (not learned)


def test_data_edited_after_the_run_is_not_measured_on(run: Path) -> None:
    write(run.parent / "rows.jsonl", [*TEN[5:], *TEN[:5]])
    found = rows_of_run(run, settings(run), pico_folder())
    assert (found.examples, len(found.notes)) == ((), 1)
    assert "has changed since the training" in found.notes[0]


def test_a_run_without_a_fingerprint_is_not_measured_on_its_data(run: Path) -> None:
    (run / SPLIT_FILE).unlink()
    (run / "env.json").write_text("{}")
    found = rows_of_run(run, settings(run), pico_folder())
    assert (found.examples, "no fingerprint" in found.notes[0]) == ((), True)


def test_a_run_from_before_splits_were_stored_is_measured_on_its_last_rows(run: Path) -> None:
    (run / SPLIT_FILE).unlink()
    forget_split(run)
    last = [f"{run.parent}/rows.jsonl:{line}" for line in (9, 10)]
    assert sources(run, settings(run)) == last
    (run / "checkpoints").mkdir()
    dataset = read_dataset([run.parent / "rows.jsonl"])
    assert run_split(run, settings(run), dataset, "0").held_out == (8, 9)


def remove_split(run: Path) -> None:
    (run / SPLIT_FILE).unlink()


def edit_split(run: Path) -> None:
    content = json.loads((run / SPLIT_FILE).read_text())
    content["split"]["held_out"] = [0, 1, 2]
    (run / SPLIT_FILE).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("spoil", "got"),
    [(remove_split, "no file"), (edit_split, "another one")],
)
def test_a_split_that_is_not_the_run_s_own_is_neither_trained_nor_measured_on(
    run: Path, spoil: Callable[[Path], object], got: str
) -> None:
    spoil(run)
    (run / "checkpoints").mkdir()
    data = run.parent / "rows.jsonl"
    told = f"the split that the run wrote at its start, got {got}"
    with raises("train.damaged_file", told):
        run_split(run, settings(run), read_dataset([data]), fingerprint([data]))
    with raises("train.damaged_file", told):
        rows_of_run(run, settings(run), pico_folder())


def test_a_split_from_before_its_digest_was_stored_is_taken_and_held_to(run: Path) -> None:
    before = forget_split(run)
    data = run.parent / "rows.jsonl"
    run_split(run, settings(run), read_dataset([data]), fingerprint([data]))
    assert read_env(run / "env.json") == before


def forget_split(run: Path) -> dict[str, object]:
    """Takes the digest of the split out of `env.json`; returns what was there."""
    env = read_env(run / "env.json")
    kept = {key: value for key, value in env.items() if key != SPLIT_KEY}
    (run / "env.json").write_text(json.dumps(kept))
    return env


CUT_ELSEWHERE = (
    '{"v": 1, "data": "", "split": {"rows": 2, "held_out": [1], "cut": 3, "cut_row": 0}}'
)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"v": 1, "data": "", "split": {"rows": 1}}', CUT_ELSEWHERE]
)
def test_a_damaged_split_is_refused(run: Path, content: str) -> None:
    (run / SPLIT_FILE).write_text(content)
    with raises("train.damaged_file", "got a damaged file"):
        stored_split(run)


def test_given_rows_that_the_run_has_learned_are_left_out(run: Path) -> None:
    found = stored_split(run)
    assert found is not None
    apart = [TEN[place] for place in found[1].held_out]
    learned = next(row for row in TEN if row not in apart)
    given = write(run.parent / "given.jsonl", [apart[0], learned])
    measured = rows_of_files([given], settings(run), pico_folder(), run)
    assert [row.source for row in measured.examples] == [f"{given}:1"]
    assert measured.notes == ("1 of 2 rows left out: the run was trained on them",)


def test_given_rows_that_the_run_has_all_learned_are_refused(run: Path) -> None:
    found = stored_split(run)
    assert found is not None
    given = [row for place, row in enumerate(TEN) if place not in found[1].held_out]
    path = write(run.parent / "given.jsonl", given)
    with raises("train.no_unseen_rows"):
        rows_of_files([path], settings(run), pico_folder(), run)


def as_messages(row: dict[str, str]) -> dict[str, list[dict[str, str]]]:
    pair = (("user", row["prompt"]), ("assistant", row["completion"]))
    return {"messages": [{"role": role, "content": text} for role, text in pair]}


def test_learned_rows_in_another_format_are_left_out(run: Path) -> None:
    given = run.parent / "given.jsonl"
    given.write_text("".join(json.dumps(as_messages(row)) + "\n" for row in TEN))
    measured = rows_of_files([given], settings(run), pico_folder(), run)
    assert (len(measured.examples), measured.held_out) == (2, True)
    assert measured.notes == ("8 of 10 rows left out: the run was trained on them",)


def test_columns_of_a_run_name_those_of_its_rows_and_of_given_ones(run: Path) -> None:
    renamed = [{"ask": row["prompt"], "say": row["completion"]} for row in TEN]
    data = write(run.parent / "rows.jsonl", renamed)
    (run / "env.json").write_text(json.dumps({"data": fingerprint([data])}))
    config = settings(run, columns="prompt:ask,completion:say")
    assert len(prepare_rows(config, pico_folder()).train) == 8
    given = write(run.parent / "given.jsonl", [{"ask": "Say 11.", "say": "11"}, renamed[0]])
    measured = rows_of_files([given], config, pico_folder(), run)
    assert [row.source for row in measured.examples] == [f"{given}:1"]


@pytest.mark.parametrize("change", ["blanks", "grown"])
def test_learned_rows_with_other_blanks_or_more_turns_are_left_out(run: Path, change: str) -> None:
    given = run.parent / "given.jsonl"
    rows: list[object] = [{**row, "prompt": row["prompt"] + " "} for row in TEN]
    if change == "grown":
        more = [{"role": "user", "content": "And?"}, {"role": "assistant", "content": "No."}]
        rows = [{"messages": [*as_messages(row)["messages"], *more]} for row in TEN]
    given.write_text("".join(json.dumps(row) + "\n" for row in rows))
    measured = rows_of_files([given], settings(run), pico_folder(), run)
    assert len(measured.examples) == 2
    assert measured.notes == ("8 of 10 rows left out: the run was trained on them",)


def test_a_cut_text_is_stored_and_a_lone_one_of_an_earlier_run_is_read(tmp_path: Path) -> None:
    texts = ["one two", "".join(f"line {n}\n" for n in range(10))]
    data = write(tmp_path / "rows.jsonl", [{"text": text} for text in texts])
    config, dataset = settings(tmp_path / "run", val_size=0.09), read_dataset([data])
    records = dataset.records
    (tmp_path / "env.json").write_text("{}")
    stored = run_split(tmp_path, config, dataset, "0")
    assert stored_split(tmp_path) == ("0", stored)
    assert [row.text for row in stored.apply(records)[1]] == ["line 9\n"]
    forget_split(tmp_path)
    earlier = {"rows": 1, "held_out": [0], "cut": 63, "duplicates": 0}
    (tmp_path / SPLIT_FILE).write_text(json.dumps({"v": 1, "data": "0", "split": earlier}))
    found = stored_split(tmp_path)
    assert found is not None
    assert [row.text for row in found[1].apply(records[1:])[1]] == ["line 9\n"]


def test_rows_are_held_out_only_of_a_run_whose_learned_rows_are_known(run: Path) -> None:
    given = write(run.parent / "given.jsonl", [{"prompt": "Other?", "completion": "Yes."}])
    assert rows_of_files([given], settings(run), pico_folder(), run).held_out is True
    assert rows_of_files([given], settings(run), pico_folder(), None).held_out is None
    write(run.parent / "rows.jsonl", TEN[1:])
    assert rows_of_files([given], settings(run), pico_folder(), run).held_out is None


def test_the_run_s_own_file_given_again_means_its_held_out_rows(run: Path) -> None:
    copy = write(run.parent / "copy.jsonl", TEN)
    measured = rows_of_files([copy], settings(run), pico_folder(), run)
    assert len(measured.examples) == 2
    assert "only its held-out rows" in measured.notes[0]


def test_a_run_on_the_first_rows_is_measured_on_some_of_those(tmp_path: Path) -> None:
    data = write(tmp_path / "rows.jsonl", TEN)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "env.json").write_text(json.dumps({"data": fingerprint([data])}))
    config = settings(folder, max_samples=6)
    rows = prepare_rows(
        config,
        pico_folder(),
        lambda dataset: run_split(folder, config, dataset, fingerprint([data])),
    )
    assert (len(rows.train), len(rows.held_out)) == (4, 2)
    assert sources(folder, config) == [row.source for row in rows_of(rows.held_out)]
    with raises("data.changed"):
        rows_of_run(folder, settings(folder), pico_folder())


def test_the_rows_of_an_eval_dataset_alone_are_measured(tmp_path: Path) -> None:
    learned = write(tmp_path / "rows.jsonl", TEN)
    kept = write(tmp_path / "kept.jsonl", [{"prompt": "Say more.", "completion": "m"}, TEN[3]])
    config = TrainConfig(
        model_name_or_path="zen-pico",
        dataset=str(learned),
        eval_dataset=str(kept),
        date="2026-01-01",
        mix_strategy="concat",
    )
    data = fingerprint([learned, kept])
    run = tmp_path / "run"
    run.mkdir()
    (run / "env.json").write_text(json.dumps({"data": data}))
    rows = prepare_rows(config, pico_folder(), lambda rows: run_split(run, config, rows, data))
    assert len(rows.train) == 10
    assert [row.source for row in rows_of(rows.held_out)] == [f"{kept}:1", f"{kept}:2"]
    assert any(note.startswith("1 held-out row equal to a learned one") for note in rows.notes)
    assert sources(run, config) == [f"{kept}:1", f"{kept}:2"]
    again = rows_of_files([learned, kept], config, pico_folder(), run)
    assert [row.source for row in again.examples] == [f"{kept}:1", f"{kept}:2"]
    assert len(rows_of_files([kept], config, pico_folder(), run).examples) == 1


def test_validation_files_of_a_folder_are_held_out_and_test_files_left_out(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("train-0-of-1", "validation-0-of-1", "test-0-of-1"):
        write(tmp_path / f"data/{name}.jsonl", TEN)

    def files(**given: object) -> list[tuple[str, ...]]:
        data = str(tmp_path / "data")
        config = TrainConfig(model_name_or_path="zen-pico", dataset=data, **given)
        fixed = pinned(config, resolve("zen-pico", offline=True))
        used = (fixed.dataset, fixed.eval_dataset, [one.origin for one in left_out(config)])
        return [tuple(Path(name).name.split("-")[0] for name in names) for names in used]

    assert files() == [("train",), ("validation",), ("test",)]
    assert files(val_size=2) == [("train",), (), ("validation", "test")]
    own = str(write(tmp_path / "own.jsonl", TEN[:2]))
    assert files(eval_dataset=own) == [("train",), ("own.jsonl",), ("validation", "test")]
