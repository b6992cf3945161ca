"""Lessons with real tokens: zen-pico tuned to obey sheets learns one, and it is distilled.

A scripted teacher (`bench.sheet_world`), so it proves the machine, not a teacher. The learned sheet
and the same rules with their letters in the wrong places are each compared with the bare model on
words that nothing was learned from: in the prompt, as a distilled adapter, and as its delta of two
bits. A bar is the lower end of the 95 % interval: above 0 for the sheet, not above for the other.

usage: python -m bench sheets                      three minutes of one core
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Case
from bench.sheet_world import REWARD, SHEET, SHUFFLED, Teacher, sheet, tune, write_tasks

TUNING_STEPS = 260
TASKS, DRAWS = 120, 2
DISTILLING = ("max_steps=60", "learning_rate=5e-3", "lora_rank=8", "val_size=8")


def run(steps: int = TUNING_STEPS) -> Iterator[Case]:
    """Yields the cases."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="sheets-") as name:
        place = Path(name)
        os.environ["ZOO_GYM_HOME"] = str(place / "home")
        started = time.process_time()
        loss = tune(place / "model", steps)
        yield Case("tuning", time.process_time() - started, "CPU-s", "loss", loss, "")
        (place / "reward.py").write_text(REWARD, encoding="utf-8")
        library = yield from learned(place)
        for label, one in (("learned", library), ("shuffled", sheet(SHUFFLED))):
            yield from distilled(place, label, one)


def learned(place: Path) -> Any:  # noqa: ANN401 - a generator of cases that returns a library
    """Learns a library and yields what it is; returns it."""
    from zoo.gym.experience.calls.budget import Budget, Cap
    from zoo.gym.experience.calls.caller import Caller, Model
    from zoo.gym.experience.calls.journal import Journal
    from zoo.gym.experience.learning.learn import learn
    from zoo.gym.experience.learning.split import split_tasks
    from zoo.gym.experience.local import BATCH, Local
    from zoo.gym.experience.rewards import load_reward
    from zoo.gym.experience.settings import ExperienceConfig
    from zoo.gym.experience.tasks import read_tasks

    config = ExperienceConfig(
        model=str(place / "model"),
        reward=f"{place / 'reward.py'}:score",
        max_epochs=1,
        test_draws=DRAWS,
        max_new_tokens=8,
        temperature_train=1.0,
        temperature_eval=1.0,
    )
    tasks, _ = read_tasks([write_tasks(place / "learning.jsonl", TASKS, 1)])
    split = split_tasks(tasks, config.seed)
    caller = Caller(Journal(), Budget(Cap()))
    with load_reward(config, split) as reward, Local(config.model).open() as chat:
        model = Model("model", chat, None, BATCH)
        found = learn(split, caller, model, Model("teacher", Teacher()), reward, config)
    right = {item.text for item in found.library.items}
    true = {item.text for item in sheet(SHEET).items}
    size = len(found.library.text.encode())
    yield Case("rules learned", len(right), "rules", "3 true ones", len(right & true) / 3, "")
    yield Case("sheet", size, "bytes", "300", size / 300, "<= 1")
    calls = float(caller.journal.spent.calls)
    assert found.test is not None
    low = found.test.interval[0]
    yield Case("calls of learning; low end of its test", calls, "calls", "effect", low, ">= 0.0001")
    return found.library


def distilled(place: Path, label: str, library: Any) -> Iterator[Case]:  # noqa: ANN401
    """Distils a library and yields what it, the adapter and the delta gain."""
    from zoo.gym.experience import store
    from zoo.gym.experience.distilling.session import work
    from zoo.gym.experience.distilling.start import make_run, prepare
    from zoo.gym.experience.settings import DistillationConfig

    store.save(label, library)
    config = DistillationConfig(
        model=str(place / "model"),
        reward=f"{place / 'reward.py'}:score",
        test_draws=DRAWS,
        max_new_tokens=8,
        temperature_eval=1.0,
    )
    tasks = write_tasks(place / "distilling.jsonl", TASKS, 2)
    started = time.process_time()
    done: Any = work(make_run(prepare(config, label, [tasks], DISTILLING)))
    spent = time.process_time() - started
    for way, found in done["metrics"]["measured"].items():
        low = found["interval"][0]
        bar = ">= 0.0001" if label == "learned" else "<= 0"
        level = f"bare {found['base']:.3f}, low end"
        yield Case(f"{label}, {way}", found["learned"], "reward", level, low, bar)
    kl = done["metrics"]["best_loss"], done["metrics"]["base_loss"]
    yield Case(f"{label}: distilling", spent, "CPU-s", f"nats {kl[1]:.2f}", kl[0], "")
