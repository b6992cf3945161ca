"""The log of a round: an append-only Merkle tree in tiles, with signed heads and proofs.

Hashes and proofs are those of RFC 6962, tiles and heads those of C2SP's tlog-tiles and
tlog-checkpoint, so that other programs can read and witness a log. Nothing here knows what the
entries mean.
"""
