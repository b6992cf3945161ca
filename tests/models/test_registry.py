"""The family's shapes against figures that are known from elsewhere."""

import pytest

from zoo.models import registry


@pytest.mark.parametrize(
    ("alias", "parameters", "linear"),
    [
        ("zen-pico", 821_632, 786_432),
        ("smollm2", 134_515_008, 106_168_320),
        ("zen-nano", 596_049_920, 440_401_920),
        ("zen-eco", 4_022_468_096, 3_633_315_840),
    ],
)
def test_a_shape_gives_the_true_number_of_parameters(
    alias: str, parameters: int, linear: int
) -> None:
    entry = next(entry for entry in registry() if entry.alias == alias)
    assert (entry.parameters, entry.geometry.linear_parameters()) == (parameters, linear)


def test_a_download_is_at_least_as_large_as_its_bfloat16_weights() -> None:
    assert all(entry.download_bytes >= 2 * entry.parameters for entry in registry() if entry.hub_id)


def test_the_family_is_free_to_use_and_listed_from_small_to_large() -> None:
    assert {entry.licence for entry in registry()} == {"Apache-2.0"}
    sizes = [entry.parameters for entry in registry()]
    assert sizes == sorted(sizes)
