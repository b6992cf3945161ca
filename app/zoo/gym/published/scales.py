"""Distils the scales of a dense delta: makes the run, and returns the delta that it ends with.

The text is that which the fine-tune learned, if its run knows it; else the fine-tune writes some
itself. Rows that the run held out are never among it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from zoo.gym.config import TrainConfig
from zoo.gym.config.keys.data import DataKeys
from zoo.gym.delta.write_scales import DELTA_FILE, Distilled

if TYPE_CHECKING:
    from zoo.gym.jobs.run import Run

OnEvent = Callable[[dict[str, Any]], object]

SAMPLES, SAMPLE_TOKENS = 64, 64
"""Texts that a fine-tune without known rows writes, and the most tokens of each."""


def distill_scales(
    delta: Path,
    *,
    base: Path,
    tuned: Path,
    run: "Run | None" = None,
    steps: int | None = None,
    on_event: OnEvent | None = None,
) -> Distilled:
    """Trains the scales of a delta to predict what the fine-tune predicts.

    Args:
        delta: a dense delta of the fine-tune.
        base: the base's folder.
        tuned: the fine-tune's folder, of the whole model.
        run: the run that trained it, if that is known.
        steps: the number of steps; None chooses it.
        on_event: called with each event of the run.

    Raises:
        InputError: the delta has no scales, or the fine-tune cannot be used as a teacher.
        InterruptedRunError: Ctrl-C; the run can be resumed.
    """
    from zoo.gym.published.api import train_here

    rows = None if run is None else _rows_of_run(run)
    source = "rows that the fine-tune learned" if rows else "texts that the fine-tune wrote"
    settings: dict[str, Any] = rows or {"dataset": _written_by(tuned), "append_eos": False}
    settings |= {
        "stage": "distill_scales",
        "model_name_or_path": str(base),
        "teacher_model": str(tuned),
        "delta": str(delta),
        "max_steps": steps,
        "offline": True,
    }
    result = train_here(TrainConfig(**settings), on_event=on_event)
    metrics = result.metrics
    before, after = metrics.get("base_loss"), metrics.get("best_loss")
    record: dict[str, JsonValue] = {
        "steps": metrics["best_step"] or metrics["steps"],
        "text": source,
        "private": bool(rows),
    }
    return Distilled(result.model / DELTA_FILE, record, before, after)


def _rows_of_run(run: "Run") -> dict[str, Any] | None:
    """Returns the settings that give the rows a run learned; None if they are not known.

    They are if the data is unchanged, its rows have answers, and a new run would hold out the same.
    """
    from zoo.gym.config.stages import load_method
    from zoo.gym.train.measuring import changed_data
    from zoo.gym.train.methods.distill_scales import DistillScales
    from zoo.gym.train.rows import read_rows
    from zoo.gym.train.run_folder.pinned import with_own_rows
    from zoo.gym.train.run_folder.settings import read_settings
    from zoo.gym.train.run_folder.split import new_split, stored_split

    config = with_own_rows(read_settings(run.config_file), run.folder)
    stored = stored_split(run.folder)
    if not load_method(config.stage).reads <= DistillScales.reads or stored is None:
        return None
    if changed_data(run.folder, config) or new_split(config, read_rows(config)) != stored[1]:
        return None
    keys = DataKeys.model_fields.keys() - {"stage", "model_name_or_path"}
    given = config.model_dump(exclude_unset=True, include=set(keys))
    return given | {"seed": config.seed, "date": config.date}


def _written_by(tuned: Path) -> list[dict[str, str]]:
    """Returns texts that a model writes, sampled at temperature 1 from its start of a text."""
    from zoo.backends.base import Sampling
    from zoo.gym.data import load_tokenizer
    from zoo.gym.engine import engine_for

    tokenizer = load_tokenizer(tuned)
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    policy = engine_for(tuned).load(tuned)
    sampling = Sampling(max_new_tokens=SAMPLE_TOKENS, temperature=1.0)
    prompts = [[0 if start is None else start]] * SAMPLES
    rollouts = policy.generate(prompts, sampling, keys=range(SAMPLES))
    texts = (tokenizer.decode(list(rollout.ids)) for rollout in rollouts)
    return [{"text": text} for text in texts if text.strip()]
