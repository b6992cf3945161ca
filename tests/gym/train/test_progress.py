"""How a checkpoint that cannot be written is told, and that the best step outlives what happens."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.numpy import save_file

from tests.codes import raises
from zoo.gym.errors import StorageError
from zoo.gym.train.progress import (
    BEST_FILE,
    Progress,
    best_folder,
    load_best,
    restore,
    safetensors_errors,
    save,
    save_best,
)
from zoo.gym.train.run_folder.manifest import write_manifest


@pytest.mark.skipif("sys.platform == 'win32'", reason="error numbers of POSIX")
def test_a_full_disk_that_the_safetensors_library_met_is_told_as_such() -> None:
    with raises("paths.storage") as raised, safetensors_errors(Path("/run")):
        raise SafetensorError("Error while serializing: I/O error: (os error 28)")
    assert raised.value.message == "cannot write '/run': no space left on device"
    assert raised.value.hint == "free some space on that disk"


def test_what_else_the_safetensors_library_says_is_passed_on() -> None:
    told = pytest.raises(StorageError, match=r"cannot write '.*run': something else")
    with told, safetensors_errors(Path("/run")):
        raise SafetensorError("something else")


class OneWeight:
    """A policy with one weight."""

    weight = 0.0

    def trained(self) -> Iterator[tuple[str, np.ndarray]]:
        yield "weight", np.full(1, self.weight, dtype=np.float32)

    def load_trained(self, values: Mapping[str, np.ndarray]) -> None:
        self.weight = float(values["weight"][0])

    def save_checkpoint(self, folder: Path) -> None:
        (folder / "weight").write_text(str(self.weight))
        save_file(dict(self.trained()), folder / BEST_FILE)

    def load_checkpoint(self, folder: Path) -> None:
        self.weight = float((folder / "weight").read_text())


class OneWeightMethod:
    """A method that stores a file with the name of the policy's own."""

    decides, better = "loss", "lower"
    plan = SimpleNamespace(config=SimpleNamespace(stage="sft"))
    loaded = ""

    def __init__(self, policy: OneWeight) -> None:
        self.policy = policy

    def save(self, folder: Path) -> None:
        assert not list(folder.iterdir())
        (folder / "weight").write_text("the method's")

    def load(self, folder: Path) -> None:
        self.loaded = (folder / "weight").read_text()


class Course:
    """A run whose weight at each step is `sign` times the step; its folders are real."""

    def __init__(self, checkpoints: Path, progress: Progress | None = None, sign: int = 1) -> None:
        self.checkpoints, self.sign = checkpoints, sign
        self.progress = progress or Progress()
        self.weight = OneWeight()
        self.policy = cast("Any", self.weight)
        self.method = cast("Any", OneWeightMethod(self.weight))

    def best(self, step: int, loss: float) -> None:
        self.at(step)
        self.progress.best_step, self.progress.best_score = step, loss
        save_best(dict(self.policy.trained()), self.progress, self.checkpoints)

    def save(self, step: int) -> Path:
        self.at(step)
        return save(self.method, self.progress, self.checkpoints)

    def at(self, step: int) -> None:
        self.progress.step, self.weight.weight = step, float(self.sign * step)

    def resume(self) -> tuple[Progress, tuple[str, ...]]:
        self.progress, warnings = restore(self.method, self.checkpoints)
        return self.progress, warnings

    def best_weight(self) -> float:
        load_best(self.policy, self.progress.best_step, self.checkpoints)
        return self.weight.weight

    def kept(self) -> list[int]:
        return sorted(int(path.name[5:]) for path in self.checkpoints.glob("best/step-*"))


def test_a_file_of_the_method_replaces_none_of_the_policys(tmp_path: Path) -> None:
    course = Course(tmp_path)
    course.save(3)
    course.weight.weight = 0.0
    course.resume()
    assert (course.weight.weight, course.method.loaded) == (3.0, "the method's")


def in_old_form(checkpoint: Path) -> None:
    """Removes from a checkpoint what earlier versions did not write."""
    shutil.rmtree(checkpoint / "method")
    file = checkpoint / "progress.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({k: stored[k] for k in stored if k not in CHOICE}))
    (checkpoint / "manifest.json").unlink()
    write_manifest(checkpoint, 3)


