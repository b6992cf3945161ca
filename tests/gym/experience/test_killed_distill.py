"""`kill -9` in each phase of a distillation of lessons: the resumes end in the same bytes."""

import json
import random
import sys
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from tests.gym.jobs.real_runs import Place
from tests.gym.jobs.warm import server
from zoo.gym.delta import load_delta
from zoo.gym.jobs import tail_events

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")

KILLERS = "tests.gym.experience.distill_killers"
STEPS = 4
TRAINING = [f"max_steps={STEPS}", "save_steps=1", "val_size=2", "date=2026-01-01"]
TRAINING += ["lora_rank=2", "lora_target=q_proj"]
TRAINING += ["per_device_train_batch_size=2", "gradient_accumulation_steps=2"]
ANSWERS = ["--reward", "long.py:score", "--max-new-tokens", "4", "--test-draws", "1"]
REWARD = "def score(query, response):\n    return len(response) / 10\n"
LINES = 160
"""Of the journal, at least: a request, its answer and their reward, for 20 tasks in four ways."""


class Distilling(Place):
    """A home with a library and tasks, and a run that distils it."""

    def __init__(self, folder: Path, server: ForkServerContext) -> None:
        super().__init__(folder, server)
        rows = [{"prompt": f"say {n}", "answer": "a"} for n in range(40)]
        (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "long.py").write_text(REWARD)
        (folder / "words.md").write_text("- Answer in one word.\n- Write small letters.\n")
        self.call("experience", "import", "words.md", "--name", "words")

    def begin(self, moment: str | None = None) -> None:
        """Starts the run, or resumes one that is there, and waits for the end of its worker."""
        words = ["experience", "distill", "words", "tasks.jsonl", "--model", "zen-pico"]
        words += [*ANSWERS, *TRAINING]
        if self.run.folder.exists():
            words = ["runs", "resume", "last"]
        self.call(*words, "--detach", entry=f"{KILLERS}:{moment}" if moment else None)
        self.await_death()

    def state(self) -> str:
        """Returns the state in the list of runs."""
        [row] = self.call("runs", "list")["runs"]
        return str(row["state"])

    def found(self) -> tuple[str, str, dict[str, Any]]:
        """Returns the digests of the adapter and the delta, and the report."""
        report = (self.run.folder / "report.json").read_text().replace(str(self.folder), "")
        return self.weights(), load_delta(self.delta).digest, json.loads(report)

    @property
    def delta(self) -> Path:
        """The file of the delta."""
        return self.run.folder / "model.delta.safetensors"

    def check_killed(self) -> None:
        """Makes sure that the folder has whole files only, and says nothing of an end."""
        assert self.state() == "interrupted"
        assert self.torn() == []
        if self.delta.exists():
            load_delta(self.delta)
        for name in ("trained.json", "report.json"):
            if (self.run.folder / name).exists():
                json.loads((self.run.folder / name).read_text())
        assert not any(event["kind"] == "end" for event in tail_events(self.run.events.path)[0])


def moments(seed: int) -> list[str]:
    """Returns a moment of each phase, in the order in which a run that is resumed reaches them."""
    rng = random.Random(seed)
    return [
        f"sampling_{rng.randint(1, 2)}_{rng.randint(1, 3)}",
        f"training_{rng.randint(3, STEPS)}_{rng.randint(1, 4)}",
        f"evaluating_{rng.randint(2, LINES)}",
        f"delta_{rng.randint(1, 2)}_{rng.randint(1, 4)}",
    ]


@pytest.fixture(scope="module")
def shared() -> ForkServerContext:
    return server()


@pytest.fixture(scope="module")
def whole(shared: ForkServerContext, tmp_path_factory: pytest.TempPathFactory) -> Distilling:
    place = Distilling(tmp_path_factory.mktemp("whole") / "run", shared)
    place.begin()
    assert place.state() == "done"
    return place


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4))
def test_a_killed_distillation_ends_in_the_same_bytes(
    seed: int, whole: Distilling, shared: ForkServerContext, tmp_path: Path
) -> None:
    place = Distilling(tmp_path / "killed", shared)
    for moment in moments(seed):
        place.begin(moment)
        place.check_killed()
    place.begin()
    assert place.state() == "done"
    assert place.found() == whole.found()
    assert [path for path in place.run.folder.rglob("*") if path.suffix in {".tmp", ".old"}] == []
