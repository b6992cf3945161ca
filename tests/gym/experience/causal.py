"""A simulated world in which lessons cause success: 12 families of tasks, 5 strategies.

The policy follows a rule with probability 0.9, and only if its text is in the prompt. There is no
language and one rule a family: it proves the machine, not a teacher. What it draws depends on the
request and its seed alone.
"""

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo.backends.openai.reply import Reply
from zoo.backends.sampling import Sampling
from zoo.gym.data.records import Message
from zoo.gym.experience.calls.budget import Budget, Cap
from zoo.gym.experience.calls.caller import Caller, Model
from zoo.gym.experience.calls.journal import Journal
from zoo.gym.experience.learning.learn import Learned, learn
from zoo.gym.experience.learning.split import Split
from zoo.gym.experience.settings import ExperienceConfig
from zoo.gym.rewards.reward import Reward, Sample, Score, Task

FAMILIES, STRATEGIES = 12, 5


def number(*values: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(values).encode()).digest()[:8], "big")


TRUE = {family: number("true", family) % STRATEGIES for family in range(FAMILIES)}


@dataclass
class World:
    """The policy and the teacher.

    Attributes:
        mode: `causal`; `deaf`: the policy ignores lessons; `generic`: the teacher has one saying;
            `poison`: it teaches wrong rules; `leak`: it tells the answers of single tasks.
        poisoned: families of wrong rules.
        salt: another one draws other answers.
        broken: the share of the teacher's answers that cannot be read.
        calls: how many answers it gave.
    """

    mode: str = "causal"
    poisoned: tuple[int, ...] = ()
    salt: int = 0
    broken: float = 0.0
    calls: int = 0
    seen: list[str] = field(default_factory=list[str])

    def answer(self, messages: Sequence[Mapping[str, str]], seed: int) -> str:
        self.calls += 1
        text = "\n".join(turn["content"] for turn in messages)
        rng = random.Random(number(text, seed, self.salt))
        task = messages[-1]["content"] if len(messages) < 4 else messages[1]["content"]
        match = re.search(r"TASK family-(\d+) item-(\d+)", task.rpartition("Task:")[2])
        assert match is not None
        family = int(match[1])
        if text.startswith("You improve"):
            return (
                "Well, let me see."
                if rng.random() < self.broken
                else self._edit(text, family, match[0])
            )
        return self._strategy(text, family, match[0], rng)

    def _strategy(self, text: str, family: int, task: str, rng: random.Random) -> str:
        rules = re.findall(rf"For family-{family} use strategy-(\d+)", text)
        rules += re.findall(rf"{task} wants strategy-(\d+)", text)
        if rules and self.mode != "deaf" and rng.random() < 0.9:
            return f"used strategy-{rules[-1]}"
        return f"used strategy-{rng.randrange(STRATEGIES)}"

    def _edit(self, text: str, family: int, task: str) -> str:
        wins = re.findall(r"reward 1:\nused strategy-(\d+)", text)
        best = max(set(wins), key=wins.count) if wins else "0"
        if self.mode == "generic":
            said = "Read the task with care and check the result."
        elif self.mode == "leak":
            said = f"{task} wants strategy-{best}"
        elif self.mode == "poison" or family in self.poisoned:
            said = f"For family-{family} use strategy-{(TRUE[family] + 1) % STRATEGIES}"
        else:
            said = f"For family-{family} use strategy-{best}"
        label = re.search(rf"\[([0-9a-f]{{6}})\] For family-{family} ", text)
        edit: dict[str, Any] = {"op": "add", "ids": [], "text": said}
        if label is not None:
            edit |= {"op": "modify", "ids": [label[1]]}
        return json.dumps({"edits": [edit]})

    def attempt(
        self,
        messages: Sequence[Mapping[str, str]],
        sampling: Sampling,
        *,
        schema: Mapping[str, object] | None = None,
        seed: int | None = None,
    ) -> Reply:
        """Answers as a client of a server does."""
        return Reply(self.answer(messages, seed or 0))


class Follows(Reward):
    """1 for the family's strategy, else 0."""

    name = "follows"
    description = "the family's strategy"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        return [Score(float(one.response == f"used strategy-{one.task.answer}")) for one in samples]


def task(family: int, item: int) -> Task:
    """Returns a task; its answer is the family's strategy."""
    turns = (Message("user", f"TASK family-{family} item-{item}"),)
    return Task(turns, TRUE[family], source=f"tasks:{item}")


def tasks(count: int, first: int, salt: int = 0) -> tuple[Task, ...]:
    """Returns tasks of all families in turn, in an order of their own."""
    found = [task(n % FAMILIES, first + n) for n in range(count)]
    random.Random(f"{first} {salt}").shuffle(found)
    return tuple(found)


def split_of(salt: int = 0, *, test: int = 0) -> Split:
    return Split(tasks(48, 0, salt), tasks(48, 1000, salt), tasks(test, 9000, salt))


def lesson(**changes: Any) -> ExperienceConfig:
    fields: dict[str, Any] = {"model": "world", "max_new_tokens": 16, "teacher_max_new_tokens": 16}
    return ExperienceConfig(**(fields | {"temperature_eval": 0.7} | changes))


def run(world: World, split: Split, journal: Journal | None = None, **changes: Any) -> Learned:
    """Learns in this process, one call after the other."""
    caller = Caller(Journal() if journal is None else journal, Budget(Cap()))
    model = Model("world", world)
    return learn(split, caller, model, model, Follows(), lesson(**changes))


def success(world: World, library: Any, count: int = 96, draws: int = 4) -> float:
    """Returns how often the policy is right on fresh tasks with a library."""
    result = [{"role": "system", "content": library.text}] if library.items else []
    hits = 0
    for one in tasks(count, 50_000):
        for draw in range(draws):
            turns = [*result, {"role": "user", "content": one.messages[-1].content}]
            hits += world.answer(turns, draw) == f"used strategy-{one.answer}"
    return hits / (count * draws)


def right(library: Any) -> tuple[int, int]:
    """Returns how many rules of a library are right, and how many are wrong."""
    rules = [re.fullmatch(r"For family-(\d+) use strategy-(\d+)", i.text) for i in library.items]
    found = [TRUE[int(rule[1])] == int(rule[2]) for rule in rules if rule]
    return sum(found), len(found) - sum(found)
