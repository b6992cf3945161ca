"""Sends files to a repository of the Hub, in one commit after the weights are there.

A killed push leaves no half model: files are stored first, each by its SHA-256, and one commit
shows them all. The same command again sends only what is missing. Transfers use Git LFS, not Xet.
"""

import hashlib
import os
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.push.contents import Contents, Upload
from zoo.models.hub import is_offline

if TYPE_CHECKING:
    from huggingface_hub import (
        CommitOperationAdd,
        CommitOperationCopy,
        CommitOperationDelete,
        HfApi,
    )

Watch = Callable[[Upload], object]
"""Called with each file before it is sent."""

STALE = ("*.safetensors", "*.safetensors.index.json", "adapter_config.json", "*.bin")
"""Files that would be loaded with, or in place of, those of another model."""

_LOGIN = "log in with a token that may write: hf auth login"


@dataclass(frozen=True)
class Repository:
    """A repository of the Hub before the upload.

    Attributes:
        id: `owner/name`.
        commit: its newest commit; None if it does not exist.
        private: whether only its owner sees it.
        digests: the SHA-256 of stored weights, and the git object id of other files, by name.
    """

    id: str
    commit: str | None
    private: bool
    digests: Mapping[str, str]

    def has(self, file: Upload) -> bool:
        """Returns whether a file is there with the same content."""
        stored = self.digests.get(file.name)
        return stored is not None and stored in (_sha256(file), _git_id(file))


def open_hub() -> "HfApi":
    """Returns a client of the Hub with the saved token.

    Raises:
        NotAvailableError: the Hub is disabled, or there is no token.
    """
    if is_offline():
        raise NotAvailableError(
            "push: expected the network, got HF_HUB_OFFLINE",
            hint="--dry-run shows what would be sent",
            code="push.offline",
        )
    from huggingface_hub import HfApi, constants, get_token

    constants.HF_HUB_DISABLE_XET = True
    token = get_token()
    if token is None:
        raise NotAvailableError(
            "push: expected a token of the Hub, got none", hint=_LOGIN, code="push.no_token"
        )
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)


def find_repository(api: "HfApi", name: str) -> Repository:
    """Returns the state of a repository that belongs to the token's owner.

    Args:
        api: see `open_hub`.
        name: `owner/name`, or `name` alone for one of your own.

    Raises:
        InputError: it would belong to somebody else.
        NotAvailableError: the token is refused, or there is no connection.
    """
    from huggingface_hub import errors

    with _translated_errors(name):
        me = api.whoami()
        owners = [me["name"], *(org["name"] for org in me.get("orgs", []))]
        repo_id = name if "/" in name else f"{me['name']}/{name}"
        if repo_id.partition("/")[0] not in owners:
            raise InputError(
                f"{name}: expected a repository of {' or '.join(owners)}, got another owner's",
                hint=f"{me['name']}/{repo_id.partition('/')[2]}",
                code="push.other_owner",
            )
        try:
            info = api.model_info(repo_id, files_metadata=True)
        except errors.RepositoryNotFoundError:
            return Repository(repo_id, None, private=True, digests={})
    digests = {
        file.rfilename: file.lfs.sha256 if file.lfs else file.blob_id or ""
        for file in info.siblings or []
    }
    return Repository(repo_id, info.sha, bool(info.private), digests)


def missing(contents: Contents, repository: Repository) -> list[Upload]:
    """Returns the files that are not in a repository with the same content."""
    return [file for file in contents.files if not repository.has(file)]


def stale(contents: Contents, repository: Repository) -> list[str]:
    """Returns the weights in a repository that are not in the upload."""
    names = {file.name for file in contents.files}
    others = sorted(set(repository.digests) - names)
    return [name for name in others if any(fnmatch(name, pattern) for pattern in STALE)]


def refuse_other(
    contents: Contents, repository: Repository, *, public: bool, replace: bool
) -> None:
    """Refuses a repository that is seen by others than meant, or has another model.

    Raises:
        InputError: see above.
    """
    if repository.commit is None:
        return
    if not repository.private and not public:
        raise InputError(
            f"{repository.id} is PUBLIC: everybody can read what you send there",
            hint="choose another name, or agree with --public",
            code="push.public",
        )
    if repository.private and public:
        raise InputError(
            f"--public: {repository.id} exists and is private: it stays so",
            hint="leave --public out, or change it on its page at the Hub",
            code="push.stays_private",
        )
    names = {file.name for file in missing(contents, repository)} & repository.digests.keys()
    others = sorted({*names, *stale(contents, repository)})
    if others and not replace:
        raise InputError(
            f"{repository.id}: expected an empty repository, got one with another {others[0]}",
            hint="choose another name, or agree with --replace",
            code="push.not_empty",
        )


