"""Ten LoRA steps on a real model: ours, a plain loop with transformers and peft, or TRL.

usage: python -m bench.real_steps ours|chosen|plain|turns|trl FOLDER [--threads N] [--steps N]

It prints one JSON object by way. `turns` takes each step of ours and of the plain loop in turn, so
that load on the machine slows all; peak memory is that of a process, so it is measured apart. All
train an adapter of rank 16 on all linear layers, in float32, from the same start, on the same rows
in the same order; only ours omits padding. `chosen` is ours in the number format that a run would
choose here, which is bf16 where the processor multiplies it faster. Tokens are those of the rows,
without padding. The first step is not timed.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.measure import status_bytes

SHARED = Path(__file__).parents[2] / "shared" / "data" / "sft" / "instruction-data.json"
STEPS, ROWS = 10, 6
SHORTEST, LONGEST = 30, 250
RATE, RANK, SEED = 2e-4, 16, 1

Row = tuple[list[int], int]
"""The token ids of a prompt with its answer, and the length of the prompt."""


def tokenized(folder: Path, steps: int) -> list[Row]:
    """Returns the rows of these steps, rendered with the model's chat template."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    rows: list[Row] = []
    for record in json.loads(SHARED.read_text(encoding="utf-8")):
        asked = "\n".join(filter(None, (record["instruction"], record["input"])))
        turns = [{"role": "user", "content": asked}]
        prompt = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        answer = f"{record['output']}{tokenizer.eos_token}\n"
        ids, before = (
            tokenizer(text, add_special_tokens=False)["input_ids"]
            for text in (prompt + answer, prompt)
        )
        if SHORTEST <= len(ids) <= LONGEST:
            rows.append((ids, len(before)))
        if len(rows) == steps * ROWS:
            break
    return rows


def padded(rows: Sequence[Row]) -> tuple[Any, Any, Any]:
    """Returns ids `[B, T]`, lengths `[B]` and which tokens are learned `[B, T]`."""
    import numpy as np

    lengths_B = np.array([len(ids) for ids, _ in rows])
    ids_BT = np.zeros((len(rows), int(lengths_B.max())), np.int64)
    mask_BT = np.zeros_like(ids_BT, dtype=np.bool_)
    for row, (ids, prompt) in enumerate(rows):
        ids_BT[row, : len(ids)] = ids
        mask_BT[row, prompt : len(ids)] = True
    return ids_BT, lengths_B, mask_BT


def ours(folder: Path, threads: int, dtype: str = "f32") -> Callable[[Sequence[Row]], float]:
    """Returns a step of this project; all but the number format is as a run would choose it."""
    from zoo.backends.base import Batch
    from zoo.gym.config import TrainConfig
    from zoo.gym.engine import open_engine
    from zoo.gym.objectives.constants import WINDOW_TOKENS
    from zoo.gym.objectives.sft import SupervisedLoss
    from zoo.gym.train.loading import load_policy
    from zoo.gym.train.preview import preview
    from zoo.models import resolve

    settings = TrainConfig(
        model_name_or_path=folder,
        dataset=str(SHARED),
        per_device_train_batch_size=ROWS,
        gradient_accumulation_steps=1,
        lora_rank=RANK,
        seed=SEED,
        backend="cpu",
        dtype=dtype,
    )
    config = preview(settings, resolve(folder, offline=True)).plan.config
    policy = load_policy(config, folder, open_engine("cpu"), threads=threads, must_pack=False)

    def step(rows: Sequence[Row]) -> float:
        ids_BT, lengths_B, mask_BT = padded(rows)
        constants = {WINDOW_TOKENS: float(mask_BT.sum())}
        batch = Batch(ids_BT, lengths_B, mask_BT, constants=constants)
        loss = policy.accumulate(SupervisedLoss(), batch, key=0)["loss"]
        policy.optimizer_step(RATE, 1.0)
        return loss

    return step


