"""Sheets of rules that a small model obeys: tasks, reward, a scripted teacher, and its training.

A sheet has three rules, "Begin with q.", "Then write v." and "End with m."; a task is a word, and
its answer those letters around the word's first: "qnvm" for "nolat". zen-pico is tuned with a new
sheet in each row, of which rules may be missing: those letters are then drawn at random. So what a
sheet says cannot be known without it. It shows that lessons and what is distilled of them work as
they should; there is no language, and the rules are of one kind.
"""

import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.backends.openai.reply import Reply
from zoo.backends.sampling import Sampling
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library

RULES = ("Begin with {}.", "Then write {}.", "End with {}.")
PLACES = (0, 2, 3)
"""Of each rule's letter in an answer; the word's own letter is at 1."""

LETTERS = "mnopqrstuvwxyz"
WORD_LETTERS = "abcdefghijkl"
SHEET = "qvm"
SHUFFLED = "mqv"
"""The sheet that is learned, and its letters in the wrong places; neither is trained on."""

SYSTEM_SHARE = 0.85
"""How often a rule is on a sheet of the training."""

REWARD = """\
def score(query, response, answer):
    if len(response) != 4:
        return 0.0
    return sum(response[place] == answer[place] for place in (0, 2, 3)) / 3
"""
"""The share of the rules that an answer obeys, as a file of a reward."""


def sheet(letters: str) -> Library:
    """Returns a sheet as a library."""
    rules = (rule.format(letter) for rule, letter in zip(RULES, letters, strict=True))
    return Library(tuple(map(Item, rules)), "zen-pico on sheets", "scripted")


def word(rng: random.Random) -> str:
    """Draws a word."""
    return "".join(rng.choice(WORD_LETTERS) for _ in range(rng.randrange(3, 7)))


def answer(said: str, letters: Sequence[str]) -> str:
    """Returns the answer to a word by a sheet's letters."""
    return f"{letters[0]}{said[0]}{letters[1]}{letters[2]}"


def write_tasks(path: Path, count: int, seed: int) -> Path:
    """Writes different words with their answers as rows."""
    rng = random.Random(f"words {seed}")
    words: dict[str, None] = {}
    while len(words) < count:
        words[word(rng)] = None
    rows = [{"prompt": one, "answer": answer(one, SHEET)} for one in words]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


class Teacher:
    """Proposes the letters of the best answer as rules; it sees what a teacher sees, no more."""

    def attempt(
        self,
        messages: Sequence[Mapping[str, str]],
        sampling: Sampling,
        *,
        schema: Mapping[str, object] | None = None,
        seed: int | None = None,
    ) -> Reply:
        """Answers with two edits, for rules that are not on the sheet yet."""
        del sampling, schema
        text = messages[-1]["content"]
        graded = re.findall(r"Answer \d+, reward ([\d.]+):\n([a-z]+)", text)
        best = max(graded, key=lambda one: float(one[0]))[1] if graded else ""
        known = text.partition("Rejected before:")[0].partition("Task:")[0]
        edits: list[dict[str, object]] = []
        for rule, place in zip(RULES, PLACES, strict=True):
            if rule.partition("{")[0] not in known and len(best) == 4:
                edits.append({"op": "add", "ids": [], "text": rule.format(best[place])})
        random.Random(f"{text} {seed}").shuffle(edits)
        return Reply(json.dumps({"edits": edits[:2]}))


def tune(folder: Path, steps: int, seed: int = 0, rows: int = 10) -> float:
    """Tunes zen-pico to obey sheets, on one thread, and writes it; returns the last loss."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from zoo.models import pico_folder

    tokenizer: Any = AutoTokenizer.from_pretrained(pico_folder())
    model: Any = AutoModelForCausalLM.from_pretrained(pico_folder(), dtype=torch.float32)
    rng = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.01)
    loss = torch.zeros(())
    for step in range(1, steps + 1):
        rate = 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = 1.5e-3 * min(1, step / 50) * rate
        ids_BT, labels_BT = _batch(tokenizer, rng, rows)
        logits_BTV = model(input_ids=ids_BT, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits_BTV[:, :-1].flatten(0, 1), labels_BT[:, 1:].flatten()
        )
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return float(loss.detach())


def _batch(tokenizer: Any, rng: random.Random, count: int) -> tuple[Any, Any]:  # noqa: ANN401
    """Returns conversations and what is learned of them: the answers and their ends."""
    import torch

    starts = tokenizer.convert_tokens_to_ids("<|assistant|>")
    rows = [
        tokenizer.apply_chat_template(conversation(rng), tokenize=True, return_dict=False)
        for _ in range(count)
    ]
    shape = (count, max(map(len, rows)))
    ids_BT, labels_BT = torch.full(shape, tokenizer.pad_token_id), torch.full(shape, -100)
    for place, row in enumerate(rows):
        ids_BT[place, : len(row)] = torch.tensor(row)
        for at, token in enumerate(row):
            if token == starts:
                labels_BT[place, at + 1 : at + 6] = torch.tensor(row[at + 1 : at + 6])
    return ids_BT, labels_BT


def conversation(rng: random.Random, turns: int = 6) -> list[dict[str, str]]:
    """Draws a sheet, of which rules may be missing, and questions with their answers."""
    while True:
        letters = [rng.choice(LETTERS) for _ in RULES]
        if "".join(letters) not in (SHEET, SHUFFLED):
            break
    has = [rng.random() < SYSTEM_SHARE for _ in RULES]
    rules = zip(RULES, letters, has, strict=True)
    items = [Item(rule.format(letter)) for rule, letter, is_there in rules if is_there]
    rng.shuffle(items)
    found = [{"role": "system", "content": Library(tuple(items)).text}] if items else []
    for _ in range(turns):
        asked = word(rng)
        said = [
            letter if is_there else rng.choice(LETTERS)
            for letter, is_there in zip(letters, has, strict=True)
        ]
        found.append({"role": "user", "content": asked})
        found.append({"role": "assistant", "content": answer(asked, said)})
    return found
