"""`zoo-gym push`: uploads a fine-tune to the Hub, after a typed consent."""

import sys
from typing import TYPE_CHECKING

from zoo.gym.chat.gguf import is_gguf_file
from zoo.gym.cli.options import Json, Switch
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted, human_bytes
from zoo.gym.paths import given_path
from zoo.gym.terminal import visible

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from zoo.gym.push.contents import Contents, Upload
    from zoo.gym.push.repository import Repository

WORD = "send"
"""What a user types to agree."""


def push(
    source: str,
    repo: str,
    /,
    *,
    public: Switch = False,
    replace: Switch = False,
    dry_run: Switch = False,
    confirm: str | None = None,
    as_json: Json = False,
) -> int:
    """Uploads a fine-tune to a repository of the Hub: private, and after you have typed `send`.

    Args:
        source: a run's id or last, a delta, a peft folder or a model folder
        repo: the repository: OWNER/NAME, or NAME for one of your own
        public: for everybody to read; needed for a repository that is public already
        replace: replace files in a repository that has others; weights of other names are deleted
        dry_run: show what would be sent, without the network
        confirm: send without a question: --confirm send
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.push.contents import contents_of
    from zoo.gym.tuned.source import resolve_tuned

    out = Output(as_json)
    _check(repo, confirm)
    if is_gguf_file(given_path(source)):
        raise InputError(
            f"{source}: expected a run, a delta, an adapter or a model folder, got a GGUF file",
            hint="zoo-gym push RUN OWNER/NAME sends the fine-tune that it was made from",
            code="cli.gguf",
        )
    contents = contents_of(resolve_tuned(source))
    _show(contents, out)
    if dry_run:
        out.answer(f"to      {repo}, {'PUBLIC' if public else 'private'}; the Hub was not asked")
        out.result(_answer(contents, repo) | {"sent": False, "address": None})
        return 0
    from zoo.gym.push.repository import find_repository, missing, open_hub, refuse_other

    api = open_hub()
    repository = find_repository(api, repo)
    refuse_other(contents, repository, public=public, replace=replace)
    rest = missing(contents, repository)
    if repository.commit is not None and not rest:
        out.answer(f"{repository.id} has all of it already: nothing was sent")
        answer = {"sent": False, "address": f"{api.endpoint}/{repository.id}"}
        out.result(_answer(contents, repository.id) | answer)
        return 0
    _describe(api, contents, repository, rest, out, public=public)
    if not _agreed(confirm):
        raise InputError(
            f"nothing was sent: expected the word {WORD}",
            hint=f"without a question: zoo-gym push {source} {repo} --confirm {WORD}",
            code="cli.not_confirmed",
        )
    address = _send(api, contents, repository, out, public=public)
    out.result(_answer(contents, repository.id) | {"sent": True, "address": address})
    return 0


def _check(repo: str, confirm: str | None) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repo)
    except HFValidationError:
        raise InputError(
            f"REPO: expected OWNER/NAME of letters, digits, '-', '_' and '.', got {repo!r}",
            code="cli.bad_value",
        ) from None
    if confirm is not None and confirm != WORD:
        raise InputError(
            f"--confirm: expected the word {WORD}, got {confirm!r}", code="cli.bad_value"
        )


def _show(contents: "Contents", out: Output) -> None:
    """Prints the files, what stays here, and the licence."""
    for file in contents.files:
        out.answer(f"{human_bytes(file.size_bytes):>10}  {file.name}")
    files = counted(len(contents.files), "file")
    out.answer(f"{human_bytes(contents.size_bytes):>10}  in {files}")
    for name, reason in contents.left_out:
        out.answer(f"left out  {name}: {reason}")
    for change in contents.changed:
        out.answer(f"left out  {change}")
    out.answer(f"base    {contents.base or 'not recorded'}")
    unknown = "not known: read the base's before you share this"
    out.answer(f"licence {contents.licence or unknown}")


def _describe(
    api: "HfApi",
    contents: "Contents",
    repository: "Repository",
    rest: "list[Upload]",
    out: Output,
    *,
    public: bool,
) -> None:
    """Prints where the files go, and who will see them."""
    from zoo.gym.push.repository import stale

    is_new = " a new repository," if repository.commit is None else ""
    seen = "PUBLIC: everybody can read it" if public else "private: only its owner sees it"
    out.answer(f"to      {api.endpoint}/{repository.id},{is_new} {seen}")
    if len(rest) < len(contents.files):
        there = len(contents.files) - len(rest)
        out.answer(f"        {counted(there, 'file')} of them are there already")
    for name in stale(contents, repository):
        out.answer(f"        {name} there is deleted")


def _agreed(confirm: str | None) -> bool:
    """Returns whether the user typed the word, on a terminal or as an option."""
    if confirm is not None or not sys.stdin.isatty():
        return confirm == WORD
    print(visible(f"Type {WORD} to upload: "), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == WORD


def _send(
    api: "HfApi", contents: "Contents", repository: "Repository", out: Output, *, public: bool
) -> str:
    from zoo.gym.push.repository import send

    def watch(file: "Upload") -> None:
        out.say(f"sends {file.name} ({human_bytes(file.size_bytes)})")

    address = send(api, contents, repository, public=public, watch=watch)
    out.answer(f"sent to {address}")
    return address


def _answer(contents: "Contents", repo: str) -> dict[str, object]:
    return {
        "repo": repo,
        "files": [{"name": file.name, "bytes": file.size_bytes} for file in contents.files],
        "left_out": [{"name": name, "reason": reason} for name, reason in contents.left_out],
        "changed": list(contents.changed),
        "base": contents.base,
        "licence": contents.licence,
    }
