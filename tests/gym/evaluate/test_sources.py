"""What a word names as a source, and its base."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.delta.lora import write_lora, write_random_adapter
from tests.gym.evaluate.conftest import Call, first_letters, write_rows
from zoo.gym import create_delta
from zoo.gym.delta.origin.record import DIGEST_KEY, ORIGIN_FILE, digest_of
from zoo.gym.errors import GymWarning
from zoo.gym.evaluate import sources
from zoo.gym.evaluate.sources import base_of, resolve_contender
from zoo.gym.jobs.run import Run
from zoo.gym.variants import store
from zoo.models import pico_folder, resolve


def test_an_adapter_is_loaded_on_its_base(place: Path) -> None:
    adapter = write_lora(place / "lora")
    contender = resolve_contender(str(adapter), None)
    assert (contender.adapter, contender.delta) == (adapter, None)
    base = base_of(contender)
    assert base is not None
    assert (base.name, base.base, base.adapter) == ("zen-pico", pico_folder(), None)


def test_a_delta_and_a_stored_variant_are_deltas(place: Path) -> None:
    adapter = write_random_adapter(place / "lora")
    delta = create_delta(adapter, base=pico_folder(), out=place / "ann.safetensors").file
    store.put(delta, resolve("zen-pico", offline=True), "ann")
    for word in (str(delta), "zen-pico:ann"):
        contender = resolve_contender(word, None)
        assert contender.delta is not None
        assert contender.base == pico_folder()


def test_a_model_has_no_base(place: Path) -> None:
    del place
    contender = resolve_contender("zen-pico", None)
    assert base_of(contender) is None
    assert contender.adapter is contender.delta is None


def test_a_base_of_other_weights_is_refused(place: Path) -> None:
    adapter = write_lora(place / "lora", base="absent")
    with raises("tuned.no_base", "base model 'absent' was not found"):
        resolve_contender(str(adapter), None)
    assert resolve_contender(str(adapter), "zen-pico").base == pico_folder()


def test_a_system_prompt_of_another_machine_is_a_warning(place: Path) -> None:
    adapter = write_lora(place / "lora")
    (adapter / ORIGIN_FILE).write_text(json.dumps({DIGEST_KEY: digest_of("Be brief.")}))
    with pytest.warns(GymWarning, match="system prompt that is not on this machine: it is asked"):
        assert resolve_contender(str(adapter), None).system == ""


def test_a_base_that_is_absent_is_said(
    trained: Run, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "base_of", absent)
    outcome = call("eval", "last", "--limit", "2", "--json")
    assert outcome.json["comparisons"] == []
    assert "base 'zen-pico' is not on this machine: not compared" in outcome.stderr


def absent(_: object) -> None:
    """Finds no base."""


def test_data_is_no_source(place: Path) -> None:
    rows = write_rows(place / "my.jsonl", first_letters(2))
    with raises("tuned.data"):
        resolve_contender(str(rows), None)


def test_answers_depend_on_weights_and_system_prompt(trained: Run) -> None:
    tuned = resolve_contender("last", None)
    base = base_of(tuned)
    assert base is not None
    assert tuned.run is not None
    assert tuned.run.id == trained.id
    assert tuned.digests["adapter"] is not None
    assert base.digests["adapter"] is None
    assert base.digests["base"] == tuned.digests["base"]


def test_alone_leaves_the_base_out(trained: Run, call: Call) -> None:
    outcome = call("eval", "last", "--alone", "--limit", "2", "--json")
    results: Any = outcome.json["results"]
    assert {each["source"] for each in results} == {"r0001"}
    assert outcome.json["comparisons"] == []


def test_a_run_under_two_names_is_refused(trained: Run, call: Call) -> None:
    outcome = call("eval", "last", trained.id)
    assert outcome.code == 2
    assert "expected different models, got one twice: 'last' and 'r0001'" in outcome.stderr


def test_several_sources_are_compared_with_the_first(trained: Run, place: Path, call: Call) -> None:
    write_lora(place / "lora")
    outcome = call("eval", "lora", "zen-pico", "r0001", "--limit", "4", "--json")
    assert outcome.code == 0, outcome.stderr
    comparisons: Any = outcome.json["comparisons"]
    assert [(each["first"], each["second"]) for each in comparisons] == [
        ("lora", "zen-pico"),
        ("lora", "r0001"),
    ] * 2  # answers, and the loss
