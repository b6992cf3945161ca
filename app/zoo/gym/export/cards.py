"""Writes the model card of an export: what it is, what was measured, and code that uses it."""

from pathlib import Path

import yaml

from zoo.gym.delta.origin.record import DIGEST_KEY
from zoo.gym.delta.origin.usage import licence_head, licence_line
from zoo.gym.export.job import Job
from zoo.gym.files import storage_errors


def write_card(folder: Path, job: Job, *, library: str, how: str, code: str) -> None:
    """Writes `README.md`.

    Args:
        folder: the export.
        job: what is exported.
        library: the program that reads it, as model hubs name it.
        how: sentences on how it was made and what was measured.
        code: Python that uses it.
    """
    head = {"base_model": job.base.id, "library_name": library} | licence_head(job.base.id)
    is_model = job.given.source.artifact == "model"
    title = job.base.id if is_model else f"A fine-tune of {job.base.id}"
    lines = [
        f"---\n{yaml.safe_dump(head, sort_keys=True)}---\n",
        f"# {title}\n",
        f"{how} Base revision: {job.base.revision or 'not recorded'}.\n{licence_line(job.base.id)}",
        f"## Use\n\n```python\n{code.strip()}\n```\n",
        f"{_form(job)}\n",
    ]
    with storage_errors(folder):
        (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")


def _form(job: Job) -> str:
    """Returns what a prompt looks like."""
    form = "There is no chat template: the model continues the prompt as it is."
    if job.template is not None:
        form = "A prompt has the form of the chat template of the tokenizer."
    elif job.record.joint:
        form = "There is no chat template: a prompt ends with a blank line."
    is_asked = bool(job.record.stored.get(DIGEST_KEY))
    return f"{form} It was trained with a system prompt, which is not here." if is_asked else form
