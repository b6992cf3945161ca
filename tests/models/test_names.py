"""What users write for a model, and what it means."""

import pytest

from tests.codes import raises
from zoo.models import published_names, registry
from zoo.models.names import parse_name


@pytest.mark.parametrize(
    "text",
    [
        "zen-nano",
        "Zen-Nano",
        "zen-nano-0.6b",
        "zenlm/zen-nano-0.6b",
        "qwen3-0.6b",
        "Qwen3-0.6B",
        "Qwen/Qwen3-0.6B",
        "qwen/qwen3-0.6b",
        " zen-nano ",
        "hf.co/Qwen/Qwen3-0.6B",
        "https://huggingface.co/Qwen/Qwen3-0.6B/",
    ],
)
def test_every_spelling_of_zen_nano_means_one_id(text: str) -> None:
    assert parse_name(text).id == "Qwen/Qwen3-0.6B"


@pytest.mark.parametrize("text", ["zen-eco", "qwen3-4b", "Qwen/Qwen3-4B", "zenlm/zen-eco-4b"])
def test_every_spelling_of_zen_eco_means_one_id(text: str) -> None:
    assert parse_name(text).id == "Qwen/Qwen3-4B"


@pytest.mark.parametrize(
    ("text", "model_id", "revision"),
    [
        ("zen-eco@v1.0", "Qwen/Qwen3-4B", "v1.0"),
        ("org/name@refs/pr/3", "org/name", "refs/pr/3"),
        ("https://huggingface.co/org/name/tree/dev", "org/name", "dev"),
        ("https://hf.co/org/name@dev", "org/name", "dev"),
        ("org/name", "org/name", None),
        ("org/name@", "org/name", None),
    ],
)
def test_a_revision_is_kept(text: str, model_id: str, revision: str | None) -> None:
    name = parse_name(text)
    assert (name.id, name.revision) == (model_id, revision)


@pytest.mark.parametrize("text", ["Qwen/Qwen3-4B-Instruct", "qwen3-4b-instruct"])
def test_a_renamed_model_is_used_with_a_notice(text: str) -> None:
    name = parse_name(text)
    assert name.id == "Qwen/Qwen3-4B-Instruct-2507"
    assert name.notice == f"'{text}' is now published as 'Qwen/Qwen3-4B-Instruct-2507'"


@pytest.mark.parametrize(
    ("text", "nearest"), [("Qwen/Qwen3-7B", "Qwen/Qwen3-8B"), ("Qwen3-72B", "Qwen/Qwen3-32B")]
)
def test_a_model_that_was_never_published_is_not_swapped(text: str, nearest: str) -> None:
    with raises("models.unknown_model", f"the nearest is '{nearest}'"):
        parse_name(text)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("zen-nanno", "zen-nano"), ("zen-picco", "zen-pico"), ("mine-llama", "org/mine-llama")],
)
def test_an_unknown_name_is_answered_with_the_nearest(text: str, nearest: str) -> None:
    with raises("models.unknown_model", f"got '{text}'") as caught:
        parse_name(text, ["org/mine-llama"])
    assert caught.value.hint == f"did you mean '{nearest}'?"


@pytest.mark.parametrize("text", ["", "a/b/c", "../up", "org/na me", "org/", "@main", "org/näme"])
def test_what_cannot_be_an_id_is_refused(text: str) -> None:
    with raises("models.unknown_model", "no such model"):
        parse_name(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ollama/qwen3:0.6b", "http://127.0.0.1:11434/v1#qwen3:0.6b"),
        ("LMStudio/qwen/qwen3-4b", "http://127.0.0.1:1234/v1#qwen/qwen3-4b"),
        ("ollama/my;model", "http://127.0.0.1:11434/v1#'my;model'"),
        ("lm-studio:qwen3-4b@q8_0", "http://127.0.0.1:1234/v1#qwen3-4b@q8_0"),
    ],
)
def test_a_model_of_another_program_is_answered_with_its_address(text: str, address: str) -> None:
    with raises("models.of_another_program") as caught:
        parse_name(text)
    assert f" {address};" in str(caught.value.hint)
    assert parse_name("ollama/cached", ["ollama/cached"]).id == "ollama/cached"


def test_the_built_in_model_has_no_revisions() -> None:
    with raises("models.no_such_revision", "expected no revision, got 'v2'"):
        parse_name("zen-pico@v2")


def test_what_is_on_this_machine_is_taken_as_it_is_written() -> None:
    assert parse_name("Qwen/Qwen3-7B", ["Qwen/Qwen3-7B"]).id == "Qwen/Qwen3-7B"


def test_every_published_name_is_understood_or_refused_with_its_nearest() -> None:
    for published in published_names():
        if published.state == "never published":
            with raises("models.unknown_model", published.id):
                parse_name(published.name)
        else:
            assert parse_name(published.name).id == published.id


def test_no_two_models_share_a_name() -> None:
    names = [entry.alias for entry in registry()] + [
        published.name for published in published_names()
    ]
    assert len({name.lower() for name in names}) == len(names)
