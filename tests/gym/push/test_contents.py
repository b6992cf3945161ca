import json
from pathlib import Path
from unicodedata import normalize

import pytest

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.push.conftest import SHAPES
from zoo.gym.delta import create_delta
from zoo.gym.push.contents import Contents, contents_of
from zoo.gym.push.traces import traces_in
from zoo.gym.tuned.source import resolve_tuned


def contents(path: Path) -> Contents:
    return contents_of(resolve_tuned(str(path)))


def sent(found: Contents) -> dict[str, bytes]:
    """Returns what would be sent, by name."""
    return {
        file.name: file.source if isinstance(file.source, bytes) else file.source.read_bytes()
        for file in found.files
    }


def test_only_files_that_a_loader_reads_are_sent(littered: Path) -> None:
    assert sorted(sent(contents(littered))) == [
        *("README.md", "adapter_config.json", "adapter_model.safetensors"),
        "tokenizer_config.json",
    ]


def test_everything_else_is_listed_with_the_reason(littered: Path) -> None:
    assert dict(contents(littered).left_out) == {
        "events.jsonl": "log of a run",
        "notes.md": "no file that a model is loaded from",
        "optimizer.pt": "training state",
        "rows.csv": "may be rows of data",
        "trainer_state.json": "training state",
    }


def test_settings_lose_the_paths_of_this_machine(littered: Path, place: Path) -> None:
    found = contents(littered)
    files = sent(found)
    assert not [name for name, content in files.items() if str(place).encode() in content]
    config = json.loads(files["adapter_config.json"])
    assert config["base_model_name_or_path"] == found.base == "secret_base"
    assert json.loads(files["tokenizer_config.json"]) == {"eos_token": "</s>"}
    assert len(found.changed) == 2


@pytest.mark.parametrize(
    "text",
    [
        *(
            "see {place}/data",
            "~ {home}",
            "hf_" + "b" * 34,
            "hf_" + "b" * 34 + "_",
            "sk-" + "c" * 30,
        ),
        *("github_pat_" + "A1_" * 20, "xoxb-1234567890-abc", "AIza" + "d" * 35, "AKIA" + "B" * 16),
        *("-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----", "glpat-" + "e" * 20),
        "a\\nhf_" + "b" * 34,
    ],
)
def test_a_card_with_something_private_is_refused(text: str, adapter: Path, place: Path) -> None:
    (adapter / "README.md").write_text(text.format(place=place, home=Path.home()))
    with raises("push.private", r"README\.md: expected nothing private"):
        contents(adapter)


def test_the_system_prompt_of_a_run_is_refused(adapter: Path, monkeypatch: object) -> None:
    run = adapter.parent / "home" / "data" / "runs" / "r0001"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("model_name_or_path: zen-pico\ndataset: [a.jsonl]\n")
    (run / "env.json").write_text(json.dumps({"system_prompt": 'You are "Ada".'}))
    adapter.rename(run / "result")
    assert contents(run / "result").base == "zen-pico"
    (run / "result" / "chat_template.jinja").write_text('{{ "You are \\"Ada\\"." }}')
    with raises("push.private", "the system prompt of the run"):
        contents(run / "result")


SYSTEM = 'You are Jürgen\'s "Ada" 🦊.\nBe\tkind.'


@pytest.mark.parametrize(
    "text",
    [
        SYSTEM,
        SYSTEM.replace("\n", "\r\n"),
        SYSTEM.replace("\n", "\n\n  "),
        json.dumps({"a": [SYSTEM]}),
        json.dumps({"a": [SYSTEM]}, ensure_ascii=False),
        json.dumps({"template": "{{ " + json.dumps(SYSTEM) + " }}"}),
        "{{ '" + SYSTEM.replace("'", "\\'").replace("\n", "\\n") + "' }}",
        normalize("NFD", SYSTEM),
    ],
)
def test_a_system_prompt_is_found_however_it_is_written(text: str) -> None:
    assert list(traces_in(f"before {text} after", SYSTEM)) == ["the system prompt of the run"]


@pytest.mark.parametrize("system", ["", "Hi.", " \n" * 9, "a" + " " * 9 + "b"])
def test_a_short_system_prompt_is_not_searched(system: str) -> None:
    assert not list(traces_in("Hi. a b ab", system))


def test_a_path_with_an_umlaut_is_found_in_ascii_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/jürgen")
    assert list(traces_in(json.dumps("/home/jürgen/x"))) == ["the path /home/jürgen"]


