"""LoRA on MLX against mlx-lm's own trainer: the loss, the time of a step, and the memory.

Fresh processes in turns, PAIRS of each, on a random Qwen3 of 0.1 M parameters with 512 words, and
on the same with a vocabulary of 50,000. Both train the same four rows of 128 tokens in every step,
from the same adapter, with AdamW, and average over the same learned tokens. Ours is a whole run
with its events; mlx-lm compiles its step. Times are medians within a process, without the first
steps, which compile; ratios are medians over the pairs. Memory is the peak that MLX counts, weights
included, and that of the process beyond its size once model and rows are loaded.

usage: python -m bench mlx                        four minutes of one core
       python -m bench.mlx ours|mlx-lm FOLDER     one process, prints a JSON object
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import MB, Case, Skipped, reset_peak_bytes, status_bytes
from bench.step import own_process

PAIRS = 3
STEPS, WARM = 9, 3
ROWS, TOKENS = 4, 128
VOCABULARIES = (512, 50_000)
RANK, ALPHA, RATE = 8, 16, 1e-3
START = "start.safetensors"
"""The adapter that both begin with; written by ours."""

Figures = dict[str, Any]


def run() -> Iterator[Case | Skipped]:
    """Yields the cases."""
    if find_spec("mlx_lm") is None:
        yield Skipped("mlx", "mlx-lm is not installed: pip install -e '.[mlx]'")
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    for vocabulary in VOCABULARIES:
        with tempfile.TemporaryDirectory(prefix="mlx-") as place:
            folder = str(write_model(Path(place) / "model", vocabulary))
            os.environ["ZOO_GYM_HOME"] = str(Path(place) / "home")
            pairs = [
                (
                    own_process("bench.mlx", "ours", folder),
                    own_process("bench.mlx", "mlx-lm", folder),
                )
                for _ in range(PAIRS)
            ]
        yield from compared(f"{vocabulary:,} words", pairs, large=vocabulary == VOCABULARIES[-1])


def measured(way: str, folder: str) -> Figures:
    """Returns the figures of a process of its own."""
    return own_process("bench.mlx", way, folder)


def compared(name: str, pairs: list[tuple[Figures, Figures]], *, large: bool) -> Iterator[Case]:
    """Yields loss, time and memory of the pairs."""
    mine, theirs = pairs[0]
    apart = max(abs(a - b) for a, b in zip(mine["losses"], theirs["losses"], strict=True))
    against = "mlx-lm, difference"
    yield Case(f"{name}: {STEPS} losses", mine["losses"][-1], "nats", against, apart, "<= 1e-4")
    for figure, unit, bar in (
        ("cpu_s", "CPU-s", "<= 1.05"),
        ("mlx_mb", "MB", "<= 0.8" if large else ""),
        ("added_mb", "MB", "<= 0.8" if large else ""),
    ):
        value = median(one[figure] for one, _ in pairs)
        ratio = median(one[figure] / other[figure] for one, other in pairs)
        yield Case(f"{name}: {WORDS[figure]}", value, unit, "mlx-lm", ratio, bar)


WORDS = {"cpu_s": "a step", "mlx_mb": "MLX's peak", "added_mb": "memory added"}


def write_model(folder: Path, vocabulary: int) -> Path:
    """Writes a random model with a tokenizer, for which each word is one token."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        intermediate_size=192,
        vocab_size=vocabulary,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=1,
        pad_token_id=0,
    )
    model: Any = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    words = {"<pad>": 0, "<eos>": 1} | {f"w{i}": i for i in range(2, vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast: Any = PreTrainedTokenizerFast
    fast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>").save_pretrained(folder)
    return folder


def row_ids(folder: Path) -> list[list[int]]:
    """Returns the tokens of each row: the last one ends it."""
    import numpy as np

    vocabulary: int = json.loads((folder / "config.json").read_text())["vocab_size"]
    random = np.random.default_rng(0).integers(2, vocabulary, (ROWS, TOKENS - 1))
    return [[*(int(token) for token in row), 1] for row in random]


class Meter:
    """CPU seconds and losses of each step, and the memory added to that of the loaded model."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.losses: list[float] = []

    def loaded(self) -> None:
        """Notes that the model and the rows are loaded."""
        import mlx.core as mx

        mx.clear_cache()
        mx.reset_peak_memory()
        self.loaded_bytes = reset_peak_bytes()

    def step(self, loss: float) -> None:
        """Notes the end of a step."""
        self.times.append(time.process_time())
        self.losses.append(loss)
        self.peak_bytes = status_bytes("VmHWM")

    def found(self) -> Figures:
        """Returns the figures."""
        import mlx.core as mx

        spent = [
            later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False)
        ]
        return {
            "losses": self.losses,
            "cpu_s": median(spent[WARM:]),
            "mlx_mb": mx.get_peak_memory() / MB,
            "added_mb": (self.peak_bytes - self.loaded_bytes) / MB,
        }


def ours(folder: Path, meter: Meter) -> None:
    """Trains with this project."""
    from safetensors.numpy import save_file

    from zoo.gym import run_training
    from zoo.gym.config import TrainConfig

    session: Any = import_module("zoo.gym.train.session")
    loop: Any = import_module("zoo.gym.train.loop")
    loop.CHECKPOINT_EVERY_S = float("inf")
    load, fit = session.load_policy, session.fit

    def loaded(*given: Any, **named: Any) -> Any:  # noqa: ANN401
        policy = load(*given, **named)
        save_file(dict(policy.trained()), folder / START)
        return policy

    def measured(job: Any) -> Any:  # noqa: ANN401
        meter.loaded()
        return fit(replace(job, emit=noted(job.emit)))

    def noted(emit: Callable[..., object]) -> Callable[..., object]:
        def note(kind: str, /, **fields: Any) -> object:  # noqa: ANN401
            if kind == "step":
                meter.step(fields["loss"])
            return emit(kind, **fields)

        return note

    session.load_policy, session.fit = loaded, measured
    rows = [[f"w{token}" for token in row[:-1]] for row in row_ids(folder)]
    config = TrainConfig(
        model_name_or_path=folder,
        dataset=[{"prompt": f"{row[0]} ", "completion": " ".join(row[1:])} for row in rows],
        backend="mlx",
        lora_rank=RANK,
        lora_alpha=ALPHA,
        gradient_checkpointing=False,
        per_device_train_batch_size=ROWS,
        gradient_accumulation_steps=1,
        max_steps=STEPS,
        save_steps=STEPS,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        warmup_steps=0,
        max_grad_norm=1e6,
        val_size=0,
    )
    run_training(config)


def mlx_lm(folder: Path, meter: Meter) -> None:
    """Trains with mlx-lm."""
    import mlx.core as mx

    loader, tuner, optimizers = map(
        import_module, ("mlx_lm.utils", "mlx_lm.tuner.trainer", "mlx.optimizers")
    )
    callbacks, utils = map(import_module, ("mlx_lm.tuner.callbacks", "mlx_lm.tuner.utils"))
    model, _ = loader.load_model(folder)
    model.freeze()
    settings: dict[str, Any] = {"rank": RANK, "scale": ALPHA / RANK, "dropout": 0.0}
    start: Any = mx.load(str(folder / START))
    keys = {name.split(".", 3)[3].removesuffix(".lora_A.weight") for name in start}
    settings["keys"] = sorted(key for key in keys if not key.endswith(".weight"))
    utils.linear_to_lora_layers(model, len(model.layers), settings)
    model.load_weights(
        [(_their_name(name), value.T) for name, value in start.items()], strict=False
    )
    mx.eval(model.parameters())
    meter.loaded()
    report = {"on_train_loss_report": lambda _, info: meter.step(info["train_loss"])}
    note = type("Note", (callbacks.TrainingCallback,), report)()
    batch = (mx.array(row_ids(folder)), mx.array([[0, TOKENS]] * ROWS))

    def batches(**_: object) -> Iterator[Any]:
        while True:
            yield batch

    with tempfile.TemporaryDirectory() as place, redirect_stdout(sys.stderr):
        tuner.train(
            model,
            optimizers.AdamW(RATE, weight_decay=0.0, bias_correction=True),
            None,
            args=tuner.TrainingArgs(
                batch_size=ROWS,
                iters=STEPS,
                steps_per_report=1,
                max_seq_length=TOKENS,
                adapter_file=str(Path(place) / "adapters.safetensors"),
            ),
            iterate_batches=batches,
            training_callback=note,
        )


def _their_name(name: str) -> str:
    """Returns mlx-lm's name of a matrix of an adapter."""
    return name.replace(".lora_A.weight", ".lora_a").replace(".lora_B.weight", ".lora_b")


def main(way: str, folder: str) -> None:
    """Prints the figures."""
    meter = Meter()
    {"ours": ours, "mlx-lm": mlx_lm}[way](Path(folder), meter)
    print(json.dumps({"way": way, **meter.found()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
