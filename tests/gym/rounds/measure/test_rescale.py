"""The size of a result by its loss on public examples."""

from pathlib import Path

from zoo.gym.rounds.measure.losses import Meter
from zoo.gym.rounds.measure.measure import NO_LOSS, rescale_of


class Parabola(Meter):
    """Two rows whose mean loss is lowest at three times the delta, and no number from four on."""

    def losses(self, delta: Path | None = None, *, scaled: float = 1.0) -> list[float]:
        assert delta is not None
        return [(scaled - 3) ** 2 + 1, 1.0 if scaled < 4 else float("nan")]


def test_factor_with_the_lowest_finite_mean_loss_is_chosen() -> None:
    found = rescale_of(Parabola(Path("base"), ()), Path("result"))
    assert found.losses[:2] == (4.125, 3.0)  # ((.5 - 3)^2 + 2) / 2, ((1 - 3)^2 + 2) / 2
    assert found.losses[5:] == (NO_LOSS,) * 3
    assert found.factor == 3.0
