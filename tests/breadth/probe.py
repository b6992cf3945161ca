"""Measures one family in every respect: what a user does with a model, beside plain libraries.

Legend: B rows, T positions, V vocabulary. Everything is float32 on one thread of the CPU. A check
that finds other numbers than transformers' or peft's own raises `Wrong`; what we refuse ourselves
comes as `GymError`; anything else is a crash.
"""

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

from tests.breadth import families, losses
from tests.breadth.numbers import (
    NEW_TOKENS,
    Wrong,
    close,
    cross_entropy,
    expect,
    logprobs,
    most_likely,
    same_gradients,
    scores,
    train,
)
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, Sampling
from zoo.core.errors import GymError
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta.apply import apply_delta
from zoo.gym.delta.create import create_delta
from zoo.gym.delta.file.reader import load_delta
from zoo.gym.delta.loadable import delta_model

COLUMNS = (
    "loads",
    "causal",
    "loss",
    "LoRA",
    "peft",
    "full",
    "DPO",
    "GRPO",
    "alone",
    "batched",
    "delta of LoRA",
    "delta of full",
)

LOSS_TOLERANCE = 1e-6
"""Relative, of a mean over tokens in float32."""

ROWS = (6, 11, 17)
PROMPTS = (4, 9, 14, 9)


class Cell:
    """Turns what ends a check into the text of a cell."""

    def __init__(self) -> None:
        self.text = ""
        self.trace = ""

    def __enter__(self) -> "Cell":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool:
        import traceback

        if error is None:
            self.text = self.text or "ok"
            return True
        if not isinstance(error, Exception):
            return False
        self.trace = "".join(traceback.format_exception(kind, error, tb))
        if isinstance(error, Wrong):
            self.text = f"wrong: {error}"
        elif isinstance(error, GymError):
            self.text = f"refused: {error.message}"
        else:
            self.text = f"crash: {type(error).__name__}: {str(error).strip()[:200]}"
        return True


