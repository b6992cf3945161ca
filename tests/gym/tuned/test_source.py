"""What a name of a fine-tune means, and which base its files record."""

import json
import shutil
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.jobs import Run, create_run, open_run
from zoo.gym.tuned.source import Source, resolve_tuned, source_at
from zoo.models.names import Name

SETTINGS = "model_name_or_path: zen-pico\ndataset: a.jsonl\n"


@pytest.fixture
def run(adapter: Path) -> Run:
    """A run whose result is an adapter that names another base than the run."""
    run = create_run(SETTINGS, {})
    shutil.copytree(adapter, run.result)
    return run


@pytest.mark.parametrize(
    ("fixture", "artifact", "recorded"),
    [
        ("adapter", "adapter", "org/tiny"),
        ("dense", "delta", "org/tiny@abc"),
        ("lowrank", "delta", "tiny"),
        ("whole", "model", None),
    ],
)
def test_a_path_is_what_its_files_are(
    fixture: str, artifact: str, recorded: str | None, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(fixture)
    found = resolve_tuned(str(path))
    assert (found.artifact, found.path, found.base, found.run) == (artifact, path, recorded, None)


@pytest.mark.parametrize("fixture", ["adapter", "whole"])
def test_a_delta_beside_a_fine_tune_is_not_the_fine_tune(
    fixture: str, dense: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(request.getfixturevalue(fixture), folder)
    shutil.copyfile(dense, folder / "delta.safetensors")
    assert source_at(folder).path == folder
    alone = tmp_path / "alone"
    alone.mkdir()
    file = shutil.copyfile(dense, alone / "delta.safetensors")
    assert (source_at(alone).artifact, source_at(alone).path) == ("delta", file)


def test_a_delta_records_the_base_without_its_revision_as_well(dense: Path) -> None:
    assert source_at(dense).recorded == Name("org/tiny", "abc")


def test_the_file_of_an_adapter_has_the_base_of_its_folder(adapter: Path) -> None:
    assert source_at(adapter / "adapter_model.safetensors").base == "org/tiny"


@pytest.mark.parametrize("name", ["last", "r0001", "1"])
def test_a_run_is_its_result_on_the_base_of_its_settings(run: Run, name: str) -> None:
    found = resolve_tuned(name)
    assert (found.artifact, found.path, found.base) == ("adapter", run.result, "zen-pico")
    assert found.run is not None
    assert found.run.id == run.id


def test_the_last_fine_tune_is_not_the_training_of_a_delta(run: Run) -> None:
    distilled = create_run(SETTINGS, {"settings": {"stage": "distill_delta"}})
    (distilled.result).mkdir()
    named = resolve_tuned("last").run
    assert named is not None
    assert (named.id, open_run("last").id) == (run.id, distilled.id)


def test_the_last_fine_tune_is_not_a_trial(run: Run) -> None:
    trial = create_run(SETTINGS, {"study": "rows"})
    trial.result.mkdir()
    named = resolve_tuned("last").run
    assert named is not None
    assert named.id == run.id


def test_a_path_in_a_result_belongs_to_its_run(run: Run) -> None:
    assert resolve_tuned(str(run.result)).base == "zen-pico"
    assert source_at(run.result).base == "org/tiny"  # by its files alone


def test_a_path_that_exists_counts_before_a_run(
    run: Run, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(whole, tmp_path / "last")
    monkeypatch.chdir(tmp_path)
    assert resolve_tuned("last") == Source("model", Path("last"))


def test_a_name_of_nothing_is_refused() -> None:
    with raises("tuned.no_such_source", "bob: expected a run, a model folder or a"):
        resolve_tuned("bob")


def test_a_run_without_a_result_says_what_makes_one() -> None:
    create_run(SETTINGS, {})
    with raises("tuned.no_result", "'r0001' has no result yet"):
        resolve_tuned("last")


def test_examples_are_no_fine_tune(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}\n")
    with raises("tuned.data", r"expected a fine-tune .*, got data"):
        resolve_tuned(str(tmp_path / "rows.jsonl"))


@pytest.mark.parametrize("name", [None, "", 3])
def test_an_adapter_may_record_no_base(adapter: Path, tmp_path: Path, name: object) -> None:
    folder = shutil.copytree(adapter, tmp_path / "copy")
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(
        json.dumps(config | {"base_model_name_or_path": name})
    )
    assert source_at(folder).base is None


def test_a_delta_refuses_other_weights_than_its_base(dense: Path, whole: Path, base: Path) -> None:
    check = source_at(dense).check
    assert check is not None
    check(open_weights(base))
    with raises("delta.wrong_base", "another base"):
        check(open_weights(whole))
    assert source_at(whole).check is None
