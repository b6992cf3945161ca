"""Trains zen-pico from scratch and writes the shipped folder: `python -m pico.train`.

A real Qwen3 with 821,632 parameters, AdamW, one thread, the loss on answers only. Training stops at
the first evaluation that reaches `TARGET` on the stopping slice, which leaves room for
improvement by reinforcement learning. The same machine and versions give the same bytes.

Prints one JSON object per line: every evaluation, then the result. Times are printed but never
stored, so that the folder is reproducible.

Legend: B rows, T positions, V vocabulary.
"""

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pico import tasks
from pico.card import Log, Point, write_card
from pico.tasks import Problem
from pico.tokenizer import (
    IM_END,
    PAD,
    VOCAB_SIZE,
    encode_answer,
    encode_prompt,
    save_tokenizer,
)

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import Qwen3Config, Qwen3ForCausalLM

SHIPPED = Path(__file__).parents[1] / "zoo" / "models" / "pico"
SEED = 1
STEP_TOKENS = 1_280
LEARNING_RATE = 1.5e-3
WARMUP_STEPS = 50
HORIZON_STEPS = 4_000
EVAL_STEPS = 50
TARGET = 0.45
OTHER_TASK_ROWS = 100


def main(argv: Sequence[str] | None = None) -> int:
    """Trains, writes the folder and prints the curve; returns 0 if the target was reached."""
    parser = argparse.ArgumentParser(prog="python -m pico.train", description=__doc__)
    parser.add_argument("--out", type=Path, default=SHIPPED, help="folder to write")
    parser.add_argument(
        "--max-steps", type=int, default=HORIZON_STEPS, help="stop here at the latest"
    )
    parser.add_argument("--eval-steps", type=int, default=EVAL_STEPS, help="steps per evaluation")
    options = parser.parse_args(argv)
    make_reproducible()
    model = build_model()
    curve = train(model, options.max_steps, options.eval_steps, progress=sys.stdout)
    save(model, curve, options.out)
    print_line({"folder": str(options.out), **curve[-1]}, sys.stdout)
    return 0 if curve[-1]["accuracy"] >= TARGET else 1


def train(
    model: "Qwen3ForCausalLM",
    max_steps: int,
    eval_steps: int = EVAL_STEPS,
    progress: TextIO | None = None,
) -> list[Point]:
    """Trains `model` in place until the target or `max_steps`, and returns the curve.

    The learning rate depends only on the step: a shorter run is a prefix of the full one.
    """
    import torch

    rng = random.Random(SEED)  # noqa: S311 - reproducible, not secret
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=0.01)
    curve: list[Point] = []
    losses: list[float] = []
    for step in range(1, max_steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        loss = answer_loss(model, draw_rows(rng))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if step % eval_steps and step != max_steps:
            continue
        accuracy = greedy_accuracy(model, tasks.stopping_slice())
        loss_mean = round(sum(losses) / len(losses), 6)
        curve.append(Point(step=step, loss=loss_mean, accuracy=accuracy))
        losses.clear()
        if progress:
            print_line(curve[-1], progress)
        if accuracy >= TARGET:
            break
    return curve


def print_line(fields: Mapping[str, object], stream: TextIO) -> None:
    """Prints `fields` and the CPU time used so far as one line of JSON."""
    line = {**fields, "cpu_s": round(time.process_time(), 1)}
    print(json.dumps(line), file=stream, flush=True)


def make_reproducible() -> None:
    """Sets one thread, deterministic kernels and torch's seed for the whole process."""
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    torch.manual_seed(SEED)


def build_model() -> "Qwen3ForCausalLM":
    """Returns the untrained model, drawn from torch's random state."""
    from transformers import Qwen3ForCausalLM

    return Qwen3ForCausalLM(model_config())


def model_config() -> "Qwen3Config":
    """Returns zen-pico's shape."""
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=VOCAB_SIZE,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=IM_END,
        pad_token_id=PAD,
    )


def learning_rate(step: int) -> float:
    """Returns the learning rate of `step`, counted from 1: a linear warm-up, then half a cosine."""
    if step <= WARMUP_STEPS:
        return LEARNING_RATE * step / WARMUP_STEPS
    done = (step - WARMUP_STEPS) / (HORIZON_STEPS - WARMUP_STEPS)
    return LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * done))


