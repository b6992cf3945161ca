"""Atomic writing of files and folders, and reading of small files.

`atomic` writes, syncs and renames them, `reading` reads them, `lock` locks them.
"""

from zoo.gym.files.atomic import (
    check_new_file,
    check_new_folder,
    check_replaceable_folder,
    leftovers,
    move_over,
    new_file,
    new_folder,
    private,
    private_path,
    read_errors,
    remove_file,
    settle_inside,
    storage_errors,
    sync_file,
    sync_folder,
    write_beside,
)
from zoo.gym.files.reading import json_object, open_regular, read_json_object, read_small

__all__ = [
    "check_new_file",
    "check_new_folder",
    "check_replaceable_folder",
    "json_object",
    "leftovers",
    "move_over",
    "new_file",
    "new_folder",
    "open_regular",
    "private",
    "private_path",
    "read_errors",
    "read_json_object",
    "read_small",
    "remove_file",
    "settle_inside",
    "storage_errors",
    "sync_file",
    "sync_folder",
    "write_beside",
]
