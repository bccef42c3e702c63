"""Seals: a turn's sampled token ids, encrypted, in the hands of the client that will send the turn back.

A seal rides on each complete reasoning segment. It holds the ids sampled since the previous seal up to and including the
segment's closing marker; where a call ends the reasoning, up to the last token before the call's opening marker. Layout::

    base64url( format 1 | key id 4 | binding 4 | nonce 12 | AES-256-GCM( tag 10 | index | size | opening | id | id ... ) 16 more )

`binding` is a digest of family and tokenizer, there only to tell another model's seal from a damaged one. Both are, with
format and tenant, associated data of the cipher, so nothing opens for another tenant or model. `opening` (UTF-8, `size` bytes) is
what the prompt held behind the assistant header, in a turn's first seal. Numbers are varints.
What does not open is ignored, never an error: clients mix turns of several servers in one history.
"""

import base64
import binascii
import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon_turns import ids

KEY_BYTES = 32
NONCE_BYTES = 12
IDS_FORMAT = b"\x01"
TEXT_FORMAT = b"\x02"
_KEY_ID_BYTES = 4
_HEADER_BYTES = 1 + _KEY_ID_BYTES + 4 + NONCE_BYTES
_TAG_BYTES = ids.TAG_BYTES
# Clients were measured to bring back values of up to a megabyte; a longer seal is not made.
MAX_SEAL_CHARACTERS = 1_000_000
MEMO_IDS = 2_000_000

Reason = Literal["foreign", "unsealed", "unknown_key", "other_model", "damaged", "moved", "bad_tokens"]
"""Why a carrier gives no ids. foreign: not one of ours. unsealed: ours, without a seal. unknown_key: of another server, or
older than the keys. other_model: other family or tokenizer. damaged: does not open (changed, or another tenant's). moved:
opens, but belongs to another turn or segment. bad_tokens: ids this model has not, or control tokens that end a turn."""


class SealKey(msgspec.Struct, frozen=True):
    """One AES-256 key. Its `key_id` is public. The text form shows nothing of the key."""

    secret: bytes

    @property
    def key_id(self) -> bytes:
        """What a seal says of the key it was made with."""
        return hashlib.sha256(b"antiphon seal key\0" + self.secret).digest()[:_KEY_ID_BYTES]

    def __repr__(self) -> str:
        return f"SealKey({self.key_id.hex()})"


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """What a seal is good for. `refused` ids may not stand in one: control tokens that the family does not allow within a turn."""

    family: str
    fingerprint: str
    vocab_size: int
    refused: frozenset[int] = frozenset()

    @property
    def digest(self) -> bytes:
        """Four bytes that tell models apart."""
        return hashlib.sha256(_fields(self.family, self.fingerprint)).digest()[:4]


class Opened(msgspec.Struct, frozen=True):
    """What a carrier held: the ids of segment `index` of turn `tag`, or None and the reason. `opening` is the prompt's end behind the
    assistant header, None but in the first seal of a turn."""

    ids: "array[int] | None"
    reason: Reason | None = None
    tag: str = ""
    index: int = 0
    opening: str | None = None


