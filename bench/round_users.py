"""Rounds of real users: seven speakers of Shakespeare fine-tune stories260K, some of them lie.

The seven longest speakers train all weights for 80 steps; the result is measured on the next six,
whom nobody has trained on, in bits per byte, and re-fitted on two more. Then the first two send
minus three times the mean of the others, noise of five times the size, or nearly nothing.
Contributions are plain differences, or signs with one scale for each tensor.

usage: python -m bench round_users            three seeds, ten minutes of one core; needs ../shared
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.measure import Case, Skipped
from bench.round_forms import in_form
from zoo.backends.base import LoadSpec, OptimizerSpec, Policy
from zoo.gym.data import EncodeOptions, Example, Record, encode_records, load_tokenizer
from zoo.gym.data.batches import collate
from zoo.gym.data.units import alone
from zoo.gym.engine import open_engine
from zoo.gym.measure import held_out
from zoo.gym.objectives.constants import WINDOW_TOKENS
from zoo.gym.objectives.sft import SupervisedLoss
from zoo.gym.rounds.protocol.records import FACTORS
from zoo.gym.rounds.rules.aggregate import combine, select
from zoo.gym.rounds.rules.method import AggregationMethod, Rule

SHARED = Path(__file__).parents[2] / "shared" / "data"
SPEAKERS, MODEL = "federated/shakespeare_by_speaker.jsonl", "models/stories260K"

USERS, UNSEEN, PUBLIC = slice(0, 7), slice(7, 13), slice(13, 15)
"""Of the speakers, those with the longest texts first."""

CHARACTERS, WINDOW_TOKENS_READ = 3000, 256
STEPS, RATE, ROWS, TOKENS = 80, 1.5e-3, 8, 128
LIARS = 2
SEEDS = 3

Change = dict[str, NDArray[np.float32]]
Method = AggregationMethod
DEFAULT = Rule(Method.BYZANTINE_ROBUST, LIARS)


@dataclass(frozen=True)
class Setting:
    """The base, and what is measured.

    Attributes:
        policy: the base, all of whose weights can be set.
        base: its weights by name.
        texts: of each speaker, the longest first.
        tokenizer: of the base.
    """

    policy: Policy
    base: Change
    texts: list[str]
    tokenizer: Any

    def bits_per_byte(self, change: Change | None, speakers: slice) -> float:
        """Returns the loss of base plus change on the beginnings of some speakers' texts."""
        self.policy.load_trained(self.base if change is None else _sum(self.base, change))
        texts = [text[:CHARACTERS] for text in self.texts[speakers]]
        rows = [row for text in texts for row in self.rows(text, WINDOW_TOKENS_READ)]
        size = sum(len(text.encode()) for text in texts)
        return held_out(self.policy, rows).nats / math.log(2) / size

    def rows(self, text: str, tokens: int) -> tuple[Example, ...]:
        """Returns the windows of a text."""
        options = EncodeOptions(cutoff_len=tokens, date="2024-07-26")
        record = Record(source="text", kind="text", text=text)
        return encode_records([record], self.tokenizer, options).examples

    def fine_tune(self, speaker: int, seed: int) -> Change:
        """Returns what a speaker's training changes."""
        (whole,) = self.rows(self.texts[speaker], 1 << 20)
        rng = np.random.default_rng((seed, speaker))
        self.policy.load_trained(self.base)
        for _ in range(STEPS):
            starts = rng.integers(0, len(whole.ids) - TOKENS - 1, ROWS)
            rows = [_window(whole, start) for start in starts.tolist()]
            learned = sum(int(row.mask.sum()) for row in rows)
            batch = collate(alone(rows), {WINDOW_TOKENS: float(learned)})
            self.policy.accumulate(SupervisedLoss(), batch, key=0)
            self.policy.optimizer_step(RATE, math.inf)
        return {name: value - self.base[name] for name, value in self.policy.trained()}


def _window(whole: Example, start: int) -> Example:
    part = slice(start, start + TOKENS + 1)
    mask = np.ones(TOKENS + 1, np.bool_)
    mask[0] = False
    return Example(whole.ids[part], mask, whole.source, truncated=False)


def _sum(one: Change, other: Change) -> Change:
    return {name: value + other[name] for name, value in one.items()}


def _times(change: Change, factor: float) -> Change:
    return {name: value * np.float32(factor) for name, value in change.items()}


def _mean(changes: list[Change]) -> Change:
    return {name: np.mean([one[name] for one in changes], axis=0) for name in changes[0]}


def open_setting(shared: Path) -> Setting:
    """Returns the base with all weights to train, and the speakers."""
    lines = (shared / SPEAKERS).read_text(encoding="utf-8").splitlines()
    speakers = sorted(map(json.loads, lines), key=lambda one: -sum(map(len, one["texts"])))
    folder = shared / MODEL
    spec = LoadSpec(train="full", dtype="f32", optimizer=OptimizerSpec(weight_decay=0.0))
    policy = open_engine("cpu").load(folder, spec)
    texts = ["\n\n".join(one["texts"]) for one in speakers]
    return Setting(policy, dict(policy.trained()), texts, load_tokenizer(folder))


