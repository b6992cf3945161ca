"""The Merkle tree against the known answers of RFC 6962's test vectors and by its own laws."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.rounds.log.reader import (
    Node,
    consistency_proof,
    join,
    leaf_hash,
    proves_consistency,
    root,
)

# the vectors of certificate-transparency's merkletree tests
ENTRIES = [
    bytes.fromhex(text) for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")
] + [bytes.fromhex("606162636465666768696a6b6c6d6e6f")]
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


def nodes_of(entries: list[bytes]) -> Node:
    """Returns the nodes of a small tree, computed from its leaves each time."""

    def node(level: int, index: int) -> bytes:
        if level == 0:
            return leaf_hash(entries[index])
        return join(node(level - 1, 2 * index), node(level - 1, 2 * index + 1))

    return node


@pytest.mark.parametrize("size", ROOTS)
def test_roots_are_those_of_the_published_vectors(size: int) -> None:
    assert root(size, nodes_of(ENTRIES)).hex() == ROOTS[size]


@pytest.mark.slow
@given(st.integers(1, 40), st.data())
def test_each_prefix_is_consistent_and_a_changed_one_is_not(new: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(1, new))
    node = nodes_of([bytes([number]) for number in range(new)])
    proof = consistency_proof(old, new, node)
    old_root, new_root = root(old, node), root(new, node)

    assert proves_consistency(old, old_root, new, new_root, proof)
    changed = data.draw(st.integers(0, old - 1))
    forked = nodes_of([bytes([number, number == changed]) for number in range(new)])
    assert not proves_consistency(old, root(old, forked), new, new_root, proof)
    assert not proves_consistency(old, old_root, new, root(new, forked), proof)


@given(st.integers(2, 40), st.data())
def test_a_changed_hash_in_a_proof_is_noticed(size: int, data: st.DataObject) -> None:
    node = nodes_of([bytes([number]) for number in range(size)])
    old = data.draw(st.integers(1, size - 1))
    proof = consistency_proof(old, size, node)
    at = data.draw(st.integers(0, len(proof) - 1))
    proof[at] = sha256(proof[at]).digest()

    assert not proves_consistency(old, root(old, node), size, root(size, node), proof)


def test_proofs_outside_the_tree_are_refused() -> None:
    node = nodes_of(ENTRIES)
    with pytest.raises(ValueError, match="expected 1 to 8, got 0"):
        consistency_proof(0, 8, node)
    assert not proves_consistency(0, b"", 8, b"", [])
