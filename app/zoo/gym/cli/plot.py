"""`zoo-gym runs plot`: writes a run's figures as a picture or a table."""

from zoo.gym import jobs
from zoo.gym.cli.options import Json, Switch, output_path
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.files import new_file, storage_errors


def plot(
    run: str, /, *, out: str | None = None, force: Switch = False, as_json: Json = False
) -> int:
    """Writes a run's figures by step: as a picture, or as a table.

    Args:
        run: a run's id such as r0001, its name, or last
        out: a file that ends in .png or .csv; by default RUN.png in this folder
        force: replace an existing file
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.jobs.figures import csv_lines, figures_in, series
    from zoo.gym.jobs.plot import png_of

    screen, opened = Output(as_json), jobs.open_run(run)
    path = output_path(out, f"{opened.id}.png")
    if path.suffix.lower() not in {".png", ".csv"}:
        raise InputError(
            f"--out: expected a name that ends in .png or .csv, got {path.name!r}",
            code="cli.bad_value",
        )
    if path.exists() and not force:
        raise InputError(
            f"output {str(path)!r}: expected a new file, got one that exists",
            hint="choose another name with --out, or replace it with --force",
            code="cli.output_exists",
        )
    figures = figures_in(jobs.EventReader(opened.events.path).read())
    if not figures:
        raise InputError(
            f"run '{opened.id}' has no figures: expected a step or an evaluation, got none",
            code="cli.no_figures",
        )
    points = series(figures)
    if path.suffix.lower() == ".png":
        content = png_of(opened.name or opened.id, points)
    else:
        content = "".join(f"{line}\n" for line in csv_lines(figures)).encode()
    with new_file(path, replace=force) as temporary, storage_errors(path):
        temporary.write_bytes(content)
    screen.answer(str(path))
    screen.result({"run": opened.id, "file": str(path), "figures": sorted(points)})
    return 0
