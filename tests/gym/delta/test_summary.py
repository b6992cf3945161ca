"""What `delta info` says."""

import json
from pathlib import Path

from zoo.gym.delta import Quality, as_json, as_text, load_delta
from zoo.gym.delta.file.writer import replace_header


def test_the_json_holds_header_digest_and_sizes(dense: Path) -> None:
    told = json.loads(json.dumps(as_json(load_delta(dense))))
    assert told["bytes"] == dense.stat().st_size
    assert (told["form"], told["base"]["id"], told["quality"]) == ("dense", "tiny", None)
    assert len(told["digest"]) == 64
    assert told["tensors"][0]["terms"] == [{"kind": "sign", "scale": "row", "zero": "minus"}]


def test_the_text_says_that_nothing_was_measured(dense: Path) -> None:
    assert "quality   not measured" in as_text(load_delta(dense))


def test_a_replaced_header_keeps_the_payload_and_tells_the_quality(
    dense: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "d.safetensors"
    copy.write_bytes(dense.read_bytes())
    quality = Quality(rows=2, tokens=1500, base=2.0, tuned=1.0, delta=1.25, recovered=0.75, kl=0.1)
    delta = load_delta(copy)
    changed = replace_header(delta, delta.header.model_copy(update={"quality": quality}))
    assert changed.header.quality == quality
    assert copy.read_bytes()[-changed.payload_bytes :] == dense.read_bytes()[-delta.payload_bytes :]
    assert "quality   measured by its maker: base 2.0000, tuned" in as_text(changed)
    doubt = "; it is not known whether they were learned"
    assert f"on 1,500 tokens of 2 rows, 75.0% of the gain kept, KL 0.1000{doubt}" in as_text(
        changed
    )
    known = replace_header(changed, changed.header.model_copy(update={"data": "0" * 64}))
    assert "on 1,500 tokens of 2 held-out rows, 75.0% of the gain kept, KL 0.1000\n" in as_text(
        known
    )
