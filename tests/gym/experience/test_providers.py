"""Servers by name: the table, the user's file, keys, and the command that tries them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import Odd, chat_server
from tests.codes import raises
from tests.gym.cli.conftest import Call, call  # noqa: F401  # pyright: ignore[reportUnusedImport] - a fixture
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.experience.models import cap_of, named_models
from zoo.gym.experience.providers.names import hosted, require_consent
from zoo.gym.experience.providers.table import Price, change_provider, providers
from zoo.gym.experience.settings import ExperienceConfig

Keep = Callable[[str, str], None]

CANARY = "sk-canary-0123456789"
PRICE = {"input": 1, "output": 2, "date": "2026-01-01"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("name", "host", "model"),
    [
        ("deepseek/v3.1-terminus", "api.deepseek.com", "v3.1-terminus"),
        ("openai:gpt-x", "api.openai.com", "gpt-x"),
        ("openrouter/org/name:free", "openrouter.ai", "org/name:free"),
        ("http://127.0.0.1:8080/v1#q/w", "127.0.0.1:8080", "q/w"),
    ],
)
def test_an_id_names_a_model_on_a_server(name: str, host: str, model: str) -> None:
    found = hosted(name)
    assert found is not None
    assert (found.host, found.model, found.id) == (host, model, name)


@pytest.mark.parametrize("name", ["zen-nano", "Qwen/Qwen3-4B", "./folder", "C:\\models\\a"])
def test_other_names_are_models_of_this_machine(name: str) -> None:
    assert hosted(name) is None


@pytest.mark.parametrize("name", ["http://127.0.0.1/v1", "deepseek/", "http://example.org/v1#m"])
def test_an_id_that_names_no_model_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        hosted(name)


@pytest.mark.parametrize(
    ("name", "meant"), [("deepsek/v3", "deepseek/v3"), ("openrouterr:m", "openrouter:m")]
)
def test_a_slip_in_the_name_of_a_server_is_corrected(name: str, meant: str) -> None:
    with raises("experience.unknown_server", f"Did you mean '{meant}'?"):
        hosted(name)


def test_a_slip_in_a_price_is_corrected(call: Call) -> None:  # noqa: F811
    result = call("providers", "set", "home", "url=http://127.0.0.1:9/v1", "m.inptu=0.3")
    assert (result.code, "Did you mean 'input'?" in result.stderr) == (2, True)
    assert "home" not in providers()


def test_the_hub_has_organisations_with_names_like_a_server() -> None:
    assert hosted("deepseek-ai/DeepSeek-V3") is None


@pytest.mark.parametrize("url", [f"https://u:{CANARY}@a.b/v1", f"https://a.b/v1?key={CANARY}"])
def test_a_key_in_an_address_without_a_model_is_not_shown(url: str) -> None:
    with raises("experience.no_model_name", "behind '#', got none") as caught:
        hosted(url)
    assert CANARY not in str(caught.value)


def test_a_setting_changes_a_shipped_server_and_leaves_the_rest() -> None:
    change_provider("deepseek", {"url": "http://127.0.0.1:9/v1/"})
    found = providers()["deepseek"]
    assert (found.url, found.key) == ("http://127.0.0.1:9/v1", "DEEPSEEK_API_KEY")
    change_provider("deepseek", {"url": None, "concurrency": 2})
    assert providers()["deepseek"].url == "https://api.deepseek.com/v1"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": "http://example.org/v1"}, "mine: url: "),
        ({"url": "https://a.b/v1", "key": CANARY}, "expected the name of an environment variable"),
        ({"url": "https://a.b/v1", "api_key": CANARY}, "mine: api_key: no such setting"),
        ({"url": "https://a.b/v1", "concurrency": 0}, "mine: concurrency: "),
        ({"url": "https://a.b/v1", "prices": {"m": {"input": 1}}}, "mine: prices"),
        ({}, "mine: url: not given"),
    ],
)
def test_a_wrong_setting_is_refused_without_showing_a_key(
    fields: dict[str, object], said: str, home: Path
) -> None:
    with pytest.raises(InputError) as caught:
        change_provider("mine", fields)
    assert said in str(caught.value)
    assert CANARY not in str(caught.value)
    assert not (home / "config" / "providers.yaml").exists()


def test_a_price_counts_cached_tokens_apart() -> None:
    # 38M in, 77 % of them cached, 6.6M out at the list of 2025-09: 4.89 + 2.05 + 11.09
    price = Price(input=0.56, cached=0.07, output=1.68, date="2025-09-05")
    assert round(price.usd(38_000_000, 29_260_000, 6_600_000), 2) == 18.03


def test_a_key_is_needed_for_another_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    far = hosted("deepseek/m")
    assert far is not None
    with raises("experience.no_key", "DEEPSEEK_API_KEY, got none") as caught:
        far.key()
    assert caught.value.code == "experience.no_key"
    change_provider("deepseek", {"url": "http://127.0.0.1:9/v1"})
    near = hosted("deepseek/m")
    assert near is not None
    assert not near.key()


def test_the_keyring_has_the_key_if_the_environment_has_none(
    keyring: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    keyring("DEEPSEEK_API_KEY", CANARY)
    far = hosted("deepseek/m")
    assert far is not None
    assert far.key().headers() == {"Authorization": f"Bearer {CANARY}"}
    monkeypatch.setenv("DEEPSEEK_API_KEY", "of-the-environment")
    assert far.key().headers() == {"Authorization": "Bearer of-the-environment"}


def test_a_keyring_without_the_key_has_a_hint_to_set_it(
    keyring: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    keyring("ANOTHER_API_KEY", CANARY)
    far = hosted("deepseek/m")
    assert far is not None
    with raises("experience.no_key") as caught:
        far.key()
    assert "keyring set zoo-gym DEEPSEEK_API_KEY" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("fault", "said"),
    [("KeyringLocked", "cannot be read: KeyringLocked"), ("NoKeyringError", "got none")],
)
def test_a_keyring_that_fails_is_a_sentence_without_its_words(
    fault: str, said: str, keyring: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    keyring("DEEPSEEK_API_KEY", CANARY)  # and it stands in the failure's message
    monkeypatch.setenv("FAKE_KEYRING_FAULT", fault)
    far = hosted("deepseek/m")
    assert far is not None
    with pytest.raises(NotAvailableError, match=said) as caught:
        far.key()
    assert CANARY not in repr(caught.value)


def test_servers_are_listed_with_the_place_of_their_key(
    call: Call,  # noqa: F811
    keyring: Keep,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keyring("DEEPSEEK_API_KEY", CANARY)
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    result = call("providers", "list", "--json")
    listed: Any = result.json["providers"]
    found = {one["name"]: (one["key_is_set"], one["key_from"]) for one in listed}
    nowhere = (False, None)
    assert found["deepseek"] == (True, "keyring")
    assert (found["openai"], found["openrouter"]) == ((True, "environment"), nowhere)
    assert CANARY not in result.stdout + result.stderr


def test_a_host_is_asked_about_once_and_loopback_never() -> None:
    asked: list[str] = []

    def confirm(question: str) -> bool:
        asked.append(question)
        return True

    models = [hosted("deepseek/a"), hosted("deepseek/b"), hosted("http://127.0.0.1:9/v1#m")]
    for _ in range(2):
        require_consent([one for one in models if one], "Tasks leave.", confirm)
    assert asked == ["Tasks leave. Send to api.deepseek.com? [y/N] "]


def test_without_consent_nothing_is_sent() -> None:
    far = hosted("deepseek/a")
    assert far is not None
    with raises("experience.no_consent", "because tasks leave") as caught:
        require_consent([far], "Tasks leave.", lambda _: False)
    assert caught.value.code == "experience.no_consent"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"teacher": "openai/b"}, "does not cover openai/b"),
        ({"model": "openai/b", "max_usd": 1.0}, "does not cover openai/b"),
        ({"model": "capped/a"}, "does not cover capped/a"),
    ],
    ids=["teacher without a price", "cap without a price", "cap of a provider"],
)
def test_a_cap_in_money_counts_every_model_or_is_refused(more: dict[str, Any], said: str) -> None:
    change_provider("deepseek", {"prices": {"a": PRICE}})
    change_provider("capped", {"url": "https://a.b/v1", "max_usd": 2})
    config = ExperienceConfig.model_validate({"model": "deepseek/a", "max_tokens": 10**6} | more)
    with raises("experience.no_price", said):
        cap_of(config, named_models(config))
    alone = ExperienceConfig(model="deepseek/a")
    assert cap_of(alone, named_models(alone)).usd == 5


@pytest.mark.parametrize(("prices", "cap"), [({}, None), ({"*": PRICE}, 5)], ids=["free", "priced"])
def test_a_server_of_this_machine_has_a_cap_if_it_has_a_price(
    prices: dict[str, Any], cap: float | None
) -> None:
    change_provider("proxy", {"url": "http://127.0.0.1:1/v1", "prices": prices})
    config = ExperienceConfig(model="proxy/a")
    assert cap_of(config, named_models(config)).usd == cap


def test_a_check_shows_what_a_model_says(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("MINE_API_KEY", CANARY)
    with chat_server(lambda _, __: Odd(text=f"yes {CANARY}")) as server:
        made = call("providers", "set", "mine", f"url={server.url}", "key=MINE_API_KEY", "--json")
        priced = call("providers", "set", "mine", "org/m.input=0.5", "org/m.output=2", "--json")
        result = call("providers", "check", "mine/org/m", "--json")
        sent = server.headers[0]["Authorization"]
    assert (made.code, priced.code, result.code) == (0, 0, 0)
    assert (result.json["text"], sent) == ("yes [key]", f"Bearer {CANARY}")
    assert result.json["completion_tokens"] == 6  # 24 bytes before the key is removed
    price = result.json["price"]
    assert isinstance(price, dict)
    assert (price["input"], price["output"]) == (0.5, 2)
    assert CANARY not in result.stdout + result.stderr


def test_a_key_is_no_option(call: Call) -> None:  # noqa: F811
    result = call("providers", "set", "deepseek", f"key={CANARY}", "--json")
    assert result.code == 2
    assert CANARY not in result.stdout + result.stderr
    listed = call("providers", "list", "--json")
    assert [one["name"] for one in listed.json["providers"]] == ["deepseek", "openai", "openrouter"]  # type: ignore[attr-defined]


def test_a_bare_key_among_settings_is_not_shown(call: Call) -> None:  # noqa: F811
    result = call("providers", "set", "mine", CANARY, "--json")
    assert result.code == 2
    assert "expected KEY=VALUE" in result.stderr
    assert CANARY not in result.stdout + result.stderr
