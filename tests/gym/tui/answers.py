"""What commands answer, for tests and pictures that run none: one small world, filled or not."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.gym.tui import fakes
from zoo.gym.errors import GymError
from zoo.gym.tui.chat import choosing as chat
from zoo.gym.tui.chat.server import Answer as Spoken
from zoo.gym.tui.chat.server import ChatServer
from zoo.gym.tui.data import screen as data
from zoo.gym.tui.home import recommend
from zoo.gym.tui.home import screen as home
from zoo.gym.tui.machine import Machine
from zoo.gym.tui.models import screen as models
from zoo.gym.tui.runs import export
from zoo.gym.tui.share import contribute as share_contribute
from zoo.gym.tui.share import deltas_pane as share_deltas
from zoo.gym.tui.share import form as share_form
from zoo.gym.tui.share import lessons_pane as share_lessons
from zoo.gym.tui.share import rounds_pane as share_rounds
from zoo.gym.tui.share import variants_pane as share_variants
from zoo.gym.tui.share.asking import Answer
from zoo.gym.tui.start import screen as start

World = Literal["filled", "empty", "loading", "error"]

GB = 10**9
WAYS = (
    ("LoRA", 11.4), ("LoRA, 4-bit base", 6.1), ("LoRA, 8-bit base", 7.9),
    ("LoRA, base on disk", 4.5),
    ("two layers", 20.6), ("all, by BAdam", 20.1), ("all, by GaLore", 41.5), ("all weights", 70.3),
)  # fmt: skip

LISTED = (
    ("zen-pico", "zen-pico", 821_632, 0, "built in"),
    ("smollm2", "smollm2", 134_515_008, 92_871_040, "in the cache"),
    ("zen-nano", "Qwen/Qwen3-0.6B", 596_049_920, 1_519_182_365, "not here"),
    ("zen-eco", "Qwen/Qwen3-4B", 4_022_468_096, 8_060_896_856, "not here"),
)


def _model(name: str, hub: str, parameters: int, size: int, where: str) -> dict[str, Any]:
    here = where != "not here"
    needs = [(way, int(gb * GB * max(0.1, parameters / 4e9))) for way, gb in WAYS]
    return {
        "name": name, "id": hub, "parameters": parameters, "licence": "Apache-2.0",
        "here_bytes": (size or 1_661_306) if here else 0, "download_bytes": size,
        "where": where, "folder": f"/models/{name}" if here else None, "revision": None,
        "fits": [
            {"method": way, "way": way, "settings": {}, "needs_bytes": bytes_,
             "fits": bytes_ < 12 * GB}
            for way, bytes_ in needs
        ],
    }  # fmt: skip


MODELS = {
    "models": [_model(*row) for row in LISTED],
    "device": "cpu",
    "free_bytes": 12 * GB,
}

INSPECTED: dict[str, Any] = {
    "files": {"/data/chats.jsonl": "OpenAI messages"},
    "rows": 200,
    "problems": [
        {"where": "/data/chats.jsonl:57", "reason": "no answer"},
        {"where": "/data/chats.jsonl:113", "reason": "messages: expected a list, got a string"},
    ],
    "kinds": {"chat": 200},
    "roles": {"system": 12, "user": 412, "assistant": 412},
    "tokens": {
        "p50": 310,
        "p95": 900,
        "longest": 3904,
        "histogram": [
            {"least": low, "most": 2 * low - 1, "rows": rows}
            for low, rows in ((64, 12), (128, 41), (256, 93), (512, 38), (1024, 11), (2048, 5))
        ],
    },
    "cutoff_len": 2048,
    "truncated": 5,
    "truncated_share": 0.025,
    "unlearned": 1,
    "unlearned_share": 0.005,
    "duplicates": 1,
    "repeats": [{"where": "/data/chats.jsonl:88", "of": "/data/chats.jsonl:12"}],
    "empty_answers": 0,
    "with_reasoning": 0,
    "with_tools": 0,
    "warnings": ["2 of 200 rows name pictures, sound or video, which the model never sees"],
    "refusal": None,
    "ratings": {},
    "sampled": 0,
    "stages": ["sft", "distill"],
}

PIECES = (
    ("<|user|>\nWhen does the library open on Saturdays, and may I bring my dog?\n", False),
    ("<|assistant|>\n", False),
    ("On Saturdays it opens at ten. Dogs stay outside, except for guide dogs.\n<|end|>", True),
)


def _rows(words: Sequence[str]) -> dict[str, Any]:
    first = int(words[words.index("--first") + 1])
    pieces = [{"text": text, "learned": learned} for text, learned in PIECES]
    shown = {"kind": "chat", "tokens": 41, "pieces": pieces, "rejected": [], "answer": ""}
    shown |= {"good": None, "problem": ""}
    return {
        "rows": [
            {"row": row, "source": f"/data/chats.jsonl:{row}"} | shown
            for row in range(first, first + data.PAGE)
        ]
    }


METHODS = {
    "methods": [
        {"wants": [want], "rows": rows, "method": method}
        for want, rows, method in (
            ("preference", ["pairs of a better and a worse answer"], "dpo"),
            ("preference", ["answers rated good or bad"], "kto"),
            ("reasoning", ["prompts with an answer", "prompts with unit tests"], "grpo"),
            ("tools", ["chats with tools"], "sft"),
            ("style", ["chats", "prompts with a completion"], "sft"),
            ("lessons", ["prompts without an answer"], "experience"),
        )
    ]
}

ADVICE: dict[str, Any] = {
    "want": "preference",
    "uses": {"pair": 40},
    "method": "dpo",
    "reason": "makes the better answer of each pair likelier",
    "recipe": "zen-nano-dpo.yaml",
    "model": "zen-pico",
    "tokens": 1234,
    "memory": {"needs_bytes": 800_000_000, "free_bytes": 9 * GB, "fits": True},
    "settings": [{"key": "packing", "value": False, "reason": "pairs are not packed"}],
    "choices": [{"key": "max_steps", "value": 10, "reason": "10 epochs of 40 pairs"}],
    "notes": ["40 rows are few: look at the held-out loss"],
    "command": "zoo-gym train zen-nano-dpo.yaml /data/pairs.jsonl",
}

PLANNED: dict[str, Any] = fakes.PLANNED

SMALL: dict[str, Any] = {
    "bytes": 36_236,
    "payload_bytes": 33_104,
    "base": {"id": "zen-pico"},
    "form": "lowrank",
    "tensors": ["w"] * 28,
    "digest": "0635a579af75780c7bd3371db85a7463",
    "file": "/data/deltas/r0001.delta.safetensors",
    "quality": {
        "base": 7.81, "tuned": 3.2, "delta": 3.31, "recovered": 0.99, "top1": 0.7, "kl": 0.08,
        "drift": 0.01, "tokens": 912, "rows": 12,
    },
}  # fmt: skip
CODINGS = [
    "  36.2 kB  KL 0.0849  --bits 2", "  25.8 kB  KL 2.0074  --bits 1",
    " 166.7 kB  KL 0.0003  --codec bf16", "chosen: --bits 2",
]  # fmt: skip

STORED = {
    "variants": [
        {"variant": f"{base}:{name}", "name": name, "base": base, "file": f"/x/{name}", "bytes": n}
        for base, name, n in (("zen-pico", "ann", 35_136), ("zen-pico", "library-desk", 166_720))
    ],
    "more": False,
}

ROUND: dict[str, Any] = {
    "round": "4a5440f6301e5dcf307bf9cf76d38ee6",
    "name": "summer",
    "address": "/mnt/share/summer",
    "kind": "delta",
    "phase": "commit",
    "yours": ["maker"],
}
ROUNDS = {
    "rounds": [
        ROUND,
        ROUND | {"round": "b" * 32, "name": "spring", "phase": "published", "yours": []},
        ROUND | {"round": "c" * 32, "name": "winter", "phase": "reveal", "yours": ["contributor"]},
    ]
}


def _contributor(fingerprint: str, state: str, reason: str = "") -> dict[str, Any]:
    who = {"contributor": f"ed25519:{fingerprint}", "fingerprint": fingerprint, "name": ""}
    return who | {"state": state, "reason": reason, "weight": None, "points": None}


SHOWN: dict[str, Any] = {
    "round": ROUND["round"],
    "kind": "delta",
    "phase": "commit",
    "deadline": "2000-01-01T00:00:00Z",
    "committed": 2,
    "revealed": 0,
    "refused": [],
    "result": None,
    "contributors": [
        _contributor("60fd-9447-9c70-5338", "refused", "a copy of b64f-9a7f"),
        _contributor("b64f-9a7f-0c11-77aa", "committed"),
    ],
}
TERMS = [
    "round summer (4a5440f6301e) about zen-pico",
    "mean, form lowrank, 28 tensors, 3 to 1000 contributors",
    "no gate; no cap on newcomers",
    "phase: commit until 2026-12-06T21:28:31Z",
]
SENT: dict[str, Any] = {
    "round": ROUND["round"],
    "receipt": None,
    "digest": "0635a579af75780c7bd3371db85a7463",
    "bytes": 166_720,
    "phase": "commit",
    "file": "/data/contribution.safetensors",
    "address": "/mnt/share/summer",
}

LIBRARY: dict[str, Any] = {
    "name": "sums",
    "version": 2,
    "lessons": 2,
    "tokens": 31,
    "model": "clerk",
    "evidence": {"verdict": "proven", "effect": 0.533, "low": 0.354, "high": 0.706, "tasks": 30},
    "versions": [1, 2],
    "items": [
        {
            "text": "Add the tens first, then the ones, and check the sum by rounding.",
            "pinned": True,
        },
        {"text": "Write a carry down before the next column.", "pinned": False},
    ],
}
_FIGURES = {"low": 465, "expected": 574, "high": 2535}
ESTIMATE = {"calls": _FIGURES, "tokens": _FIGURES, "usd": _FIGURES, "leaves": ["api.example.org"]}

Reply = Any | Callable[[Sequence[str]], Any]

FILLED: dict[str, Reply] = {
    "models": MODELS,
    "models get": GymError("no model in it", hint="expected a 'config.json'"),
    "data inspect": INSPECTED,
    "data show": _rows,
    "data fix": {"file": "/data/chats.fixed.jsonl", "kept": 198, "bad": 1, "duplicates": 1,
                 "problems": [], "repeats": []},
    "train": PLANNED,
    "recommend": lambda words: ADVICE if words[1:2] and words[1][0] != "-" else METHODS,
    "export": {"path": "r0001-q8_0.gguf", "bytes": 1_646_080},
    "delta info": SMALL,
    "delta create": (CODINGS, SMALL),
    "variants list": STORED,
    "variants show": SMALL,
    "round list": ROUNDS,
    "round show": (TERMS, SHOWN),
    "round ledger": {"spent": []},
    "round contribute": SENT,
    "keys show": {"key": "ed25519:me"},
    "experience list": {"libraries": [LIBRARY], "refused": []},
    "experience show": LIBRARY,
    "experience diff": {"removed": ["Guess."], "added": ["Add the tens first."], "same": False},
    "experience estimate": ESTIMATE,
}  # fmt: skip
EMPTY: dict[str, Reply] = FILLED | {
    "variants list": {"variants": [], "more": False},
    "round list": {"rounds": []},
    "experience list": {"libraries": [], "refused": []},
}
ERROR = GymError(
    "the cache is not readable: expected a folder, got /root/.cache/huggingface/hub",
    hint="look at its rights, or set HF_HUB_CACHE",
)
MACHINE = Machine("A machine of 4 cores", 4, 8 << 30, 5 << 30, 500 << 30, 40 << 30, charge=81.0)

_ASKING = (chat, data, export, models, recommend, start)
_ASKING_LINES = (
    share_contribute, share_deltas, share_form, share_lessons, share_rounds, share_variants
)  # fmt: skip


def answer_as(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    """Lets commands answer at once, as in a filled or an empty world; with errors; or never."""

    async def find(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
        if world == "loading":
            await asyncio.sleep(600)
        replies = EMPTY if world == "empty" else FILLED
        reply = replies.get(" ".join(words[:2]), replies.get(words[0]))
        if callable(reply):
            reply = reply(words)
        if world == "error" or reply is None:
            raise ERROR
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, tuple) else ([], reply)

    async def ask(words: Sequence[str], *, finish: bool = False) -> dict[str, Any]:
        return (await find(words))[1]

    async def ask_lines(words: Sequence[str], line: Any = None) -> Answer:
        lines, value = await find(words)
        for each in lines if line else ():
            line(each)
        return Answer(value, lines)

    for module in _ASKING:
        monkeypatch.setattr(module, "ask_command", ask)
    for module in _ASKING_LINES:
        monkeypatch.setattr(module, "ask_lines", ask_lines)
    monkeypatch.setattr(home, "this_machine", lambda: MACHINE)
    monkeypatch.setattr(ChatServer, "start", _ready)
    monkeypatch.setattr(Spoken, "ask", _speak)


def _ready(server: ChatServer) -> None:
    server.url, server.name, server.state = "http://127.0.0.1:8080/v1", server.base, "ready"


def _speak(answer: Spoken, server: ChatServer, body: Mapping[str, Any]) -> None:
    is_base = ":" not in str(body["model"])
    opened = "It opens at nine." if is_base else "On Saturdays it opens at ten."
    answer.text = f"{opened} Dogs stay outside, except for guide dogs."
    answer.tokens, answer.first_s, answer.last_s, answer.finish = 16, 0.21, 0.92, "stop"


def tuned_run() -> str:
    """Makes a run that is done and has an adapter, and returns its id."""
    run = fakes.trained(20)
    fakes.end(run, "done", model=str(run.result), metrics={"best_loss": 0.7})
    run.result.mkdir()
    (run.result / "adapter_config.json").write_text("{}")
    return run.id


def chats_file(folder: Path) -> Path:
    """A file of 200 examples with the name that the answers above have."""
    path = folder / "chats.jsonl"
    turns = [{"role": "user", "content": "When?"}, {"role": "assistant", "content": "At ten."}]
    path.write_text(f"{json.dumps({'messages': turns})}\n" * 200)
    return path
