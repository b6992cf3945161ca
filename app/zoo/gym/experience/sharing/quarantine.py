"""Holds back lessons of others that have addresses, code, or orders to tools or about the model.

Patterns find what is written openly and nothing else: no filter makes a stranger's text safe.
Lessons that are learned here do not pass it.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from zoo.gym.experience.library.item import Item

_DOMAINS = "ai app biz cn co com de dev edu gov info io me net org ru sh site top uk us xyz zip"
_TOOLS = (
    r"tools?|functions?|apis?|commands?|shell|terminal|console|browser|scripts?|plugins?|programs?"
    r"|interpreters?|files?|folders?|endpoints?|urls?|links?|e-?mails?"
)
_PATTERNS = {
    "an address": (
        r"\b[a-z][a-z0-9+.-]{1,15}://|\bwww\.|\b(?:mailto|data|javascript):\S"
        rf"|\b(?:[a-z0-9-]+\.)+(?:{'|'.join(_DOMAINS.split())})\b|\b\d{{1,3}}(?:\.\d{{1,3}}){{3}}\b"
    ),
    "code": (
        r"`|\$\(|\$\{|\{\{|&&|\|\||<\||\|>|</?[a-z!]|=>|\binst\]|\w\(\)|;\s*$|\bimport\s+\w+\s*;?$"
        r"|\b(?:eval|exec|system|popen|require|compile|getattr|open)\s*\("
        r"|\b(?:sudo|curl|wget|chmod|pip3?\s+install|npm\s+install|rm\s+-|bash\s+-|sh\s+-|python3?\s+-)"
        r"|\b(?:def|class|lambda|function)\s+\w+\s*[(:]|#!|\.\./|/etc/|/bin/|~/"
    ),
    "an order to a tool": (
        r"\b(?:call|invoke|run|execute|open|launch|start|query|visit|fetch|download|upload|send|post"
        rf"|delete|write\s+to|read\s+from)\b(?:\s+\S+){{0,4}}?\s+(?:{_TOOLS})\b"
        rf"|\buse\s+(?:\S+\s+){{0,2}}?(?:{_TOOLS})\b"
    ),
    "an order about the model": (
        r"\b(?:ignore|disregard|forget|override|bypass)\b(?:\s+\S+){0,4}?"
        r"\s+(?:instructions?|prompts?|rules?|lessons?|messages?|above|before|previous)\b"
        r"|\bsystem\s+(?:prompt|message)|\byou\s+are\s+(?:now|a|an|not)\b|\b(?:pretend|role-?play)\b"
        r"|\bact\s+as\b|\b(?:reveal|repeat|print|leak)\b(?:\s+\S+){0,4}?\s+(?:prompt|key|password|secret)s?\b"
        r"|\b(?:always|only|just)\s+(?:answer|reply|respond|say|output|write|print)\s+(?:with\s+)?['\"\d]"
        r"|\bthe\s+(?:right\s+|correct\s+)?answer\s+is\b"
    ),
}
_COMPILED = {why: re.compile(pattern, re.IGNORECASE) for why, pattern in _PATTERNS.items()}


class HeldBack(NamedTuple):
    """A lesson in quarantine, and what it has: `an address`, `code` or an order."""

    item: Item
    why: str


def suspicion(text: str) -> str | None:
    """Returns what of the kinds above a lesson has, None if it has none."""
    plain = unicodedata.normalize("NFKC", text)
    return next((why for why, pattern in _COMPILED.items() if pattern.search(plain)), None)


def held_back(items: Iterable[Item], released: Iterable[str] = ()) -> list[HeldBack]:
    """Returns the lessons that are held back.

    Args:
        items: lessons of others.
        released: the ids of those that the user has read and wants.
    """
    known = set(released)
    found = [HeldBack(item, why) for item in items if (why := suspicion(item.text))]
    return [one for one in found if one.item.id not in known]
