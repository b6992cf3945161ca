"""The settings that a run would choose and the memory it would need, without starting one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.config.train import TrainConfig
from zoo.gym.engine import open_engine
from zoo.gym.train.loading import choose_precision
from zoo.gym.train.plan import Plan, for_engine, make_plan, with_precision, workload
from zoo.gym.train.planning.activations import keep_activations
from zoo.gym.train.planning.faults import check_start
from zoo.gym.train.planning.footprints import circumstances, expected, need_of
from zoo.gym.train.planning.names import check_names
from zoo.gym.train.rows import prepare_rows
from zoo.gym.train.run_folder.pinned import pinned
from zoo.gym.train.session import facts_of, sharing
from zoo.models.folder import count_parameters

if TYPE_CHECKING:
    from zoo.backends.memory import MemoryEstimate
    from zoo.models import Resolved


@dataclass(frozen=True)
class Preview:
    """What a run would do.

    Attributes:
        plan: its settings.
        device: the device it would use.
        memory: the expected peak of each process, None for a model of unknown shape.
        free_bytes: the memory that is free on the device.
        processes: how many processes share it.
    """

    plan: Plan
    device: str
    memory: "MemoryEstimate | None"
    free_bytes: int
    processes: int


def preview(config: TrainConfig, base: "Resolved") -> Preview:
    """Returns what a run with these settings would do on this machine, if it started now.

    Args:
        config: the settings as they were given.
        base: the base model.

    Raises:
        GymError: the data, the base or the settings cannot be used.
    """
    from zoo.backends.machine.threads import choose_threads

    config = pinned(config, base)
    check_start(config, base.folder)
    check_names(config, base.folder)
    rows = prepare_rows(config, base.folder)
    facts = facts_of(config, base.folder, rows)
    engine = open_engine(config.backend)
    plan = for_engine(make_plan(config, facts), engine)
    need = need_of(plan, base.folder, rows)
    precision = choose_precision(engine, base.folder, plan, workload(plan, facts, need))
    plan = with_precision(plan, precision)
    plan, need = keep_activations(plan, need and precision.applied_to(need), engine)
    processes = sharing(plan, engine.name)
    threads = max(1, choose_threads(count_parameters(base.folder)) // sharing(plan, "cpu"))
    conditions = circumstances(plan.config, base, engine.name, threads, facts.tokens)
    memory = expected(engine, need, conditions)
    return Preview(plan, engine.name, memory, engine.free_bytes(), processes)
