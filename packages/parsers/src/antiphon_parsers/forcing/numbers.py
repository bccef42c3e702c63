"""Regular expressions for JSON numbers within bounds and of bounded length."""

from decimal import Decimal
from math import ceil, floor

_MAX_MULTIPLES = 256


def integer_regex(low: float | None, high: float | None, *, digits: int, multiple: int | None = None) -> str:
    """Integers in [low, high] of at most `digits` digits where a bound is missing; at least one where the bounds allow it."""
    if multiple is not None and multiple > 1:
        return _multiples(low, high, multiple, digits)
    if low is None and high is None:
        return rf"0|-?[1-9][0-9]{{0,{digits - 1}}}"
    span = 10**digits - 1
    first = ceil(low) if low is not None else min(-span, floor(high or 0) - span)
    last = floor(high) if high is not None else max(span, first + span)
    return _signed(first, last, 0)


def number_regex(low: float | None, high: float | None, *, digits: int) -> str:
    """Numbers in [low, high], without exponent: `digits` digits before and at most six behind the point."""
    places = max(1, min(6, digits - 1))
    if low is None and high is None:
        return rf"-?(0|[1-9][0-9]{{0,{digits - 1}}})(\.[0-9]{{1,{places}}})?"
    span = 10**digits - 1
    least = low if low is not None else min(-span, (high or 0) - span)
    most = high if high is not None else max(span, least + span)
    forms = [_signed(ceil(least), floor(most), 0)] if ceil(least) <= floor(most) else []
    for point in range(1, 7):
        first, last = _scaled(least, point, up=True), _scaled(most, point, up=False)
        if (point <= places or not forms) and first <= last:
            forms.append(_signed(first, last, point))
    return "|".join(forms) if forms else r"-?(0|[1-9][0-9]{0,3})"


def _scaled(value: float, places: int, *, up: bool) -> int:
    exact = Decimal(repr(value)).scaleb(places)
    return ceil(exact) if up else floor(exact)


def _multiples(low: float | None, high: float | None, multiple: int, digits: int) -> str:
    first = ceil(low / multiple) if low is not None else 0
    if low is None and high is not None and high < 0:
        first = floor(high / multiple) - _MAX_MULTIPLES + 1
    last = floor(high / multiple) if high is not None else first + max(1, 10**digits // multiple)
    count = max(1, min(_MAX_MULTIPLES, last - first + 1))
    return "|".join(str((first + k) * multiple) for k in range(count))


def _signed(low: int, high: int, places: int) -> str:
    """Whole numbers low..high, written with a point before the last `places` digits."""
    parts = []
    if low < 0:
        parts += [f"-({_unsigned(max(1, -high), -low, places)})"]
    if high >= 0:
        parts += [_unsigned(max(0, low), high, places)]
    return "|".join(parts)


def _unsigned(low: int, high: int, places: int) -> str:
    """The same for 0 <= low <= high: one set of digit patterns for each length."""
    patterns: list[list[str]] = []
    shortest = places + 1
    for width in range(shortest, max(shortest, len(str(high))) + 1):
        start = 0 if width == shortest else 10 ** (width - 1)
        first, last = max(low, start), min(high, 10**width - 1)
        if first <= last:
            patterns += _digit_patterns(str(first).zfill(width), str(last).zfill(width))
    if not places:
        return "|".join("".join(pattern) for pattern in patterns)
    return "|".join("".join(pattern[:-places]) + r"\." + "".join(pattern[-places:]) for pattern in patterns)


def _digit_patterns(low: str, high: str) -> list[list[str]]:
    """Lists of digits and digit classes that together match exactly the numbers low..high of one length."""
    if low == high:
        return [list(low)]
    head = 0
    while low[head] == high[head]:
        head += 1
    common, first, last, tail = list(low[:head]), int(low[head]), int(high[head]), len(low) - head - 1
    found: list[list[str]] = []
    lower, upper = low[head + 1 :], high[head + 1 :]
    if lower.strip("0"):
        found += [[*common, str(first), *pattern] for pattern in _digit_patterns(lower, "9" * tail)]
        first += 1
    ends_early = bool(upper.strip("9"))
    middle = last - 1 if ends_early else last
    if first <= middle:
        found.append([*common, _digit_class(first, middle), *["[0-9]"] * tail])
    if ends_early:
        found += [[*common, str(last), *pattern] for pattern in _digit_patterns("0" * tail, upper)]
    return found


def _digit_class(first: int, last: int) -> str:
    return str(first) if first == last else f"[{first}-{last}]"