def rewrite(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"note": "/data/clients/acme"},
        {"runtime": {"caches": ["/data/cache/acme"]}},
        {"origin": "C:\\Users\\ada\\x"},
    ],
)
def test_a_path_elsewhere_in_the_settings_is_refused(
    changes: dict[str, object], adapter: Path
) -> None:
    rewrite(adapter / "adapter_config.json", **changes)
    with raises("push.private", r"adapter_config\.json: expected no path of this machine"):
        contents(adapter)


def test_tokens_and_templates_are_no_paths(littered: Path) -> None:
    kept = {"eos_token": "/think", "chat_template": "/a/{{ x }}/b", "pattern": "//"}
    rewrite(littered / "tokenizer_config.json", **kept)
    assert json.loads(sent(contents(littered))["tokenizer_config.json"]) == kept


def test_a_path_in_the_head_of_a_card_is_refused(adapter: Path) -> None:
    (adapter / "README.md").write_text("---\nbase_model: /data/acme/base\n---\n")
    with raises("push.private", "got one in base_model"):
        contents(adapter)


def test_metadata_of_weights_is_read(adapter: Path, place: Path) -> None:
    from safetensors.numpy import load_file, save_file

    weights = adapter / "adapter_model.safetensors"
    save_file(load_file(weights), weights, {"made_in": str(place)})
    with raises("push.private", r"adapter_model\.safetensors: expected nothing private"):
        contents(adapter)


def test_a_link_is_refused(adapter: Path, place: Path) -> None:
    (place / "id_rsa").write_text("PRIVATE KEY")
    (adapter / "LICENSE").symlink_to(place / "id_rsa")
    with raises("push.link"):
        contents(adapter)


def test_a_card_that_is_made_has_base_and_no_figure(adapter: Path) -> None:
    card = sent(contents(adapter))["README.md"].decode()
    assert "base_model: secret_base" in card
    assert "no figure was stored" in card


def test_a_card_that_is_there_is_sent_as_it_is(adapter: Path) -> None:
    (adapter / "README.md").write_text("---\nlicense: mit\n---\nmine\n")
    found = contents(adapter)
    assert sent(found)["README.md"] == b"---\nlicense: mit\n---\nmine\n"
    assert found.licence == "mit"


def test_the_base_of_a_model_is_that_of_its_card(place: Path) -> None:
    model = disk.write_model(place / "whole", disk.random_arrays(SHAPES, 0))
    assert contents(model).base is None
    (model / "README.md").write_text("---\nbase_model: org/tiny\nlicense: mit\n---\n")
    assert (contents(model).base, contents(model).licence) == ("org/tiny", "mit")


def test_the_licence_of_a_base_is_that_of_its_card(adapter: Path, place: Path) -> None:
    assert contents(adapter).licence is None
    base = disk.write_model(place / "secret_base", disk.random_arrays(SHAPES, 0))
    (base / "README.md").write_text("---\nlicense: gemma\n---\n")
    found = contents(adapter)
    assert found.licence == "gemma"
    assert b"license: gemma" in sent(found)["README.md"]


def test_a_delta_goes_with_a_card_of_its_measured_figures(adapter: Path, place: Path) -> None:
    base = disk.write_model(place / "secret_base", disk.random_arrays(SHAPES, 0))
    out = place / "one.zdelta"
    create_delta(adapter, base=base, base_id="org/tiny", out=out)
    files = sent(contents(out))
    assert sorted(files) == ["README.md", "one.zdelta"]
    assert files["one.zdelta"] == out.read_bytes()
    card = files["README.md"].decode()
    assert "base_model: org/tiny" in card
    assert "no figure was stored" in card


def test_a_delta_that_names_a_folder_as_its_base_is_refused(adapter: Path, place: Path) -> None:
    base = disk.write_model(place / "secret_base", disk.random_arrays(SHAPES, 0))
    out = place / "one.zdelta"
    create_delta(adapter, base=base, base_id=str(base), out=out)
    with raises("push.private", "expected nothing private"):
        contents(out)


def test_pickles_beside_safetensors_stay_here(place: Path) -> None:
    model = disk.write_model(place / "whole", disk.random_arrays(SHAPES, 0))
    (model / "pytorch_model.bin").write_bytes(b"0")
    found = contents(model)
    assert sorted(sent(found)) == ["README.md", "config.json", "model.safetensors"]
    assert found.left_out == (("pytorch_model.bin", "may run code when it is loaded"),)
