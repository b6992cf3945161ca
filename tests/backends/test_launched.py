"""The variables of launchers, and processes that announce a run to each other."""

import pytest

from tests.codes import raises
from zoo.backends.launched import launched_place, on_one_machine, on_this_machine
from zoo.backends.ranks import FROM_ENVIRONMENT, Place
from zoo.core.errors import InputError

SECOND = {
    "RANK": "1",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}


def test_a_launcher_gives_each_process_its_place() -> None:
    assert launched_place(SECOND) == Place(1, 2, 0, FROM_ENVIRONMENT)
    assert not on_one_machine(SECOND)
    assert on_one_machine(SECOND | {"LOCAL_WORLD_SIZE": "2"})


def test_processes_of_other_machines_share_no_memory() -> None:
    assert on_this_machine(2, SECOND) == 1
    assert on_this_machine(2, {}) == 2


@pytest.mark.parametrize("environ", [{}, SECOND | {"WORLD_SIZE": "1", "RANK": "0"}])
def test_one_process_has_no_launcher(environ: dict[str, str]) -> None:
    assert launched_place(environ) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"RANK": "2"}, "RANK: expected less than WORLD_SIZE 2, got 2"),
        ({"RANK": ""}, "RANK: expected a whole number of at least 0, got ''"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE: expected a whole number"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR: expected the address"),
    ],
)
def test_wrong_variables_are_refused(change: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        launched_place(SECOND | change)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACCELERATE_USE_FSDP", "true"),
        ("ACCELERATE_USE_DEEPSPEED", "true"),
        ("ACCELERATE_MIXED_PRECISION", "bf16"),
        ("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR"),
    ],
)
def test_options_of_accelerate_are_not_ignored(name: str, value: str) -> None:
    for environ in (SECOND, {}):
        with raises("backends.launcher_option", f"{name}: .*, got {value}"):
            launched_place({**environ, name: value})
    assert launched_place(SECOND | {name: "NO"}) is not None


def test_a_launcher_that_starts_one_process_of_several_is_refused() -> None:
    with raises("backends.launcher_incomplete", "the launcher started one process"):
        launched_place({"ACCELERATE_USE_CPU": "true", "MASTER_PORT": "29500"})
