"""A personal model on real text: what a fine-tune gains, and what a 1-bit delta keeps of it.

stories260K learns 168 of GLOUCESTER's 211 speeches with the command, full weights and no other
setting; his other lines are unseen. TinyStories, the model's own training text, shows what it
forgets.

usage: python -m bench.personal [FOLDER]      FOLDER contains data/; ../shared by default
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure import Case, line

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.gym.data import Tokenizer

SHARED = Path(__file__).parents[2] / "shared"
MODEL = "data/models/stories260K"
SPEAKERS = "data/federated/shakespeare_by_speaker.jsonl"
STORIES = "data/text/tinystories_0-499.json"
FILES = (MODEL, SPEAKERS, STORIES)
SPEAKER, LEARNED_TEXTS, STORY_COUNT, WINDOW_TOKENS = "GLOUCESTER", 168, 120, 256


@dataclass(frozen=True)
class Worth:
    """Bits per byte on the speaker's unseen lines and on TinyStories; KL(tuned || model), nats."""

    unseen: float
    stories: float
    kl: float


@dataclass(frozen=True)
class Personal:
    """The quality of each model, the cost of training, and the size of the delta."""

    base: Worth
    tuned: Worth
    delta: Worth
    scaled: Worth
    random_signs: Worth
    training_cpu_s: float
    delta_bytes: int
    base_bytes: int

    @property
    def random_gain(self) -> float:
        """The share of the tune's gain that random signs reach."""
        reached, base = self.random_signs.unseen, self.base.unseen
        return (base - reached) / (base - self.tuned.unseen)


@dataclass(frozen=True)
class Texts:
    """The texts that models are measured on."""

    tokenizer: "Tokenizer"
    unseen: str
    stories: Sequence[str]


def zoo_gym(home: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the command like a user, with `home` for all its files."""
    argv = [sys.executable, "-m", "zoo.gym", *map(str, words), "--json"]
    env = os.environ | {"ZOO_GYM_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Returns the last line of a command that must have succeeded."""
    if done.returncode:
        raise RuntimeError(f"expected exit code 0, got {done.returncode}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def speaker_texts(shared: Path) -> list[str]:
    """Returns the speaker's texts in order."""
    lines = (shared / SPEAKERS).read_text(encoding="utf-8").splitlines()
    users = {row["user"]: row["texts"] for row in map(json.loads, lines)}
    texts: list[str] = users[SPEAKER]
    return texts


def measure(shared: Path, work: Path) -> Personal:
    """Trains, creates the deltas, and measures all models.

    Args:
        shared: the folder of real models and data.
        work: a folder for everything that is written.
    """
    base, rows = shared / MODEL, work / "rows.jsonl"
    texts = speaker_texts(shared)
    rows.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts[:LEARNED_TEXTS]))
    train = ("train", rows, "--model", base, "--finetuning_type", "full")
    run = answer(zoo_gym(work / "home", *train))
    file = work / "one-bit.delta.safetensors"
    made = answer(zoo_gym(work / "home", "delta", "create", "last", "--out", file))
    worth = _worth(base, Path(run["model"]), file, _texts(shared, texts[LEARNED_TEXTS:]))
    return Personal(
        **worth,
        training_cpu_s=run["metrics"]["training_cpu_s"],
        delta_bytes=made["bytes"],
        base_bytes=(base / "model.safetensors").stat().st_size,
    )


def _texts(shared: Path, unseen: list[str]) -> Texts:
    from zoo.gym.data import load_tokenizer

    stories = json.loads((shared / STORIES).read_text(encoding="utf-8"))[:STORY_COUNT]
    return Texts(load_tokenizer(shared / MODEL), "\n\n".join(unseen), stories)


def _worth(base: Path, tuned: Path, file: Path, texts: Texts) -> dict[str, Worth]:
    from zoo.backends import load_backend
    from zoo.backends.machine.threads import use_threads
    from zoo.gym.delta import delta_model, load_delta, random_signs

    use_threads(1)
    delta = load_delta(file)
    control = random_signs(file, file.with_name("random.delta.safetensors"), seed=0)
    with ExitStack() as folders:
        models = {
            "base": base,
            "tuned": tuned,
            "delta": folders.enter_context(delta_model(delta, base)).folder,
            "scaled": folders.enter_context(delta_model(delta, base, scaled=0.7)).folder,
            "random_signs": folders.enter_context(delta_model(control, base)).folder,
        }
        policies = {name: load_backend("cpu").load(path) for name, path in models.items()}
    return {name: _measured(model, policies["tuned"], texts) for name, model in policies.items()}


def _measured(model: "Policy", tuned: "Policy", texts: Texts) -> Worth:
    from zoo.gym.data import EncodeOptions, Record, encode_records
    from zoo.gym.measure import divergence
    from zoo.gym.measure.text import bits_per_byte

    bits = [bits_per_byte(model, texts.tokenizer, text) for text in texts.stories]
    sizes = [len(text.encode()) for text in texts.stories]
    record = Record("unseen", "text", text=texts.unseen)
    windows = encode_records([record], texts.tokenizer, EncodeOptions(WINDOW_TOKENS)).examples
    return Worth(
        unseen=bits_per_byte(model, texts.tokenizer, texts.unseen, window_tokens=WINDOW_TOKENS),
        stories=sum(b * size for b, size in zip(bits, sizes, strict=True)) / sum(sizes),
        kl=divergence(tuned, model, windows).kl,
    )


def cases(found: Personal) -> Iterator[Case]:
    """Yields the table: first the figures with targets, then the others."""
    bit, base, tuned = "1 bit/byte", found.base, found.tuned
    over = abs(found.delta.unseen - tuned.unseen)
    yield Case("his lines: base", base.unseen, "bits/byte", bit, base.unseen, "<= 3.6")
    yield Case("his lines: tuned", tuned.unseen, "bits/byte", bit, tuned.unseen, "<= 2.65")
    yield Case("his lines: delta to tuned", over, "bits/byte", bit, over, "<= 0.05")
    yield Case("random signs: gain", found.random_gain, "share", "the tune's gain",
               found.random_gain, "<= 0.1")  # fmt: skip
    yield Case("training", found.training_cpu_s, "CPU-s", "1 CPU-s", found.training_cpu_s, "<= 15")
    yield Case("delta file", found.delta_bytes, "bytes", "the base's file",
               found.delta_bytes / found.base_bytes, "")  # fmt: skip
    for name in ("base", "tuned", "delta", "scaled", "random_signs"):
        yield from _beside(name, getattr(found, name), found)


def _beside(name: str, worth: Worth, found: Personal) -> Iterator[Case]:
    """Yields the rows without targets; `scaled` below `tuned` indicates overfitting."""
    yield Case(f"{name}: his lines", worth.unseen, "bits/byte", "base",
               worth.unseen / found.base.unseen, "")  # fmt: skip
    yield Case(f"{name}: TinyStories", worth.stories, "bits/byte", "base",
               worth.stories / found.base.stories, "")  # fmt: skip
    yield Case(f"{name}: KL to tuned", worth.kl, "nats", "the base's KL",
               worth.kl / found.base.kl, "")  # fmt: skip


def run(shared: Path = SHARED) -> Iterator[Case]:
    """Yields the cases; none if the real files are missing, which is reported."""
    absent = [name for name in FILES if not (shared / name).exists()]
    if absent:
        print(f"personal: not measured, {shared / absent[0]} is missing", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as work:
        yield from cases(measure(shared, Path(work)))


if __name__ == "__main__":
    for case in run(*map(Path, sys.argv[1:2])):
        print(line(case))
