"""A bucket of S3, or of a service that speaks its protocol, as storage.

Credentials, region and the address of another service are those of the environment, as AWS's own
tools read them (`AWS_PROFILE`, `AWS_ENDPOINT_URL`). A new file is created by a conditional request,
so that of two writers one is refused.
"""

import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, cast

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import InputError, NotAvailableError, StorageError
from zoo.gym.rounds.storage.base import MOST_BYTES, NoFileError, check_name, check_size

if TYPE_CHECKING:
    from s3fs import S3FileSystem

_ADDRESS = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(?P<prefix>[^?#]+)")

CONNECT_S, ANSWER_S = 10, 60


class S3Storage:
    """The files of a round below a prefix of a bucket.

    Args:
        address: `s3://BUCKET/PREFIX`.

    Raises:
        InputError: it is another address.
        NotAvailableError: the extra `rounds` is not installed.
    """

    def __init__(self, address: str) -> None:
        match = _ADDRESS.fullmatch(address.rstrip("/"))
        if match is None:
            raise InputError(
                f"{address!r}: expected an address as s3://BUCKET/PREFIX", code="rounds.bad_address"
            )
        check_name(match["prefix"])
        self._top = f"{match['bucket']}/{match['prefix']}"
        self.address = f"s3://{self._top}"
        self._files = _file_system()

    def read(self, name: str) -> bytes | None:
        """Returns the bytes of an object, None where there is none."""
        path = self._path(name)
        with self._errors(name), suppress(FileNotFoundError):
            content = cast("bytes", self._files.cat_file(path, start=0, end=MOST_BYTES + 1))
            if len(content) > MOST_BYTES:
                raise NoFileError(
                    f"{self.address}/{name}: expected at most {MOST_BYTES} bytes",
                    code="rounds.no_file",
                )
            return content
        return None

    def write(self, name: str, content: bytes) -> None:
        """Creates an object; the same bytes again are accepted."""
        path = self._path(name)
        stored = self.read(name)
        if stored is None:
            check_size(name, content)
            try:
                self._files.pipe_file(path, content, mode="create")
            except _failures():
                stored = self.read(name)
                if stored is None:  # not another writer: the service refused it
                    with self._errors(name):
                        raise
            else:
                return
        if stored != content:
            raise StorageError(
                f"{self.address}/{name}: expected nothing or the same bytes, got others",
                code="rounds.name_taken",
            )

    def replace(self, name: str, content: bytes) -> None:
        """Replaces an object."""
        path = self._path(name)
        check_size(name, content)
        with self._errors(name):
            self._files.pipe_file(path, content)

    def size(self, name: str) -> int | None:
        """Returns the number of bytes of an object, None where there is none."""
        path = self._path(name)
        with self._errors(name), suppress(FileNotFoundError):
            info = self._files.info(path)
            return int(info["size"]) if info["type"] == "file" else None
        return None

    def names(self, prefix: str) -> list[str]:
        """Returns the names of the objects below a folder of names, sorted."""
        path = self._path(prefix)
        with self._errors(prefix):
            paths = cast("list[str]", self._files.find(path))
        return sorted(key.removeprefix(f"{self._top}/") for key in paths)

    def _path(self, name: str) -> str:
        return f"{self._top}/{check_name(name)}"

    @contextmanager
    def _errors(self, name: str) -> Generator[None]:
        try:
            yield
        except _failures() as error:
            reason = str(error).partition("\n")[0][:300] or type(error).__name__
            raise StorageError(
                f"{self.address}/{name}: {reason}",
                hint="credentials and endpoint are those of the environment: AWS_PROFILE, "
                "AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL",
                code="rounds.bucket_failed",
            ) from error


def _failures() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError

    return OSError, BotoCoreError, ClientError


def _file_system() -> "S3FileSystem":
    try:
        from s3fs import S3FileSystem
    except ModuleNotFoundError as error:
        raise NotAvailableError(
            f"address s3://: expected the package {error.name}, got nothing",
            hint=install_command("rounds"),
            code="rounds.package_missing",
        ) from None
    timeouts = {"connect_timeout": CONNECT_S, "read_timeout": ANSWER_S}
    return S3FileSystem(use_listings_cache=False, skip_instance_cache=True, config_kwargs=timeouts)