def adapted(folder: Path) -> Any:  # noqa: ANN401
    """Returns a model in float32 with the adapter that ours starts with."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    torch.manual_seed(SEED)
    config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear")
    return get_peft_model(model, config).train()


def plain(folder: Path, threads: int) -> Callable[[Sequence[Row]], float]:
    """Returns a step of a plain loop, which pads each batch to its longest row."""
    import torch

    torch.set_num_threads(threads)
    model = adapted(folder)
    trained = [p for p in model.parameters() if p.requires_grad]
    adamw = torch.optim.AdamW(trained, lr=RATE, weight_decay=0.0)

    def step(rows: Sequence[Row]) -> float:
        ids_BT, lengths_B, mask_BT = map(torch.from_numpy, padded(rows))
        seen_BT = torch.arange(ids_BT.shape[1])[None] < lengths_B[:, None]
        labels_BT = ids_BT.masked_fill(~mask_BT, -100)
        loss = model(input_ids=ids_BT, attention_mask=seen_BT.long(), labels=labels_BT).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        adamw.step()
        adamw.zero_grad()
        return float(loss.item())

    return step


def figures(
    rows: Sequence[Row], seconds: Sequence[float], losses: Sequence[float]
) -> dict[str, Any]:
    """Returns the figures of a way from the CPU seconds and the loss of each step."""
    tokens = sum(len(ids) for ids, _ in rows[ROWS:])
    return {
        "tokens_per_cpu_s": tokens / sum(seconds[1:]),
        "step_s": list(seconds),
        "losses": list(losses),
        "peak_bytes": status_bytes("VmHWM"),
    }


def in_turns(
    ways: Sequence[str], folder: Path, threads: int, count: int
) -> dict[str, dict[str, Any]]:
    """Takes each step in every way and returns the figures of each."""
    made: dict[str, Callable[[Path, int], Callable[[Sequence[Row]], float]]]
    made = {"ours": ours, "chosen": partial(ours, dtype="auto"), "plain": plain}
    steps = {way: made[way](folder, threads) for way in ways}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    losses: dict[str, list[float]] = {way: [] for way in ways}
    rows = tokenized(folder, count)
    for first in range(0, len(rows), ROWS):
        for way, step in steps.items():
            started = time.process_time()
            losses[way].append(step(rows[first : first + ROWS]))
            seconds[way].append(time.process_time() - started)
    return {way: figures(rows, seconds[way], losses[way]) for way in ways}


def trl(folder: Path, threads: int, count: int) -> dict[str, Any]:
    """Takes the steps with TRL's trainer."""
    import torch

    datasets, transformers, library = map(import_module, ("datasets", "transformers", "trl"))
    torch.set_num_threads(threads)
    rows, times = tokenized(folder, count), list[float]()
    records = [
        {"input_ids": ids, "completion_mask": [0] * before + [1] * (len(ids) - before)}
        for ids, before in rows
    ]
    with tempfile.TemporaryDirectory() as place:
        config = library.SFTConfig(
            output_dir=place,
            max_steps=count,
            per_device_train_batch_size=ROWS,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            train_sampling_strategy="sequential",
            completion_only_loss=True,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        marks = {"on_step_end": lambda *_, **__: times.append(time.process_time())}
        callback = type("Mark", (transformers.TrainerCallback,), marks)
        trainer = library.SFTTrainer(
            model=adapted(folder),
            args=config,
            train_dataset=datasets.Dataset.from_list(records),
            processing_class=transformers.AutoTokenizer.from_pretrained(folder),
            callbacks=[callback()],
        )
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return figures(rows, [0.0, *(b - a for a, b in pairwise(times))], losses)


def main() -> None:
    """Reads the command line and prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("way", choices=["ours", "chosen", "plain", "turns", "trl"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    options = (given.folder, given.threads, given.steps)
    if given.way == "trl":
        print(json.dumps({"trl": trl(*options)}))
        return
    ways = ["ours", "chosen", "plain"] if given.way == "turns" else [given.way]
    print(json.dumps(in_turns(ways, *options)))


if __name__ == "__main__":
    main()
