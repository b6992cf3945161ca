"""The demo: two fine-tunes of zen-pico, a small delta of each, and the accuracy after every step.

All printed figures are measured during the demo, on zen-pico; larger models differ.
"""

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.config import TrainConfig
from zoo.gym.data import EncodeOptions, Message, encode_prompt, load_tokenizer
from zoo.gym.demo.words import Words, accuracy, backward, make_words, prompt
from zoo.gym.files import write_beside
from zoo.gym.no_network import no_network
from zoo.gym.paths import ensure_folder, folders

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.gym.delta import DeltaReport, Loadable
    from zoo.gym.delta.distilled import Distilled
    from zoo.gym.jobs.run import RunResult

Say = Callable[[str], None]

TRAIN_WORDS, UNSEEN_WORDS = 4000, 200
SHOWN = 3

# Full weights learn longer at a higher rate: one bit a weight needs wider margins; see docs/log.md.
RECIPES: dict[str, dict[str, object]] = {
    "lora": {"learning_rate": 2e-3, "max_steps": 220, "per_device_train_batch_size": 16},
    "full": {"learning_rate": 3e-3, "max_steps": 240, "per_device_train_batch_size": 24},
}
SHARED: dict[str, object] = {
    "model_name_or_path": "zen-pico",
    "gradient_accumulation_steps": 1,
    "val_size": 100,
    "offline": True,
}


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: the model that answered.
        accuracy: share of unseen words spelled right.
        recovered: share of its fine-tune's gain that a delta keeps; None for base and fine-tunes.
        size_bytes: size of the delta file, or of the weights for base and fine-tunes.
        answers: the answer for each unseen word.
    """

    name: str
    accuracy: float
    recovered: float | None
    size_bytes: int
    answers: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Returns the row as the command prints it."""
        return {
            "name": self.name,
            "accuracy": self.accuracy,
            "recovered": self.recovered,
            "bytes": self.size_bytes,
        }


@dataclass(frozen=True)
class DemoResult:
    """The table, one message for each target that was missed, and what to do next."""

    rows: tuple[Row, ...]
    missed: tuple[str, ...]
    closing: tuple[str, ...] = ()


def demo_folder() -> Path:
    """Returns the folder with the demo's data and deltas."""
    return ensure_folder(folders().data / "demo")


def run_demo(say: Say) -> DemoResult:
    """Trains, compresses, measures and reports; opens no connection."""
    from zoo.models import resolve

    words = make_words(TRAIN_WORDS, UNSEEN_WORDS)
    folder = demo_folder()
    with no_network():
        base = resolve("zen-pico", offline=True).folder
        data = write_rows(folder / "backward.jsonl", words.train)
        say(f"zen-pico learns to spell backward: trained on {len(words.train):,} made-up words,")
        say(f"measured on {len(words.unseen)} unseen ones. Nothing leaves this machine.")
        rows = measure(base, data, words, folder, say)
    for line in [*table(rows), *before_and_after(rows, words)]:
        say(line)
    return DemoResult(rows, tuple(missed_bounds(rows)), tuple(closing_words(folder)))


def write_rows(path: Path, words: Sequence[str]) -> Path:
    """Writes prompt and completion of each word as JSON Lines."""
    rows = [{"prompt": prompt(word), "completion": backward(word)} for word in words]
    write_beside(path, "".join(json.dumps(row) + "\n" for row in rows))
    return path


def measure(base: Path, data: Path, words: Words, folder: Path, say: Say) -> tuple[Row, ...]:
    """Runs every step, writes the deltas to `folder`, and returns the table's rows in order."""
    from zoo.gym.delta import delta_model, load_delta, random_signs, tuned_model
    from zoo.gym.delta.loadable import Loadable

    weights = base / "model.safetensors"
    rows = [_row("base", Loadable(base, None), words, weights.stat().st_size, None)]
    deltas: list[tuple[str, DeltaReport, Row]] = []
    for method, name in (("lora", "lowrank-2bit"), ("full", "dense-1bit")):
        result = tune(method, data, say)
        with tuned_model(result.model, base) as model:
            size = sum(file.stat().st_size for file in result.model.glob("*.safetensors"))
            tuned = _row(f"tuned-{method}", model, words, size, None)
        rows.append(tuned)
        report = compress(result, base, folder / f"{name}.safetensors", distills=method == "full")
        if report.distilled is not None:
            say(gained(report.distilled))
        deltas.append((name, report, tuned))
    control = random_signs(deltas[1][1].file, folder / "random-signs.safetensors", seed=0)
    files = [(name, report.file, tuned) for name, report, tuned in deltas]
    for name, file, tuned in [*files, ("random-signs", control.path, deltas[1][2])]:
        with delta_model(load_delta(file), base) as model:
            gain = (rows[0].accuracy, tuned.accuracy)
            rows.append(_row(name, model, words, file.stat().st_size, gain))
    return tuple(rows)


def tune(method: str, data: Path, say: Say) -> "RunResult":
    """Trains zen-pico on the words, as an ordinary run."""
    from zoo.gym.published.api import run_training

    settings = {**SHARED, **RECIPES[method], "finetuning_type": method, "dataset": str(data)}
    result = run_training(TrainConfig.model_validate(settings))
    metrics = result.metrics
    say(
        f"{method}: run {result.run}, {metrics['steps']} steps in {metrics['training_s']:.0f} s, "
        f"held-out loss {metrics['base_loss']:.3f} -> {metrics['best_loss']:.4f} nats per token"
    )
    return result


