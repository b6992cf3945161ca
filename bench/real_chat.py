"""Greedy answers of a real model, one at a time: chat beside transformers' generate.

usage: python -m bench.real_chat FOLDER

All run in one process on one thread, in turns. It prints one JSON object: for each way the CPU
seconds of the first token, the tokens per CPU second after it, and the answer. Ours has the number
format that chat chooses; `f32` and `stored` are transformers with float32 weights, and as the
files are by default.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.gym.chat.session import ChatSession

PROMPT = "Write a short story about a fox and a river."
TOKENS, ROUNDS = 64, 4

Answer = Callable[[int], Sequence[int]]
"""Returns this many tokens after the prompt."""


def ours(session: "ChatSession", ids: list[int]) -> Answer:
    """Returns the sampling of a chat."""
    sampling = replace(session.sampling, stop_ids=())

    def answer(tokens: int) -> Sequence[int]:
        drawn = replace(sampling, max_new_tokens=tokens)
        return session.policy.generate([ids], drawn, keys=[0])[0].ids

    return answer


def transformers(folder: Path, ids: list[int], dtype: str) -> Answer:
    """Returns the `generate` of transformers."""
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    ids_BT = torch.tensor([ids])

    def answer(tokens: int) -> Sequence[int]:
        found_BT = model.generate(
            ids_BT,
            attention_mask=torch.ones_like(ids_BT),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
        )
        continued: list[int] = found_BT[0, len(ids) :].tolist()
        return continued

    return answer


def measured(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns the figures of each way by name."""
    import torch

    from zoo.gym.chat.session import open_chat
    from zoo.gym.data import Message, encode_prompt

    with ExitStack() as stack:
        session = stack.enter_context(open_chat(folder))
        ids = list(encode_prompt([Message("user", PROMPT)], session.tokenizer, session.options))
        ways = {
            "ours": ours(session, ids),
            "f32": transformers(folder, ids, "float32"),
            "stored": transformers(folder, ids, "auto"),
        }
        torch.set_num_threads(1)
        for answer in ways.values():
            answer(2)
        first: dict[str, list[float]] = {way: [] for way in ways}
        rest: dict[str, list[float]] = {way: [] for way in ways}
        answers: dict[str, Sequence[int]] = {}
        for _ in range(ROUNDS):
            for way, answer in ways.items():
                times = [time.process_time()]
                answer(1)
                times.append(time.process_time())
                answers[way] = answer(TOKENS)
                first[way].append(times[1] - times[0])
                rest[way].append(time.process_time() - times[1] - first[way][-1])
    return {
        way: {
            "first_s": median(first[way]),
            "tokens_per_cpu_s": (TOKENS - 1) / median(rest[way]),
            "answer": list(answers[way]),
        }
        for way in ways
    }


def main() -> None:
    """Reads the command line and prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    print(json.dumps(measured(parser.parse_args().folder)))


if __name__ == "__main__":
    main()
