"""Runs a row's unit tests on the code of a response."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from zoo.gym.config.reward import TestsSettings
from zoo.gym.errors import NotAvailableError
from zoo.gym.rewards.code.row_tests import problem_of, row_tests
from zoo.gym.rewards.code.sandbox import Limits, Outcome, Program, run_all, run_program
from zoo.gym.rewards.code.solution import solution_of
from zoo.gym.rewards.reward import Configured, Sample, Score, Task, no_reward


@dataclass(frozen=True)
class UnitTests(Configured[TestsSettings]):
    """1 if all tests of the row pass, else 0; with `partial` the share that passes.

    Code that exceeds a limit or ends the process has failed all tests.

    Raises:
        NotAvailableError: the system cannot confine the code, and `unconfined` is not set.
    """

    settings: TestsSettings = field(default_factory=TestsSettings)

    def __post_init__(self) -> None:
        refused = run_program(Program("", ()), self._limits).refused
        if refused:
            raise NotAvailableError(
                f"reward: tests: this system cannot confine the code of responses: {refused}",
                hint="{kind: tests, unconfined: true} runs it with your rights: it can read, "
                "change and send your files",
                code="rewards.no_sandbox",
            )

    @property
    def description(self) -> str:
        """What it runs."""
        if self.settings.partial:
            return "the share of the row's unit tests that the code of the response passes"
        return "1 if the code of the response passes all unit tests of the row, else 0"

    def missing(self, task: Task) -> str | None:
        """Returns `no tests` for a row without them, or why they cannot be run."""
        return problem_of(task)

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns the share of passed tests, or whether all pass, for each sample."""
        tests = [row_tests(sample.task) for sample in samples]
        codes = map(solution_of, samples)
        programs = [
            Program(code, test, blocks) for (code, blocks), test in zip(codes, tests, strict=True)
        ]
        outcomes = run_all(programs, self._limits)
        return [self._score(outcome, test) for outcome, test in zip(outcomes, tests, strict=True)]

    def _score(self, outcome: Outcome, tests: Sequence[str]) -> Score:
        if not tests or outcome.refused:
            return no_reward(outcome.refused or "the row has no tests that can be run")
        if outcome.problem:
            return Score(0.0, outcome.problem)
        passed = sum(failure is None for failure in outcome.failures)
        value = passed / len(tests) if self.settings.partial else float(passed == len(tests))
        pairs = zip(tests, outcome.failures, strict=True)
        first = next((f"{test}: {failure}" for test, failure in pairs if failure is not None), "")
        return Score(value, f"{passed} of {len(tests)} tests passed" + (first and f"; {first}"))

    @property
    def _limits(self) -> Limits:
        chosen = self.settings
        return Limits(chosen.timeout_s, chosen.memory_mb * 1_000_000, chosen.unconfined)
