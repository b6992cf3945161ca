"""What is particular to buckets: addresses, credentials, and two who create one object."""

from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.cli.conftest import write_model
from tests.gym.rounds.protocol.people import ALICE, LOG, commit
from zoo.gym.cli import main
from zoo.gym.errors import InputError
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.session.writing import create_round, leave, take
from zoo.gym.rounds.storage.http import open_storage
from zoo.gym.rounds.storage.s3 import S3Storage

CHUNK = "chunks/00/" + 64 * "0"


@pytest.mark.parametrize("address", ["s3://", "s3://bucket", "s3://b/x", "s3://bucket/../x"])
def test_an_address_without_bucket_and_prefix_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="expected"):
        open_storage(address)


@pytest.mark.slow
def test_of_two_who_create_an_object_the_second_is_refused(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = open_storage(bucket), open_storage(bucket)
    read = S3Storage.read

    def too_early(self: S3Storage, name: str) -> bytes | None:
        monkeypatch.setattr(S3Storage, "read", read)
        found = read(self, name)
        two.write(name, b"two")
        return found

    monkeypatch.setattr(S3Storage, "read", too_early)
    with raises("rounds.name_taken", "expected nothing or the same bytes"):
        one.write(CHUNK, b"one")
    assert one.read(CHUNK) == b"two"


@pytest.mark.slow
def test_what_the_service_refuses_is_named(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with raises("rounds.bucket_failed", "bucket does not exist"):
        open_storage("s3://nothing-of-this-name/rounds/x").write(CHUNK, b"x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with raises("rounds.bucket_failed", r"connect.*\n?.*AWS_ENDPOINT_URL"):
        open_storage(bucket).read(CHUNK)


@pytest.mark.slow
def test_a_round_can_be_made_in_a_bucket_and_found_by_its_name(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    base = str(write_model(tmp_path / "base", seed=1))
    words = ("--base", base, "--out", bucket, "--min-contributors", "2", "--method", "mean")
    assert main(["round", "create", "tiny", *words, "--tensors", "*"]) == 0
    assert main(["round", "show", "tiny"]) == 0
    assert main(["round", "show", bucket]) == 0
    assert main(["round", "verify", bucket]) == 0
    assert "FAILED" not in capsys.readouterr().out


@pytest.mark.slow
def test_folder_marker_in_a_bucket_is_skipped(
    bucket: str, storage: object, manifest: Manifest
) -> None:
    from s3fs import S3FileSystem

    place = open_storage(bucket)
    round_ = create_round(place, manifest, LOG)
    leave(place, commit(ALICE, round_, "alice"))
    name, _, prefix = bucket.removeprefix("s3://").partition("/")
    for key in (f"{prefix}/inbox/", f"{prefix}/inbox/READ ME.txt"):
        S3FileSystem(skip_instance_cache=True).call_s3("put_object", Bucket=name, Key=key, Body=b"")
    assert len(take(place, LOG).added) == 1
