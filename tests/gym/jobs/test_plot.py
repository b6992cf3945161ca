import io
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.cli import main
from zoo.gym.jobs import Run, create_run, plot
from zoo.gym.jobs.plot import HEIGHT, WIDTH, panels_of, png_of, ticks

LOSSES = {"train/loss": [(1, 4.0), (2, 2.0)], "eval/loss": [(2, 3.0)]}


def picture(series: dict[str, list[tuple[int, float]]]) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(png_of("r0001", series))).convert("RGB")


def coloured(image: Any, colour: tuple[int, int, int]) -> list[tuple[int, int]]:
    width, height = image.size
    pixels = image.load()
    return [(x, y) for x in range(width) for y in range(height) if pixels[x, y] == colour]


def test_losses_share_a_panel_and_counted_tokens_have_none() -> None:
    series = LOSSES | {"train/tokens": [(1, 5.0)], "train/grad_norm": [(1, 1.0)]}
    assert [list(panel) for panel in panels_of(series)] == [
        ["train/loss", "eval/loss"],
        ["train/grad_norm"],
    ]


def test_a_picture_has_a_panel_a_figure() -> None:
    series = LOSSES | {"train/lr": [(1, 1.0)], "train/reward": [(1, 0.0)]}
    assert picture(series).size == (2 * WIDTH, 2 * HEIGHT)
    assert picture(LOSSES).size == (WIDTH, HEIGHT)


def test_a_falling_figure_is_drawn_falling() -> None:
    places = coloured(picture({"train/loss": [(1, 4.0), (2, 2.0)]}), (0x1F, 0x5F, 0xA8))
    leftmost, rightmost = min(places), max(places)
    assert rightmost[0] - leftmost[0] > WIDTH / 2
    assert rightmost[1] - leftmost[1] > HEIGHT / 3


def test_a_figure_from_zero_on_starts_at_the_axis() -> None:
    places = coloured(picture({"train/loss": [(0, 0.0), (1, 5.0), (2, 0.0)]}), (0x1F, 0x5F, 0xA8))
    assert abs(max(y for _, y in places) - (HEIGHT - 36)) <= 2  # half of a point


@pytest.mark.parametrize("value", [0.0, -3.0, 1e-9, 1e9])
def test_a_figure_that_stays_the_same_is_drawn(value: float) -> None:
    assert coloured(picture({"train/loss": [(1, value), (9, value)]}), (0x1F, 0x5F, 0xA8))


def test_ticks_are_round_numbers() -> None:
    assert ticks(0.13, 0.48) == pytest.approx([0.2, 0.3, 0.4])
    assert ticks(-1, 1) == [-1, -0.5, 0, 0.5, 1]


def missing(_: str) -> None:
    """Finds no package."""


def test_without_pillow_the_table_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot, "find_spec", missing)
    with raises("jobs.missing_pillow") as caught:
        png_of("r0001", LOSSES)
    assert ".csv" in str(caught.value.hint)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    run = create_run("model_name_or_path: zen-pico\ndataset: [a.jsonl]\n", {})
    for number, loss in ((1, 4.0), (2, 2.0)):
        run.events.emit("step", step=number, steps=2, loss=loss, lr=0.1)
    return run


@pytest.mark.parametrize(
    ("name", "start"), [("r0001.png", b"\x89PNG"), ("a.png", b"\x89PNG"), ("b.csv", b"step,train/")]
)
def test_the_command_writes_a_picture_or_a_table(name: str, start: bytes, run: Run) -> None:
    out = () if name == "r0001.png" else ("--out", name)
    assert main(["runs", "plot", "last", *out]) == 0
    assert Path(name).read_bytes().startswith(start)


def test_a_file_that_exists_is_replaced_by_force_alone(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.csv").write_text("mine")
    assert main(["runs", "plot", "last", "--out", "a.csv"]) == 2
    assert "expected a new file, got one that exists" in capsys.readouterr().err
    assert Path("a.csv").read_text() == "mine"
    assert main(["runs", "plot", "last", "--out", "a.csv", "--force"]) == 0
    assert Path("a.csv").read_text().startswith("step,train/")


def test_another_ending_is_refused(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "plot", "last", "--out", "a.svg"]) == 2
    assert "ends in .png or .csv" in capsys.readouterr().err


def test_a_run_without_figures_is_refused(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.events.path.write_text("")
    assert main(["runs", "plot", "r0001"]) == 2
    assert "has no figures" in capsys.readouterr().err
    assert not Path("r0001.png").exists()