def compress(result: "RunResult", base: Path, out: Path, *, distills: bool) -> "DeltaReport":
    """Creates the delta of a fine-tune with default options.

    Args:
        result: the fine-tune.
        base: its base.
        out: the file to write.
        distills: whether the delta is trained to predict what the fine-tune predicts.
    """
    from zoo.gym.delta import create_delta
    from zoo.gym.jobs.run import open_run
    from zoo.gym.published.distilled import distill_delta

    distill = None
    if distills:
        run = open_run(result.run)
        distill = partial(distill_delta, base=base, tuned=result.model, run=run)
    return create_delta(
        result.model,
        base=base,
        base_id="zen-pico",
        out=out,
        force=True,
        distill=distill,
    )


def gained(distilled: "Distilled") -> str:
    """Returns what training a delta gained, in a sentence."""
    figures = distilled.as_json()
    return (
        f"dense-1bit: {figures['steps']} steps of training its scales lower the KL from the "
        f"fine-tune from {figures['kl_before']:.4f} to {figures['kl_after']:.4f} nats per token"
    )


def _row(
    name: str,
    model: "Loadable",
    words: Words,
    size_bytes: int,
    gain: tuple[float, float] | None,
) -> Row:
    """Prompts a model with every unseen word; `gain` is the accuracy of base and fine-tune."""
    from zoo.backends.base import LoadSpec
    from zoo.gym.engine import engine_for

    engine = engine_for(model.folder, model.adapter)
    policy = engine.load(model.folder, LoadSpec(adapter=model.adapter))
    answers = ask(policy, model.folder, words.unseen)
    share = accuracy(words.unseen, answers)
    recovered = None
    if gain is not None and gain[1] > gain[0]:
        recovered = (share - gain[0]) / (gain[1] - gain[0])
    return Row(name, share, recovered, size_bytes, tuple(answers))


def ask(policy: "Policy", folder: Path, words: Sequence[str]) -> list[str]:
    """Returns the greedy answer to each word's prompt."""
    from zoo.backends.base import Sampling

    tokenizer = load_tokenizer(folder)
    stop = tokenizer.eos_token_id
    assert stop is not None
    options = EncodeOptions(cutoff_len=64, date="2024-07-26")
    prompts = [encode_prompt([Message("user", prompt(w))], tokenizer, options) for w in words]
    sampling = Sampling(max_new_tokens=12, stop_ids=(stop,))
    rollouts = policy.generate(prompts, sampling, keys=range(len(prompts)))
    return [tokenizer.decode([i for i in r.ids if i != stop]) for r in rollouts]


def table(rows: Sequence[Row]) -> list[str]:
    """Returns the table as lines."""
    lines = ["", f"{'':14} {'right':>7} {'gain kept':>10} {'bytes':>11}"]
    for row in rows:
        share = "" if row.recovered is None else f"{row.recovered:.1%}"
        lines.append(f"{row.name:14} {row.accuracy:>7.1%} {share:>10} {row.size_bytes:>11,}")
    return lines


def before_and_after(rows: Sequence[Row], words: Words) -> list[str]:
    """Returns a few prompts with the answers of base, fine-tune and both deltas."""
    compared = [row for row in rows if row.name in {"base", "tuned-lora", "lowrank-2bit"}]
    lines = [""]
    for index, word in enumerate(words.unseen[:SHOWN]):
        answers = ", ".join(f"{row.name} {row.answers[index]!r}" for row in compared)
        lines.append(f"{prompt(word)}  {answers}")
    return lines


def missed_bounds(rows: Sequence[Row]) -> Generator[str]:
    """Yields a message for each figure that misses its target."""
    by_name = {row.name: row for row in rows}
    if by_name["base"].accuracy > 0.05:
        yield f"base: expected at most 5% right, got {by_name['base'].accuracy:.1%}"
    for name in ("tuned-lora", "tuned-full"):
        if by_name[name].accuracy < 0.9:
            yield f"{name}: expected at least 90% right, got {by_name[name].accuracy:.1%}"
    for name, least in (("lowrank-2bit", 0.9), ("dense-1bit", 0.95)):
        recovered = by_name[name].recovered
        if recovered is None or recovered < least:
            yield f"{name}: expected at least {least:.0%} of the gain kept, got {_share(recovered)}"
    control = by_name["random-signs"].recovered
    if control is None or control > 0.1:
        yield f"random-signs: expected at most 10% of the gain, got {_share(control)}"


def _share(value: float | None) -> str:
    return "no gain" if value is None else f"{value:.1%}"


def closing_words(folder: Path) -> list[str]:
    """Returns the suggested next commands, with the download size of zen-nano.

    Args:
        folder: the folder with the demo's deltas.
    """
    from zoo.models import registry

    nano = next(entry for entry in registry() if entry.alias == "zen-nano")
    return [
        "",
        f"Chat with it: zoo-gym chat --delta {folder / 'lowrank-2bit.safetensors'}",
        "These figures are for zen-pico; larger models differ. The same on zen-nano with your",
        f"examples (asks before it downloads {nano.download_bytes / 1e9:.1f} GB, once):",
        "",
        "  zoo-gym train my-examples.jsonl --model zen-nano",
        "  zoo-gym delta create last --out mine.safetensors",
        "  zoo-gym chat --delta mine.safetensors",
    ]
