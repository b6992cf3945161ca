"""`zoo-gym keys`: the key that signs what you share, and the keys of others that you trust."""

from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.signing import (
    OwnKey,
    PublicKey,
    create_key,
    distrust,
    load_key,
    parse_key,
    trust,
    trusted_keys,
)
from zoo.gym.signing.keys import key_file
from zoo.gym.signing.trusted import trusted_file


def show(*, as_json: Json = False) -> int:
    """Shows your public key, which others need to trust what you sign.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    return _show(Output(as_json), load_key())


def create(*, as_json: Json = False) -> int:
    """Makes your key; signing anything makes one, too, if there is none.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    try:
        key = create_key()
    except FileExistsError:
        raise InputError(
            f"{key_file()}: expected no key, got one: it is never replaced",
            hint="show it: zoo-gym keys show",
            code="cli.key_exists",
        ) from None
    return _show(Output(as_json), key)


def trust_key(name: str, key: str, /, *, as_json: Json = False) -> int:
    """Trusts a key of somebody else: what it signed keeps its evidence, and it counts in keep.

    Args:
        name: what you call its owner
        key: the public key, as its owner's keys show prints it
        as_json: print one JSON object as stdout's last line
    """
    out, public = Output(as_json), parse_key(key)
    trust(name, public)
    out.answer(f"{name} is trusted: compare the fingerprint with its owner: {public.fingerprint}")
    out.result(_entry(name, public))
    return 0


def distrust_key(name: str, /, *, as_json: Json = False) -> int:
    """Trusts a key no more; libraries in your store that it signed stay.

    Args:
        name: the name of the key
        as_json: print one JSON object as stdout's last line
    """
    out, public = Output(as_json), distrust(name)
    out.answer(f"{name} is trusted no more: {public.fingerprint}")
    out.result(_entry(name, public))
    return 0


def list_keys(*, as_json: Json = False) -> int:
    """Lists the keys that you trust.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    entries = [_entry(name, key) for name, key in sorted(trusted_keys().items())]
    for entry in entries:
        out.answer(f"{entry['name']:<12} {entry['fingerprint']}  {entry['key']}")
    if not entries:
        out.say("no trusted keys yet: zoo-gym keys trust NAME KEY")
    out.result({"keys": entries, "file": str(trusted_file())})
    return 0


def _entry(name: str, key: PublicKey) -> dict[str, object]:
    return {"name": name, "key": str(key), "fingerprint": key.fingerprint}


def _show(out: Output, key: OwnKey) -> int:
    out.answer(str(key.public))
    out.say(f"fingerprint: {key.public.fingerprint}; the private key is in {key_file()}")
    out.result(
        {
            "key": str(key.public),
            "fingerprint": key.public.fingerprint,
            "file": str(key_file()),
        }
    )
    return 0