def contributions_of(setting: Setting, seed: int) -> list[Change]:
    """Returns what the seven users contribute; each starts with a new optimizer."""
    found: list[Change] = []
    for speaker in range(USERS.stop):
        fresh = open_setting(SHARED) if found else setting
        found.append(fresh.fine_tune(speaker, seed))
    return found


def lies(honest: list[Change], attack: str) -> list[Change]:
    """Returns the contributions when the first two lie."""
    if attack == "honest":
        return honest
    others = honest[LIARS:]
    if attack == "-3 x mean":
        return [_times(_mean(others), -3.0)] * LIARS + others
    if attack == "nearly nothing":
        return [_times(one, 1e-3) for one in honest[:LIARS]] + others
    rng = np.random.default_rng(99)
    spread = float(np.std(np.concatenate([v.ravel() for one in honest for v in one.values()])))
    noise: list[Change] = [
        {
            name: (5 * spread * rng.standard_normal(value.shape)).astype(np.float32)
            for name, value in honest[0].items()
        }
        for _ in range(LIARS)
    ]
    return noise + others


def result(rule: Rule, form: str, sent: list[Change]) -> Change:
    """Returns what a rule makes of contributions in a form of rounds."""
    rows = {name: np.stack([change[name].reshape(-1) for change in sent]) for name in sent[0]}
    contributions = in_form(form, rows)
    selection = select(rule, contributions, threads=1)
    found = {name: np.empty(value.size, np.float32) for name, value in sent[0].items()}
    for piece in combine(selection, contributions, threads=1):
        found[piece.tensor][piece.start : piece.start + piece.values.size] = piece.values
    return {name: value.reshape(sent[0][name].shape) for name, value in found.items()}


def refit(setting: Setting, change: Change) -> Change:
    """Returns a result times the factor that the public texts like best."""
    tried = [_times(change, factor) for factor in FACTORS]
    losses = [setting.bits_per_byte(one, PUBLIC) for one in tried]
    return tried[losses.index(min(losses))]


CASES = (
    ("mean, honest", Rule(Method.MEAN), "float", "honest", False, ""),
    ("default, honest", DEFAULT, "float", "honest", False, "<= 2.64"),
    ("default, honest", DEFAULT, "signs", "honest", True, "<= 2.65"),
    ("mean, -3 x mean", Rule(Method.MEAN), "float", "-3 x mean", False, ">= 3.675"),
    ("default, -3 x mean", DEFAULT, "float", "-3 x mean", False, "<= 2.79"),
    ("default, -3 x mean", DEFAULT, "signs", "-3 x mean", True, "<= 2.81"),
    ("mean, noise x 5", Rule(Method.MEAN), "float", "noise x 5", False, ">= 2.9"),
    ("default, noise x 5", DEFAULT, "float", "noise x 5", False, "<= 2.79"),
    ("default, noise x 5", DEFAULT, "signs", "noise x 5", True, "<= 2.81"),
    ("Krum, nearly nothing", Rule(Method.KRUM, LIARS), "float", "nearly nothing", False, ">= 3.6"),
    ("default, nearly nothing", DEFAULT, "float", "nearly nothing", True, "<= 2.76"),
)
"""Name, rule, form, what the first two send, whether the size is re-fitted, the bar. The means and
Krum are controls: the attacks do harm."""


def measure(seeds: int) -> dict[str, list[float]]:
    """Returns bits per byte of each case, by seed."""
    found: dict[str, list[float]] = {"base": []}
    for seed in range(seeds):
        setting = open_setting(SHARED)
        found["base"].append(setting.bits_per_byte(None, UNSEEN))
        honest = contributions_of(setting, seed)
        for name, rule, form, attack, resized, _ in CASES:
            change = result(rule, form, lies(honest, attack))
            change = refit(setting, change) if resized else change
            loss = setting.bits_per_byte(change, UNSEEN)
            found.setdefault(_title(name, form, refitted=resized), []).append(loss)
    return found


def _title(name: str, form: str, *, refitted: bool) -> str:
    coded = "1 bit" if form == "signs" else "f32"
    return f"{name}, {coded}{' + re-fit' if refitted else ''}"


def run() -> Iterator[Case | Skipped]:
    """Yields the cases, means over the seeds."""
    if not (SHARED / SPEAKERS).is_file():
        yield Skipped("rounds of speakers", "../shared is absent")
        return
    found = measure(SEEDS)
    bars = {_title(name, form, refitted=fit): bar for name, _, form, _, fit, bar in CASES}
    for name, losses in found.items():
        mean = sum(losses) / len(losses)
        yield Case(name, mean, "bits/byte", "1 bit/byte", mean, bars.get(name, ""))