def draw_rows(rng: random.Random) -> list[Problem]:
    """Draws as many questions as fit in `STEP_TOKENS` padded tokens."""
    rows: list[Problem] = []
    longest = 0
    while True:
        problem = tasks.draw(rng)
        longest = max(longest, len(encode_prompt(problem)) + len(encode_answer(problem)))
        if longest * (len(rows) + 1) > STEP_TOKENS:
            return rows
        rows.append(problem)


def answer_loss(model: "Qwen3ForCausalLM", rows: Sequence[Problem]) -> "Tensor":
    """Returns the mean loss in nats over the answers' tokens, including their end token."""
    import torch

    ids = [(encode_prompt(row), encode_answer(row)) for row in rows]
    width = max(len(prompt) + len(answer) for prompt, answer in ids)
    ids_BT = torch.full((len(ids), width), PAD)
    labels_BT = torch.full((len(ids), width), -100)
    for row, (prompt, answer) in enumerate(ids):
        stop = len(prompt) + len(answer)
        ids_BT[row, :stop] = torch.tensor(prompt + answer)
        labels_BT[row, len(prompt) : stop] = torch.tensor(answer)
    # padding is on the right and attention is causal: no learned position sees it
    logits_BTV = model(input_ids=ids_BT, use_cache=False).logits
    return torch.nn.functional.cross_entropy(
        logits_BTV[:, :-1].flatten(0, 1), labels_BT[:, 1:].flatten()
    )


def greedy_accuracy(model: "Qwen3ForCausalLM", problems: Sequence[Problem]) -> float:
    """Returns the share of `problems` that greedy decoding answers exactly."""
    by_length: dict[int, list[Problem]] = {}
    for problem in problems:
        by_length.setdefault(len(problem.prompt), []).append(problem)
    return sum(_right_answers(model, group) for group in by_length.values()) / len(problems)


def _right_answers(model: "Qwen3ForCausalLM", problems: Sequence[Problem]) -> int:
    """Counts exact answers to prompts of one length, which need no padding."""
    import torch

    answers = [encode_answer(problem) for problem in problems]
    ids_BT = torch.tensor([encode_prompt(problem) for problem in problems])
    start = ids_BT.shape[1]
    with torch.inference_mode():
        for _ in range(max(map(len, answers))):
            logits_BTV = model(input_ids=ids_BT, use_cache=False, logits_to_keep=1).logits
            ids_BT = torch.cat([ids_BT, logits_BTV[:, -1].argmax(-1, keepdim=True)], dim=1)
    rows = ids_BT[:, start:].tolist()
    return sum(row[: len(answer)] == answer for row, answer in zip(rows, answers, strict=True))


def save(model: "Qwen3ForCausalLM", curve: Sequence[Point], folder: Path) -> None:
    """Writes bfloat16 weights, tokenizer, log and card; the figures are for the written weights."""
    import torch
    from transformers import GenerationConfig, Qwen3ForCausalLM

    folder.mkdir(parents=True, exist_ok=True)
    model.bfloat16().save_pretrained(folder)
    generation = GenerationConfig(eos_token_id=IM_END, pad_token_id=PAD)  # type: ignore[no-untyped-call]
    generation.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    save_tokenizer(folder)
    shipped = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    log = Log(
        parameters=sum(parameter.numel() for parameter in shipped.parameters()),
        weight_bytes=(folder / "model.safetensors").stat().st_size,
        seed=SEED,
        target=TARGET,
        stopping_problems=len(tasks.stopping_slice()),
        curve=list(curve),
        shipped=measure(shipped),
    )
    (folder / "training_log.json").write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8")
    write_card(log, tasks.WORD_LETTERS, folder)


def measure(model: "Qwen3ForCausalLM") -> dict[str, float]:
    """Returns the greedy accuracy on withheld additions and on new questions of each other task."""
    rng = random.Random(SEED + 1)  # noqa: S311 - reproducible, not secret
    figures = {"addition, withheld pairs": greedy_accuracy(model, tasks.test_slice())}
    for name, problems in tasks.other_tasks(rng, OTHER_TASK_ROWS).items():
        figures[name] = greedy_accuracy(model, problems)
    return {name: round(share, 4) for name, share in figures.items()}


if __name__ == "__main__":
    sys.exit(main())
