"""A base is compared by what is read of it: how its files are written changes no digest."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.delta.origin.digests import FORM_PARTS, base_digests, form_digests, other_form
from zoo.models.resolve import pico_folder

TOKENIZER, CONFIG, TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"


def changed(folder: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads((folder / name).read_text())
    change(values)
    (folder / name).write_text(json.dumps(values, indent=7, sort_keys=True))


def other_line_ends(folder: Path) -> None:
    for name in (TOKENIZER, CONFIG, TEMPLATE):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content.replace(b"\n", b"\r\n"))


def one_more_line_end(folder: Path) -> None:
    (folder / TEMPLATE).write_text((folder / TEMPLATE).read_text() + "\n")


def template_in_the_config(folder: Path) -> None:
    text = (folder / TEMPLATE).read_text().replace("\n", "\r\n")
    (folder / TEMPLATE).unlink()
    changed(folder, CONFIG, lambda values: values.update(chat_template=text))


def saved_again(folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    for name in (TOKENIZER, CONFIG, TEMPLATE):
        (folder / name).unlink()
    tokenizer.save_pretrained(folder)


def left_by_programs(folder: Path) -> None:
    changed(folder, TOKENIZER, lambda values: values.update(truncation={"max_length": 512}))
    changed(folder, CONFIG, lambda values: values.update(padding_side="left", name_or_path="x"))


@pytest.mark.parametrize(
    "change",
    [
        other_line_ends,
        one_more_line_end,
        template_in_the_config,
        saved_again,
        left_by_programs,
    ],
)
def test_files_that_are_read_alike_have_one_digest(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    folder = Path(shutil.copytree(pico_folder(), tmp_path / "moved"))
    change(folder)
    assert form_digests(folder) == form_digests(pico_folder())


OTHERS: dict[str, tuple[str, Callable[[dict[str, Any]], object], str]] = {
    "end": (CONFIG, lambda values: values.update(eos_token="<|im_start|>"), "tokens"),
    "start": (CONFIG, lambda values: values.update(add_bos_token=True), "tokens"),
    "space": (CONFIG, lambda values: values.update(add_prefix_space=True), "tokens"),
    "case": (TOKENIZER, lambda values: values.update(normalizer={"type": "Lowercase"}), "tokens"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_tokenizer_that_reads_otherwise_has_another_digest(tmp_path: Path, name: str) -> None:
    file, change, part = OTHERS[name]
    folder = Path(shutil.copytree(pico_folder(), tmp_path / "base"))
    changed(folder, file, change)
    before, now = form_digests(pico_folder()), form_digests(folder)
    assert [key for key in now if now[key] != before[key]] == [part]


def test_a_template_that_writes_otherwise_is_reported_unless_another_is_used(
    tmp_path: Path,
) -> None:
    folder = Path(shutil.copytree(pico_folder(), tmp_path / "base"))
    record = {"base": base_digests(folder)}
    (folder / TEMPLATE).write_text("{{ messages[0].content }}")
    assert f"another {FORM_PARTS['template']} than" in str(other_form(record, folder))
    assert other_form(record, folder, has_template=True) is None
    assert other_form({**record, "tokenizer": {"chat_template": "x"}}, folder) is None
    assert other_form({**record, "tokenizer": {"eos_token": "x"}}, folder) is not None
