"""`zoo-gym experience distill` on zen-pico: lessons become weights, in a run like others."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.chat_server import chat_server
from tests.codes import raises
from tests.gym.experience.conftest import Call
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec
from zoo.gym.config import load_config
from zoo.gym.delta import load_delta
from zoo.gym.errors import InterruptedRunError
from zoo.gym.experience import store
from zoo.gym.experience.distilling.method import Lessons, LessonsConfig
from zoo.gym.experience.distilling.start import prepare
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.settings import DistillationConfig
from zoo.gym.jobs import open_run, run_folders
from zoo.gym.train.plan import Plan
from zoo.models import pico_folder

LESSONS = Library((Item("Answer in one word."), Item("Write small letters.")), "zen-pico")
FAST = ("max_steps=2", "lora_rank=2", "val_size=2", "lora_target=q_proj")
WORDS = ("--model", "zen-pico", "--max-new-tokens", "4", "--json")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    store.save("words", LESSONS)
    Path("long.py").write_text("def score(query, response):\n    return len(response) / 10\n")


def tasks(count: int, answer: str = "a") -> str:
    rows = [{"prompt": f"say {n}", "answer": answer} for n in range(count)]
    Path("tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "tasks.jsonl"


def method(folder: Path, **more: Any) -> Lessons:
    """Returns the method with a policy, on three prompts."""
    from zoo.gym.train.rows import prepare_rows

    library = store.load("words").path
    given = {"model_name_or_path": "zen-pico", "stage": "lessons", "lessons": str(library)}
    given |= {"dataset": tasks(3), "max_completion_length": "5", "date": "2026-01-01"}
    config = load_config([], [], {**given, "val_size": "0", **more}).config
    assert isinstance(config, LessonsConfig)
    spec = LoadSpec(train=LoraSpec(rank=2), dtype="f32")
    policy = load_backend("cpu").load(pico_folder(), spec)
    rows = prepare_rows(config, pico_folder())
    made = Lessons(policy, Plan(config, 1, 3, 0, ()), rows.train, (), folder)
    made.prepare()
    return made


def log_softmax(logits: Any) -> Any:
    logits = np.asarray(logits, dtype=np.float64)
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


@pytest.mark.slow
def test_the_loss_is_the_divergence_from_the_base_with_lessons(tmp_path: Path) -> None:
    made = method(tmp_path)
    window = made.window(1)
    found = made.policy.score(
        replace(window.batches[0]), made.objective.needs, teacher=made.teacher
    )
    [kl_BT] = [value for stat, value in found.items() if "kl" in stat.value]
    batch = window.batches[0]
    assert batch.teacher is not None
    own, theirs = batch.ids_BT[0], batch.teacher.ids_BT[0]
    start = int(batch.loss_mask_BT[0].argmax())
    lead = int(batch.teacher.loss_mask_BT[0].argmax())
    assert own[start] == theirs[lead]
    text = made.tokenizer.decode(theirs[:lead].tolist())
    assert all(item.text in text for item in LESSONS.items)
    p, q = (
        log_softmax(made.policy.logits(ids[:end].tolist())[-1])
        for ids, end in ((own, start), (theirs, lead))
    )
    assert kl_BT[0, start] == pytest.approx(float((np.exp(p) * (p - q)).sum()), rel=1e-3)


@pytest.mark.slow
def test_a_row_that_the_teacher_cannot_read_is_refused_by_name(tmp_path: Path) -> None:
    words = " ".join(["word"] * 28)
    long = Library(tuple(Item(f"Lesson {n}: {words}.") for n in range(40)))
    store.save("words", long)
    with raises("experience.prompt_too_long", r"tasks.jsonl:\d: with the lessons and an answer"):
        method(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_lessons_become_an_adapter_and_a_delta_with_evidence(call: Call) -> None:
    words = (*WORDS, "--test-draws", "1", "--reward", "long.py:score", *FAST)
    told = call("experience", "distill", "words", tasks(40), *words)
    assert told.code == 0, told.stderr
    measured: Any = told.json["measured"]
    assert {way: one["tasks"] for way, one in measured.items()} == dict.fromkeys(
        ("library", "adapter", "delta"), 20
    )
    run = open_run("last")
    header = load_delta(run.folder / "model.delta.safetensors").header
    assert header.recipe["lessons"] == store.load("words").digest
    assert header.recipe["evidence"]["effect"] == measured["delta"]["effect"]  # type: ignore[index,call-overload]
    assert json.loads((run.folder / "report.json").read_text())["verdict"] == told.json["verdict"]


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_a_run_that_ends_while_it_measures_does_not_train_again(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise InterruptedRunError("stopped between calls; all answers are kept")

    words = (*WORDS, "--test-draws", "1", "--reward", "long.py:score", *FAST)
    with monkeypatch.context() as patched:
        patched.setattr("zoo.gym.experience.distilling.session.compare", stopped)
        assert call("experience", "distill", "words", tasks(40), *words).code == 5
    monkeypatch.setattr("zoo.gym.experience.distilling.session._train", stopped)
    result = call("runs", "resume", "last", "--json")
    assert (result.code, result.json["state"]) == (0, "done"), result.stderr
    assert len(result.json["measured"]) == 3  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_rewarded_answers_are_learned_without_the_lessons(call: Call) -> None:
    def respond(body: Any, number: int) -> str:
        told = body["messages"][0]["content"]
        return ("good" if number % 2 else "no") if "one word" in told else "bare"

    with chat_server(respond) as server:
        words = (*WORDS, "--reward", "exact", "--teacher", f"{server.url}#m", "max_steps=1")
        told = call("experience", "distill", "words", tasks(12, "good"), *words, "lora_rank=2")
    assert (told.code, told.json["verdict"]) == (0, "unproven"), told.stderr
    assert told.json["spent_usd"] == 0
    [run] = run_folders()
    rows = [json.loads(line) for line in run.rows_file.read_text().splitlines()]
    assert {row["messages"][-1]["content"] for row in rows} == {"good"}
    assert "one word" not in run.rows_file.read_text()


def test_what_cannot_be_distilled_is_refused_by_name(call: Call) -> None:
    few = tasks(3)
    for words, part in (
        (("nothing", few, *WORDS), "no library 'nothing'"),
        (("words", few), "--model"),
        (("words", *WORDS), "TASKS: expected"),
        (("words", few, *WORDS, "--teacher", "zen-nano"), "teacher: expected a model on a server"),
        (("words", few, *WORDS, "num_processes=2"), "num_processes"),
        (("words", few, *WORDS, "lesons=a"), "lesons"),
    ):
        result = call("experience", "distill", *words)
        assert result.code in (2, 4)
        assert part in result.stderr


@pytest.mark.parametrize(
    "change",
    [
        "seed=7",
        "lessons=wrap.json",
        "group_size=8",
        "num_generations=8",
        "temperature=0.5",
        "model_name_or_path=zen-nano",
        "base_model=zen-nano",
        "stage=grpo",
        "max_completion_length=9",
        "max_new_tokens=9",
        "dataset_dir=elsewhere",
    ],
)
def test_a_setting_of_a_distillation_itself_is_refused(change: str, call: Call) -> None:
    result = call("experience", "distill", "words", tasks(3), *WORDS, change)
    assert result.code == 2
    assert f"{change}: expected a setting of the training alone" in result.stderr
    assert run_folders() == []


@pytest.mark.parametrize("cap", ["--max-usd", "--max-tokens"])
def test_a_cap_without_a_teacher_is_refused(cap: str, call: Call) -> None:
    result = call("experience", "distill", "words", tasks(3), *WORDS, cap, "100")
    assert result.code == 2
    assert "has no effect without --teacher" in result.stderr


def test_the_training_of_a_distillation_has_given_settings(call: Call) -> None:
    config = DistillationConfig(model="zen-pico", seed=7)
    changes = ["max_steps=3", "learning_rate=0.5", "logging_steps=5"]
    made = prepare(config, "words", [Path(tasks(3))], changes)
    assert (made.training.max_steps, made.training.learning_rate, made.training.seed) == (3, 0.5, 7)
    idle = [
        note for note in made.notes if note.startswith("without effect: logging_steps (key=value)")
    ]
    assert len(idle) == 1, made.notes
