"""Run folders without a worker: events as one would write them, and a process that is ours.

Also what commands answer about a file of examples and a new training.
"""

import json
import math
from pathlib import Path
from typing import Any

from zoo.gym.experience.library.file import write_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.jobs import Run, create_run

CONFIG = "model_name_or_path: zen-pico\ndataset: [/data/rows.jsonl]\nfinetuning_type: lora\n"

FOUND: dict[str, Any] = {
    "files": {"/x/my.jsonl": "prompt/completion"},
    "rows": 200,
    "tokens": {"p50": 31, "longest": 3904},
    "truncated": 3,
    "cutoff_len": 2048,
    "warnings": ["2 of 200 rows name pictures, sound or video, which the model never sees"],
    "problems": [{"where": "my.jsonl:57", "reason": "no answer"}],
}

PLANNED: dict[str, Any] = {
    "config": {
        "max_steps": 90,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "num_processes": 2,
        "learning_rate": 2e-3,
    },
    "memory": {"total": 870_000_000},
    "free_bytes": 6_100_000_000,
}


def new_run(steps: int = 150) -> Run:
    """A run whose plan is made; its worker is this process, so it counts as alive."""
    run = create_run(CONFIG, {})
    run.events.emit("state", state="running")
    choices = [{"key": "learning_rate", "value": 2e-3, "reason": "lora on 0.8 M parameters"}]
    run.events.emit("plan", steps=steps, model="zen-pico", choices=choices)
    return run


def train(run: Run, first: int, last: int, steps: int = 150, every: int = 10) -> None:
    """Writes steps `first` to `last` with a falling loss, and an evaluation now and then."""
    if first == 1:
        run.events.emit("eval", step=0, loss=loss_at(0) + 0.1, tokens=900, best=False)
    for step in range(first, last + 1):
        run.events.emit(
            "step",
            step=step,
            steps=steps,
            loss=loss_at(step),
            lr=2e-3,
            grad_norm=0.71,
            tokens=step * 512,
            tokens_per_s=2134.0,
            eta_s=(steps - step) * 0.4,
        )
        if step % every == 0:
            earlier = [loss_at(other) for other in range(every, step, every)]
            best = loss_at(step) < min(earlier, default=math.inf)
            run.events.emit("eval", step=step, loss=loss_at(step) + 0.1, tokens=900, best=best)
            save(run, step, best_step=step)
            run.events.emit("checkpoint", step=step, folder=f"step-{step:08}")


def save(run: Run, step: int, best_step: int = 0) -> None:
    """Writes as much of a checkpoint as the screens read."""
    folder = run.checkpoints / f"step-{step:08}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "progress.json").write_text(json.dumps({"step": step, "best_step": best_step}))


def keep_only_models(run: Run) -> None:
    """Gives a run the settings of one whose checkpoints lack the optimizer state."""
    settings = {"model_name_or_path": "zen-pico", "dataset": ["/data/rows.jsonl"]}
    run.env_file.write_text(json.dumps({"settings": {**settings, "save_only_model": True}}))


def trained(last: int) -> Run:
    """A run that works and has come to step `last`."""
    run = new_run()
    train(run, 1, last)
    return run


def loss_at(step: int) -> float:
    """A curve that falls and wobbles a little."""
    return 0.6 + 3.2 * math.exp(-step / 35) + 0.08 * math.sin(step * 1.7)


def end(run: Run, state: str, **fields: object) -> None:
    """Writes how the run ended."""
    run.events.emit(
        "end", state=state, exit_code={"done": 0, "interrupted": 5}.get(state, 1), **fields
    )


def rows_file(folder: Path) -> Path:
    """A file of 40 small examples."""
    path = folder / "my chats.jsonl"
    lines = [f'{{"prompt": "spell {word}: ", "completion": "{word[::-1]}"}}' for word in words(40)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def words(count: int) -> list[str]:
    """Made-up words of four letters."""
    return [f"{a}o{b}i" for a in "bdfgklmnprst" for b in "bdfgklm"][:count]


def lessons_run(*, done: bool) -> Run:
    """A run that learns lessons, as its worker writes it."""
    settings = {"model": "http://127.0.0.1:80/v1#clerk", "teacher": "wise", "name": "balls"}
    run = create_run(
        "stage: experience\nmodel: x\n", {"kind": "experience", "experience": settings}
    )
    run.events.emit("state", state="running")
    tasks = {"train": 60, "gate": 30, "test": 30}
    run.events.emit("plan", steps=1, tasks=tasks, cap="5.00 USD")
    if not done:
        return run
    lessons = ("Red balls bounce.", "Blue balls roll.")
    gate = {"verdict": "accepted", "effect": 0.6, "p": 0.0002, "tasks": 20, "looks": 2}
    figures = {"reward": 0.21333, "counts": {"groups": 60, "mixed groups": 39}, "gate": gate}
    edits = [f"add {text}" for text in lessons]
    run.events.emit("step", step=1, steps=1, edits=edits, lessons=2, calls=474, **figures)
    run.result.mkdir()
    write_library(run.result / "library.json", Library(tuple(map(Item, lessons)), "clerk"))
    found = {"library": "balls@1", "verdict": "proven", "effect": 0.533, "low": 0.354}
    found |= {"high": 0.706, "reward_without": 0.2083, "reward_with": 0.7417, "lessons": 2}
    spent = {"calls": 714, "prompt_tokens": 35175, "completion_tokens": 1857, "spent_usd": 0.0212}
    end(run, "done", metrics=found | spent)
    return run


def distillation_run() -> Run:
    """A run that turned lessons into weights."""
    env = {"distillation": {"model": "zen-pico", "teacher": ""}, "library": {"name": "balls@1"}}
    run = create_run("stage: lessons\nmodel_name_or_path: zen-pico\n", env)
    run.events.emit("state", state="running")
    run.events.emit("plan", steps=20, model="zen-pico")
    train(run, 1, 20, steps=20)
    found = {"effect": 0.12, "interval": [0.03, 0.21], "verdict": "proven"}
    metrics = {"verdict": "proven", "delta": "/runs/model.delta.safetensors"}
    end(run, "done", model="/runs/result", metrics=metrics | {"measured": {"adapter": found}})
    return run
