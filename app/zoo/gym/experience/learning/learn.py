"""The whole way from tasks to a library: steps of edits and gates, and one test at the end."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean

from zoo.backends.sampling import Sampling
from zoo.gym.errors import GuardError
from zoo.gym.experience.calls.caller import Caller, Model
from zoo.gym.experience.learning.answers import Answer, Answers, slots
from zoo.gym.experience.learning.gate import Gate, Verdict
from zoo.gym.experience.learning.majority import MAJORITY, label_split
from zoo.gym.experience.learning.pairs import Pairs
from zoo.gym.experience.learning.propose import Proposer
from zoo.gym.experience.learning.signflip import LEVEL, interval, sign_flip_p
from zoo.gym.experience.learning.split import Split, source_of
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.reward import Reward, Task

STEP_TASKS = 100
"""The most tasks of one step."""


@dataclass(frozen=True)
class Lesson:
    """How lessons are learned.

    Attributes:
        group_size: answers in a group.
        epochs: how often every task teaches.
        gate_draws: answers to each task of the gate, with either library.
        test_draws: the same for the test.
        train_how: how answers of groups are drawn.
        eval_how: how those of gate and test are.
        teacher_how: how the teacher's are.
        system: text for all tasks.
        domain: what the tasks are about.
        seed: the order of tasks.
        top_k: the most lessons in a prompt, those nearest to the task; None for all.
        labels: what stands for known answers: `majority` draws labels first, another one is a
            mark in the evidence; empty for known answers.
    """

    group_size: int
    epochs: int
    gate_draws: int
    test_draws: int
    train_how: Sampling
    eval_how: Sampling
    teacher_how: Sampling
    system: str = ""
    domain: str = ""
    seed: int = 42
    top_k: int | None = None
    labels: str = ""

    @property
    def marks(self) -> dict[str, object]:
        """What a library's evidence says of how it was measured, also without a test."""
        read = {} if self.top_k is None else {"top_k": self.top_k}
        return {**read, "labels": self.labels} if self.labels else {**read}


@dataclass(frozen=True)
class Tested:
    """What the test found.

    Attributes:
        verdict: `proven` if the whole interval is above 0, so is the gain by the test itself, and
            no more answers lack a reward with the library than without, else `unproven`.
        effect: the mean difference of the rewards with and without the library.
        interval: its 95 % interval; infinite with too few tasks for one.
        base: the mean reward without the library.
        learned: the mean reward with it.
        tasks: how many were compared.
        tokens: tokens that the library adds to a prompt.
        unscored_base: answers without a reward, without the library.
        unscored_learned: the same with it.
    """

    verdict: str
    effect: float
    interval: tuple[float, float]
    base: float
    learned: float
    tasks: int
    tokens: int
    unscored_base: int = 0
    unscored_learned: int = 0

    def as_evidence(self) -> dict[str, object]:
        """Returns it as a library has it."""
        fields = asdict(self)
        low, high = fields.pop("interval")
        return {**fields, "low": low, "high": high} if math.isfinite(low) else fields


@dataclass(frozen=True)
class Learned:
    """The outcome.

    Attributes:
        library: what was kept, with the evidence of its test.
        test: what the test found; None without a test.
        verdict: `proven`, `unproven`, or `nothing kept`.
        gates: the verdict of each step's gate, None for a step without edits.
        versions: the library after each step that changed it.
        figures: those of the last step.
    """

    library: Library
    test: Tested | None
    verdict: str
    gates: list[Verdict | None] = field(default_factory=list["Verdict | None"])
    versions: list[Library] = field(default_factory=list[Library])
    figures: dict[str, object] = field(default_factory=dict[str, object])


Report = Callable[..., object]
"""Gets the figures of each step by name."""


def _silent(**figures: object) -> None:
    """Reports nothing."""


