"""Finishes a run: writes its best weights as a folder that transformers and PEFT load."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.data.own_tokenizer import MORE, TOKENIZER_KEY, own_in, write_own
from zoo.gym.data.tokenizer import has_tokenizer
from zoo.gym.files import new_folder, storage_errors
from zoo.gym.humanize import counted
from zoo.gym.refusals.interval import wilson
from zoo.gym.train.answers import alarms_of, learned_sentence
from zoo.gym.train.guards import check_finite
from zoo.gym.train.loop import Job, take_best
from zoo.gym.train.plan import FEW_ROWS
from zoo.gym.train.progress import Progress, safetensors_errors
from zoo.gym.train.result.card import write_card
from zoo.gym.train.result.origin import write_origin
from zoo.gym.train.result.output import copy_to_output, remove_copy
from zoo.gym.train.result.verify import check_result
from zoo.gym.train.retaining import alarm_of, kept_after
from zoo.gym.train.run_folder.pinned import base_name
from zoo.gym.train.run_folder.settings import changes_of, read_env
from zoo.gym.train.run_folder.workspace import Workspace
from zoo.models.adapters import CONFIG_FILE
from zoo.models.folder import TOKENIZER_FILES

if TYPE_CHECKING:
    from zoo.backends.base import MemoryInfo, Policy
    from zoo.gym.retention import Measured
    from zoo.gym.train.method import Method
    from zoo.models import Resolved


def finish(
    run: Workspace,
    job: Job,
    progress: Progress,
    base: "Resolved",
    peer_memory: "MemoryInfo | None" = None,
    measured_before: "Measured | None" = None,
) -> dict[str, object]:
    """Writes the best step's weights as a folder that transformers and PEFT load.

    To verify the folder, it is loaded in place of the job's policy, which cannot train afterwards.
    `peer_memory` is the peak memory of the other processes together, if the run had some;
    `measured_before` what the model answered before training.

    Returns:
        `model`, the folder in `output_dir` or else the run's own, and `metrics`.

    Raises:
        GuardError: a weight is not finite, or the folder contains another model.
        InputError: something other than a folder is in the place of the run's own.
        StorageError: a folder cannot be written.
    """
    take_best(job, progress)
    method, config = job.method, job.plan.config
    check_finite(method.policy)
    metrics = metrics_of(method, progress, peer_memory)
    doubt = no_gain(method, progress)
    remove_copy(run, config)
    env = read_env(run.env_file)
    tokens = own_in(env)
    if method.result == "delta":
        return _finish_delta(run, job, metrics, doubt)
    write_result(method.policy, run.result, base, config.first_adapter, tokens)
    check_result(method.policy, run.result, method.units[0].rows[0].ids.tolist(), config)
    alarms = list(filter(None, [doubt, few_rows(method, progress)]))
    if not method.held_out and config.val_size:
        alarms.append("no row was held out: nothing shows what the model does with other rows")
    if job.answers:
        samples, answers = job.answers.asked()
        message = learned_sentence(answers)
        run.events.emit("answers", step=progress.step, answers=samples, message=message)
        end = job.answers.end_like_others(base.folder) if config.trains_adapter else ""
        alarms += alarms_of(answers, end)
    retained = kept_after(method.policy, base.folder, measured_before, tokens)
    if retained is not None:
        metrics |= {"retention": retained.figures()}
        run.events.emit(
            "retention", step=progress.step, message=retained.sentence(), **retained.content()
        )
    alarms += filter(None, [alarm_of(retained)])
    for alarm in alarms:
        run.events.emit("warn", message=alarm)
    doubts = ". ".join(alarms) or None
    env = read_env(run.env_file)
    write_card(run.result, config, base, metrics, changes_of(run.env_file), doubts, env)
    write_origin(run.result, run.env_file)
    return {"model": str(copy_to_output(run, config)), "metrics": metrics}


def _finish_delta(
    run: Workspace, job: Job, metrics: dict[str, object], doubt: str | None
) -> dict[str, object]:
    """Writes a delta in place of a model, and reads it back."""
    method = job.method
    with new_folder(run.result, replace=True) as beside, storage_errors(run.result):
        method.policy.save_result(beside, base="")
    check_result(method.policy, run.result, method.units[0].rows[0].ids.tolist(), job.plan.config)
    if doubt is not None:
        run.events.emit("warn", message=doubt)
    return {"model": str(copy_to_output(run, job.plan.config)), "metrics": metrics}


def no_gain(method: "Method", progress: Progress) -> str | None:
    """Returns a warning if the best step did not score better than the base model, else None."""
    base, best = progress.base_score, progress.best_score
    if method.held_out and best is None:
        return (
            f"the held-out {method.decides} was never a finite number: no step was chosen as the "
            "best, and the last one is the result"
        )
    if base is None or best is None or (best != base and method.improves(best, base)):
        return None
    return f"no gain on held-out rows: {method.decides} {base:.4f} before, best {best:.4f}"


def few_rows(method: "Method", progress: Progress) -> str | None:
    """Returns what a held-out figure of few rows is worth, or None; shares have their interval."""
    rows, best = len(method.held_out), progress.best_score
    if not 0 < rows < FEW_ROWS or best is None:
        return None
    if method.decides != "accuracy":
        return f"the held-out {method.decides} is that of {counted(rows, 'row')} alone"
    low, high = wilson(best * rows, rows)
    right = f"{best * rows:g} of {counted(rows, 'pair')}"
    return f"held-out accuracy: {right}, 95 % interval {low:.0%} to {high:.0%}"


def write_result(
    policy: "Policy",
    folder: Path,
    base: "Resolved",
    adapter: Path | None = None,
    tokens: Mapping[str, object] | None = None,
) -> None:
    """Writes the model atomically, with tokenizer files.

    Those of a whole model are the base's, those of an adapter the ones of the adapter that it
    continues, if there are any. With a template or an end of texts of its own, it has all of them.
    """
    with (
        new_folder(folder, replace=True) as beside,
        safetensors_errors(folder),
        storage_errors(folder),
    ):
        policy.save_result(beside, base=base_name(base))
        is_whole = not (beside / CONFIG_FILE).exists()
        source = base.folder if is_whole else adapter
        if tokens and (source is None or not has_tokenizer(source)):
            source = base.folder
        for name in TOKENIZER_FILES:
            if source is not None and (source / name).is_file():
                shutil.copyfile(source / name, beside / name)
        if source is not None and (source / MORE).is_dir():
            shutil.copytree(source / MORE, beside / MORE)
        write_own(beside, {TOKENIZER_KEY: tokens or {}})


def metrics_of(
    method: "Method", progress: Progress, peer_memory: "MemoryInfo | None" = None
) -> dict[str, object]:
    """Returns what was measured; a loss is the method's own, for sft nats per learned token.

    Memory and CPU time are those of all processes together.
    """
    memory, processes = method.policy.memory(), method.plan.config.num_processes
    host_bytes, device_bytes = memory.peak_host_bytes, memory.peak_device_bytes
    if peer_memory is not None:
        host_bytes += peer_memory.peak_host_bytes
        device_bytes += peer_memory.peak_device_bytes
    return {
        "steps": progress.step,
        "tokens": progress.tokens,
        f"base_{method.decides}": progress.base_score,
        **({"base_tied": True} if progress.base_tied else {}),
        f"best_{method.decides}": progress.best_score,
        "best_step": progress.best_step or None,
        "evaluation_rows": len(method.held_out),
        "training_s": round(progress.training_s, 3),
        "evaluation_s": round(progress.evaluation_s, 3),
        "training_cpu_s": round(progress.training_cpu_s, 3),
        "peak_host_bytes": host_bytes,
        "peak_device_bytes": device_bytes,
        **({"processes": processes} if processes > 1 else {}),
    }
