"""`zoo-gym experience infer, import, export`: libraries in use and in other forms."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym.cli.keep import Release, refuse_unknown
from zoo.gym.cli.libraries import say_held_back, verdict
from zoo.gym.cli.options import Json, Yes, confirmed, output_path
from zoo.gym.cli.output import Output
from zoo.gym.config.items import existing
from zoo.gym.errors import InputError
from zoo.gym.experience import store
from zoo.gym.experience.sharing.limits import MOST_OF_ONE, limited
from zoo.gym.humanize import counted

if TYPE_CHECKING:
    from zoo.gym.experience.library.item import Item, LeftOut
    from zoo.gym.experience.library.library import Library

Model = Annotated[str, Parameter(name="--model")]


def infer(
    query: str,
    /,
    *,
    model: Model,
    library: str | None = None,
    top_k: int | None = None,
    max_new_tokens: int = 1024,
    temperature: float = 0.3,
    max_usd: float | None = None,
    max_tokens: int | None = None,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Answers a query with the lessons of a library in the prompt.

    Args:
        query: the task
        model: the model that answers, as of experience train
        library: its name, NAME@VERSION, or a file; none without it
        top_k: lessons in the prompt at most: those that share most words with the query; by
            default as the library was measured
        max_new_tokens: tokens of the answer at most
        temperature: the temperature of the answer
        max_usd: the most that the call may cost, in USD
        max_tokens: the same in tokens, of the prompt and the answer
        yes: send the query to a host that is new without asking
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.experience.library.library import Library
    from zoo.gym.experience.models import named_models
    from zoo.gym.experience.providers.names import require_consent
    from zoo.gym.experience.settings import ExperienceConfig
    from zoo.gym.experience.use import infer as answer

    out = Output(as_json)
    if top_k is not None and library is None:
        raise InputError("--top-k: has no effect without --library", code="cli.no_effect")
    config = ExperienceConfig(
        model=model,
        max_new_tokens=max_new_tokens,
        temperature_eval=temperature,
        top_k=top_k,
        max_usd=max_usd,
        max_tokens=max_tokens,
    )
    stored = None if library is None else store.load_given(library)
    library_used = Library() if stored is None else stored.library
    say_held_back(out, stored)
    leaves = "The query and the lessons leave this machine."
    require_consent(named_models(config).on_servers, leaves, lambda text: confirmed(text, yes=yes))
    reply = answer(config, query, library_used, out.say)
    out.answer(reply.text)
    usage = reply.usage
    out.result(
        {
            "text": reply.text,
            "finish": reply.finish,
            "lessons": len(library_used.items),
            "prompt_tokens": usage.prompt_tokens if usage else None,
            "completion_tokens": usage.completion_tokens if usage else None,
        }
    )
    return 0


def export(
    library: str,
    /,
    *,
    out: Annotated[str | None, Parameter(name="--out")] = None,
    form: Annotated[str, Parameter(name="--form")] = "markdown",
    as_json: Json = False,
) -> int:
    """Writes a library to a file: in the form of another program, or the library itself, signed.

    Args:
        library: its name, NAME@VERSION, or a file
        out: the new file; by default NAME.md, NAME/SKILL.md, NAME.experiences.json,
            NAME.playbook.txt or NAME.json
        form: markdown, skill, youtu, ace, or json
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.experience.library.exchange import FORMS
    from zoo.gym.experience.library.file import sign_library, signature_file, write_library
    from zoo.gym.files import new_file
    from zoo.gym.signing import YOU

    screen, stored = Output(as_json), store.load_given(library)
    make, default = FORMS.get(form, (None, "{}.json"))
    if make is None and form != "json":
        raise InputError(
            f"--form: expected {', '.join(FORMS)} or json, got {form!r}", code="cli.bad_value"
        )
    path = output_path(out, default.format(stored.name))
    if path.exists():
        raise InputError(
            f"{path}: expected a new file, got one that exists", code="cli.output_exists"
        )
    if make is None:
        digest = write_library(path, stored.library)
        if stored.signer == YOU:
            sign_library(path, digest)
            screen.say(f"signed: {signature_file(path)}; send both files")
    else:
        with new_file(path) as beside:
            beside.write_text(make(stored.library, stored.name), encoding="utf-8")
    screen.answer(f"{path}: {counted(len(stored.library.items), 'lesson')}")
    screen.result({"file": str(path), "lessons": len(stored.library.items), "form": form})
    return 0


