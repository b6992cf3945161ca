"""LM Studio: a GGUF file where that program looks for models, `models/zoo-gym/NAME/NAME.gguf`.

By default in LM Studio's own folder, which nothing else of this program touches.
"""

from pathlib import Path

from zoo.gym.export import gguf
from zoo.gym.export.job import Job, Preview, Report
from zoo.gym.export.ollama import name_of
from zoo.gym.files import new_folder

PUBLISHER = "zoo-gym"


def home() -> Path:
    """Returns LM Studio's folder of models: the one that it states, or the usual one."""
    pointer = Path.home() / ".lmstudio-home-pointer"
    root = Path.home() / ".lmstudio"
    if pointer.is_file():
        root = Path(pointer.read_text(encoding="utf-8").strip())
    return root / "models"


def default_folder(job: Job) -> Path:
    """Returns the folder in which LM Studio finds a model."""
    return home() / PUBLISHER / name_of(job)


def preview(job: Job) -> Preview:
    """Returns what the file will be.

    Raises:
        GymError: see `gguf.plan`.
    """
    return gguf.preview(job)


def write(job: Job, out: Path) -> Report:
    """Writes the folder of a model.

    Raises:
        GymError: see `gguf.write`.
    """
    with new_folder(out, replace=job.options.force) as folder:
        report = gguf.write(job, folder / f"{name_of(job)}.gguf")
    note = "LM Studio lists it when it looks for models again" if home() in out.parents else ""
    notes = (*report.notes, *([note] if note else []))
    return Report(out, "lmstudio", report.facts, report.check, notes)
