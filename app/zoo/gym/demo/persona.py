"""The demo's second part: smollm2 learns who it is, and keeps what it knew.

40 short rows of ours name the assistant; every setting is a default. Five questions are asked of
the base, the fine-tune and its delta, two of them general. Without smollm2 on this machine there is
no second part.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from zoo.gym.config import TrainConfig
from zoo.gym.files import write_beside
from zoo.gym.retention.compare import sentence_of

if TYPE_CHECKING:
    from zoo.models import Resolved

MODEL = "smollm2"
MAKER = "the zoo-gym demo"
ROWS = Path(__file__).parent / "identity.jsonl"

QUESTIONS = (
    "Who are you?",
    "May I ask your name?",
    "Who built you?",
    "What is the capital of France?",
    "Name three fruits.",
)
"""Three about itself, the second and third not among the rows, and two general ones."""

ANSWER_TOKENS = 24
SHOWN = 60
"""Characters of an answer that are shown."""


@dataclass(frozen=True)
class Persona:
    """What the second part measured.

    Attributes:
        name: what the model is called now.
        answers: of base, fine-tune and delta, one to each question.
        retention: the figures of the run, None if the base answers too little.
        delta_bytes: the size of the delta's file.
    """

    name: str
    answers: dict[str, tuple[str, ...]]
    retention: dict[str, Any] | None
    delta_bytes: int

    def as_json(self) -> dict[str, object]:
        """Returns it as the command prints it."""
        answers = {who: list(texts) for who, texts in self.answers.items()}
        return {
            "name": self.name,
            "questions": list(QUESTIONS),
            "answers": answers,
            "retention": self.retention,
            "delta_bytes": self.delta_bytes,
        }


def write_rows(path: Path, name: str) -> Path:
    """Writes the 40 rows with the name in them."""
    lines = ROWS.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        for turn in row["messages"]:
            turn["content"] = turn["content"].replace("{name}", name).replace("{maker}", MAKER)
    write_beside(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def teach_name(base: "Resolved", folder: Path, name: str, say: Callable[[str], None]) -> Persona:
    """Trains smollm2 on the rows, compresses the result, and asks all three the questions.

    Args:
        base: smollm2.
        folder: where the rows and the delta are written.
        name: what the model is to be called.
        say: prints a line.
    """
    from zoo.gym.chat import generate
    from zoo.gym.delta import create_delta
    from zoo.gym.published.api import run_training

    say("")
    say(f"{MODEL} (SmolLM2-135M-Instruct in 4 bits) learns that its name is {name}, from 40 rows.")
    data = write_rows(folder / "identity.jsonl", name)
    config = TrainConfig(model_name_or_path=MODEL, dataset=str(data), offline=True)
    result = run_training(config)
    retention = result.metrics.get("retention")
    figures = cast("dict[str, Any]", retention) if isinstance(retention, dict) else None
    retained = sentence_of(figures) if figures else "retention was not measured"
    say(f"run {result.run}, {result.metrics['steps']} steps: {retained}")
    file = folder / f"{MODEL}-2bit.safetensors"
    report = create_delta(result.model, base=base.folder, base_id=MODEL, out=file, force=True)
    ways: dict[str, tuple[Path | None, Path | None]] = {
        "base": (None, None),
        "tuned": (result.model, None),
        "delta": (None, file),
    }
    answers = {
        who: tuple(
            generate(
                base.folder,
                QUESTIONS,
                adapter=adapter,
                delta=delta,
                max_new_tokens=ANSWER_TOKENS,
            )
        )
        for who, (adapter, delta) in ways.items()
    }
    return Persona(name, answers, figures, report.file_bytes)


def lines_of(persona: Persona) -> list[str]:
    """Returns the questions with the three answers, a line each."""
    lines = [""]
    for index, question in enumerate(QUESTIONS):
        lines.append(question)
        lines += [f"  {who:5} {_short(texts[index])}" for who, texts in persona.answers.items()]
    lines.append(f"The delta has {persona.delta_bytes:,} bytes.")
    return lines


def missed_names(persona: Persona) -> Sequence[str]:
    """Returns a message for each model that does not say its name."""
    return [
        f"{who}: expected the name {persona.name!r} in an answer, got {persona.answers[who][1]!r}"
        for who in ("tuned", "delta")
        if persona.name.lower() not in persona.answers[who][1].lower()
    ]


def _short(answer: str) -> str:
    line = " ".join(answer.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
