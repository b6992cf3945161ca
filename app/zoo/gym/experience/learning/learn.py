"""Learns a library from tasks: steps of edits and gates, and one test at the end."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from statistics import fmean

from zoo.gym.errors import GuardError
from zoo.gym.experience.calls.caller import Caller, Model
from zoo.gym.experience.learning.answers import Answer, Answers, Pairs
from zoo.gym.experience.learning.gate import Gate, Verdict
from zoo.gym.experience.learning.majority import label_split
from zoo.gym.experience.learning.propose import Proposer
from zoo.gym.experience.learning.signflip import LEVEL, interval, sign_flip_p
from zoo.gym.experience.learning.split import Split, source_of
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.settings import MAJORITY, ExperienceConfig
from zoo.gym.rewards.reward import Reward, Task

STEP_TASKS = 100
"""The most tasks of one step."""


@dataclass(frozen=True)
class Tested:
    """The result of a test.

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
        """Returns it as the evidence of a library."""
        fields = asdict(self)
        low, high = fields.pop("interval")
        return {**fields, "low": low, "high": high} if math.isfinite(low) else fields


@dataclass(frozen=True)
class Learned:
    """The outcome.

    Attributes:
        library: the accepted lessons, with the evidence of their test.
        test: the result of the test; None without one.
        verdict: `proven`, `unproven`, or `nothing kept`.
        figures: those of the last step.
    """

    library: Library
    test: Tested | None
    verdict: str
    figures: dict[str, object] = field(default_factory=dict[str, object])


Report = Callable[..., object]
"""Gets the figures of each step by name."""


def _no_report(**_: object) -> None: ...


def batches(count: int, epochs: int, seed: int) -> list[list[int]]:
    """Returns the numbers of the tasks of each step: up to 100 of an epoch, in a new order."""
    steps: list[list[int]] = []
    for epoch in range(epochs):
        order = list(range(count))
        random.Random(f"epoch {epoch} {seed}").shuffle(order)  # noqa: S311
        size = -(-count // max(1, -(-count // STEP_TASKS)))
        steps += [order[start : start + size] for start in range(0, count, size or 1)]
    return steps


def learn(
    split: Split,
    caller: Caller,
    model: Model,
    teacher: Model,
    reward: Reward | None,
    config: ExperienceConfig,
    report: Report = _no_report,
) -> Learned:
    """Learns a library from tasks.

    `reward` is None in a replay; `report` gets the figures of each step.

    Raises:
        GymError: see `Caller.ask` and `Answers.draw`.
    """
    answers = Answers(caller, model, reward, config.system, config.top_k)
    seen = tuple(map(source_of, (*split.train, *split.gate)))
    if config.reward == MAJORITY:
        split = label_split(split, answers, config.group_size, config.sampling_train)
    proposer = Proposer(answers, teacher, config, split.train)
    steps = batches(len(split.train), config.max_epochs, config.seed)
    gate = Gate(answers, split.gate, config.gate_draws, config.sampling_eval, len(steps))
    library = Library((), model.name, teacher.name, config.domain, seen=seen)
    outcome = Learned(library, None, "nothing kept")
    for step, numbers in enumerate(steps):
        outcome = _step(outcome, step, [split.train[n] for n in numbers], proposer, gate)
        counts = {"unscored": answers.unscored, "ended": answers.ends.take()}
        report(**outcome.figures, steps=len(steps), **counts)
    return _tested(outcome, answers, split, config) if outcome.library.items else outcome


def _step(
    outcome: Learned, step: int, tasks: Sequence[Task], proposer: Proposer, gate: Gate
) -> Learned:
    proposed = proposer.propose(step, tasks, outcome.library)
    verdict: Verdict | None = None
    is_accepted = bool(proposed.edits)
    if proposed.edits and gate.tasks:
        verdict = gate.compare(step, outcome.library, proposed.library)
        is_accepted = verdict.verdict == "accepted"
    if is_accepted:
        gate.accept()
    else:
        proposer.reject(proposed.edits)
    library = proposed.library if is_accepted else outcome.library
    figures: dict[str, object] = {
        "step": step + 1,
        "reward": proposed.reward,
        "edits": proposed.edits,
        "counts": dict(proposed.counts),
        "gate": None if verdict is None else asdict(verdict),
        "kept": is_accepted,
        "lessons": len(library.items),
    }
    return replace(outcome, library=library, figures=figures)


def _tested(outcome: Learned, answers: Answers, split: Split, config: ExperienceConfig) -> Learned:
    """Returns the outcome with the evidence of the test, if there are tasks for one."""
    if not split.test:
        library = replace(outcome.library, evidence=config.marks)
        return replace(outcome, library=library, verdict="unproven")
    tasks, draws, sampling = dict(enumerate(split.test)), config.test_draws, config.sampling_eval
    base = answers.draw(("base", 0, 0), tasks, draws, Library(), sampling)
    learned = answers.draw(("test", 0, 0), tasks, draws, outcome.library, sampling)
    pairs = Pairs(split.test, base, learned)
    if not pairs.rewards:
        raise GuardError(
            f"no task of the test has rewards with and without: {answers.reason}",
            code="experience.no_rewards",
        )
    tokens = tokens_added(base, learned, outcome.library)
    tested = compared(pairs.means, tokens, pairs.unscored)
    if not split.gate:
        tested = replace(tested, verdict="unproven")
    library = replace(outcome.library, evidence=tested.as_evidence() | config.marks)
    return replace(outcome, library=library, test=tested, verdict=tested.verdict)


def compared(
    pairs: Sequence[tuple[float, float]], tokens: int, unscored: tuple[int, int] = (0, 0)
) -> Tested:
    """Returns what pairs of rewards show, without and with a library.

    `pairs` are the mean rewards of each task, at least one; `tokens` those that the library adds to
    a prompt. If more answers are unscored with the library than without, nothing is proven.
    """
    differences = [learned - base for base, learned in pairs]
    effect = round(fmean(differences), 6)
    low, high = (round(bound, 6) for bound in interval(differences))
    side = LEVEL / 2  # the interval of many tasks is drawn, and may miss it by a little
    is_clear = low > 0 and sign_flip_p(differences, side) <= side
    return Tested(
        "proven" if is_clear and unscored[1] <= unscored[0] else "unproven",
        effect,
        (min(low, effect), max(high, effect)),  # means of equal large numbers differ in last bits
        round(fmean(base for base, _ in pairs), 6),
        round(fmean(learned for _, learned in pairs), 6),
        len(pairs),
        tokens,
        *unscored,
    )


def tokens_added(
    base: Sequence[Sequence[Answer]], learned: Sequence[Sequence[Answer]], library: Library
) -> int:
    """Returns the tokens of a library as the server counts them; without counts, by its bytes."""
    pairs = zip(chain.from_iterable(base), chain.from_iterable(learned), strict=True)
    counts = [
        b.prompt_tokens - a.prompt_tokens
        for a, b in pairs
        if a.prompt_tokens is not None and b.prompt_tokens is not None
    ]
    return round(fmean(counts)) if counts else library.tokens
