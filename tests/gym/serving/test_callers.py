"""Who may ask a server, and for what."""

import asyncio
import shutil
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import pytest
from openai import AsyncOpenAI

from tests.codes import raises
from tests.gym.serving.conftest import NAME, serving
from zoo.gym import create_delta
from zoo.gym.cli import main
from zoo.gym.serving.run import ModelServer
from zoo.gym.variants import store
from zoo.models import pico_folder, resolve

Served = Callable[..., Any]


def test_another_machine_asks_by_an_allowed_name_with_the_token(served: Served) -> None:
    async def ask(server: ModelServer, _: AsyncOpenAI) -> list[int]:
        port = urlsplit(server.url).port
        assert server.url == f"http://gym.lan:{port}"
        token = {"Authorization": f"Bearer {server.token}"}
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            asked = [token | {"Host": "gym.lan"}, token, {"Host": "gym.lan"}]
            asked.append(token | {"Host": "other.lan"})
            return [(await http.get("/v1/models", headers=each)).status_code for each in asked]

    assert served(ask, host="0.0.0.0", names=("gym.lan",)) == [200, 200, 401, 403]
    with raises("serving.no_token"):
        served(ask, host="0.0.0.0", names=("gym.lan",), needs_token=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "--host: 0.0.0.0: expected the names that others use"),
        (["--host", "192.0.2.1", "--no-token"], "token: expected one for other machines"),
        (["--no-token", "--user-token", "ann"], "--user-token: expected none where requests need"),
        (["--cors", "*"], "--cors: expected a page's address"),
        (["--allow-host", "a:1"], "--allow-host: expected a host name"),
    ],
    ids=lambda each: str(each[0]),
)
def test_an_address_that_would_not_be_safe_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--model", "zen-pico", *words]) == 2
    assert message in capsys.readouterr().err


ANN = f"{NAME}:ann"


@pytest.fixture
def ann(variants: dict[str, Path], tmp_path: Path) -> store.Stored:
    """A stored variant."""
    delta = create_delta(variants["ann"], base=pico_folder(), out=tmp_path / "ann.safetensors")
    return store.put(delta.file, resolve(NAME, offline=True), "ann")


def asked_by_ann(
    test: Callable[[ModelServer, AsyncOpenAI], Awaitable[Any]], **variants: Path
) -> Any:
    """Runs a coroutine with a server that has a token for ann, and her client."""

    async def run() -> Any:
        folder = store.folder_of(pico_folder())
        async with serving(variants, folder=folder, user_tokens=("ann",)) as (server, owner):
            client = owner.with_options(api_key=server.user_tokens["ann"])
            return await test(server, client)

    return asyncio.run(run())


async def complete(client: AsyncOpenAI, model: str, **fields: Any) -> str:
    answer = await client.completions.create(
        model=model, prompt="ab", temperature=0, max_tokens=4, extra_body=fields
    )
    return answer.choices[0].text


def test_a_user_asks_one_variant_and_nothing_else_exists(
    ann: store.Stored, variants: dict[str, Path]
) -> None:
    async def ask(server: ModelServer, client: AsyncOpenAI) -> None:
        assert [model.id async for model in client.models.list()] == [ANN]
        assert (await client.models.retrieve("ann")).id == "ann"
        answers = [await complete(client, ANN), await complete(client, "ann", user_id="ann")]
        assert answers == [await complete(client, NAME, user_id="ann")] * 2
        for model in (NAME, "bob", f"{NAME}:bob", "none", "ann+words"):
            with pytest.raises(openai.NotFoundError) as refused:
                await complete(client, model)
            assert str(refused.value.body["code"]) == "model_not_found"  # type: ignore[index]
            expected = f"model: expected one of this server, got {model!r}"
            assert refused.value.body["message"] == expected  # type: ignore[index]
            with pytest.raises(openai.NotFoundError):
                await client.models.retrieve(model)
        for model, user in ((NAME, "bob"), (ANN, "bob"), ("bob", "ann")):
            with pytest.raises(openai.NotFoundError) as refused:
                await complete(client, model, user_id=user)
            assert refused.value.param == ("user_id" if user == "bob" else "model")
        messages: Any = [{"role": "user", "content": "a"}]
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model="bob", messages=messages)
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="bob", input="a")

    asked_by_ann(ask, bob=variants["bob"])