def send(
    api: "HfApi", contents: Contents, repository: Repository, *, public: bool, watch: Watch
) -> str:
    """Creates the repository if it does not exist, sends what it lacks, and returns its address.

    Raises:
        InputError: the name was taken meanwhile.
        GymError: the repository is not private although it has to be, and nothing was sent to it;
            or a file is not there afterwards.
        NotAvailableError: the token is refused, or the connection failed.
    """
    with _translated_errors(repository.id):
        if repository.commit is None:
            api.create_repo(repository.id, private=not public)
        if not public and not api.model_info(repository.id).private:
            raise GymError(
                f"{repository.id}: expected a private repository, got a public one: nothing was"
                " sent",
                code="push.not_private",
            )
        operations: list[CommitOperationAdd | CommitOperationDelete | CommitOperationCopy] = []
        for file in missing(contents, repository):
            watch(file)
            addition = _addition(file)
            with warnings.catch_warnings():
                # the library passes a file to httpx in an old way
                warnings.simplefilter("ignore", DeprecationWarning)
                api.preupload_lfs_files(repository.id, [addition])
            operations.append(addition)
        operations += map(_deletion, stale(contents, repository))
        if operations:
            api.create_commit(
                repository.id,
                operations,
                commit_message="Upload with zoo-gym",
                parent_commit=repository.commit,
            )
    if lost := missing(contents, find_repository(api, repository.id)):
        raise GymError(
            f"{repository.id}: expected every file there, got none or another {lost[0].name}",
            hint="a .gitignore there may leave it out",
            code="push.not_there",
        )
    return f"{api.endpoint}/{repository.id}"


def _addition(file: Upload) -> "CommitOperationAdd":
    from huggingface_hub import CommitOperationAdd

    source = file.source if isinstance(file.source, bytes) else str(file.source)
    return CommitOperationAdd(path_in_repo=file.name, path_or_fileobj=source)


def _deletion(name: str) -> "CommitOperationDelete":
    from huggingface_hub import CommitOperationDelete

    return CommitOperationDelete(name)


def _sha256(file: Upload) -> str:
    if isinstance(file.source, bytes):
        return hashlib.sha256(file.source).hexdigest()
    with file.source.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _git_id(file: Upload) -> str:
    """Returns the id that git gives to a file: the SHA-1 of its size and content."""
    digest = hashlib.sha1(b"blob %d\0" % file.size_bytes, usedforsecurity=False)
    if isinstance(file.source, bytes):
        digest.update(file.source)
        return digest.hexdigest()
    with file.source.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def _translated_errors(name: str) -> Generator[None]:
    """Turns errors of the hub's library into ours, without tokens in them."""
    from httpx2 import HTTPError
    from huggingface_hub import errors

    try:
        yield
    except (errors.HfHubHTTPError, HTTPError, ConnectionError, RuntimeError, ValueError) as error:
        raise _translated(name, error) from error


def _translated(name: str, error: Exception) -> GymError:
    status = _status(error)
    if status == 401:
        message = f"{name}: the Hub refuses the token"
        return NotAvailableError(message, hint=_LOGIN, code="push.token_refused")
    if status == 403:
        message = f"{name}: the token may not write there"
        return NotAvailableError(message, hint=_LOGIN, code="push.forbidden")
    if status == 409:
        return InputError(
            f"{name}: expected a name that is free, got that of a repository",
            hint="choose another name, or run the same command again to see what is in it",
            code="push.name_taken",
        )
    if status == 412:
        return InputError(
            f"{name}: somebody else changed the repository meanwhile",
            hint="run the same command again: what was sent is not sent twice",
            code="push.changed_meanwhile",
        )
    cause = error.__cause__ or error  # the library wraps what an upload raises
    reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    return NotAvailableError(
        f"{name}: cannot send to the Hub: {reason}",
        hint="run the same command again: what was sent is not sent twice",
        code="push.failed",
    )


def _status(error: BaseException | None) -> int | None:
    """Returns the HTTP status of an error or of what caused it."""
    while error is not None:
        if (response := getattr(error, "response", None)) is not None:
            return int(response.status_code)
        error = error.__cause__
    return None
