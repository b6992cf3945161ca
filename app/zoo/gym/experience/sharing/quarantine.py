"""Holds back lessons of others that have addresses, code, or orders to tools or about the model.

Patterns find only what is written openly, in English: no filter makes a stranger's text safe, and a
lesson that is held back may be harmless. Lessons that are learned here are not filtered.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable

from zoo.gym.experience.library.item import Item, LeftOut

_DOMAINS = (
    "ai app biz cc ch click cloud club cn co com cz de dev edu eu fr gg gov icu info io jp kr"
    " ly me example invalid lol ml net nl online org pl ru sh shop site su tech tk top tv uk"
    " us website xyz zip"
)
_FILES = (
    "bat c cc cpp cs css csv doc docx exe go h html ini java js json log md pdf php png py r rb rs"
    " rst sh sql tex toml ts tsv txt xls xlsx xml yaml yml"
)
_HOST = rf"(?:[^\W_][\w-]*\.)+(?!(?:{'|'.join(_FILES.split())})\b)[^\W\d_]{{2,24}}\b"
_ADDRESSES = (
    r"\b[a-z][a-z0-9+.-]{1,15}://|\bwww\.|\b(?:mailto|data|javascript):\S|\blocalhost\b",
    rf"\b(?:[a-z0-9-]+\.)+(?:{'|'.join(_DOMAINS.split())})\b|\b\d{{1,3}}(?:\.\d{{1,3}}){{3}}\b",
    r"[\w.+-]+@[\w-]+\.\w|\[\.\]|[\[(]\s*dot\s*[\])]"
    r"|\w\s+dot\s+(?:com|net|org|io|tech|dev|ai|xyz|info|app|site|online|shop|club|edu|gov)\b",
    r"\b(?:call|phone|dial|text)\s+(?:\S+\s+){0,2}?\+?\d[\d\s()-]{6,}\d",
    rf"\b(?:visit|contact|browse|e-?mail|mail|ping)\s+(?:\S+\s+){{0,3}}?{_HOST}",
    rf"\b(?:go|navigate|connect|report|log\s?in|sign\s?(?:in|up))\s+(?:to|at|on)\s+{_HOST}",
    rf"\b(?:send|post|upload|forward|submit|copy)\s+(?:\S+\s+){{1,6}}?to\s+{_HOST}",
    r"\b(?:contact|e-?mail|phone)\s+(?:(?:me|us|support|admin)\b"
    r"|the\s+(?:admin|author|developer|owner|seller|support)\w*)",
)
_CODE = (
    r"`|\$\(|\$\{|\{\{|&&|\s\|\|\s|<\|[a-z_]+\|>|</[a-z]|<!|=>|\binst\]|\w\(\)|;\s*$",
    r"<[a-z][a-z0-9]*(?:\s+[\w-]+=[^<>]*)?\s*/?>|\bimport\s+\w+\s*;?$|\b[a-z0-9+/]{40,}={0,2}",
    r"\b(?:eval|exec|system|popen|require|compile|getattr|open)\(",
    r"\b(?:sudo|curl|wget|chmod|pip3?\s+install|npm\s+install|rm\s+-|bash\s+-|sh\s+-|python3?\s+-)",
    r"\b(?:def|class|lambda)\s+\w+\s*[(:]|\bfunction\s+\w+\s*\([^)]*\)\s*\{",
    r"#!|\.\./|/etc/|/bin/|~/",
)
_TOOLS = (
    "tools?|apis?|commands?|shell|terminal|console|browser|scripts?|plugins?|interpreters?"
    "|endpoints?"
)
_STORES = (
    r"(?:home|root)\s+(?:director|folder)\w*|disks?|(?:hard\s+)?drives?|databases?|backups?"
    r"|director(?:y|ies)|computers?|servers?|repositor\w+|file\s?systems?|partitions?|accounts?"
)
_WIPES = r"\b(?:delete|erase|wipe|destroy|purge|shred|corrupt|encrypt)"
_TO_TOOLS = (
    rf"\b(?:call|invoke|run|execute|launch|fetch|download|upload)\b(?:\s+\S+){{0,4}}?\s+(?:{_TOOLS}"
    r"|programs?|files?|folders?|urls?|links?)\b",
    r"\b(?:open|visit|query|send|post|write\s+to|read\s+from|delete)\s+(?:\S+\s+){0,2}?"
    r"(?:all|any|every|each|the|this|that|your|an?)\s+(?:\S+\s+){0,2}?"
    rf"(?:{_TOOLS}|files?|folders?|urls?|links?|e-?mails?)\b",
    rf"\b(?:use|open|start|query)\s+(?:\S+\s+){{0,2}}?(?:{_TOOLS})\b",
    r"\b(?:call|invoke|execute)\s+(?:the\s+)?\w+_\w+|\bfunction\s+calls?\b",
    rf"(?:{_WIPES}|\bformat)\b(?:\s+\S+){{0,4}}?\s+(?:{_STORES})\b",
    rf"{_WIPES}\s+(?:\S+\s+)?all\s+(?:(?:the|of|your|user|their)\s+)*"
    r"(?:data|files?|records|documents|content|memor\w+|logs)\b",
    r"\bremove\s+all\s+(?:(?:the|of|your|user|their)\s+)*(?:files|folders|backups|logs)\b",
    r"\b(?:use|run|used\s+with)\s+(?:rm|curl|wget|bash|ssh|powershell|cmd)\b|\btools?\s+named\b",
    rf"{_WIPES}\s+everything\s*(?:$|[.;!,]|on\b|in\b)|\bshut\s+down\s+the\b",
    r"\b(?:disable|switch\s+off|turn\s+off|deactivate)\b(?:\s+\S+){0,3}?\s+"
    r"(?:safety|security|antivirus|firewall|guardrails?|moderation|monitoring|safeguards?)\b",
    r"(?:^|[.;:!]\s*|\b(?:then|always|must|and)\s+)(?:transfer|send|wire|pay|donate|deposit)\b"
    r"(?:\s+\S+){0,4}?\s+(?:money|bitcoins?|btc|funds|crypto\w*|wallets?|gift\s+cards?)\b",
)
_NOT = r"(?<!not )(?<!n't )(?<!never )(?<!avoid )"
_START = rf"(?:^|[.;:!,]\s*|{_NOT}\bto\s+|\b(?:always|must|should|then|and|please)\s+)"
_DROP = rf"{_NOT}\b(?:ignore|disregard|forget|override|bypass|skip|discard|violate|break)\b"
_ORDERS = (
    r"instructions?|prompts?|guidance|guidelines?|directives?|safeguards?|guardrails?"
    r"|polic(?:y|ies)"
)
_SECRETS = (
    r"passwords?|passphrases?|(?:api|secret|private|access|encryption|ssh|your)[\s_-]*keys?"
    r"|(?:access|session|auth\w*)\s+tokens?|secrets|credit\s+cards?|social\s+security"
    r"|seed\s+phrases?|(?:user'?s?|login|your)\s+credentials?"
)
_SAYS = r"(?:answer|reply|respond|say|output|write|print|return|choose|pick|select|guess|state)"
_UNLESS = (
    r"(?!\s+(?:if|when|where|unless|or|and|for\s+(?:missing|absent|empty|unknown)|in\s+case)\b)"
)
_FORMATS = r"(?!(?-i:JSON|XML|YAML|HTML|CSV|TSV|SQL|LATEX|ASCII|UTF|ISO|TRUE|FALSE)\b)"
_FIXED = (
    r"(?:(?:option|choice|letter)\s+)?(?:['\"][^'\"]{1,60}['\"]|(?-i:[A-Z])\b"
    rf"|{_FORMATS}(?-i:[A-Z]{{4,}})\b|(?:yes|no|true|false|nothing|none)\b(?!/)"
    r"|\d[\d.,]*(?=\s*(?:$|[.;!]|to\b|for\b|on\b|whatever|regardless|every|always)))"
)
_ANY = r"(?:all|every|each|any)\s+(?:\S+\s+){0,2}?"
_ASKED = (
    r"(?:questions?|tasks?|prompts?|problems?|quer(?:y|ies)|inputs?|requests?|users?|items?|time)\b"
)
_REPLIES = r"(?:repl(?:y|ies)|answers?|responses?|messages?|outputs?|sentences?)"
_ABOUT_MODEL = (
    # other rules than those that the user and the program gave
    rf"{_DROP}(?:\s+\S+){{0,4}}?\s+(?:{_ORDERS})\b",
    rf"{_DROP}(?:\s+\S+){{0,3}}?\s+(?:earlier|previous|prior|above|preceding|other|your)\s+(?:\S+\s+)?"
    r"(?:rules?|lessons?|messages?|orders?|turns?|conversation|training|requests?|tasks?|context)\b",
    rf"{_DROP}(?:\s+\S+){{0,4}}?\s+(?:above|before|previously)\s*(?:$|[.;,!])",
    rf"{_DROP}\s+(?:\S+\s+)?(?:everything|anything|all|what\w*)\s+(?:\S+\s+){{0,4}}?"
    r"(?:above|earlier|said|says?|told|tells|wrote|written|asks?|asked|user|developer|system)\b",
    r"\b(?:do\s+not|don't|never|stop)\s+(?:follow|obey|listen|heed|comply|respect|trust|answer|help)"
    r"\w*\b(?:\s+\S+){0,5}?\s+(?:users?|developers?|system|operators?|instructions?|above|guidance)\b"
    r"(?![\s-]+(?:inputs?|data|names?|ids?|supplied|provided))",
    r"\byour\s+(?:\w+\s+)?(?:new|real|true|actual|only|secret|hidden)\s+"
    r"(?:goal|task|job|role|purpose|objective|mission|instructions?|orders?|name)\b",
    r"\bnew\s+(?:instructions?|orders?|directives?|system)\b\s*(?:$|[.;:,!])|\bfrom\s+now\s+on\b",
    r"\bfor\s+the\s+rest\s+of\s+(?:this|the)\s+(?:conversation|chat|session)\b",
    r"\b(?:overrides?|supersedes?|outranks?|(?:takes?|has)\s+(?:priority|precedence)\s+over)\s+"
    r"(?:\S+\s+)?(?:all|any|every|other|previous|earlier)\b(?:\s+\S+){0,2}?\s+"
    r"(?:lessons?|rules?|instructions?|others?|guidance|guidelines?)\b",
    r"\bsystem\s+(?:prompt|message)|\byou\s+are\s+now\b|\b(?:pretend|role-?play|jailbr\w+)\b",
    r"(?:^|[.;:!]\s*)you\s+are\s+(?:an?|not|no\s+longer)\b",
    rf"{_START}act\s+as\b|\byou\s+(?:must|will|should)\s+(?:now\s+)?(?:obey|become|serve)\b",
    r"\bobey\s+(?:me|us|only|whoever|the\s+(?:author|sender|writer))\b",
    r"\b(?:developer|god|dan|debug|admin)\s+mode\b|\b(?:unrestricted|uncensored)\b",
    rf"\bpay\s+no\s+(?:attention|heed)\s+to\s+(?:\S+\s+){{0,4}}?(?:{_ORDERS}|users?|developers?)\b",
    r"\b(?:user'?s?|developer'?s?|system|earlier|previous|your)\s+(?:\S+\s+)?"
    r"(?:instructions?|prompts?|rules?|requests?|wishes)\s+(?:do\s+not|don't|no\s+longer|never)\s+"
    r"(?:matter|apply|count)\b",
    r"\btreat\s+(?:\S+\s+){0,2}?user(?:s|'s)?\b.{0,30}\bas\s+(?:hostile|enem\w+|an?\s+enemy)\b",
    # secrets, and texts that spread
    rf"{_NOT}\b(?:reveal|repeat|print|leak|show|output|list)\s+(?:\S+\s+)?(?:your|these)\s+"
    r"(?:\S+\s+)?(?:instructions|lessons|rules)\b",
    rf"{_NOT}\b(?:reveal|repeat|print|leak|show|output)\b(?:\s+\S+){{0,4}}?\s+(?:prompt|{_SECRETS})\b",
    rf"{_NOT}\b(?:include|add|append|put|write|insert|send|share|tell|give|return|expose|disclose|copy"
    rf"|paste|quote|mention|ask\s+for|request|collect|steal|embed|list)\b(?:\s+\S+){{0,4}}?\s+"
    rf"(?:{_SECRETS})\b",
    r"\b(?:send|append|forward|output|repeat|leak|copy)\b(?:\s+\S+){0,3}?\s+"
    r"(?:conversation|chat\s+history|(?:your|these|all)\s+(?:\S+\s+)?(?:instructions|lessons))\b",
    r"\b(?:copy|repeat|include|insert|append|add|quote|write|put|say)\s+this\s+"
    r"(?:lesson|sentence|text|line|message|rule|instruction|link|phrase|word)\b",
    r"\b(?:delete|remove|drop|replace)\s+(?:\S+\s+){0,2}?lessons?\b",
    # answers that are fixed before the question
    rf"\b(?:always|only|just)\s+{_SAYS}\s+(?:with\s+)?{_FIXED}{_UNLESS}",
    r"\b(?:always|only|just)\s+(?:choose|pick|select)\s+the\s+(?:first|last|second|third)\b",
    rf"\b{_SAYS}\s+(?:with\s+)?(?:{_FIXED}|the\s+same\s+\w+)\s+(?:to|for|on|in|as)\s+(?:\S+\s+)?{_ANY}{_ASKED}",
    rf"\b(?:regardless\s+of|no\s+matter|whatever)\b.{{0,60}}\b{_SAYS}\s+(?:with\s+)?{_FIXED}",
    rf"\b(?:to|for|on|in)\s+{_ANY}{_ASKED},?\s+{_SAYS}\s+(?:with\s+)?{_FIXED}{_UNLESS}",
    r"\b(?:begin|start|end|finish|open|close|preface|prefix|append|conclude|sign)\b(?:\s+\S+){0,2}?\s+"
    rf"{_ANY}{_REPLIES}\s+(?:with|by)\s+(?:the\s+(?:words?|phrase|sentence|text|name|link)\b"
    rf"|['\"](?![^'\"]*(?:answer|result|:))|{_FORMATS}(?-i:[A-Z]{{3,}})\b)",
    rf"(?:^|[.;:!]\s*){_SAYS}\s+(?:with\s+)?{_FORMATS}(?-i:[A-Z]{{4,}})\b\s*(?:$|[.!;]|always|only)",
    r"(?:^|[.;:!]\s*)the\s+(?:right\s+|correct\s+)?answer\s+is\s+(?!often|usually|typically|sometimes"
    r"|rarely|seldom|expected|wanted|given|wrong|right|correct|incorrect|in\b|valid|not\b|only\b|an?\b"
    r"|what|compared|checked|graded|read\b|rounded)|\banswer\s+is\s+always\b",
    rf"\brefuse\s+(?:to\s+\w+\s+)?{_ANY}{_ASKED}|\bstop\s+(?:answering|responding|helping)\b",
    rf"\b{_SAYS}\s+{_ANY}{_ASKED}\s+(?:with|by)\s+{_FIXED}{_UNLESS}",
    rf"\b{_SAYS}\s+(?:with\s+)?{_FIXED}\s+(?:whatever|regardless|no\s+matter)\b",
    rf"(?:^|[.;:!]\s*)(?:every|each)\s+(?:right\s+|correct\s+)?answer\s+is\s+{_FIXED}{_UNLESS}",
    r"\b(?:add|append|insert|include|put|write|attach)\s+the\s+(?:words?|phrase|sentence|text|line)\s+"
    rf"['\"](?![^'\"]*(?:answer|result|:))[^'\"]+['\"]\s+(?:to|in|into|at\s+the\s+end\s+of)\s+{_ANY}{_REPLIES}",
    r"\bwrong\s+(?:answers|ones)\s+(?:are|is)\s+(?:better|best|wanted|fine)\b",
    r"\b(?:wrong|false|incorrect)\s+(?:\w+\s+)?(?:on\s+purpose|deliberately|intentionally)\b",
    # harm
    rf"{_NOT}\b(?:omit|drop|skip|hide|remove|leave\s+out)\s+(?:\S+\s+)?(?:safety|security)\s+"
    r"(?:warnings?|notes?|advice|information)\b",
    r"\b(?:say|claim|state)\s+that\s+(?:the\s+)?(?:products?|brands?|compan(?:y|ies))\s+\S+\s+is\s+"
    r"(?:the\s+)?best\b",
    rf"{_START}(?:insult|mock|abuse|threaten|deceive|mislead|trick|manipulate|harass|humiliate"
    r"|lie\s+to|scam|blackmail)\s+(?:\S+\s+){0,2}?"
    r"(?:readers?|users?|customers?|people|person|humans?|audience|developers?|anyone|everyone|them)\b",
    r"\b(?:always|must)\s+recommend\s+(?-i:[A-Z])|\b(?:advertise|promote)\s+(?-i:[A-Z])",
)
_COMPILED = {
    why: re.compile("|".join(patterns), re.IGNORECASE)
    for why, patterns in (
        ("an address", _ADDRESSES),
        ("code", _CODE),
        ("an order to a tool", _TO_TOOLS),
        ("an order about the model", _ABOUT_MODEL),
    )
}
_QUOTES = str.maketrans("\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb", '\'\'\'"""""')


def suspicion(text: str) -> str | None:
    """Returns what a lesson has: `an address`, `code` or an order; None if it has none."""
    letters = unicodedata.normalize("NFKD", text)
    plain = "".join(c for c in letters if not unicodedata.combining(c)).translate(_QUOTES)
    plain = " ".join(plain.split())
    return next((why for why, pattern in _COMPILED.items() if pattern.search(plain)), None)


def held_back(items: Iterable[Item], released: Collection[str] = ()) -> list[LeftOut]:
    """Returns the lessons that are held back.

    `released` are the ids of those that the user has read and wants.
    """
    suspicious = (LeftOut(item, why) for item in items if (why := suspicion(item.text)))
    return [lesson for lesson in suspicious if lesson.item.id not in released]
