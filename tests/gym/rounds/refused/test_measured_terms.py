"""What a gate could never measure is refused by `round create`, before anybody contributes."""

import json
from pathlib import Path

import pytest

from tests.gym.cli.test_communities import rows_for
from tests.gym.rounds.refused.conftest import Person, check_refused, start
from tests.gym.rounds.refused.test_terms import GIVEN
from zoo.gym.delta.create import create_delta
from zoo.gym.rounds.measure.examples import show
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import describe

ROWS = [{"prompt": f"{number}?", "completion": "yes"} for number in range(10)]


def written(file: str) -> str:
    """Writes rows that can be held out, re-fitted on and used as probes."""
    rows = [json.dumps({**row, "target": "yes"}) for row in ROWS]
    Path(file).write_text("\n".join(rows) + "\n")
    return file


def refused(person: Person, said: str, *more: str, code: int = 2) -> None:
    """Holds `round create` to a refusal after which there is no round."""
    rest = [word for pair in GIVEN.items() for word in pair]
    found = person("maker", "round", "create", "tiny", "--base", "base", *rest, *more)
    check_refused(found, code, said)
    assert not Path("round").exists()


@pytest.mark.parametrize("name", ["prompts", "prompts.p1", "prompts.", "prompts.toolongasasuffix"])
@pytest.mark.parametrize("option", ["--evaluation", "--refit", "--refusals", "--triggers"])
def test_a_file_that_no_record_can_show_is_refused(name: str, option: str, person: Person) -> None:
    rows_for(Path("base"), "rows.jsonl", 10)
    given = () if option == "--evaluation" else ("--evaluation", "rows.jsonl")
    said = f"{written(name)}: expected a name with a suffix of 1 to 10 letters, as .jsonl, got "
    refused(person, said, *given, option, name)


@pytest.mark.parametrize("option", ["--evaluation", "--refit"])
def test_an_empty_file_of_examples_is_refused(option: str, person: Person) -> None:
    Path("rows.jsonl").touch()
    refused(person, "rows.jsonl: empty file: expected examples, got none", option, "rows.jsonl")


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a.JSONL", ".jsonl"), ("a.csv.gz", ".csv"), ("a.gz", ".gz"), ("a.b.parquet", ".parquet")],
)
def test_a_shown_file_has_the_suffix_by_which_it_is_read(
    name: str, suffix: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text("rows")
    assert show(file, "evaluation", FolderStorage(tmp_path / "round")).suffix == suffix


@pytest.mark.parametrize("option", ["--evaluation", "--refit"])
def test_rows_that_nobody_else_could_read_are_refused(option: str, person: Person) -> None:
    rows_for(Path("base"), "rows.jsonl", 10)
    text = Path("rows.jsonl").read_text()
    Path("rows.jsonl").write_text(text.replace("prompt", "q").replace("completion", "a"))
    columns = {"columns": {"prompt": "q", "response": "a"}}
    described = {"ours": {"file_name": "rows.jsonl", **columns}}
    Path("dataset_info.json").write_text(json.dumps(described))
    said = "rows.jsonl: expected rows that are read alone, got a file that"
    refused(person, said, option, "rows.jsonl")


def test_a_last_result_that_is_no_delta_is_refused(person: Person) -> None:
    rows_for(Path("base"), "rows.jsonl", 10)
    Path("README.md").write_text("# the last result\n")
    given = ("--evaluation", "rows.jsonl", "--previous", "README.md")
    refused(person, "README.md: not a safetensors file, or a damaged one", *given)


def test_a_last_result_of_another_base_is_refused(person: Person) -> None:
    rows_for(Path("base"), "rows.jsonl", 10)
    create_delta("ben", base="ann", out="last.safetensors")
    given = ("--evaluation", "rows.jsonl", "--previous", "last.safetensors")
    refused(person, "last.safetensors belongs to another base: expected 'ann'", *given)


def test_a_last_result_of_the_base_is_taken(person: Person) -> None:
    rows_for(Path("base"), "rows.jsonl", 10)
    create_delta("ann", base="base", out="last.safetensors")
    start(person, "--evaluation", "rows.jsonl", "--previous", "last.safetensors")
    terms = json.loads(Path("round/manifest.json").read_text())["body"]
    assert terms["previous"] == describe(Path("last.safetensors"))[0].digest


VALIDATORS = {
    "foo": "expected module:function, got 'foo'",
    "foo:": "expected module:function, got 'foo:'",
    ":foo": "expected module:function, got ':foo'",
    "a:b:c": "expected module:function, got 'a:b:c'",
    "a b:c": "expected module:function, got 'a b:c'",
    "checks.py:ours": "expected module:function, got 'checks.py:ours'",
    "lib/checks:ours": "expected module:function, got 'lib/checks:ours'",
    "a:b\n": "expected module:function",
    f"a:{'b' * 200}": "expected module:function",
}


@pytest.mark.parametrize("name", VALIDATORS)
def test_a_validator_that_cannot_be_found_is_refused(name: str, person: Person) -> None:
    rows_for(Path("base"), "rows.jsonl", 10)
    said = f"--validator: {VALIDATORS[name]}"
    refused(person, said, "--evaluation", "rows.jsonl", "--validator", name)


@pytest.mark.parametrize("option", ["--refusals", "--triggers"])
def test_prompts_that_the_base_cannot_read_are_refused(option: str, person: Person) -> None:
    rows_for(Path("base"), "rows.jsonl", 10)
    Path("prompts.jsonl").write_text(json.dumps({"prompt": "a\ud800", "target": "b"}))
    given = ("--evaluation", "rows.jsonl", option, "prompts.jsonl")
    refused(person, "prompts.jsonl: prompt 1: expected one that the base can read, got", *given)


def test_what_is_held_out_chooses_no_size(person: Person) -> None:
    rows_for(Path("base"), "rows.jsonl", 10)
    said = "refit: expected other examples than those held out, got the same"
    refused(person, said, "--evaluation", "rows.jsonl", "--refit", "rows.jsonl")
