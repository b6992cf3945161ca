"""Reports where another version of TRL computes other losses than ours; never fails for that.

usage: python -m tests.house.drift [VERSION]    the newest release by default

The parity tests of `tests/gym/objectives` run against that version, installed into a temporary
folder without its dependencies, and its answers that differ are printed. A disagreement is news,
not an error: the objectives are defined by their papers, and the tests by the pinned version.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARITY = "tests/gym/objectives"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)(?: - (.*))?$")
_COUNTED = re.compile(r"\d+ (?:passed|failed|errors?)")


def install(version: str | None, folder: Path) -> None:
    """Installs TRL into a folder.

    Raises:
        subprocess.CalledProcessError: there is no such version, or no network.
    """
    wanted = f"trl=={version}" if version else "trl"
    options = ["--quiet", "--no-deps", "--upgrade", "--target", str(folder)]
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "pip", "install", "--python", sys.executable, *options, wanted], check=True)


def parity_tests() -> list[str]:
    """Returns the files of tests that compare with TRL."""
    found = (path for path in sorted((ROOT / PARITY).glob("test_*.py")))
    return [str(path.relative_to(ROOT)) for path in found if "trl" in path.read_text()]


def compare(folder: Path) -> str:
    """Returns what pytest prints for the parity tests with the TRL in a folder."""
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default"]
    done = subprocess.run(
        [*argv, *parity_tests()],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "300"},
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout


def report(version: str, printed: str) -> str:
    """Returns the differences that pytest printed, in words."""
    lines = printed.splitlines()
    failed = [match for line in lines if (match := _FAILED.match(line))]
    counts = _COUNTED.findall(lines[-1]) if lines else []
    if not counts:
        return f"TRL {version}: the comparison did not run:\n" + "\n".join(lines[-20:])
    if not failed:
        return f"TRL {version} agrees: {', '.join(counts)}"
    tests = [match[1].rpartition("/")[2].partition("[")[0] for match in failed]
    reasons = dict(zip(reversed(tests), (match[2] for match in reversed(failed)), strict=True))
    differ = [f"  {test}: {count} times, {reasons[test]}" for test, count in Counter(tests).items()]
    return "\n".join([f"TRL {version} differs: {', '.join(counts)}", *differ])


def main(words: list[str]) -> int:
    """Compares with a version, and prints what differs."""
    with tempfile.TemporaryDirectory(prefix="trl-") as name:
        folder = Path(name)
        install(words[0] if words else None, folder)
        (found,) = folder.glob("trl-*.dist-info")
        version = found.name.removeprefix("trl-").removesuffix(".dist-info")
        print(report(version, compare(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