CHOICE = ("stage", "decides", "better")


def test_a_checkpoint_without_a_folder_of_the_method_is_still_loaded(tmp_path: Path) -> None:
    course = Course(tmp_path)
    in_old_form(course.save(3))
    progress, _ = course.resume()
    assert (course.weight.weight, course.method.loaded) == (3.0, "3.0")  # the only folder there was
    assert (progress.stage, progress.decides, progress.better) == ("sft", "loss", "lower")


@pytest.mark.parametrize("name", ["decides", "better"])
def test_a_run_does_not_continue_with_another_way_to_choose_the_best(
    tmp_path: Path, name: str
) -> None:
    course = Course(tmp_path)
    course.resume()
    course.save(3)
    setattr(course.method, name, "other")
    with raises("train.not_resumable", f"cannot be resumed: {name}: .* got other"):
        course.resume()


def flip(folder: Path) -> None:
    content = bytearray((folder / BEST_FILE).read_bytes())
    content[-1] ^= 1
    (folder / BEST_FILE).write_bytes(content)


def remove_weights(folder: Path) -> None:
    (folder / BEST_FILE).unlink()


damages = pytest.mark.parametrize("damage", [flip, remove_weights, shutil.rmtree])


def test_the_best_of_a_checkpoint_outlives_later_bests_that_a_kill_cuts_off(tmp_path: Path) -> None:
    course = Course(tmp_path)
    course.best(15, 2.7)
    course.save(18)
    for step, loss in ((20, 2.6), (25, 2.5), (30, 2.4)):
        course.best(step, loss)
    progress, warnings = course.resume()
    assert (progress.step, progress.best_step, progress.best_score) == (18, 15, 2.7)
    assert (course.best_weight(), warnings) == (15.0, ())
    course.best(20, 2.65)
    assert course.kept() == [15, 20]


def test_bests_that_no_checkpoint_names_any_more_go(tmp_path: Path) -> None:
    course = Course(tmp_path)
    for step in (1, 2, 3, 4):
        course.best(step, 1 / step)
        course.save(step)
    assert course.kept() == [2, 3, 4]  # the checkpoints of 2 and 3 were there, and 4 was written


@damages
def test_a_damaged_best_is_written_again_from_its_checkpoint(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    course = Course(tmp_path)
    course.best(20, 2.6)
    course.save(20)
    course.save(30)
    damage(best_folder(tmp_path, 20))
    progress, (warning,) = course.resume()
    assert (progress.step, progress.best_step, course.weight.weight) == (30, 20, 30.0)
    assert "the best step, 20, is damaged: expected its weights as saved" in warning
    assert warning.endswith("they were rewritten from the checkpoint of that step")
    assert course.best_weight() == 20.0
    assert course.resume()[1] == ()


@damages
def test_a_damaged_best_without_a_copy_is_forgotten_aloud(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    course = Course(tmp_path)
    course.best(20, 2.6)
    course.save(30)
    damage(best_folder(tmp_path, 20))
    progress, (warning,) = course.resume()
    assert (progress.step, progress.best_step, progress.best_score) == (30, 0, None)
    assert warning.endswith("they are lost, and only later evaluations are compared")


def test_the_best_of_a_course_that_was_given_up_does_not_count(tmp_path: Path) -> None:
    course, other = Course(tmp_path), Course(tmp_path, sign=-1)
    course.best(20, 2.6)
    other.best(20, 2.5)
    course.save(20)
    progress, (warning,) = course.resume()
    assert "got those of discarded steps of the run" in warning
    assert (progress.best_score, course.best_weight()) == (2.6, 20.0)


def test_a_checkpoint_whose_counters_are_damaged_keeps_no_best_from_being_saved(
    tmp_path: Path,
) -> None:
    course = Course(tmp_path)
    course.best(1, 3.0)
    for content in ("", "[]", "{}", '{"best_step": [], "best_loss": null}'):
        (course.save(2) / "progress.json").write_text(content)
        course.best(3, 2.0)
        assert course.kept() == [3]