class Seals:
    """Makes and opens seals with a list of keys: the first seals, all open. `random_bytes(n)` gives n unpredictable bytes; a
    key is good for 2**32 seals."""

    def __init__(self, keys: Iterable[SealKey], *, random_bytes: Callable[[int], bytes]) -> None:
        self._ciphers = {key.key_id: AESGCM(key.secret) for key in keys}
        self._first = next(iter(self._ciphers))
        self._random_bytes = random_bytes
        self._memo: OrderedDict[tuple[str, bytes, str], Opened] = OrderedDict()
        self._memo_ids = 0

    def seal_ids(self, token_ids: Sequence[int], *, tag: str, index: int, tenant: str, binding: Binding, opening: str | None = None) -> str:
        """The carrier of a segment, with the seal of its ids in it; a bare one where the seal would be too long."""
        body = bytearray(base64.b32decode(tag.upper()))
        _put_varint(body, index)
        spelled = b"" if opening is None else opening.encode("utf-8", "surrogatepass")
        _put_varint(body, 0 if opening is None else len(spelled) + 1)
        body += spelled
        for token_id in token_ids:
            _put_varint(body, token_id)
        associated = _fields(tenant, binding.family, binding.fingerprint)
        seal = self._encrypt(IDS_FORMAT, binding.digest, bytes(body), associated)
        if len(seal) > MAX_SEAL_CHARACTERS:
            return ids.carrier(tag, index)
        carrier = ids.carrier(tag, index, seal)
        self._remember((tenant, binding.digest, carrier), Opened(array("I", token_ids), tag=tag, index=index, opening=opening))
        return carrier

    def open_ids(self, carrier: str, *, tenant: str, binding: Binding) -> Opened:
        """What a returned carrier holds. Never raises, whatever the text is."""
        named = ids.split_carrier(carrier)
        if named is None:
            return Opened(None, "foreign")
        seal = ids.seal_of(carrier)
        if not seal:
            return Opened(None, "unsealed")
        known = (tenant, binding.digest, carrier)
        if known in self._memo:
            self._memo.move_to_end(known)
            return self._memo[known]
        opened = self._open(seal, named, tenant, binding)
        if opened.ids is not None:
            self._remember(known, opened)
        return opened

    def seal_text(self, text: str, *, tenant: str) -> str:
        """Text that only this server's keys and this tenant can read again; any model may."""
        return self._encrypt(TEXT_FORMAT, bytes(4), text.encode("utf-8", "surrogatepass"), _fields(tenant))

    def open_text(self, value: str, *, tenant: str) -> str | None:
        """The text of `seal_text`, None for anything else."""
        body = self._decrypt(value, TEXT_FORMAT, _fields(tenant))
        return body.decode("utf-8", "surrogatepass") if isinstance(body, bytes) else None

    def _open(self, seal: str, named: tuple[str, int], tenant: str, binding: Binding) -> Opened:
        associated = _fields(tenant, binding.family, binding.fingerprint)
        body = self._decrypt(seal, IDS_FORMAT, associated, binding.digest)
        if not isinstance(body, bytes):
            return Opened(None, body)
        index, at = _read_varint(body, _TAG_BYTES)
        size, at = _read_varint(body, at)
        start = at + max(size - 1, 0)
        token_ids = _read_varints(body, start)
        if token_ids is None or start > len(body):
            return Opened(None, "damaged")
        if (base64.b32encode(body[:_TAG_BYTES]).decode().lower(), index) != named:
            return Opened(None, "moved")
        opening = body[at:start].decode("utf-8", "surrogatepass") if size else None
        if any(token_id >= binding.vocab_size or token_id in binding.refused for token_id in token_ids):
            return Opened(None, "bad_tokens")
        return Opened(array("I", token_ids), tag=named[0], index=named[1], opening=opening)

    def _encrypt(self, form: bytes, digest: bytes, body: bytes, associated: bytes) -> str:
        nonce = self._random_bytes(NONCE_BYTES)
        header = form + self._first + digest
        sealed = self._ciphers[self._first].encrypt(nonce, body, header + associated)
        return base64.urlsafe_b64encode(header + nonce + sealed).rstrip(b"=").decode("ascii")

    def _decrypt(self, seal: str, form: bytes, associated: bytes, digest: bytes = bytes(4)) -> bytes | Reason:
        raw = _unbase64(seal)
        if raw is None or len(raw) < _HEADER_BYTES or raw[:1] != form:
            return "damaged"
        header, nonce, sealed = raw[: _HEADER_BYTES - NONCE_BYTES], raw[_HEADER_BYTES - NONCE_BYTES : _HEADER_BYTES], raw[_HEADER_BYTES:]
        cipher = self._ciphers.get(header[1 : 1 + _KEY_ID_BYTES])
        if cipher is None:
            return "unknown_key"
        if header[1 + _KEY_ID_BYTES :] != digest:
            return "other_model"
        try:
            return cipher.decrypt(nonce, sealed, header + associated)
        except InvalidTag:
            return "damaged"

    def _remember(self, known: tuple[str, bytes, str], opened: Opened) -> None:
        self._memo_ids += _cost(opened)
        self._memo[known] = opened
        while self._memo_ids > MEMO_IDS:
            self._memo_ids -= _cost(self._memo.popitem(last=False)[1])


class TurnSealer:
    """The seals of one tenant's turns on one model: what a decoder is handed."""

    def __init__(self, seals: Seals, binding: Binding, tenant: str) -> None:
        self._seals = seals
        self._binding = binding
        self._tenant = tenant

    def carrier(self, tag: str, index: int, token_ids: Sequence[int], opening: str | None = None) -> str:
        """The carrier of reasoning segment `index`; `token_ids` were sampled since the previous one. The turn's first one gets
        the opening."""
        allowed = token_ids
        if not self._binding.refused.isdisjoint(token_ids):
            # A stray control token was dropped from the text too; with it inside, the seal would never be used.
            allowed = [token_id for token_id in token_ids if token_id not in self._binding.refused]
        return self._seals.seal_ids(allowed, tag=tag, index=index, tenant=self._tenant, binding=self._binding, opening=opening)

    def open(self, carrier: str) -> Opened:
        """What a carrier that a client sent back holds."""
        return self._seals.open_ids(carrier, tenant=self._tenant, binding=self._binding)


def _cost(opened: Opened) -> int:
    """Memory of a memo's entry, in ids; the entry itself weighs as much as a few."""
    return len(opened.ids or ()) + 64


def _fields(*texts: str) -> bytes:
    """Texts as one byte string that no other list of texts has."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return b"".join(len(text).to_bytes(4, "big") + text for text in encoded)


def _put_varint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at` and the place behind it. What was sealed here is well formed: the cipher vouches for it."""
    number = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    return number, at


def _read_varints(data: bytes, at: int) -> list[int] | None:
    """All numbers from `at` on; None where the bytes do not end with one, or hold one of more than 32 bits."""
    numbers: list[int] = []
    number = shift = 0
    for byte in data[at:]:
        number |= (byte & 0x7F) << shift
        if byte & 0x80 and shift < 28:
            shift += 7
            continue
        if byte & 0x80 or number > 0xFFFF_FFFF:
            return None
        numbers.append(number)
        number = shift = 0
    return None if shift else numbers


def _unbase64(text: str) -> bytes | None:
    """Decodes base64url without padding; None for anything that is not exactly its canonical form."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") == text else None