def import_lessons(
    file: str,
    /,
    *,
    name: str | None = None,
    release: Release = (),
    most: Annotated[int | None, Parameter(name="--most")] = None,
    as_json: Json = False,
) -> int:
    """Reads lessons from a file as a new version; what was measured holds for yours alone.

    A library that you or a trusted key signed keeps its evidence, any other file has none.

    Args:
        file: a library, Markdown with a list, SKILL.md, a playbook of ACE, experiences.json or an
            agent of youtu-agent
        name: the library's name, needed to put other lessons into the place of one that you have;
            by default the one in the file, as of a skill, else the file's without suffixes
        release: ids of lessons in quarantine, or like others, that you have read and want
        most: lessons of one author at most; by default 16 if the library has lessons already
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.experience.library.exchange import name_in, read_foreign
    from zoo.gym.experience.sharing.quarantine import held_back
    from zoo.gym.experience.tasks import remembered

    out, path = Output(as_json), Path(existing(file, "a file of lessons"))
    target = store.plain_name(name_in(path)) if name is None else name
    store.check_name(target)
    stored = store.load(target) if target in store.names() else None
    current = None if stored is None else stored.library
    loaded: list[store.Stored] = []  # what the file is, if it is a library of ours

    def read(file: Path) -> "Library":
        loaded.append(store.load_file(file))
        return store.as_taken(loaded[-1])

    stored_ids = {lesson.id for version in store.every() for lesson in version.items}
    library, left_out = read_foreign(path, current, read, stored_ids)
    if not loaded and library != current:
        library = remembered(library, current)
    if name is None and stored is not None:
        _refuse_others(library, stored)
    old_ids = {lesson.id for lesson in current.items} if current else set[str]()
    refuse_unknown(release, {lesson.id for lesson in library.items})
    of_others = [lesson for lesson in library.items if _is_of_others(lesson)]
    held = held_back([lesson for lesson in of_others if lesson.id not in old_ids], release)
    for sentence in left_out:
        out.say(f"left out: {sentence}")
    for lesson, why in held:
        out.say(f"in quarantine, it has {why}: [{lesson.id}] {lesson.text}")
    library = library.changed([lesson.id for lesson, _ in held], ()) if held else library
    library, crowded = _limited(library, old_ids, most, release)
    for lesson, why in crowded:
        out.say(f"left out, {why}: [{lesson.id}] {lesson.text}")
    if not library.items:
        raise InputError(
            f"{path}: expected lessons without addresses, code and orders, got none",
            hint="to take a lesson anyway once you have read it: --release ID",
            code="cli.lessons_refused",
        )
    made_from = loaded[-1] if loaded else stored
    is_other = made_from is not None and library.items != made_from.library.items
    if made_from is not None and is_other and library != current:
        same = {lesson.id for lesson in made_from.library.items} & {
            lesson.id for lesson in library.items
        }
        library = replace(library, parent=made_from.digest if loaded or same else "")
    saved = store.save(target, library)
    out.answer(f"{target}@{saved.version}: {counted(len(library.items), 'lesson')}")
    out.say(f"{verdict(saved)}; zoo-gym experience gate {target} TASKS --model MODEL measures them")
    ids, more = ([_entry(*entry) for entry in some] for some in (held, crowded))
    out.result(saved.facts | {"left_out": left_out, "quarantine": ids, "crowded": more})
    return 0


def _refuse_others(library: "Library", stored: store.Stored) -> None:
    """Refuses lessons from elsewhere that would be used in the place of a library's.

    Raises:
        InputError: fewer than half of the library's lessons are in the file or changed in it.
    """
    ids = {lesson.id for lesson in stored.library.items}
    stay = ids & {
        lesson_id for lesson in library.items for lesson_id in (lesson.id, *lesson.parents)
    }
    if 2 * len(stay) < len(ids):
        raise InputError(
            f"{stored.name}: expected a name that is free, got that of a library: the file has "
            f"{len(stay)} of the {counted(len(ids), 'lesson')} of {stored.name}@{stored.version} "
            f"({verdict(stored)}) and would be used in its place",
            hint=f"to replace its lessons: --name {stored.name}; otherwise choose another name",
            code="cli.name_taken",
        )


def _limited(
    library: "Library", old_ids: set[str], most: int | None, release: tuple[str, ...]
) -> "tuple[Library, list[LeftOut]]":
    """Returns what a library takes of new lessons of others; a new one has room for all."""
    from zoo.gym.experience.library.library import MOST_ITEMS

    new = [lesson for lesson in library.items if lesson.id not in old_ids and _is_of_others(lesson)]
    rest = [lesson for lesson in library.items if lesson not in new]
    room = (MOST_OF_ONE if old_ids else MOST_ITEMS) if most is None else most
    _, crowded = limited(new, rest, room, release)
    ids = [lesson.id for lesson, _ in crowded]
    return (library.changed(ids, ()) if ids else library), crowded


def _is_of_others(lesson: "Item") -> bool:
    return lesson.is_foreign or bool(lesson.author)


def _entry(lesson: "Item", why: str) -> dict[str, object]:
    return {"id": lesson.id, "text": lesson.text, "why": why}
