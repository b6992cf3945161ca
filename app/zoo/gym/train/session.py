"""A run from start to end: model, rows, plan, loop, result."""

import datetime as dt
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.config import extend_config
from zoo.gym.config.retaining import RetainingConfig
from zoo.gym.config.stages import load_method
from zoo.gym.config.train import TrainConfig
from zoo.gym.data.rendering.renderer import interruptible
from zoo.gym.delta.reading.remembered import remember_base
from zoo.gym.engine import open_engine
from zoo.gym.humanize import counted
from zoo.gym.measure.rows import spread
from zoo.gym.train.answers import Answers
from zoo.gym.train.loading import choose_precision, load_policy, warnings_as_events
from zoo.gym.train.loop import Job, fit
from zoo.gym.train.method import Method
from zoo.gym.train.parallel.agreement import check_same_settings, check_same_weights
from zoo.gym.train.parallel.crew import ALONE, Crew, connected
from zoo.gym.train.plan import Facts, Plan, for_engine, make_plan, with_precision, workload
from zoo.gym.train.planning.activations import keep_activations
from zoo.gym.train.planning.footprints import (
    circumstances,
    expected,
    footprint_key,
    footprints,
    need_of,
    peak_bytes,
    remember_peak,
)
from zoo.gym.train.planning.memory import check_fit, check_fit_everywhere
from zoo.gym.train.result.finish import finish
from zoo.gym.train.result.origin import remember_form
from zoo.gym.train.result.output import check_places
from zoo.gym.train.retaining import measured_before, note_of, prepare_retained, share_of
from zoo.gym.train.rows import Rows, prepare_rows, report_unusable
from zoo.gym.train.run_folder.base import check_same_base
from zoo.gym.train.run_folder.env import (
    check_same_data,
    remembered,
    remembered_count,
    stored_device,
    stored_threads,
)
from zoo.gym.train.run_folder.other_files import check_same_files
from zoo.gym.train.run_folder.settings import finish_step, store_settings
from zoo.gym.train.run_folder.split import run_split
from zoo.gym.train.run_folder.workspace import Workspace
from zoo.models.folder import count_parameters, model_geometry

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.backends.memory import MemoryEstimate
    from zoo.gym.retention import Measured
    from zoo.models import Resolved


def run_session(
    config: TrainConfig,
    run: Workspace,
    leaving: Callable[[], str | None],
    turn: Callable[[str], AbstractContextManager[object]] = nullcontext,
    crew: Crew = ALONE,
    *,
    own_process: bool = False,
) -> Mapping[str, object]:
    """Trains as `config` says, from the run's newest checkpoint, and writes the result.

    Args:
        config: the given settings; open ones are chosen, reported and stored.
        run: the run folder and its events.
        leaving: see `Job.leaving`.
        turn: reserves the device with this key while a model is on it; by default nothing.
        crew: starts the other processes of the run, if it has several.
        own_process: True if the process does nothing else, so that its peak memory is the run's.

    Returns:
        `model`, the folder of the result, and `metrics`; nothing in a process that is not the
        first of several.

    Raises:
        GymError: the run cannot start, learns nothing, diverges, or was stopped or parked.
    """
    from zoo.models import resolve

    if config.date is None:
        today = dt.datetime.now(tz=dt.UTC).date().isoformat()
        config = config.model_copy(update={"date": today})
    base = resolve(config.model_name_or_path, offline=True)
    check_models(config, base.folder, run.env_file)
    data = check_same_data(run.env_file, config)
    check_places(run, config)
    with interruptible(leaving):
        folder = run.env_file.parent
        rows = prepare_rows(
            config, base.folder, lambda dataset: run_split(folder, config, dataset, data)
        )
    remember_form(run.env_file, *rows.form, resumes=run.checkpoints.exists())
    # packing as given when the run began: later settings have what was chosen
    must = bool(remembered(run.env_file, "packing_given", lambda: config.packing is True))
    facts = facts_of(config, base.folder, rows)
    plan = resumed_plan(make_plan(config, facts), run.env_file, len(rows.held_out))
    device = stored_device(run.env_file, config.backend)
    threads = max(1, stored_threads(run.env_file, base.folder) // sharing(plan, "cpu"))
    engine = open_engine(device)
    need = need_of(plan, base.folder, rows)
    precision = choose_precision(engine, base.folder, plan, workload(plan, facts, need))
    plan = for_engine(with_precision(plan, precision), engine)
    plan, need = keep_activations(plan, need and precision.applied_to(need), engine)
    peak_is_ours = own_process and not run.checkpoints.exists()
    conditions = circumstances(plan.config, base, device, threads, facts.tokens)
    estimate = expected(engine, need, conditions)
    if crew.is_first:
        emit_plan(run, plan, rows, base, device, estimate)
    warn(run, precision.warning)
    with reserved(turn, device, plan):
        if estimate is not None and crew.is_first:
            warn(run, check_fit(estimate, device, engine.free_bytes(), sharing(plan, device)))
        with ExitStack() as together:
            ranks = together.enter_context(connected(engine, crew, plan.config.num_processes))
            check_same_settings(ranks, settings_of(plan, precision.dtype))
            check_fit_everywhere(estimate, device, ranks, engine)
            with warnings_as_events(run.events.emit):
                load = partial(load_policy, plan.config, base.folder, engine, ranks=ranks)
                policy = load(threads=threads, must_pack=must)
            plan, measured = with_retained(plan, run, policy, base.folder)
            method = make_method(policy, plan, rows, folder)
            prepare_retained(method, base.folder, together)
            crew.ending.append(method.close)
            with closing(method):
                probes = rows.probes if method.answers else ()
                answers = Answers(policy, base.folder, probes, folder, rows.tokenizer)
                job = Job(method, run.events.emit, leaving, run.checkpoints, answers)
                result = _train(run, job, base, together, measured)
    # a calling program adds to the peak; a resumed run may have passed its peak earlier
    if need is not None and peak_is_ours and crew.is_first:
        remember_peak(footprints(), footprint_key(need, conditions), peak_bytes(policy))
    return result


@contextmanager
def reserved(
    turn: Callable[[str], AbstractContextManager[object]], device: str, plan: Plan
) -> Generator[None]:
    """Reserves the devices of all processes of this machine for the duration of a `with` block."""
    from zoo.backends.launched import on_this_machine
    from zoo.backends.machine.detect import device_keys

    with ExitStack() as turns:
        for key in device_keys(device, on_this_machine(plan.config.num_processes)):
            turns.enter_context(turn(key))
        yield


def make_method(policy: "Policy", plan: Plan, rows: Rows, folder: Path) -> Method:
    """Returns the method of a run, with the rows that it learns from and is evaluated on."""
    held_out = spread(rows.held_out, plan.evaluation_rows)
    method: Method = load_method(plan.config.stage)(policy, plan, rows.train, held_out, folder)
    return method


def with_retained(
    plan: Plan, run: Workspace, policy: "Policy", base: Path
) -> "tuple[Plan, Measured | None]":
    """Measures what the model answers, and completes the plan with the share that it retains.

    Returns:
        The plan, and the measurement before training; None for a run that measures none.
    """
    config, is_first = plan.config, policy.ranks.is_first
    method, measured, share = load_method(config.stage), None, 0.0
    if config.retention and method.answers:
        measured = measured_before(policy, base, run.env_file.parent)
    if isinstance(config, RetainingConfig):
        resumes = run.checkpoints.exists()
        share = share_of(config, measured, resumes=resumes)
        plan = replace(plan, config=extend_config(config, {"retain": share}))
        if is_first:
            store_settings(run.config_file, run.env_file, plan.config)
    if is_first and measured is not None and measured.answers:
        run.events.emit("retention", step=0, message=note_of(measured, share), right=measured.count)
    return plan, measured


def _train(
    run: Workspace,
    job: Job,
    base: "Resolved",
    together: ExitStack,
    measured: "Measured | None",
) -> Mapping[str, object]:
    """Trains and writes the result, which the first process does alone."""
    from zoo.backends.base import MemoryInfo
    from zoo.backends.ranks import ALONE as NO_OTHERS

    policy, config = job.method.policy, job.plan.config
    remember_base(base.folder)
    check_same_base(run.env_file, base.folder)  # the wait for the device may have been long
    check_same_files(run.env_file, config)
    check_places(run, config)
    check_same_weights(policy, "the start")
    progress = fit(job)
    memory = policy.memory()
    peaks = {"host": float(memory.peak_host_bytes), "device": float(memory.peak_device_bytes)}
    all_peaks = policy.ranks.total(peaks)
    peer_memory = MemoryInfo(*(int(all_peaks[name] - peaks[name]) for name in ("host", "device")))
    policy.reassemble()
    together.close()
    is_first, policy.ranks = policy.ranks.is_first, NO_OTHERS
    return finish(run, job, progress, base, peer_memory, measured) if is_first else {}


def warn(run: Workspace, message: str | None) -> None:
    """Emits a warning, if there is one."""
    if message is not None:
        run.events.emit("warn", message=message)


def sharing(plan: Plan, device: str) -> int:
    """Returns how many processes of a run take their memory from the same device."""
    from zoo.backends.launched import on_this_machine

    return 1 if device == "cuda" else on_this_machine(plan.config.num_processes)


def settings_of(plan: Plan, dtype: str) -> dict[str, object]:
    """Returns what all processes of a run must have in common."""
    counts = {"steps": plan.steps, "evaluation_rows": plan.evaluation_rows}
    return {**plan.config.model_dump(mode="json"), **counts, "number format": dtype}


def check_models(config: TrainConfig, folder: Path, env_file: Path) -> None:
    """Checks that models and reward files are those of the run's start, and go together.

    Raises:
        InputError: one has changed, or they do not go together.
    """
    from zoo.models import resolve

    check_same_base(env_file, folder)
    for key, name in config.other_models.items():
        check_same_base(env_file, resolve(name, offline=True).folder, key)
    check_same_files(env_file, config)
    load_method(config.stage).check_models(config, folder)


def resumed_plan(plan: Plan, env_file: Path, held_out_rows: int) -> Plan:
    """Returns the plan with the rows that the run evaluates on, and the step to finish it at."""
    # a changed max_steps or eval_steps must not change the rows that losses are compared on
    scored = remembered_count(env_file, "evaluation_rows", lambda: plan.evaluation_rows)
    steps = min(plan.steps, finish_step(env_file) or plan.steps)
    return replace(plan, steps=steps, evaluation_rows=min(scored, held_out_rows))


def facts_of(config: TrainConfig, folder: Path, rows: Rows) -> Facts:
    """Returns the sizes of model and data that the plan depends on."""
    method, cutoff = load_method(config.stage), rows.cutoff_len
    return Facts(
        parameters=count_parameters(folder),
        rows=len(rows.train),
        tokens=rows.tokens,
        longest_tokens=max(method.width(config, unit, cutoff) for unit in rows.seen),
        held_out_rows=len(rows.held_out),
        held_out_tokens=rows.held_out_tokens,
        cutoff_len=cutoff,
        units=rows.seen,
        rows_per_unit=method.rows_per_unit(config),
        layers=0 if (geometry := model_geometry(folder)) is None else geometry.layers,
    )


def emit_plan(
    run: Workspace,
    plan: Plan,
    rows: Rows,
    base: "Resolved",
    device: str,
    memory: "MemoryEstimate | None",
) -> None:
    """Stores the resolved settings, and emits the plan with its reasons and the rows left out."""
    method = load_method(plan.config.stage)
    store_settings(run.config_file, run.env_file, plan.config)
    for problem in rows.problems[:20]:
        run.events.emit("warn", message=f"{problem.where}: {problem.reason}")
    if (more := len(rows.problems) - 20) > 0:
        run.events.emit("warn", message=f"{counted(more, 'more row')} left out")
    for note in rows.notes:
        run.events.emit("warn", message=note)
    report_unusable(rows, lambda row: run.events.emit("warn", message=str(row)))
    run.events.emit(
        "plan",
        model=base.id,
        revision=base.revision,
        device=device,
        steps=plan.steps,
        rows=len(rows.train),
        rows_per_step=plan.rows_per_step,
        held_out_rows=len(rows.held_out),
        evaluation_rows=plan.evaluation_rows,
        left_out_rows=len(rows.problems),
        truncated_rows=rows.truncated,
        cutoff_len=rows.cutoff_len,
        processes=plan.config.num_processes,
        memory=memory.as_json() if memory else None,
        decides=method.decides,
        better=method.better,
        watch=list(method.watch),
        loss_unit=method.loss_unit,
        choices=[{"key": c.key, "value": c.value, "reason": c.reason} for c in plan.choices],
    )
