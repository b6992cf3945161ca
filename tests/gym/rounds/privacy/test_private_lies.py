"""Lies of a private round's maker: an invented report, or an invented header of the result."""

from json import loads
from typing import Any

import pytest

from tests.gym.rounds.protocol.people import LOG
from zoo.gym.delta.file.header import Base, Quality
from zoo.gym.rounds.compute import private
from zoo.gym.rounds.compute.private import publish_private
from zoo.gym.rounds.compute.publish import work_folder
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.privacy import mechanism
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.storage.base import FolderStorage

LIES: dict[str, tuple[dict[str, object], str]] = {
    "weights": ({"weights": [1, 0, 0]}, "fields of the report"),
    "rest": ({"rest": 9.0}, "fields of the report"),
    "refit": ({"refit": 8.0}, "fields of the report"),
    "gram": ({"gram": "11" * 32}, "fields of the report"),
    "newcomers": ({"newcomers": ["me"]}, "fields of the report"),
    "standings": ({"standings": "11" * 32}, "fields of the report"),
    "more": ({"audited_by": "nobody"}, "fields of the report"),
    "no list": ({"refused": "none"}, "published files"),
    "nobody": ({"contributions": []}, "published files"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", LIES)
def test_a_private_report_that_lies_fails(
    case: str, private_round: FolderStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, named = LIES[case]
    told = private.private_report
    with monkeypatch.context() as patch:

        def lying(*given: Any) -> dict[str, Any]:
            return {**told(*given), **changes}

        def believed(content: bytes) -> dict[str, Any]:
            return {**loads(content), **honest}

        honest: dict[str, object] = {} if named == "fields of the report" else {"refused": []}
        patch.setattr(private, "private_report", lying)
        patch.setattr(private, "read_report", believed)
        publish_private(private_round, LOG, force=True)
    opened = open_round(private_round)
    checks = verify(opened, work_folder(opened.state.id))
    assert [one.name for one in checks if one.ok is False] == [named]


QUALITY = Quality(rows=1, tokens=9, base=3.0, tuned=1.0, delta=1.0, recovered=1.0, kl=0.0)

INVENTED: dict[str, dict[str, Any]] = {
    "base": {"base": Base(identity="ab" * 32, id="zen-eco", revision=None)},
    "data": {"data": "ab" * 32},
    "parents": {"parents": ("cd" * 32,)},
    "privacy": {"privacy": None},
    "quality": {"quality": QUALITY},
    "recipe": {"recipe": {"audited": True}},
    "seed": {"seed": 1},
    "tool": {"tool": "endorsed by everybody 9"},
}


@pytest.mark.slow
@pytest.mark.parametrize("field", INVENTED)
def test_a_header_of_a_private_result_that_was_invented_fails(
    field: str, private_round: FolderStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = mechanism.private_header
    with monkeypatch.context() as patch:

        def lying(*given: Any) -> Any:
            return honest(*given).model_copy(update=INVENTED[field])

        patch.setattr(mechanism, "private_header", lying)
        publish_private(private_round, LOG, force=True)
    opened = open_round(private_round)
    checks = verify(opened, work_folder(opened.state.id))
    failed = {one.name: one.detail for one in checks if one.ok is False}
    assert list(failed) == ["header of the result"]
    assert field in failed["header of the result"]
