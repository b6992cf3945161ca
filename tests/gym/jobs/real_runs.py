"""A real run in a home of its own: started by the command line, killed, resumed and compared."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from tests.gym.jobs.warm import program
from tests.gym.train.methods.teachers import write_teacher
from zoo.gym.jobs import Run, State, tail_events
from zoo.gym.jobs.identity import read_identity
from zoo.gym.processes import is_alive
from zoo.gym.train.run_folder.manifest import manifest_fault

LIMIT_S = 300.0
STEPS = 12
PROGRAM = [sys.executable, "-m", "zoo.gym"]
TRAIN = ["train", "rows.jsonl", "--model", "zen-pico"]
TRAIN += [f"max_steps={STEPS}", "save_steps=2", "eval_steps=3", "early_stopping_steps=0"]
TWO_BATCHES = ["per_device_train_batch_size=4", "gradient_accumulation_steps=2"]
ANSWERS = ["group_size=4", "max_completion_length=8", "beta=0.01"]
WORDS = {
    "sft": TWO_BATCHES,
    "dpo": [*TWO_BATCHES, "stage=dpo"],
    "grpo": [*TWO_BATCHES, *ANSWERS, "stage=grpo", "num_iterations=3"],
    "ppo": [*TWO_BATCHES, *ANSWERS, "stage=ppo", "num_mini_batches=2"],
    "kto": [*TWO_BATCHES, "stage=kto"],
    "orpo": [*TWO_BATCHES, "stage=orpo"],
    "tdpo": [*TWO_BATCHES, "stage=tdpo"],
    "rm": [*TWO_BATCHES, "stage=rm"],
    "unlearn": [*TWO_BATCHES, "stage=unlearn"],
    "distill": [*TWO_BATCHES, "stage=distill", "teacher_model=teacher"],
}
"""What a run of a stage is started with, in addition. Checkpoints of the last lie between steps on
the same answers."""

WITH_ENTRY = """
import sys
from functools import partial
from zoo.gym.cli import main, train
train.launch = partial(train.launch, entry=sys.argv.pop(1))
sys.exit(main())
"""
"""The command line, whose worker does another piece of work."""

Reached: TypeAlias = Callable[[dict[str, Any]], bool]


@dataclass(frozen=True)
class Outcome:
    """What a kill left, and what the resume made of it.

    Attributes:
        listed: the state in `zoo-gym runs list` after the kill.
        killed_at: the last step before the kill.
        torn: what is wrong with each folder that has the name of a checkpoint.
        state: how the resumed run ended.
        weights: the digest of the trained weights.
        samples: the answers that were sampled, if any.
        strays: temporary files at the end.
        sequence: the numbers of the events.
    """

    listed: State
    killed_at: int
    torn: list[str]
    state: State
    weights: str
    samples: str
    strays: list[str]
    sequence: list[int]


def row_of(stage: str | None, n: int) -> dict[str, object]:
    """Returns a row that a stage learns from."""
    if stage in {"grpo", "ppo"}:
        left, right = 12 + n // 10, 81 + n % 10
        return {"prompt": f"What is {left}+{right}?", "answer": left + right}
    if stage in {"dpo", "kto", "orpo", "tdpo", "rm"}:
        return {"prompt": f"say {n}: ", "chosen": f"{n} {n}", "rejected": f"{n}"}
    row: dict[str, object] = {"prompt": f"say {n}: ", "completion": f"{n} {n}"}
    return row | {"forget": n % 2 == 0} if stage == "unlearn" else row


class Place:
    """A home of its own, so that runs do not wait for each other."""

    def __init__(
        self, folder: Path, server: ForkServerContext | None = None, stage: str | None = None
    ) -> None:
        """Makes the home; with a `server`, commands and workers are forks of it."""
        folder.mkdir()
        self.server = server
        self.words = [] if stage is None else WORDS[stage]
        self.folder = folder
        self.run = Run(folder / "home" / "data" / "runs" / "r0001")
        rows = [row_of(stage, n) for n in range(60)]
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        if stage == "distill":
            write_teacher(folder / "teacher")

    @property
    def env(self) -> dict[str, str]:
        """The environment of every command here."""
        here = {"ZOO_GYM_HOME": str(self.folder / "home"), "HF_HUB_CACHE": str(self.folder / "hub")}
        paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        here |= {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        return os.environ | here

    def call(self, *words: str, entry: str | None = None) -> dict[str, Any]:
        """Runs a command, whose worker does the work of `entry`, and returns its JSON."""
        words = (*words, "--json")
        if self.server is not None:
            done = program(self.server, words, self.env, self.folder, entry)
        else:
            argv = [sys.executable, "-c", WITH_ENTRY, entry] if entry else PROGRAM
            done = subprocess.run(
                [*argv, *words],
                env=self.env,
                cwd=self.folder,
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    def train(self, entry: str | None = None) -> None:
        """Starts the run, detached."""
        self.call(*TRAIN, *self.words, "--detach", entry=f"killers:{entry}" if entry else None)

    def await_death(self) -> None:
        """Waits until the worker is gone."""
        wait(lambda: not is_alive(read_identity(self.run.identity_file)))

    def await_event(self, reached: Reached) -> None:
        """Waits until a run has told something."""
        wait(lambda: any(reached(event) for event in tail_events(self.run.events.path)[0]))

    def kill(self, reached: Reached, delay_s: float) -> None:
        """Kills the worker behind an event."""
        self.await_event(reached)
        time.sleep(delay_s)
        identity = read_identity(self.run.identity_file)
        assert identity is not None
        psutil.Process(identity.pid).kill()
        self.await_death()

    def torn(self) -> list[str]:
        """Says what is wrong with the folders that have the name of a checkpoint."""
        folders = self.run.checkpoints.glob("step-????????")
        faults = {path.name: manifest_fault(path, int(path.name[5:])) for path in folders}
        return [f"{name} has {fault}" for name, fault in faults.items() if fault]

    def weights(self) -> str:
        """Returns the digest of the trained weights."""
        [file] = self.run.result.glob("*.safetensors")
        return hashlib.sha256(file.read_bytes()).hexdigest()

    def samples(self) -> str:
        """Returns the answers that were sampled, empty for a method that samples none."""
        file = self.run.folder / "samples.jsonl"
        return file.read_text().replace(str(self.folder), "") if file.exists() else ""

    def outcome(self, *, pruning: bool = False) -> Outcome:
        """Looks at what the kill left, and resumes."""
        events = tail_events(self.run.events.path)[0]
        [row] = self.call("runs", "list")["runs"]
        torn = [] if pruning else self.torn()
        end = self.call("runs", "resume", "last")
        home = self.run.folder
        return Outcome(
            listed=row["state"],
            killed_at=max((e["step"] for e in events if e["kind"] == "step"), default=0),
            torn=torn,
            state=end["state"],
            weights=self.weights(),
            samples=self.samples(),
            strays=[p.name for p in home.rglob("*") if p.suffix in {".tmp", ".old"}],
            sequence=[e["seq"] for e in tail_events(self.run.events.path)[0]],
        )


def told(kind: str, step: int | None = None, state: str | None = None) -> Reached:
    """Says whether an event is of a kind, and of a step or state where one is given."""

    def reached(event: dict[str, Any]) -> bool:
        right_step = step is None or event.get("step") == step
        return event["kind"] == kind and right_step and (state is None or event["state"] == state)

    return reached


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.003)