def batches(count: int, epochs: int, seed: int) -> list[list[int]]:
    """Returns the places of the tasks of each step: those of an epoch, to 100, in a new order."""
    found: list[list[int]] = []
    for epoch in range(epochs):
        order = list(range(count))
        random.Random(f"epoch {epoch} {seed}").shuffle(order)  # noqa: S311
        number = -(-count // STEP_TASKS)
        size = -(-count // number) if number else 1
        found += [order[start : start + size] for start in range(0, count, size)]
    return found


def learn(
    split: Split,
    caller: Caller,
    model: Model,
    teacher: Model,
    reward: Reward | None,
    how: Lesson,
    report: Report = _silent,
    tell: Callable[[str], object] = bool,
) -> Learned:
    """Learns a library from tasks.

    Args:
        split: the tasks.
        caller: makes the calls.
        model: answers the tasks.
        teacher: proposes edits.
        reward: scores answers; None in a replay.
        how: the settings.
        report: gets the figures of each step.
        tell: gets sentences about answers that are not whole.

    Raises:
        GymError: see `Caller.ask` and `Answers.draw`.
    """
    answers = Answers(caller, model, reward, how.system, how.top_k, tell=tell)
    seen = tuple(map(source_of, (*split.train, *split.gate)))
    if how.labels == MAJORITY:
        split = label_split(split, answers, how.group_size, how.train_how, caller.notices.put)
    hows = (how.group_size, how.train_how, how.teacher_how)
    proposer = Proposer(answers, caller, teacher, *hows, split.train)
    steps = batches(len(split.train), how.epochs, how.seed)
    gate = Gate(answers, split.gate, how.gate_draws, how.eval_how, len(steps))
    found = Learned(
        Library((), model.name, teacher.name, how.domain, seen=seen), None, "nothing kept"
    )
    for step, places in enumerate(steps):
        found = _step(found, step, [split.train[place] for place in places], proposer, gate)
        report(
            **found.figures, steps=len(steps), unscored=answers.unscored, ended=answers.ends.take()
        )
    return _tested(found, answers, split, how) if found.library.items else found


def _step(
    before: Learned, step: int, tasks: Sequence[Task], proposer: Proposer, gate: Gate
) -> Learned:
    """Returns the outcome so far after one more step."""
    proposed = proposer.propose(step, tasks, before.library)
    verdict: Verdict | None = None
    is_kept = bool(proposed.edits)
    if proposed.edits and gate.tasks:
        verdict = gate.compare(step, before.library, proposed.library)
        is_kept = verdict.verdict == "accepted"
    if is_kept:
        gate.accept()
    else:
        proposer.reject(proposed.edits)
    library = proposed.library if is_kept else before.library
    figures: dict[str, object] = {
        "step": step + 1,
        "reward": proposed.reward,
        "edits": proposed.edits,
        "counts": dict(proposed.counts),
        "gate": None if verdict is None else asdict(verdict),
        "kept": is_kept,
        "lessons": len(library.items),
    }
    versions = [*before.versions, library] if is_kept else before.versions
    gates = [*before.gates, verdict]
    return replace(before, library=library, gates=gates, versions=versions, figures=figures)


def _tested(found: Learned, answers: Answers, split: Split, how: Lesson) -> Learned:
    """Returns the outcome with the evidence of the test, where there are tasks for one."""
    if not split.test:
        library = replace(found.library, evidence=how.marks)
        return replace(found, library=library, verdict="unproven")
    tested = _test(answers, split.test, found.library, how)
    if not split.gate:
        tested = replace(tested, verdict="unproven")
    library = replace(found.library, evidence=tested.as_evidence() | how.marks)
    return replace(found, library=library, test=tested, verdict=tested.verdict)


def _test(answers: Answers, tasks: Sequence[Task], library: Library, how: Lesson) -> Tested:
    places = range(len(tasks))
    drawn = [tasks[place] for place in places for _ in range(how.test_draws)]
    bare = Library(model=library.model)
    arms: list[list[Answer]] = []
    for phase, lessons in (("base", bare), ("test", library)):
        where = slots("base" if phase == "base" else "test", 0, 0, places, how.test_draws)
        arms.append(answers.draw(drawn, where, lessons, how.eval_how))
    pairs = Pairs()
    pairs.add(tasks, arms[0], arms[1], how.test_draws)
    if not pairs.rewards:
        raise GuardError(f"no task of the test has rewards with and without: {answers.reason}")
    return compared(pairs.means, tokens_added(arms[0], arms[1], library), pairs.unscored)


def compared(
    pairs: Sequence[tuple[float, float]], tokens: int, unscored: tuple[int, int] = (0, 0)
) -> Tested:
    """Returns what pairs of rewards show, without and with a library.

    Args:
        pairs: the mean rewards of each task, at least one.
        tokens: tokens that the library adds to a prompt.
        unscored: answers without a reward, without and with it: with more, nothing is proven.
    """
    differences = [after - before for before, after in pairs]
    effect = round(fmean(differences), 6)
    low, high = (round(one, 6) for one in interval(differences))
    side = LEVEL / 2  # the interval of many tasks is drawn, and may miss it by a little
    is_clear = low > 0 and sign_flip_p(differences, side) <= side
    return Tested(
        "proven" if is_clear and unscored[1] <= unscored[0] else "unproven",
        effect,
        (min(low, effect), max(high, effect)),  # means of equal large numbers differ in last bits
        round(fmean(before for before, _ in pairs), 6),
        round(fmean(after for _, after in pairs), 6),
        len(pairs),
        tokens,
        *unscored,
    )


def tokens_added(base: Sequence[Answer], learned: Sequence[Answer], library: Library) -> int:
    """Returns the tokens of a library as the server counts them; without counts, by its bytes."""
    pairs = zip(base, learned, strict=True)
    counts = [
        b.prompt_tokens - a.prompt_tokens
        for a, b in pairs
        if a.prompt_tokens is not None and b.prompt_tokens is not None
    ]
    return round(fmean(counts)) if counts else library.tokens
