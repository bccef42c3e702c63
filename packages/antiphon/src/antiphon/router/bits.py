"""Names of targets as bits of one number: a set of a thousand targets is an integer, and what two of them share is one operation."""

from collections.abc import Collection, Iterable, Iterator


class TargetBits:
    """Mutable. Everybody who keeps a name's bit holds it, and releases it when nothing of it is left there; a bit that nobody holds
    is given to another name, so that numbers stay short in a fleet whose workers come and go."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._uses: dict[str, int] = {}
        self._free: list[int] = []

    def hold(self, name: str) -> int:
        """The name's bit, which stays until it was released as often as it was held."""
        bit = self._bits.get(name)
        if bit is None:
            bit = self._bits[name] = self._free.pop() if self._free else 1 << len(self._bits)
            self._names[bit] = name
        self._uses[name] = self._uses.get(name, 0) + 1
        return bit

    def release(self, name: str) -> None:
        """The opposite. Raises KeyError for a name that nobody holds."""
        self._uses[name] -= 1
        if not self._uses[name]:
            del self._uses[name]
            bit = self._bits.pop(name)
            del self._names[bit]
            self._free.append(bit)

    def of(self, name: object) -> int:
        """The name's bit; 0 for one that nobody holds."""
        return self._bits.get(name, 0)  # type: ignore[call-overload, no-any-return]

    def mask(self, names: Iterable[str]) -> int:
        """The bits of all of them that have one."""
        get, mask = self._bits.get, 0
        for name in names:
            mask |= get(name, 0)
        return mask

    def names(self, mask: int) -> Iterator[str]:
        """The names in a mask of held bits."""
        return (self._names[bit] for bit in bits_of(mask))


class Holders(Collection[str]):
    """Those in a mask. To be read at once: bits may have other names later. Subclasses may have fewer members than bits."""

    def __init__(self, mask: int, bits: TargetBits) -> None:
        self.mask = mask
        self.bits = bits

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __contains__(self, name: object) -> bool:
        return bool(self.bits.of(name) & self.mask)

    def __iter__(self) -> Iterator[str]:
        return self.bits.names(self.mask)


def bits_of(mask: int) -> Iterator[int]:
    """Each bit of a number, the lowest first."""
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit
