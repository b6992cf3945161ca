"""A whole run: model, rows, plan, loop, result."""

import datetime as dt
import json
import shutil
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from zoo.gym.config import dump_config
from zoo.gym.config.train import TrainConfig
from zoo.gym.data import fingerprint
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.files import new_file, new_folder, storage_errors, write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.train.card import write_card
from zoo.gym.train.fit import (
    Fit,
    Need,
    available_bytes,
    check_fit,
    estimate,
    footprint_key,
    known_peak,
    remember_peak,
)
from zoo.gym.train.guards import check_finite
from zoo.gym.train.loop import Job, fit
from zoo.gym.train.order import spread
from zoo.gym.train.plan import Facts, Plan, batch_tokens, make_plan
from zoo.gym.train.progress import Progress, full_disk_told, load_best
from zoo.gym.train.rows import Rows, prepare_rows
from zoo.models.folder import TOKENIZER_FILES, count_parameters, model_geometry

if TYPE_CHECKING:
    from zoo.backends.base import LoraSpec, Policy
    from zoo.models import Resolved


class Events(Protocol):
    """Where a run tells what happens; see docs/reference/runs.md."""

    def emit(self, kind: Any, /, **fields: object) -> object:  # noqa: ANN401
        """Tells one event."""
        ...


class Workspace(Protocol):
    """The folder of a run, as the training sees it."""

    @property
    def events(self) -> Events:
        """Where events are told."""
        ...

    @property
    def config_file(self) -> Path:
        """The resolved settings."""
        ...

    @property
    def env_file(self) -> Path:
        """Versions, machine and threads."""
        ...

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        ...

    @property
    def result(self) -> Path:
        """The folder of the trained model."""
        ...


def run_session(
    config: TrainConfig,
    run: Workspace,
    leaving: Callable[[], str | None],
    turn: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> Mapping[str, object]:
    """Trains as `config` says, from the run's newest checkpoint, and writes the result.

    Args:
        config: what was asked; settings left open are chosen, told and stored.
        run: where everything goes.
        leaving: see `Job.leaving`.
        turn: holds the device with this key while the model is on it; the default holds nothing.

    Returns:
        `model`, the folder of the result, and `metrics`.

    Raises:
        GymError: the run cannot start, learns nothing, or was interrupted.
    """
    from zoo.backends.detect import detect, device_key
    from zoo.models import resolve

    if config.date is None:
        today = dt.datetime.now(tz=dt.UTC).date().isoformat()
        config = config.model_copy(update={"date": today})
    base = resolve(config.model_name_or_path, offline=True)
    check_same_data(run.env_file, config)
    if config.output_dir is not None and not run.checkpoints.exists():
        check_output(Path(config.output_dir))
    rows = prepare_rows(config, base.folder)
    plan = make_plan(config, facts_of(base.folder, rows))
    need = need_of(plan, base.folder, rows)
    fit_check = expected(need, base)
    tell_plan(run, plan, rows, base, fit_check)
    threads = stored_threads(run.env_file, base.folder)
    device = detect().name
    with turn(device_key(device)):
        if fit_check is not None:
            check_fit(fit_check, device, available_bytes(device))
        with told_as_events(run.events):
            policy = load_policy(plan.config, base.folder, threads=threads)
        held_out = spread(rows.held_out, plan.evaluation_rows)
        job = Job(policy, plan, rows.train, held_out, run.events.emit, leaving, run.checkpoints)
        progress = fit(job)
        found = finish(run, job, progress, base)
    if need is not None:
        remember_peak(footprints(), footprint_key(base.id, need), peak_bytes(policy))
    return found


def need_of(plan: Plan, folder: Path, rows: Rows) -> Need | None:
    """Returns what decides the memory of a run, or None for a model of another kind."""
    from zoo.backends.torch.load import pick_dtype
    from zoo.models import checkpoint_files

    geometry, config = model_geometry(folder), plan.config
    if geometry is None:
        return None
    longest = max(len(row.ids) for row in rows.train)
    full = config.finetuning_type == "full"
    dtype = pick_dtype(checkpoint_files(folder), config.dtype, full=full)
    held_out = max((len(row.ids) for row in rows.held_out), default=0)
    limit = batch_tokens(count_parameters(folder))
    scored = min(max(limit, held_out), held_out * plan.evaluation_rows)
    return Need(
        geometry=geometry,
        full=full,
        rank=config.lora_rank,
        tokens=longest * (config.per_device_train_batch_size or 1),
        evaluation_tokens=scored,
        checkpointing=bool(config.gradient_checkpointing),
        weight_bytes=dtype.itemsize,
    )


def expected(need: Need | None, base: "Resolved") -> Fit | None:
    """Returns the estimate: the peak of an earlier run like this one, else the formula's."""
    if need is None:
        return None
    peak = known_peak(footprints(), footprint_key(base.id, need))
    fit = estimate(need)
    return fit if peak is None else replace(fit, total=peak, source="measured")


def footprints() -> Path:
    """Returns the file of measured peaks."""
    return folders().cache / "footprints.json"


def peak_bytes(policy: "Policy") -> int:
    """Returns the peak where the model lies: on the accelerator if there is one."""
    found = policy.memory()
    return found.peak_device_bytes or found.peak_host_bytes


def load_policy(config: TrainConfig, folder: Path, *, threads: int) -> "Policy":
    """Loads the base as a policy that learns as `config` says."""
    from zoo.backends import load_backend
    from zoo.backends.threads import use_threads

    use_threads(threads)
    return load_backend().load(
        folder,
        train="full" if config.finetuning_type == "full" else lora_spec(config),
        dtype=config.dtype,
        gradient_checkpointing=bool(config.gradient_checkpointing),
        weight_decay=config.weight_decay,
        seed=config.seed,
    )


@contextmanager
def told_as_events(events: Events) -> Generator[None]:
    """Tells our warnings as events, which stay with the run; others go where they always go."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GymWarning)
        yield
    for one in caught:
        if issubclass(one.category, GymWarning):
            events.emit("warn", message=str(one.message))
        else:
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)


def lora_spec(config: TrainConfig) -> "LoraSpec":
    """Returns the adapter that `config` describes."""
    from zoo.backends.base import LoraSpec

    targets = tuple(part.strip() for part in config.lora_target.split(","))
    return LoraSpec(
        rank=config.lora_rank,
        alpha=config.lora_alpha or 2.0 * config.lora_rank,
        dropout=config.lora_dropout,
        targets=("all-linear",) if targets == ("all",) else targets,
        rslora=config.use_rslora,
    )


def stored_threads(env_file: Path, folder: Path) -> int:
    """Returns the run's thread count: the one it started with, or one chosen and stored now."""
    from zoo.backends.threads import choose_threads

    return int(remembered(env_file, "threads", lambda: choose_threads(count_parameters(folder))))


def remembered(env_file: Path, key: str, first: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Returns what the run has stored under `key`; at its start `first` says it."""
    env = json.loads(env_file.read_text(encoding="utf-8"))
    if key not in env:
        env[key] = first()
        write_beside(env_file, json.dumps(env, indent=2) + "\n")
    return env[key]


def check_same_data(env_file: Path, config: TrainConfig) -> None:
    """Makes sure that a resumed run goes on with the data it began with.

    Raises:
        InputError: a file has changed since.
    """
    now = fingerprint([Path(name) for name in config.dataset])
    if remembered(env_file, "data", lambda: now) != now:
        raise InputError(
            f"dataset: {', '.join(config.dataset)} changed since the run began",
            hint="start a new run, or put the old file back",
        )


def check_output(folder: Path) -> None:
    """Refuses before the training what would lose something after it.

    Raises:
        InputError: the folder holds files.
        StorageError: it cannot be written.
    """
    if any(ensure_folder(folder.expanduser()).iterdir()):
        raise InputError(
            f"output_dir: expected no folder or an empty one, got files in '{folder}'",
            hint="name a folder that does not exist yet",
        )


def facts_of(folder: Path, rows: Rows) -> Facts:
    """Counts what the plan depends on."""
    return Facts(
        parameters=count_parameters(folder),
        rows=len(rows.train),
        tokens=sum(len(row.ids) for row in rows.train),
        longest_tokens=max(len(row.ids) for row in rows.train),
        held_out_rows=len(rows.held_out),
        held_out_tokens=sum(len(row.ids) for row in rows.held_out),
    )


def tell_plan(run: Workspace, plan: Plan, rows: Rows, base: "Resolved", memory: Fit | None) -> None:
    """Stores the resolved settings and tells what was chosen, why, and what was left out."""
    write_beside(run.config_file, dump_config(plan.config))
    for problem in rows.problems[:20]:
        run.events.emit("warn", message=f"{problem.where}: {problem.reason}")
    if len(rows.problems) > 20:
        run.events.emit("warn", message=f"and {len(rows.problems) - 20} more rows left out")
    if rows.unlearned:
        run.events.emit("warn", message=f"{rows.unlearned} rows without a learned token left out")
    run.events.emit(
        "plan",
        model=base.id,
        revision=base.revision,
        steps=plan.steps,
        rows=len(rows.train),
        rows_per_step=plan.rows_per_step,
        held_out_rows=len(rows.held_out),
        evaluation_rows=plan.evaluation_rows,
        truncated_rows=rows.truncated,
        cutoff_len=rows.cutoff_len,
        memory=memory.as_json() if memory else None,
        choices=[{"key": c.key, "value": c.value, "reason": c.reason} for c in plan.choices],
    )


def finish(run: Workspace, job: Job, progress: Progress, base: "Resolved") -> dict[str, object]:
    """Writes the best step's weights as a folder that the field's libraries load."""
    load_best(job.policy, progress.best_step, job.checkpoints)
    check_finite(job.policy)
    metrics = metrics_of(job, progress)
    base_loss, best_loss = progress.base_loss, progress.best_loss
    if base_loss is not None and best_loss is not None and best_loss >= base_loss:
        text = f"no gain on held-out rows: {base_loss:.4f} before, best {best_loss:.4f}"
        run.events.emit("warn", message=text)
    config = job.plan.config
    write_result(job.policy, run.result, base)
    write_card(run.result, config, base, metrics)
    if config.output_dir is not None:
        copy_result(run.result, Path(config.output_dir))
    return {"model": config.output_dir or str(run.result), "metrics": metrics}


def write_result(policy: "Policy", folder: Path, base: "Resolved") -> None:
    """Writes the model, whole or not at all; a full model gets the base's tokenizer."""
    with new_folder(folder, replace=True) as beside, full_disk_told(folder), storage_errors(folder):
        policy.save_result(beside, base=base_name(base))
        if not (beside / "adapter_config.json").exists():
            for name in TOKENIZER_FILES:
                if (base.folder / name).is_file():
                    shutil.copyfile(base.folder / name, beside / name)


def copy_result(result: Path, folder: Path) -> None:
    """Copies the files of a result into another folder, each whole or not at all.

    Raises:
        StorageError: the folder cannot be written.
    """
    for file in sorted(result.iterdir()):
        with new_file(folder / file.name) as beside, storage_errors(folder):
            shutil.copyfile(file, beside)


def base_name(base: "Resolved") -> str:
    """Returns what an adapter records as its base: a name, or the folder of a local model."""
    from zoo.models import PICO

    return base.id if base.revision or base.id == PICO else str(base.folder)


def metrics_of(job: Job, progress: Progress) -> dict[str, object]:
    """Returns what was measured; losses are nats per learned token."""
    return {
        "steps": progress.step,
        "tokens": progress.tokens,
        "base_loss": progress.base_loss,
        "best_loss": progress.best_loss,
        "best_step": progress.best_step,
        "evaluation_rows": len(job.held_out),
        "training_s": round(progress.training_s, 3),
        "evaluation_s": round(progress.evaluation_s, 3),
        "training_cpu_s": round(progress.training_cpu_s, 3),
        "peak_host_bytes": job.policy.memory().peak_host_bytes,
        "peak_device_bytes": job.policy.memory().peak_device_bytes,
    }
