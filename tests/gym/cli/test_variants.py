"""`zoo-gym variants`, from rows to a file that another machine imports."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gym.cli.conftest import Call
from tests.gym.delta.lora import write_lora
from zoo.gym import create_delta
from zoo.gym.cli import train
from zoo.gym.delta import Delta, load_delta
from zoo.gym.delta.file.terms import LowRankTerm
from zoo.gym.jobs import Run, worker
from zoo.gym.variants import store
from zoo.models import resolve

CREATE = ("variants", "create", "--user", "ann", "--base-model", "zen-pico")
TRAIN = (*CREATE, "--dataset", "rows.jsonl", "max_steps=2", "retention=false")


@pytest.fixture
def data(call: Call, tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    rows = ({"prompt": f"Say {n}.", "completion": f"It is {n}."} for n in range(20))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def codecs(delta: Delta) -> set[str]:
    terms = (term for tensor in delta.header.tensors for term in tensor.terms)
    return {term.A for term in terms if isinstance(term, LowRankTerm)}


@pytest.mark.slow
@pytest.mark.usefixtures("near_worker", "data")
def test_a_variant_is_trained_in_one_bit_listed_exported_and_imported(
    call: Call, tmp_path: Path
) -> None:
    made = call(*TRAIN, "--bits", "1", "--json")
    assert made.code == 0, made.stderr
    assert made.json["variant"] == "zen-pico:ann"
    delta = load_delta(Path(str(made.json["file"])))
    assert codecs(delta) == {"sign"}
    assert delta.header.quality is not None
    assert delta.header.quality.kl == pytest.approx(0, abs=1e-3)  # it was trained in its codes
    assert call("variants", "create", "--user", "bob", "--run", "last").code == 0
    assert codecs(load_delta(store.find("bob").file)) == {"sign"}

    first = call("variants", "list", "--limit", "1", "--json").json
    assert (first["variants"], first["more"]) == (
        [{k: made.json[k] for k in made.json if k != "run"}],
        True,
    )
    assert call("variants", "list", "--after", "zen-pico:ann").stdout.startswith("zen-pico:bob  ")
    shown = call("variants", "show", "bob").stdout
    assert "held-out" in shown
    assert "zen-pico:bob" in shown
    assert call("variants", "rename", "bob", "ben").stdout == "zen-pico:ben\n"
    assert call("variants", "export", "ben", "--out", "b.safetensors").code == 0
    assert call("variants", "remove", "ben").code == 2
    assert call("variants", "remove", "ben", "--yes").code == 0
    assert call("variants", "show", "ben").code == 4
    assert call("variants", "import", "b.safetensors", "--user", "ben").code == 0
    assert store.find("ben").file.read_bytes() == (tmp_path / "b.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("data")
def test_a_killed_run_that_is_resumed_becomes_the_variant(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[Run] = []
    monkeypatch.setattr(worker, "stop_on_signals", lambda _: None)
    monkeypatch.setattr("zoo.gym.cli.train.launch", launched.append)
    assert call(*TRAIN, "--detach").code == 0
    assert call("variants", "list").stdout == ""
    assert worker.main([str(launched[0].folder)]) == 0  # as `runs resume` starts it
    assert store.find("ann").file.is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("near_worker", "data")
def test_a_name_that_is_taken_during_the_training_loses_nothing(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lora, base = write_lora(tmp_path / "lora"), resolve("zen-pico", offline=True)
    other = create_delta(lora, base=base.folder, out=tmp_path / "other.safetensors").file
    launch: Callable[[Run], int] = vars(train)["launch"]

    def launch_late(run: Run) -> int:
        store.put(other, base, "ann")
        return launch(run)

    monkeypatch.setattr(train, "launch", launch_late)
    late = call(*TRAIN, "--json")
    assert late.code == 2
    run = str(late.json["run"])
    assert f"hint: zoo-gym variants create --run {run} --user NAME" in late.stderr
    assert store.find("ann").file.read_bytes() == other.read_bytes()
    early = call(*TRAIN)
    assert (early.code, "variant 'zen-pico:ann': already exists" in early.stderr) == (2, True)
    assert call("variants", "create", "--user", "ann", "--run", run, "--replace").code == 0
    assert store.find("ann").file.read_bytes() != other.read_bytes()
    assert not list((tmp_path / "home" / "data" / "runs" / run).glob("*.safetensors"))


REFUSED = [
    ((*TRAIN[2:], "--bits", "3"), 2, "bits"),
    (("--dataset", "rows.jsonl", "--base-model", "zen-pico"), 2, "--user: expected"),
    (("--user", "../ann", *TRAIN[4:]), 2, "user: expected 1 to 64"),
    ((*TRAIN[2:], "finetuning_type=full"), 2, "finetuning_type: expected a plain LoRA adapter"),
    ((*TRAIN[2:], "use_dora=true"), 2, "use_dora: expected a plain LoRA adapter"),
    ((*TRAIN[2:], "stage=rm"), 2, "expected"),
    ((*TRAIN[2:], "--safety-threshold", "2"), 2, "safety_threshold: expected a number from 0 to 1"),
    (("--user", "ann", "--run", "r0001"), 4, "run"),
    (("--user", "ann", "--run", "last", "rows.jsonl"), 2, "ITEM: has no effect with --run"),
    (("--user", "ann", "--run", "last", "--seed", "1"), 2, "--seed: has no effect with --run"),
    (("--user", "ann", "--delta", "d", "--bits", "1"), 2, "--bits: has no effect with --delta"),
    (("--user", "ann", "--delta", "d", "--run", "last"), 2, "--run: has no effect with --delta"),
    (("--user", "ann", "--delta", "none.safetensors"), 4, "none.safetensors"),
    (("--user", "ann", "--delta", "rows.jsonl"), 2, "rows.jsonl"),
]


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(("words", "code", "said"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_makes_no_variant_is_refused(
    call: Call, words: tuple[str, ...], code: int, said: str
) -> None:
    refused = call("variants", "create", *words)
    assert (refused.code, said in refused.stderr) == (code, True), refused.stderr
    assert call("runs", "list").stdout == ""
