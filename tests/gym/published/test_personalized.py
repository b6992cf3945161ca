"""Variants of a base from Python, without a server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.delta.lora import write_random_adapter
from zoo.gym import BitDeltaConfig, PersonalizedServer, PersonalizedTrainer, create_delta, generate
from zoo.gym.errors import GymError, GymWarning, InputError
from zoo.gym.personalization import ServedVariant
from zoo.gym.variants import store
from zoo.models import pico_folder, resolve

ROWS: Any = [{"prompt": f"Say {n}.", "completion": f"It is {n}."} for n in range(20)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """A delta that changes every layer."""
    adapter = write_random_adapter(tmp_path / "lora")
    return create_delta(adapter, base=pico_folder(), out=tmp_path / "bob.safetensors").file


@pytest.fixture
def server(delta: Path) -> Iterator[PersonalizedServer]:
    """A server in whose store ann has the delta."""
    store.put(delta, resolve("zen-pico", offline=True), "ann")
    server = PersonalizedServer("zen-pico", device="cpu")
    yield server
    server.close()


def infer(
    server: PersonalizedServer, *users: str, prompt: str = "Say 2.", **more: Any
) -> list[str]:
    async def together() -> list[str]:
        return await asyncio.gather(*(server.infer(user, prompt, **more) for user in users))

    return asyncio.run(together())


def test_variants_of_store_and_files_answer_together_as_generate_does(
    server: PersonalizedServer, delta: Path, tmp_path: Path
) -> None:
    (expected,) = generate("zen-pico", ["Say 2."], delta=delta, max_new_tokens=8)
    assert expected != generate("zen-pico", ["Say 2."], max_new_tokens=8)[0]
    server.load_variants([delta])
    server.load_variants({"cy": tmp_path / "lora"})
    bob, ann, cy = infer(server, "bob", "ann", "cy", max_new_tokens=8)
    assert bob == ann == expected
    assert cy
    drawn = infer(server, "ann", "ann", max_new_tokens=8, temperature=2.0, seed=1)
    assert drawn[0] == drawn[1] != expected


def test_what_a_server_cannot_answer_is_refused(server: PersonalizedServer, delta: Path) -> None:
    with raises("serving.no_such_model", r"^user_id: .* got 'nobody'$") as missing:
        infer(server, "nobody")
    assert missing.value.hint is None  # no server has a list of models
    for wrong in ({"prompt": " "}, {"prompt": "a" * 10_000}, {"max_new_tokens": 0}, {"seed": -1}):
        with pytest.raises(InputError):
            infer(server, "ann", **wrong)
    for paths in (str(delta), {"../x": delta}, [delta, delta]):
        with pytest.raises(InputError):
            server.load_variants(paths)
    with raises("tuned.no_such_source"):
        server.load_variants({"x": delta.with_name("none.safetensors")})
    with pytest.warns(GymWarning, match="config: without effect"):
        PersonalizedServer("zen-pico", BitDeltaConfig()).close()


REFUSED: list[tuple[dict[str, Any], type[GymError]]] = [
    ({}, InputError),
    ({"dataset": ROWS, "preferences": ROWS}, InputError),
    ({"preferences": ROWS}, InputError),
    ({"dataset": [{"words": "a"}]}, InputError),
    ({"user_id": "../ann", "dataset": ROWS}, InputError),
    ({"dataset": ROWS, "num_epochs": 0}, InputError),
]


@pytest.mark.parametrize(("arguments", "kind"), REFUSED, ids=str)
def test_what_makes_no_variant_is_refused(arguments: dict[str, Any], kind: type[GymError]) -> None:
    trainer = PersonalizedTrainer("zen-pico")
    with pytest.raises(kind):
        trainer.create_variant(**{"user_id": "ann"} | arguments)
    assert not store.root().exists()


@pytest.mark.parametrize(
    "config", [{"form": "dense"}, {"planes": 2}, {"enable_deltasoup": True}], ids=str
)
def test_settings_of_full_weights_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        PersonalizedTrainer("zen-pico", BitDeltaConfig(**config))


@pytest.mark.slow
def test_a_variant_is_created_served_and_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = PersonalizedTrainer("zen-pico", BitDeltaConfig(bits=2))
    made = trainer.create_variant("ann", ROWS, num_epochs=1)
    planned = next(line for line in capsys.readouterr().out.splitlines() if "about" in line)
    assert "2 bits a value" in planned
    assert int(planned.split()[6].replace(",", "")) < made.bytes == made.file.stat().st_size
    answer = trainer.serve_variant("ann", "Say 2.", max_new_tokens=8)
    assert answer == generate("zen-pico", ["Say 2."], delta=made.file, max_new_tokens=8)[0]
    served = trainer.serve_variant("ann")
    assert isinstance(served, ServedVariant)
    assert served.generate("Say 2.", max_new_tokens=8) == answer
    for wrong in ({"user_id": "bob"}, {"user_id": "ann", "max_new_tokens": 8}):
        with pytest.raises(GymError):
            trainer.serve_variant(**wrong)
    with raises("variants.taken"):
        trainer.create_variant("ann", ROWS, num_epochs=1)
    before = made.file.read_bytes()
    trainer.create_variant("ann", ROWS, num_epochs=3, replace=True)
    assert made.file.read_bytes() != before