class Family:
    """One family's tiny model in a folder of its own, and what the checks pass on to each other."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder
        self.base = folder / "base"
        self.lora, self.full = folder / "lora", folder / "full"
        generator = np.random.default_rng(7)
        low, high = families.FIRST_ID, families.LAST_ID
        self.rows = [generator.integers(low, high, n).tolist() for n in ROWS]
        self.prompts = [generator.integers(low, high, n).tolist() for n in PROMPTS]
        families.build(name, self.base)

    def plain(self, folder: Path | None = None) -> Any:
        """Returns what transformers alone loads from a folder."""
        from transformers import AutoModelForCausalLM

        model: Any = AutoModelForCausalLM.from_pretrained(
            folder or self.base, dtype=torch.float32, local_files_only=True
        )
        return model.eval()

    def plain_peft(self, *, trainable: bool = False) -> Any:
        """Returns what transformers and peft load from the trained adapter."""
        from peft import PeftModel

        return PeftModel.from_pretrained(
            self.plain(), str(self.lora), is_trainable=trainable
        ).eval()

    # ---- the checks, in the order of `COLUMNS`

    def loads(self) -> None:
        policy: Any = load_backend("cpu").load(self.base)
        ours, theirs = policy.parameter_count(), self.plain().num_parameters()
        expect(ours == theirs, f"{ours} parameters, transformers has {theirs}")

    def causal(self) -> None:
        policy: Any = load_backend("cpu").load(self.base)
        row = self.rows[-1]
        other = [*row[:-1], families.FIRST_ID + (row[-1] + 1) % 100]
        close(scores(policy, [row])[0][:-1], scores(policy, [other])[0][:-1], "earlier tokens")

    def loss(self) -> None:
        policy: Any = load_backend("cpu").load(self.base)
        ours = np.concatenate(scores(policy, self.rows))
        theirs = cross_entropy(self.plain(), self.rows)
        difference = abs(-ours.mean() / theirs - 1)
        expect(difference <= LOSS_TOLERANCE, f"the loss differs by {difference:.1e}")

    def trains_lora(self) -> None:
        spec = LoraSpec(rank=4, alpha=8.0)
        policy: Any = load_backend("cpu").load(self.base, LoadSpec(train=spec, seed=1))
        frozen = {
            name: value.detach().clone()
            for name, value in policy.module.model.named_parameters()
            if "lora_" not in name
        }
        train(policy, self.rows, lr=1e-2)
        for name, value in policy.module.model.named_parameters():
            if name in frozen:
                expect(torch.equal(value, frozen[name]), f"{name} was trained too")
        policy.save_result(self.lora, base=str(self.base))
        self.after_lora = scores(policy, self.rows)
        plain = self.plain_peft(trainable=True)
        same_gradients(policy, plain, self.rows, ".default.")

    def loads_in_peft(self) -> None:
        close(self.after_lora, logprobs(self.plain_peft(), self.rows), "plain peft")

    def trains_full(self) -> None:
        policy: Any = load_backend("cpu").load(self.base, LoadSpec(train="full", seed=1))
        train(policy, self.rows, lr=1e-3)
        policy.save_result(self.full, base=str(self.base))
        after = scores(policy, self.rows)
        close(after, logprobs(self.plain(self.full), self.rows), "the saved model")
        same_gradients(policy, self.plain(self.full), self.rows)

    def dpo(self) -> None:
        losses.same_dpo(self.trainable(), self.plain())

    def grpo(self) -> None:
        losses.same_grpo(self.trainable(), self.plain())

    def trainable(self) -> Any:
        return load_backend("cpu").load(self.base, LoadSpec(train="full", seed=1))

    def alone(self) -> None:
        policy: Any = load_backend("cpu").load(self.base)
        plain = self.plain()
        for prompt in self.prompts:
            sampling = Sampling(max_new_tokens=NEW_TOKENS)
            (answer,) = policy.generate([prompt], sampling, keys=[0])
            self.greedy(plain, prompt, answer.ids)

    def batched(self) -> None:
        policy: Any = load_backend("cpu").load(self.base)
        sampling = Sampling(max_new_tokens=NEW_TOKENS)
        together = policy.generate(self.prompts, sampling, keys=[0, 1, 2, 3])
        plain = self.plain()
        for prompt, answer in zip(self.prompts, together, strict=True):
            (alone,) = policy.generate([prompt], sampling, keys=[0])
            if alone.ids != answer.ids:
                most_likely(plain, prompt, answer.ids, "not the answer alone")

    def greedy(self, plain: Any, prompt: list[int], ids: list[int]) -> None:
        """Compares with transformers' own greedy answer; a near tie may go either way."""
        from transformers import GenerationConfig

        kind: Any = GenerationConfig
        settings = kind(do_sample=False, max_new_tokens=NEW_TOKENS, pad_token_id=0, use_cache=True)
        config = copy.deepcopy(plain.generation_config)
        plain.generation_config = settings
        try:
            with torch.no_grad():
                theirs = plain.generate(torch.tensor([prompt]))[0, len(prompt) :].tolist()
        except (RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError):
            theirs = None  # transformers cannot; ours must then be the most likely tokens
        plain.generation_config = config
        if ids != theirs:
            most_likely(plain, prompt, ids, f"got {ids}, transformers {theirs}")

    def delta_of_lora(self) -> None:
        self.exact_delta(self.lora, "f32", logprobs(self.plain_peft(), self.rows))
        self.coded_delta(self.lora)

    def delta_of_full(self) -> None:
        self.exact_delta(self.full, "sparse", logprobs(self.plain(self.full), self.rows))
        self.coded_delta(self.full)

    def exact_delta(self, tuned: Path, codec: Any, expected: list[Any]) -> None:
        """A codec that loses nothing gives the fine-tune back, as a folder and for a chat."""
        file = self.delta(tuned, DeltaConfig(codec=codec))
        close(expected, self.applied(file), f"{codec}: applied")
        close(expected, self.chatted(file), f"{codec}: in a chat")

    def coded_delta(self, tuned: Path) -> None:
        """The default codec gives the same model both ways."""
        file = self.delta(tuned, DeltaConfig())
        close(self.applied(file), self.chatted(file), "coded: applied and in a chat")

    def delta(self, tuned: Path, config: DeltaConfig) -> Path:
        file = self.folder / "delta.safetensors"
        file.unlink(missing_ok=True)
        create_delta(tuned, base=self.base, base_id="tiny", out=file, config=config)
        return file

    def applied(self, file: Path) -> list[Any]:
        out = self.folder / "applied"
        shutil.rmtree(out, ignore_errors=True)
        apply_delta(file, base=self.base, out=out)
        return logprobs(self.plain(out), self.rows)

    def chatted(self, file: Path) -> list[Any]:
        with delta_model(load_delta(file), self.base) as model:
            policy: Any = load_backend("cpu").load(model.folder, LoadSpec(adapter=model.adapter))
        return scores(policy, self.rows)


CHECKS: dict[str, Callable[[Family], None]] = {
    "loads": Family.loads,
    "causal": Family.causal,
    "loss": Family.loss,
    "LoRA": Family.trains_lora,
    "peft": Family.loads_in_peft,
    "full": Family.trains_full,
    "DPO": Family.dpo,
    "GRPO": Family.grpo,
    "alone": Family.alone,
    "batched": Family.batched,
    "delta of LoRA": Family.delta_of_lora,
    "delta of full": Family.delta_of_full,
}
NEEDS = {
    "peft": ("LoRA", "lora"),
    "DPO": ("full", "full"),
    "GRPO": ("full", "full"),
    "delta of LoRA": ("LoRA", "lora"),
    "delta of full": ("full", "full"),
}
"""A check that works with what another one made."""


def measure(name: str, folder: Path) -> tuple[dict[str, str], str]:
    """Returns the cells of one family, and the tracebacks of what was not ok."""
    cells: dict[str, str] = {}
    traces: list[str] = []
    with Cell() as made:
        family = Family(name, folder)
    if made.text != "ok":
        return {"loads": made.text.replace("crash:", "crash in building it:")}, made.trace
    for column, check in CHECKS.items():
        made_by = NEEDS.get(column, ("loads", "base"))
        if cells.get("loads", "ok") != "ok" or not (family.folder / made_by[1]).exists():
            cells[column] = "-"
            continue
        with Cell() as cell:
            check(family)
        cells[column] = cell.text.replace(f"{folder}/", "").replace(str(folder), "")
        if cell.trace:
            traces.append(f"--- {name}, {column}\n{cell.trace}")
    return cells, "".join(traces)
