"""Formats sizes, numbers and times for people, the same in commands and app."""

import datetime as dt
import math
import re


def human_bytes(count: int) -> str:
    """Returns a size for people: `812 bytes`, `42.8 kB`, `1.5 GB`."""
    if count < 1000:
        return f"{count} bytes"
    size = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 999.95 or unit == "TB":
            return f"{size:.1f} {unit}"
    raise AssertionError


def parsed_bytes(text: str) -> int | None:
    """Returns a size as people write it, in powers of 1000; None for another text.

    >>> parsed_bytes("100kB"), parsed_bytes("1.5 MB"), parsed_bytes("100_000"), parsed_bytes("-5")
    (100000, 1500000, 100000, None)
    """
    match = re.fullmatch(r"([0-9][0-9_,]*(?:\.[0-9]+)?) ?([kmgt]?)b?", text.strip().lower())
    if match is None:
        return None
    number = float(match[1].replace("_", "").replace(",", ""))
    return round(number * 10.0 ** (3 * " kmgt".index(match[2] or " ")))


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun: `1 row`, `1,200 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def figure(value: object) -> str:
    """Returns a number with four digits, and anything else as it is; None is `not a number`."""
    if value is None:
        return "not a number"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """Returns a time for people: `0.04 s`, `40 s`, `6 min`, `2 h 5 min`."""
    if not -1e12 < seconds < 1e12:
        return "unknown time"
    if 0 < seconds < 0.5:  # not `0 s`, which would say that nothing happened
        return f"{max(seconds, 0.01):.1g} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def download_time(size_bytes: int) -> str:
    """Returns how long a download takes, by a line of a usual speed: `2 min at 100 Mbit/s`."""
    return f"{duration(size_bytes * 8 / 100e6)} at 100 Mbit/s"


def money(usd: float) -> str:
    """Returns an amount with the digits that it needs: `0 USD`, `5.00 USD`, `0.0212 USD`."""
    if not usd:
        return "0 USD"
    digits = 2 if abs(usd) >= 1 else min(15, 2 - math.floor(math.log10(abs(usd))))
    text = f"{usd:,.{digits}f}"
    if digits > 2:  # cents at least, and no zeros behind them
        units, _, cents = text.partition(".")
        text = f"{units}.{cents[:2]}{cents[2:].rstrip('0')}"
    return f"{text} USD"


def today() -> str:
    """Returns the date of this machine, as `2026-01-31`."""
    return dt.datetime.now().astimezone().date().isoformat()
