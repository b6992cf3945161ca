"""The aggregators' bytes are those that were committed, on every instruction set."""

import itertools
import json

import pytest

from tests.core.golden.make import GOLDEN, aggregators
from zoo.core import available_isas


@pytest.mark.parametrize("name", aggregators())
def test_an_aggregator_gives_its_golden_bytes(name: str) -> None:
    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))[name]
    for isa, threads in itertools.product(available_isas(), (1, 2)):
        found = aggregators()[name]({"isa": isa, "threads": threads})
        assert found.tobytes().hex() == expected, (isa, threads)


def test_every_golden_aggregate_is_made() -> None:
    assert set(json.loads(GOLDEN.read_text(encoding="utf-8"))) == set(aggregators())
