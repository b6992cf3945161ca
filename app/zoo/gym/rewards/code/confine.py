"""Confines the calling process for good: no network, no processes, no files but its folder.

Linux only: a seccomp filter refuses system calls, and Landlock file access; neither needs a
privilege. This module is imported by `sandbox_child.py`, which imports nothing else of zoo-gym.
"""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Machine -> its number in seccomp's data (`AUDIT_ARCH_*`), and its column in `REFUSED`."""

REFUSED: dict[str, tuple[int | None, int | None]] = {
    # the network
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    # processes and threads
    "clone": (56, 220),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "unshare": (272, 97),
    "setns": (308, 268),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    # the time, the cores and the memory of other processes
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    # what processes share without files
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_unlink": (241, 181),
    # limits and memory that no limit counts
    "setrlimit": (160, 164),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "fallocate": (285, 47),
    # what Landlock does not cover
    "flock": (73, 32),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "truncate": (76, 45),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # the system
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "swapon": (167, 224),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "io_setup": (206, 0),
}
"""System calls that fail with EPERM, with their numbers on each machine."""

ABSENT: dict[str, tuple[int, int]] = {
    "clone3": (435, 435),
    "openat2": (437, 437),
    "io_uring_setup": (425, 425),
}
"""System calls that fail with ENOSYS, so that libraries use older ones."""

ALLOWED: dict[str, tuple[tuple[int, int], int, tuple[int, ...]]] = {
    # to duplicate, flags, locks of files; no signals, leases and notifications
    "fcntl": ((72, 25), 24, (0, 1, 2, 3, 4, 5, 6, 7, 9, 36, 37, 38, 1030, 1032)),
    # whether it is a terminal, its size, bytes to read, flags, clones of files
    "ioctl": (
        (16, 29),
        24,
        (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x40049409),
    ),
    # names of threads and of memory, the width of vectors
    "prctl": ((157, 167), 16, (15, 16, 51, 0x53564D41)),
}
"""System calls with few harmless commands: their numbers, the place of the command in seccomp's
data, and the commands that do not fail with EPERM."""

_PRLIMIT, _OPEN, _OPENAT, _CAPSET = (302, 261), (2, None), (257, 56), (126, 91)

_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_LOAD, _EQUAL, _AND, _RETURN, _ATLEAST = 0x20, 0x15, 0x54, 0x06, 0x35
_TRUNCATING, _ACCESS_MODE = os.O_TRUNC if hasattr(os, "O_TRUNC") else 0, 3

