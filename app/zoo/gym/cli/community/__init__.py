"""Commands of rounds that go beyond one machine."""
