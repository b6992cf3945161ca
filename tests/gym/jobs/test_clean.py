"""`runs clean` deletes what nothing needs, and no more."""

import json
import shutil
from pathlib import Path

import pytest

from zoo.gym.cli import main
from zoo.gym.files.lock import locked
from zoo.gym.jobs.clean import deletable_files, delete
from zoo.gym.jobs.run import Run, create_run
from zoo.gym.train.run_folder.checkpoint import write_checkpoint

DEAD = ".result.4194304-1-00000000.tmp"
"""A private name of a process that cannot be: its number is above those of Linux."""


def ended(state: str) -> Run:
    """A run with everything in it: two checkpoints, the best weights, a result, evaluations."""
    run = create_run("model_name_or_path: zen-pico\ndataset: [rows.jsonl]\n", {})
    for step in (1, 2):
        write_checkpoint(run.checkpoints, step, lambda folder: write(folder / "state"), keep=9)
    write(run.checkpoints / "best" / "step-1" / "weights")
    write(run.result / "adapter_model.safetensors")
    write(run.folder / "my.delta")
    write(run.folder / "evals" / "sums.jsonl")
    write(run.folder / "evals" / "sums.json", '{"value": 0.5, "title": "sums"}')
    write(run.folder / "evals" / "unmeasured.jsonl")
    write(run.folder / DEAD)
    write(run.checkpoints / "step-00000003.tmp" / "state")
    if state != "running":
        run.identity_file.unlink()
        run.events.emit("end", state=state, exit_code=0)
    return run


def write(path: Path, text: str = "12345678") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def files(run: Run) -> set[str]:
    return {str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file()}


def clean(*options: str) -> int:
    return main(["runs", "clean", *options])


CLEANED = {"evals/sums.jsonl", DEAD, "checkpoints/step-00000003.tmp/state"}
FIRST = {f"checkpoints/step-00000001/{name}" for name in ("state", "manifest.json")}
SECOND = {f"checkpoints/step-00000002/{name}" for name in ("state", "manifest.json")}
BEST = {"checkpoints/best/step-1/weights"}


@pytest.mark.parametrize(
    ("state", "gone"),
    [
        ("done", CLEANED | FIRST | SECOND | BEST),
        ("failed", CLEANED | FIRST),
        ("interrupted", CLEANED | FIRST),
    ],
)
def test_only_what_nothing_needs_is_deleted(state: str, gone: set[str]) -> None:
    run = ended(state)
    before = files(run)
    assert clean("--yes") == 0
    assert before - files(run) == gone
    assert clean("--yes") == 0  # a second time there is nothing


def test_a_live_run_keeps_every_file() -> None:
    run = ended("running")
    before = files(run)
    assert clean("--yes") == 0
    assert files(run) == before


def test_a_run_that_was_resumed_after_the_question_keeps_every_file() -> None:
    run = ended("interrupted")
    before, listed = files(run), list(deletable_files())
    run.events.emit("state", state="running")
    run.identity_file.write_text((ended("running")).identity_file.read_text())
    assert delete(listed) == []
    assert before <= files(run)


def test_a_run_whose_lock_is_held_keeps_every_file() -> None:
    run = ended("interrupted")
    before = files(run)
    with locked(run.lock_file):
        assert clean("--yes") == 0
    assert before <= files(run)


def test_a_run_that_is_done_without_its_result_keeps_the_newest_checkpoint() -> None:
    run = ended("done")
    shutil.rmtree(run.result)
    assert clean("--yes") == 0
    assert files(run) >= SECOND | BEST


def test_checkpoints_behind_a_link_are_kept(tmp_path: Path) -> None:
    run = ended("done")
    run.checkpoints.rename(tmp_path / "elsewhere")
    run.checkpoints.symlink_to(tmp_path / "elsewhere")
    assert clean("--yes") == 0
    assert (tmp_path / "elsewhere" / "step-00000002" / "state").is_file()


def test_an_older_checkpoint_is_kept_where_the_newest_is_damaged() -> None:
    run = ended("interrupted")
    write(run.checkpoints / "step-00000002" / "state", "damaged")
    assert clean("--yes") == 0
    assert files(run) >= FIRST


@pytest.mark.parametrize("state", ["queued", "done"])
@pytest.mark.parametrize(
    "setting",
    [
        "model_name_or_path: {path}",
        "model_name_or_path:\n  {folded}",
        "ref_model: {relative}",
        "reward: [{{kind: model, model: {path}}}]",
    ],
)
def test_a_checkpoint_that_another_run_names_is_kept(
    setting: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "my home"))
    monkeypatch.chdir(tmp_path)
    run = ended("done")
    path = run.checkpoints / "best" / "step-1"
    folded = str(path).replace(" ", "\n  ")  # as YAML writes a long value
    other = create_run(
        setting.format(path=path, folded=folded, relative=path.relative_to(tmp_path)) + "\n", {}
    )
    if state == "done":
        other.identity_file.unlink()
        other.events.emit("end", state="done", exit_code=0)
    monkeypatch.chdir("/")
    assert clean("--yes") == 0
    assert files(run) >= BEST


def test_a_folder_that_is_no_checkpoint_is_kept() -> None:
    run = ended("done")
    write(run.checkpoints / "mine" / "notes.md")
    assert clean("--yes") == 0
    assert "checkpoints/mine/notes.md" in files(run)


@pytest.mark.parametrize(("options", "code"), [((), 2), (("--dry-run", "--yes"), 0)])
def test_nothing_is_deleted_without_consent(
    options: tuple[str, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ended("done")
    before = files(run)
    assert clean(*options, "--json") == code
    assert files(run) == before
    assert str(run.checkpoints / "best") in capsys.readouterr().err


def test_the_sizes_are_those_of_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    ended("failed")
    assert clean("--yes", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    sizes = {Path(file["path"]).name: file["bytes"] for file in found["files"]}
    assert sizes["sums.jsonl"] == 8
    assert found["freed_bytes"] == sum(sizes.values())
