"""Distils a delta: makes the run, and returns the delta that it ends with.

The text is that which the fine-tune learned, if its run knows it; else the fine-tune writes some
itself. Rows that the run held out are never among it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from zoo.gym.config import TrainConfig
from zoo.gym.config.keys.data import DataKeys
from zoo.gym.delta.distilled import DELTA_FILE, Distilled
from zoo.gym.delta.latent_factors import refuse_experts
from zoo.gym.delta.reading.adapter import is_adapter, read_adapter
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import GymError, InputError, InterruptedRunError, NotAvailableError
from zoo.gym.files import read_json_object

if TYPE_CHECKING:
    from zoo.gym.jobs.run import Run, RunResult

OnEvent = Callable[[dict[str, Any]], None]

SAMPLES, SAMPLE_TOKENS = 64, 64
"""Texts that a fine-tune without known rows writes, and the most tokens of each."""


def distill_delta(
    delta: Path,
    *,
    base: Path,
    tuned: Path,
    run: "Run | None" = None,
    steps: int | None = None,
    on_event: OnEvent | None = None,
) -> Distilled:
    """Trains numbers of a delta to predict what the fine-tune predicts.

    A run that was interrupted in training the same bytes for as many steps is continued.

    Args:
        delta: a delta of the fine-tune.
        base: the base's folder.
        tuned: the fine-tune's folder, of the whole model or of an adapter.
        run: the run that trained it, if that is known.
        steps: the number of steps; None chooses it.
        on_event: called with each event of the run.

    Raises:
        InputError: the delta has nothing to train, or the fine-tune cannot be used as a teacher.
        InterruptedRunError: Ctrl-C; the same call continues the run.
    """
    delta = delta.absolute()
    if is_adapter(tuned):
        refuse_experts(read_adapter(tuned, open_weights(base)))
    rows = None if run is None else _rows_of_run(run)
    source = "rows that the fine-tune learned" if rows else "texts that the fine-tune wrote"
    try:
        if (earlier := _interrupted(delta, steps)) is not None:
            model, metrics = earlier.result, _continued(earlier, on_event)
        else:
            result = _train(delta, base, tuned, rows, steps, on_event)
            model, metrics = result.model, result.metrics
    except InterruptedRunError as error:
        hint = "the same command continues it"
        raise InterruptedRunError(error.message, hint=hint, code=error.code) from error
    before, after = metrics.get("base_loss"), metrics.get("best_loss")
    record: dict[str, JsonValue] = {
        "steps": metrics["best_step"] or metrics["steps"],
        "text": source,
        "private": bool(rows),
    }
    falls = metrics["best_step"] is not None and metrics["best_step"] == metrics["steps"]
    return Distilled(model / DELTA_FILE, record, before, after, falls)


def _train(
    delta: Path,
    base: Path,
    tuned: Path,
    rows: Mapping[str, Any] | None,
    steps: int | None,
    on_event: OnEvent | None,
) -> "RunResult":
    """Trains a delta in a new run; see `distill_delta`."""
    from zoo.gym.published.api import train_here

    is_lora = is_adapter(tuned)
    settings: dict[str, Any] = {
        **(rows or {"dataset": _written_by(base, tuned), "append_eos": False}),
        **({"finetuning_type": "lora", "adapter_name_or_path": str(tuned)} if is_lora else {}),
        "stage": "distill_delta",
        "model_name_or_path": str(base),
        "teacher_model": str(base if is_lora else tuned),
        "delta_file": str(delta),
        "max_steps": steps,
        "stream_layers": not is_lora and _streams(base),
        "offline": True,
    }
    return train_here(TrainConfig(**settings), on_event=on_event)


def _streams(base: Path) -> bool:
    """Returns whether a base stays in its files: a large one on a CPU, if it can."""
    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec
    from zoo.backends.machine.detect import detect
    from zoo.gym.train.planning.stored import main_dtype
    from zoo.models.folder import SMALL_PARAMETERS, count_parameters

    if count_parameters(base) < SMALL_PARAMETERS or detect().name != "cpu":
        return False
    try:
        load_backend("cpu").load(base, LoadSpec(stream_layers=True, dtype=main_dtype(base)))
    except (InputError, NotAvailableError):  # the system cannot, or weights change on loading
        return False
    return True


def _interrupted(delta: Path, steps: int | None) -> "Run | None":
    """Returns an interrupted run that trains the same bytes for as many steps; None without one.

    A run that failed is not continued: it would fail again.
    """
    from zoo.gym.jobs.run import run_folders
    from zoo.gym.jobs.state import reconcile
    from zoo.gym.train.methods.distill_delta import STEPS
    from zoo.gym.train.run_folder.other_files import OTHER_FILES_KEY, digest_of

    digest = digest_of("delta_file", str(delta))
    for run in run_folders():
        env = read_json_object(run.env_file) or {}
        settings, files = env.get("settings"), env.get(OTHER_FILES_KEY)
        if not isinstance(settings, dict) or settings.get("stage") != "distill_delta":
            continue
        same = isinstance(files, dict) and files.get("delta_file") == digest
        same &= settings.get("delta_file") == str(delta)  # which a resume reads again
        same &= settings.get("max_steps") in {steps, steps or STEPS}  # chosen once it has begun
        if same and reconcile(run).state == "interrupted":
            return run
    return None


def _continued(run: "Run", on_event: OnEvent | None) -> Mapping[str, Any]:
    """Continues a run in a worker, and returns its metrics.

    Raises:
        InterruptedRunError: it was stopped.
        GymError: it failed.
    """
    from zoo.gym.jobs import follow
    from zoo.gym.jobs.actions import resume

    status = follow(run, on_event, offset=resume(run).offset)
    if status.state == "interrupted":
        message = status.message or f"run '{run.id}' was interrupted"
        raise InterruptedRunError(message, code=status.code or "published.interrupted")
    if status.state != "done" or status.metrics is None:
        raise GymError(
            f"run '{run.id}' is {status.state}: {status.message or 'its worker ended'}",
            hint=status.hint,
            code="published.not_distilled",
        )
    return status.metrics


def _rows_of_run(run: "Run") -> dict[str, Any] | None:
    """Returns the settings that give the rows a run learned; None if they are not known.

    They are if the data is unchanged, its rows have answers, and a new run would hold out the same.
    """
    from zoo.gym.config.stages import load_method
    from zoo.gym.train.measuring import changed_data
    from zoo.gym.train.methods.distill_delta import DistillDelta
    from zoo.gym.train.rows import read_rows
    from zoo.gym.train.run_folder.pinned import with_own_rows
    from zoo.gym.train.run_folder.settings import read_settings
    from zoo.gym.train.run_folder.split import new_split, stored_split

    config = with_own_rows(read_settings(run.config_file), run.folder)
    stored = stored_split(run.folder)
    if not load_method(config.stage).reads <= DistillDelta.reads or stored is None:
        return None
    if changed_data(run.folder, config) or new_split(config, read_rows(config)) != stored[1]:
        return None
    keys = DataKeys.model_fields.keys() - {"stage", "model_name_or_path", "eval_dataset"}
    settings = config.model_dump(exclude_unset=True, include=set(keys))
    if config.eval_dataset or not config.val_size:  # then every row of `dataset` was learned
        settings.pop("val_size", None)
    return settings | {"seed": config.seed, "date": config.date}


def _written_by(base: Path, tuned: Path) -> list[dict[str, str]]:
    """Returns texts that a fine-tune writes, sampled at temperature 1 from its start of a text."""
    from zoo.backends.base import LoadSpec, Sampling
    from zoo.gym.data import load_tokenizer
    from zoo.gym.engine import engine_for

    folder, adapter = (base, tuned) if is_adapter(tuned) else (tuned, None)
    tokenizer = load_tokenizer(folder)
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    policy = engine_for(folder, adapter).load(folder, LoadSpec(adapter=adapter))
    sampling = Sampling(max_new_tokens=SAMPLE_TOKENS, temperature=1.0)
    prompts = [[0 if start is None else start]] * SAMPLES
    rollouts = policy.generate(prompts, sampling, keys=range(SAMPLES))
    texts = (tokenizer.decode(list(rollout.ids)) for rollout in rollouts)
    return [{"text": text} for text in texts if text.strip()]
