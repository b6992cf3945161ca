"""Opens the storage of a round by its address."""

from pathlib import Path

from zoo.gym.rounds.storage.address import is_address
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.folder import FolderStorage
from zoo.gym.rounds.storage.http import HttpStorage


def open_storage(address: str) -> Storage:
    """Returns the storage at an address; nothing is read yet.

    Args:
        address: a folder, `https://HOST/rounds/NAME`, or `s3://BUCKET/PREFIX`.

    Raises:
        NotAvailableError: the extra that it needs is not installed.
        InputError: it is of another kind, or has a password in it.
    """
    if not is_address(address):
        return FolderStorage(Path(address))
    if address.startswith("s3://"):
        from zoo.gym.rounds.storage.s3 import S3Storage

        return S3Storage(address)
    return HttpStorage(address)