def test_a_user_cannot_upload_train_or_remove(ann: store.Stored) -> None:
    async def ask(server: ModelServer, client: AsyncOpenAI) -> None:
        headers = {"Authorization": f"Bearer {client.api_key}"}
        async with httpx2.AsyncClient(base_url=server.url, headers=headers) as http:
            nothing = (await http.get("/v1/nothing")).content
            assert b"not found" in nothing
            for method, path in (
                ("GET", "/v1/files"),
                ("POST", "/v1/files"),
                ("POST", "/openai/v1/files"),
                ("GET", "/files"),
                ("GET", "/models"),
                ("DELETE", "/v1/files/file-1"),
                ("POST", "/v1/fine_tuning/jobs"),
                ("GET", "/v1/fine_tuning/jobs?limit=x"),
                ("DELETE", f"/v1/models/{ANN}"),
            ):
                found = await http.request(method, path)
                assert (found.status_code, found.content) == (404, nothing), path
        assert ann.file.is_file()

    asked_by_ann(ask)


def test_a_token_stays_until_its_variant_is_removed(ann: store.Stored, tmp_path: Path) -> None:
    async def ask(server: ModelServer, client: AsyncOpenAI) -> str:
        await complete(client, ANN)
        return server.user_tokens["ann"]

    async def removed(server: ModelServer, client: AsyncOpenAI) -> None:
        owner = client.with_options(api_key=server.token or "")
        assert (await owner.models.delete(ANN)).deleted
        assert not ann.file.exists()
        with pytest.raises(openai.NotFoundError):
            await complete(owner, "ann")
        # a variant of the same name is another user's
        store.put(tmp_path / "ann.safetensors", resolve(NAME, offline=True), "ann")
        await complete(owner, "ann")
        with pytest.raises(openai.AuthenticationError):
            await complete(client, ANN)

    first = asked_by_ann(ask)
    assert asked_by_ann(ask) == first
    assert stat.S_IMODE(store.token_file(ann).stat().st_mode) == 0o600
    asked_by_ann(removed)
    assert asked_by_ann(ask) != first


def test_a_token_for_no_variant_is_refused_and_not_made() -> None:
    for name in ("ann", "../ann", NAME, "ann+words"):

        async def run(name: str = name) -> None:
            async with serving({}, user_tokens=(name,)):
                pass

        with raises("serving.no_such_user"):
            asyncio.run(run())
    assert not list(store.token_file(store.Stored(NAME, "ann", Path())).parent.glob("*"))


def test_a_token_for_a_run_whose_id_may_be_given_again_is_refused(
    variants: dict[str, Path], tmp_path: Path
) -> None:
    run = tmp_path / "home" / "data" / "runs" / "r0001"
    shutil.copytree(variants["ann"], run / "result")
    (run / "config.yaml").write_text(f"model: {NAME}\ndataset: d\n")
    (run / "env.json").write_text("{}")

    async def start(name: str) -> None:
        async with serving({}, user_tokens=(name,)) as (_, client):
            assert f"{NAME}:r0001" in [each.id async for each in client.models.list()]

    for name in ("r0001", f"{NAME}-sft"):
        with raises("serving.no_such_user"):
            asyncio.run(start(name))


def test_only_stored_variants_are_removed(variants: dict[str, Path]) -> None:
    async def ask() -> None:
        async with serving(variants, folder=store.folder_of(pico_folder())) as (_, owner):
            for model, error in (
                (NAME, openai.BadRequestError),
                ("ann", openai.BadRequestError),
                ("none", openai.NotFoundError),
                ("../serve", openai.NotFoundError),
            ):
                with pytest.raises(error):
                    await owner.models.delete(model)
            await complete(owner, "ann")

    asyncio.run(ask())
