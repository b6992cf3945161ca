"""The hostile corpus: malformed files by the dozen, and the words with which each is refused.

usage: python -m tests.core.hostile FOLDER   writes every class as a file
       python -m tests.core.hostile --seeds  writes the fuzzers' small seeds anew

`SAFETENSORS`, `GGUF` and `DELTA` map a name to a class; a class makes its bytes when asked, since
some are large. Those that the safetensors library accepts are marked.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEED_BYTES = 2000


@dataclass(frozen=True)
class Hostile:
    """A class of malformed files.

    Attributes:
        make: returns the file.
        phrase: part of the sentence that refuses it.
        accepted: the safetensors library takes it.
        finite: it is found where NaN and infinities are looked for.
    """

    make: Callable[[], bytes]
    phrase: str
    accepted: bool = False
    finite: bool = False


def of(content: bytes, phrase: str) -> Hostile:
    """Returns the class of a small file."""
    return Hostile(lambda: content, phrase)


def corpora() -> dict[str, dict[str, Hostile]]:
    """Returns the classes by format."""
    from tests.core.hostile_delta import DELTA
    from tests.core.hostile_gguf import GGUF
    from tests.core.hostile_safetensors import SAFETENSORS

    return {"safetensors": SAFETENSORS, "gguf": GGUF, "delta": DELTA}


def write_all(folder: Path) -> int:
    """Writes every class to `folder`/format/name and returns how many there are."""
    count = 0
    for form, classes in corpora().items():
        (folder / form).mkdir(parents=True, exist_ok=True)
        for name, hostile in classes.items():
            (folder / form / name.replace(" ", "-").replace("/", "_")).write_bytes(hostile.make())
            count += 1
    return count


def sound() -> dict[str, dict[str, bytes]]:
    """Returns small files beside the classes that are as they should be, by format."""
    from tests.core.hostile_delta import SOUND as DELTAS
    from tests.core.hostile_gguf import SOUND as GGUFS
    from tests.core.hostile_safetensors import SOUND as SAFETENSORS

    return {"safetensors": SAFETENSORS, "gguf": GGUFS, "delta": DELTAS}


def write_seeds(folder: Path) -> int:
    """Writes the small classes and the sound files to `folder`/format/name; returns their bytes."""
    total = 0
    for form, classes in corpora().items():
        seeds = sound()[form] | {n: h.make() for n, h in classes.items() if "million" not in n}
        (folder / form).mkdir(parents=True, exist_ok=True)
        for stale in (folder / form).iterdir():
            stale.unlink()
        for name, content in seeds.items():
            if len(content) <= SEED_BYTES:
                path = folder / form / name.replace(" ", "-").replace("/", "_")
                path.write_bytes(content)
                total += len(content)
    return total


if __name__ == "__main__":
    if sys.argv[1:] == ["--seeds"]:
        print(write_seeds(ROOT / "core-rs" / "fuzz" / "corpus"), "bytes of seeds")
    else:
        print(write_all(Path(sys.argv[1])), "classes")
