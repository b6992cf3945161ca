"""`zoo-gym variants list`, `show`, `rename`, `remove` and `export`."""

import datetime as dt
import shutil

from zoo.gym.cli.options import Json, Switch, Yes, confirmed, output_path
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.files import new_file
from zoo.gym.humanize import human_bytes
from zoo.gym.variants import store
from zoo.gym.variants.store import Stored


def list_variants(*, limit: int = 50, after: str | None = None, as_json: Json = False) -> int:
    """Lists the variants, sorted by base and name.

    Args:
        limit: how many at most
        after: begin behind this one, BASE:NAME
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.variants.index import page

    out, rows = Output(as_json), page(limit, after)
    more = len(rows) == limit and bool(page(1, rows[-1].stored.id))
    for row in rows:
        date = dt.datetime.fromtimestamp(row.modified).astimezone().isoformat(" ", "minutes")
        out.answer(f"{row.stored.id}  {human_bytes(row.bytes)}  {date[:16]}")
    if not rows:
        out.say("no more variants; zoo-gym variants create --user NAME --base-model M makes one")
    if more:
        out.say(f"more: zoo-gym variants list --after {rows[-1].stored.id}")
    entries = [facts(row.stored, row.bytes) for row in rows]
    out.result({"variants": entries, "more": more})
    return 0


def show(name: str, /, *, as_json: Json = False) -> int:
    """Shows what a variant is, and what was measured of it.

    Args:
        name: the variant, NAME or BASE:NAME
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym import delta

    out, stored = Output(as_json), store.find(name)
    loaded = delta.load_delta(stored.file)
    out.answer(f"variant   {stored.id}\n{delta.as_text(loaded)}")
    out.result(delta.as_json(loaded) | facts(stored, loaded.file_bytes))
    return 0


def rename(name: str, new: str, /, *, as_json: Json = False) -> int:
    """Gives a variant another name.

    Args:
        name: the variant, NAME or BASE:NAME
        new: the new name, of the same base
        as_json: print one JSON object as stdout's last line
    """
    out, stored = Output(as_json), store.rename(store.find(name), new)
    out.answer(stored.id)
    out.result(facts(stored, stored.file.stat().st_size))
    return 0


def remove(name: str, /, *, yes: Yes = False, as_json: Json = False) -> int:
    """Deletes a variant, after a confirmation.

    Args:
        name: the variant, NAME or BASE:NAME
        yes: delete without a confirmation
        as_json: print one JSON object as stdout's last line
    """
    out, stored = Output(as_json), store.find(name)
    if not confirmed(f"Permanently delete variant {stored.id}? [y/N] ", yes=yes):
        raise InputError(
            f"variant {stored.id!r} was not deleted: expected a confirmation",
            hint=f"delete it without a confirmation: zoo-gym variants remove {stored.id} --yes",
            code="cli.not_confirmed",
        )
    size = stored.file.stat().st_size
    store.remove(stored)
    out.answer(f"variant {stored.id} deleted, {human_bytes(size)} freed")
    out.result(facts(stored, size))
    return 0


def export(
    name: str, /, *, out: str | None = None, force: Switch = False, as_json: Json = False
) -> int:
    """Copies a variant to a delta file, which other machines import.

    Args:
        name: the variant, NAME or BASE:NAME
        out: the file to write; by default in this folder, NAME.delta.safetensors
        force: replace an existing file
        as_json: print one JSON object as stdout's last line
    """
    screen, stored = Output(as_json), store.find(name)
    target = output_path(out, f"{stored.name}.delta{store.ENDING}")
    if target.exists() and not force:
        raise InputError(
            f"output {str(target)!r}: expected a new file, got one that exists",
            hint="choose another name with --out, or replace it with --force",
            code="cli.output_exists",
        )
    with new_file(target) as beside:
        shutil.copyfile(stored.file, beside)
    screen.answer(str(target))
    screen.result(facts(stored, target.stat().st_size) | {"file": str(target)})
    return 0


def facts(stored: Stored, size: int) -> dict[str, object]:
    """Returns what programs get of a variant."""
    names = {"variant": stored.id, "name": stored.name, "base": stored.base}
    return {**names, "file": str(stored.file), "bytes": size}
