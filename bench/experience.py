"""Lessons in a simulated world: what learning reaches, and what it must not keep.

The world has 12 families of tasks and 5 strategies; a rule is followed with probability 0.9, only
if its text is in the prompt (`tests.gym.experience.causal`). It proves the machine, not a teacher.
Behind a server of HTTP: 20 worlds, 48 tasks teach, 48 are for the gate with 2 answers each, 96 test
with 4. In process: placebos (a deaf policy, a teacher with one saying), poison (wrong rules), and
worlds of which 3 families are poisoned. A placebo that keeps anything has passed its gate by luck.

usage: python -m bench experience                  ten minutes of one core
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from bench.measure import Case
from tests.chat_server import Body, chat_server
from tests.gym.experience.causal import Follows, World, lesson, right, split_of, success
from tests.gym.experience.causal import run as learned

SEEDS = 20
PLACEBOS = 200
TEST_TASKS, TEST_DRAWS = 96, 4
POISONED = (1, 5, 9)


@dataclass(frozen=True)
class Reached:
    """What one world behind a server reached.

    Attributes:
        before: success on the test's tasks without lessons.
        after: the same with them.
        calls: the server's requests before the test.
        verdict: that of the run.
    """

    before: float
    after: float
    calls: int
    verdict: str


def run(seeds: int = SEEDS, placebos: int = PLACEBOS) -> Iterator[Case]:
    """Yields the cases."""
    yield from causal(seeds)
    yield from controls(seeds, placebos)


def causal(seeds: int) -> Iterator[Case]:
    """Yields what lessons reach behind a server."""
    found = [behind_a_server(salt) for salt in range(seeds)]
    bare, after = fmean(one.before for one in found), [one.after for one in found]
    calls = fmean(one.calls for one in found)
    proven = sum(one.verdict == "proven" for one in found)
    against = f"bare {bare:.3f}"
    yield Case(f"success, mean of {seeds}", fmean(after), "share", against, fmean(after), ">= 0.89")
    yield Case("success, the least", min(after), "share", against, min(after), ">= 0.83")
    yield Case("success, the most", max(after), "share", against, max(after), "")
    yield Case("calls before the test, mean", calls, "calls", "1,000", calls / 1000, "<= 1")
    yield Case("proven", proven, "runs", str(seeds), proven / seeds, ">= 1")


def behind_a_server(salt: int) -> Reached:
    """Returns what one world reaches."""
    from zoo.backends.openai.chat import ChatModel, Endpoint
    from zoo.gym.experience.calls.budget import Budget, Cap
    from zoo.gym.experience.calls.caller import Caller, Model
    from zoo.gym.experience.calls.journal import Journal
    from zoo.gym.experience.learning.learn import learn

    world, split = World(salt=salt), split_of(salt, test=TEST_TASKS)

    def respond(body: Body, _: int) -> str:
        return world.answer(body["messages"], body["seed"])

    with (
        chat_server(respond) as server,
        ChatModel(Endpoint("world", server.url, "world")) as chat,
    ):
        model = Model("world", chat, None, 8)
        caller = Caller(Journal(), Budget(Cap()))
        found = learn(split, caller, model, model, Follows(), lesson(test_draws=TEST_DRAWS))
        calls = len(server.requests) - 2 * TEST_TASKS * TEST_DRAWS
    assert found.test is not None
    return Reached(found.test.base, found.test.learned, calls, found.verdict)


def controls(seeds: int, placebos: int) -> Iterator[Case]:
    """Yields what is kept where nothing, or not everything, should be."""
    for mode in ("deaf", "generic"):
        kept = sum(_keeps(World(mode, salt=salt)) for salt in range(placebos))
        yield Case(f"{mode}: kept", kept, "runs", str(placebos), kept / placebos, "<= 0.08")
    kept = sum(_keeps(World("poison", salt=salt)) for salt in range(seeds))
    yield Case("poison: kept", kept, "runs", str(seeds), kept / seeds, "<= 0")
    kept = sum(_keeps(World(salt=salt), 1) for salt in range(seeds))
    yield Case("groups of one: kept", kept, "runs", str(seeds), kept / seeds, "<= 0")
    worlds = [World(poisoned=POISONED, salt=salt) for salt in range(seeds)]
    libraries = [learned(world, split_of(world.salt)).library for world in worlds]
    wrong = sum(right(library)[1] > 0 for library in libraries)
    level = fmean(success(*one) for one in zip(worlds, libraries, strict=True))
    yield Case(
        "3 families poisoned: wrong kept", wrong, "runs", str(seeds), wrong / seeds, "<= 0.05"
    )
    yield Case("3 families poisoned: success", level, "share", "9 of 12 right", level, ">= 0.71")


def _keeps(world: World, group_size: int = 5) -> bool:
    return bool(learned(world, split_of(world.salt), group_size=group_size).library.items)