_READ = 0b1100  # READ_FILE, READ_DIR
_READ_FILE, _WRITE_FILE = 0b100, 0b010
_ALL_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Every right on files that Landlock knows from each version on."""
_SCOPES, _SCOPES_SINCE = 0b11, 6  # abstract sockets and signals


class UnconfinedError(Exception):
    """The system cannot confine a process; the message says why."""


def limit_resources(memory_bytes: int, cpu_s: int, file_bytes: int) -> None:
    """Limits memory, CPU time and the size of a file, where the system has limits."""
    if sys.platform == "win32":
        return
    import resource

    for kind, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        last = most + 1 if kind == resource.RLIMIT_CPU else most  # a signal with a name comes first
        least = last if hard == resource.RLIM_INFINITY else min(last, hard)
        try:
            resource.setrlimit(kind, (min(most, least), least))
        except (ValueError, OSError):  # macOS has no limit of address space
            continue


def confine(folder: str, readable: Iterable[str], system: str = sys.platform) -> None:
    """Confines this process and drops its privileges.

    Args:
        folder: the only folder that it can write to.
        readable: further files and folders that it can read.
        system: the name of the system, `linux`.

    Raises:
        UnconfinedError: the system has no Landlock or seccomp.
    """
    machine = MACHINES.get(platform.machine())
    if system != "linux" or machine is None or struct.calcsize("P") != 8:
        raise UnconfinedError(f"{system} on {platform.machine()} is not supported")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS
        raise UnconfinedError("it cannot give up new privileges")
    _restrict_files(libc, folder, readable)
    _drop_capabilities(libc, _CAPSET[machine[1]])
    program = seccomp_program(*machine)
    filters = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(filters))
    if libc.prctl(22, 2, ctypes.c_char_p(header), 0, 0):  # PR_SET_SECCOMP, a filter
        raise UnconfinedError(f"seccomp: {os.strerror(ctypes.get_errno())}")


def _restrict_files(libc: ctypes.CDLL, folder: str, readable: Iterable[str]) -> None:
    version = libc.syscall(444, None, ctypes.c_size_t(0), 1)
    if version < 1:
        raise UnconfinedError(f"Landlock: {os.strerror(ctypes.get_errno())}")
    newest = max(number for number in _ALL_BY_VERSION if number <= version)
    every = _ALL_BY_VERSION[newest]
    handled = struct.pack("Q", every)
    if version >= _SCOPES_SINCE:
        handled = struct.pack("QQQ", every, 0, _SCOPES)
    rules = libc.syscall(444, ctypes.c_char_p(handled), ctypes.c_size_t(len(handled)), 0)
    if rules < 0:
        raise UnconfinedError(f"Landlock: {os.strerror(ctypes.get_errno())}")
    allowed = [(folder, every & ~1)]  # all but to execute
    allowed += [(path, _READ if os.path.isdir(path) else _READ_FILE) for path in readable]  # noqa: PTH112
    allowed += [(path, _READ_FILE | _WRITE_FILE) for path in ("/dev/null", "/dev/zero")]
    for path, access in allowed:
        _allow(libc, rules, path, access)
    if libc.syscall(446, rules, 0):
        raise UnconfinedError(f"Landlock: {os.strerror(ctypes.get_errno())}")
    os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: str, access: int) -> None:
    if not os.path.exists(path):  # noqa: PTH110 - pathlib takes long to import
        return
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = struct.pack("=Qi", access, descriptor)
    failed = libc.syscall(445, rules, 1, ctypes.c_char_p(rule), 0)
    os.close(descriptor)
    if failed:
        raise UnconfinedError(f"Landlock: {path}: {os.strerror(ctypes.get_errno())}")


def _drop_capabilities(libc: ctypes.CDLL, capset: int) -> None:
    """Gives up root's privileges; a user without any keeps having none."""
    header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
    if libc.syscall(capset, ctypes.c_char_p(header), ctypes.c_char_p(none)):
        raise UnconfinedError(f"capabilities: {os.strerror(ctypes.get_errno())}")


def seccomp_program(machine: int, column: int) -> bytes:
    """Returns the filter: what it does not name is allowed.

    Args:
        machine: the number of the machine; system calls of another one end the process.
        column: the machine's column in the tables above.
    """
    code = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
    ]
    if column == 0:  # x32: the same calls under other numbers
        code += [(_ATLEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _KILL)]
    for numbers, error in ((REFUSED, _EPERM), (ABSENT, _ENOSYS)):
        for columns in numbers.values():
            number = columns[column]
            if number is not None:
                code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]
    # prlimit64 may read limits: its third argument, the new ones, is a null pointer
    code += _if_call(_PRLIMIT[column], [(_LOAD, 0, 0, 32), (_EQUAL, 1, 0, 0), _REFUSE])
    for columns, position, commands in ALLOWED.values():
        count = len(commands)
        checks = [(_EQUAL, count - index, 0, value) for index, value in enumerate(commands)]
        code += _if_call(columns[column], [(_LOAD, 0, 0, position), *checks, _REFUSE])
    # Landlock before version 3 lets a file be emptied that is opened for reading
    for number, flags in ((_OPEN[column], 24), (_OPENAT[column], 32)):
        masked = [
            (_LOAD, 0, 0, flags),
            (_AND, 0, 0, _TRUNCATING | _ACCESS_MODE),
            (_EQUAL, 0, 1, _TRUNCATING),
            _REFUSE,
        ]
        code += _if_call(number, masked)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in code)


_REFUSE = (_RETURN, 0, 0, _ERRNO | _EPERM)


def _if_call(
    number: int | None, then: list[tuple[int, int, int, int]]
) -> list[tuple[int, int, int, int]]:
    """Returns a block for one system call that ends with allowing it."""
    if number is None:
        return []
    block = [*then, (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(block), number), *block]
