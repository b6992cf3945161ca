"""Finding a model: built in, in a folder, in the cache, on a hub of our own."""

import hashlib
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from tests.codes import raises
from zoo.core.errors import NotAvailableError
from zoo.models import cache_folder, cached_ids, pico_folder, resolve

if TYPE_CHECKING:
    from tests.models.conftest import FakeHub, PutInCache

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WANTED_BYTES = 23 + 2 + 5_010  # config.json, tokenizer.json, model.safetensors


def yes(model_id: str, size_bytes: int) -> bool:
    """Consents to every download."""
    return bool(model_id and size_bytes)


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to connect or to look up a host fails the test."""

    def refuse(*_args: Any, **_kwargs: Any) -> None:
        pytest.fail("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_sockets", "cache")
def test_zen_pico_comes_with_the_package() -> None:
    found = resolve("zen-pico")
    assert (found.id, found.revision, found.folder) == ("zen-pico", None, pico_folder())


@pytest.mark.usefixtures("no_sockets")
def test_a_model_in_the_cache_is_found_without_network(put_in_cache: "PutInCache") -> None:
    snapshot = put_in_cache("Qwen/Qwen3-0.6B")
    found = resolve("zen-nano")
    assert (found.id, found.revision, found.folder) == ("Qwen/Qwen3-0.6B", COMMIT, snapshot)


@pytest.mark.usefixtures("no_sockets")
@pytest.mark.parametrize("revision", ["main", COMMIT])
def test_a_cached_revision_is_found(put_in_cache: "PutInCache", revision: str) -> None:
    snapshot = put_in_cache()
    assert resolve(f"org/tiny@{revision}").folder == snapshot


@pytest.mark.usefixtures("no_sockets", "cache")
@pytest.mark.parametrize("variable", ["", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_makes_no_connection(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    if variable:
        monkeypatch.setenv(variable, "1")
    match = r"'Qwen/Qwen3-0\.6B' is not on this machine"
    with raises("models.offline", match) as caught:
        resolve("zen-nano", offline=not variable, confirm=yes)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("use zen-pico, or download it")
    assert "zoo-gym models get Qwen/Qwen3-0.6B;" in caught.value.hint


@pytest.mark.usefixtures("no_sockets", "cache")
def test_a_command_to_copy_is_quoted_for_the_shell() -> None:
    with raises("models.offline") as caught:
        resolve("org/tiny@a; b", offline=True)
    assert "zoo-gym models get 'org/tiny@a; b'; " in str(caught.value.hint)


@pytest.mark.usefixtures("no_sockets")
def test_a_cached_model_without_its_weights_is_not_taken(put_in_cache: "PutInCache") -> None:
    put_in_cache(leave_out="model.safetensors")
    with raises("models.offline", "in the cache without a complete copy"):
        resolve("org/tiny", offline=True)


def test_the_hub_is_not_contacted_if_nobody_can_consent(hub: "FakeHub") -> None:
    with raises("models.not_downloaded", "'org/tiny' is not on this machine"):
        resolve("org/tiny")
    assert hub.asked == []


def test_a_refusal_has_the_size(hub: "FakeHub") -> None:
    with raises("models.not_downloaded", f"{WANTED_BYTES:,} bytes to download"):
        resolve("org/tiny", confirm=lambda *_: False)
    assert hub.fetched() == []


def test_consent_to_a_listed_model_comes_before_the_first_request(hub: "FakeHub") -> None:
    confirm = Mock(return_value=False)
    with raises("models.not_downloaded", "bytes to download"):
        resolve("zen-nano", confirm=confirm)
    assert confirm.call_count == 1
    assert hub.asked == []


def test_the_user_is_asked_with_the_id_and_the_size(hub: "FakeHub") -> None:
    confirm = Mock(return_value=False)
    with raises("models.not_downloaded"):
        resolve("org/tiny", confirm=confirm)
    confirm.assert_called_once_with("org/tiny", WANTED_BYTES)
    assert hub.fetched() == []


def test_a_yes_fetches_weights_and_json_but_no_code(hub: "FakeHub") -> None:
    found = resolve("org/tiny", confirm=yes)
    assert found.revision == COMMIT
    assert sorted(hub.fetched()) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert (found.folder / "model.safetensors").read_bytes() == hub.files["model.safetensors"]


def test_a_fetched_model_is_found_the_next_time_without_asking(hub: "FakeHub") -> None:
    first = resolve("org/tiny", confirm=yes)
    hub.asked.clear()
    assert resolve("org/tiny", offline=True).folder == first.folder
    assert hub.asked == []
    assert cached_ids() == ["org/tiny"]


def test_only_what_is_missing_is_counted_and_fetched(
    hub: "FakeHub", put_in_cache: "PutInCache"
) -> None:
    put_in_cache(leave_out="model.safetensors")
    confirm = Mock(return_value=True)
    resolve("org/tiny", confirm=confirm)
    confirm.assert_called_once_with("org/tiny", 5_010)
    assert hub.fetched() == ["model.safetensors"]


def interrupt(cache: Path, content: bytes, hub: "FakeHub") -> Path:
    """Leaves what a killed download leaves; returns the file."""
    digest = hashlib.sha256(hub.files["model.safetensors"]).hexdigest()
    partial = cache / "models--org--tiny" / "blobs" / f"{digest}.zoo-gym.incomplete"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(content)
    return partial


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_an_interrupted_download_continues_where_it_stopped(
    hub: "FakeHub", cache: Path, *, knows_ranges: bool
) -> None:
    weights = hub.files["model.safetensors"]
    partial = interrupt(cache, weights[:2_000], hub)
    hub.knows_ranges = knows_ranges
    assert (resolve("org/tiny", confirm=yes).folder / "model.safetensors").read_bytes() == weights
    assert "bytes=2000-" in {byte_range for _, _, byte_range in hub.asked}
    assert not partial.exists()


def test_what_arrived_before_a_broken_connection_is_kept(
    hub: "FakeHub", cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.models.download.CHUNK_BYTES", 500)
    hub.cut_at = 2_000
    with raises("models.unreachable", "cannot reach the hub") as caught:
        resolve("org/tiny", confirm=yes)
    assert caught.value.hint == "try again: the download continues where it stopped"
    assert [path.stat().st_size for path in cache.rglob("*.incomplete")] == [2_000]


def test_damaged_weights_are_refused_and_removed(hub: "FakeHub", cache: Path) -> None:
    hub.sent = {"model.safetensors": bytes(5_010)}
    with raises("models.damaged_download", r"'model\.safetensors' is damaged"):
        resolve("org/tiny", confirm=yes)
    assert [path for path in cache.rglob("blobs/*") if path.stat().st_size > 23] == []


def test_a_gated_model_is_one_message_with_its_page(hub: "FakeHub") -> None:
    hub.error_code = "GatedRepo"
    with raises("models.gated", r"accepted first on https://huggingface.co/org/tiny\n"):
        resolve("org/tiny", confirm=yes, token="hf_secret")


def test_no_error_repeats_the_token(hub: "FakeHub") -> None:
    hub.error_code = "Odd"
    with raises("models.unreachable", "cannot reach the hub") as caught:
        resolve("org/tiny", confirm=yes, token="hf_secret")
    assert "hf_secret" not in str(caught.value)


@pytest.mark.usefixtures("hub")
def test_an_id_that_the_hub_does_not_know_names_the_nearest() -> None:
    with raises("models.unknown_model") as caught:
        resolve("Qwen/Qwen3-0.6C", confirm=yes)
    assert caught.value.hint == "did you mean 'Qwen/Qwen3-0.6B'?"


def test_a_repository_of_pickles_is_refused_before_the_question(hub: "FakeHub") -> None:
    hub.files = {"config.json": b"{}", "pytorch_model.bin": b"..."}
    with raises("models.no_safetensors", r"'\*\.safetensors', got 'pytorch_model\.bin'"):
        resolve("org/tiny", confirm=yes)


def test_a_small_disk_is_reported_before_the_download(
    hub: "FakeHub", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.models.hub.DISK_RESERVE_BYTES", 1 << 60)
    with raises("models.disk_too_small", "disk too small"):
        resolve("org/tiny", confirm=yes)
    assert hub.fetched() == []


def test_a_hub_that_is_not_there_is_reported(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with raises("models.unreachable", "cannot reach the hub for 'org/tiny'"):
        resolve("org/tiny", confirm=yes)
    assert not cache.exists()


def test_a_folder_is_taken_as_it_is(put_in_cache: "PutInCache", tmp_path: Path) -> None:
    folder = put_in_cache().rename(tmp_path / "mine")
    found = resolve(str(folder))
    assert (found.id, found.revision, found.folder) == ("mine", None, folder)


def test_a_folder_of_the_cache_keeps_its_id_and_commit(put_in_cache: "PutInCache") -> None:
    found = resolve(str(put_in_cache()))
    assert (found.id, found.revision) == ("org/tiny", COMMIT)


def test_a_folder_in_the_working_folder_needs_no_dot(
    put_in_cache: "PutInCache", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_cache().rename(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert resolve("mine").folder.resolve() == tmp_path / "mine"


def test_an_absent_folder_is_named() -> None:
    with raises("models.no_such_folder", "no such model folder: 'not/here'"):
        resolve("./not/here")


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.touch()
    with raises("models.no_such_folder", "expected a folder, got the file"):
        resolve(str(file))


def test_a_folder_without_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    with raises("models.no_config", r"expected a 'config\.json'"):
        resolve(str(tmp_path))


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HF_HUB_CACHE": "/a/b"}, "/a/b"),
        ({"HF_HOME": "/a"}, "/a/hub"),
        ({"HF_HOME": "/a", "HF_HUB_CACHE": "/b"}, "/b"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
    ],
)
def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: str
) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)


def test_a_snapshot_in_another_cache_is_the_folder_that_was_given(
    put_in_cache: "PutInCache", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put_in_cache()
    assert resolve(folder).is_in_cache
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "another"))
    found = resolve(folder)
    assert (found.folder, found.revision, found.is_in_cache) == (folder, COMMIT, False)


def test_the_token_of_the_environment_is_sent_to_the_hub(
    hub: "FakeHub", monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: dict[str, str] = {}

    def stop(_blob: object, _storage: object, headers: dict[str, str]) -> None:
        sent.update(headers)
        raise NotAvailableError("seen", code="test.seen")

    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr("zoo.models.hub.fetch_blob", stop)
    with pytest.raises(NotAvailableError, match="seen"):
        resolve("org/tiny", confirm=lambda *_: True)
    assert sent["authorization"] == "Bearer hf_secret"
