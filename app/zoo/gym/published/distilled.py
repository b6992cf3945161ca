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
from zoo.gym.delta.reading.adapter import is_adapter
from zoo.gym.errors import GymError
from zoo.gym.files import read_json_object

if TYPE_CHECKING:
    from zoo.gym.jobs.run import Run

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

    A run that began with the same delta and was interrupted is continued.

    Args:
        delta: a delta of the fine-tune.
        base: the base's folder.
        tuned: the fine-tune's folder, of the whole model or of an adapter.
        run: the run that trained it, if that is known.
        steps: the number of steps; None chooses it.
        on_event: called with each event of the run.

    Raises:
        InputError: the delta has nothing to train, or the fine-tune cannot be used as a teacher.
        InterruptedRunError: Ctrl-C; the run can be resumed.
    """
    from zoo.gym.published.api import train_here

    delta = delta.absolute()
    rows = None if run is None else _rows_of_run(run)
    source = "rows that the fine-tune learned" if rows else "texts that the fine-tune wrote"
    adapter = tuned if is_adapter(tuned) else None
    settings: dict[str, Any] = rows or {"dataset": _written_by(base, tuned), "append_eos": False}
    if adapter is not None:
        settings |= {"finetuning_type": "lora", "adapter_name_or_path": str(adapter)}
    settings |= {
        "stage": "distill_delta",
        "model_name_or_path": str(base),
        "teacher_model": str(base if adapter else tuned),
        "delta": str(delta),
        "max_steps": steps,
        "offline": True,
    }
    earlier = _unfinished(delta, steps)
    if earlier is None:
        result = train_here(TrainConfig(**settings), on_event=on_event)
        model, metrics = result.model, result.metrics
    else:
        model, metrics = earlier.result, _continued(earlier, on_event)
    before, after = metrics.get("base_loss"), metrics.get("best_loss")
    record: dict[str, JsonValue] = {
        "steps": metrics["best_step"] or metrics["steps"],
        "text": source,
        "private": bool(rows),
    }
    return Distilled(model / DELTA_FILE, record, before, after)


def _unfinished(delta: Path, steps: int | None) -> "Run | None":
    """Returns a run that trains the same bytes and is not done, nor at work; None without one."""
    from zoo.gym.jobs.run import run_folders
    from zoo.gym.jobs.state import reconcile
    from zoo.gym.train.run_folder.other_files import OTHER_FILES_KEY, digest_of

    digest = digest_of("delta", str(delta))
    for run in run_folders():
        env = read_json_object(run.env_file) or {}
        settings, files = env.get("settings"), env.get(OTHER_FILES_KEY)
        if not isinstance(settings, dict) or settings.get("stage") != "distill_delta":
            continue
        same = isinstance(files, dict) and files.get("delta") == digest
        same &= settings.get("delta") == str(delta)  # which a resume reads again
        if same and steps in {None, settings.get("max_steps")}:
            status = reconcile(run)
            if status.state != "done" and not status.live:
                return run
    return None


def _continued(run: "Run", on_event: OnEvent | None) -> Mapping[str, Any]:
    """Continues a run in a worker, and returns its metrics.

    Raises:
        GymError: it did not end well.
    """
    from zoo.gym.jobs import follow
    from zoo.gym.jobs.actions import resume

    status = follow(run, on_event, offset=resume(run).offset)
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
    keys = DataKeys.model_fields.keys() - {"stage", "model_name_or_path"}
    given = config.model_dump(exclude_unset=True, include=set(keys))
    return given | {"seed": config.seed, "date": config.date}


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
