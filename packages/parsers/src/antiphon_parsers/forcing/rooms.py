"""The tokens of an object, divided among its members."""

from collections.abc import Sequence

from antiphon_parsers.forcing.chain import Place
from antiphon_parsers.forcing.cost import ENDLESS, least, literal_cost, most, shares, weight
from antiphon_parsers.forcing.shapes import Mapping, Member

_CROWD = 64  # tokens an ordinary argument gets beside a big one


def fit_members(shape: Mapping, room: int, *, markup: int) -> tuple[list[Member], list[tuple[int, int, int]]]:
    """The members that fit, required ones always, and the claims of each (one more for undeclared ones). `markup` is what the
    format writes around a member beside its key and value, in tokens."""
    left = room - 2 - sum((literal_cost(member.key) + markup) + least(member.shape) for member in shape.members if member.required)
    fitting: list[Member] = []
    for member in shape.members:
        need = (literal_cost(member.key) + markup) + least(member.shape)
        if member.required:
            fitting.append(member)
        elif need <= left:
            left -= need
            fitting.append(member)
    claims = [
        ((literal_cost(m.key) + markup) + least(m.shape), (literal_cost(m.key) + markup) + most(m.shape), weight(m.shape)) for m in fitting
    ]
    if shape.extra is not None:
        claims.append((0, ENDLESS, 1))
    return fitting, claims


def divide_evenly(shape: Mapping, room: int, *, markup: int) -> tuple[list[Place], int]:
    """Every member's share, and the room of undeclared ones."""
    members, claims = fit_members(shape, room, markup=markup)
    rooms = shares(room - 2, claims)
    places = [Place(member, rooms[k] - literal_cost(member.key) - markup) for k, member in enumerate(members)]
    return places, rooms[-1] if shape.extra is not None else 0


def divide_call(shape: Mapping, room: int, *, markup: int) -> tuple[list[Place], int]:
    """The same for the arguments of a call: beside an ordinary share for each of them one, whichever the model fills, may be big. So a
    call that writes a file can use nearly the whole budget for its content, although the path may be any string too."""
    members, claims = fit_members(shape, room, markup=markup)
    if shape.extra is not None:
        claims[-1] = (0, max(0, room // 8), 1)
    needed = sum(low for low, _, _ in claims)
    spare = max(0, room - needed)
    growing = sum(1 for low, high, _ in claims if high > low)
    crowd = shares(needed + max(spare // 8, min(_CROWD * growing, spare // 2)), claims)
    fair = shares(room, claims)
    big = room - sum(crowd)
    sizes = [min(crowd[k] + big, claims[k][1]) for k in range(len(members))]
    # Where a share of its own gives nobody much, all have the even one.
    ordinary = crowd if growing > 1 and any(size > fair[k] * 3 // 2 for k, size in enumerate(sizes)) else fair
    grown = [ordinary is crowd and size > crowd[k] * 3 // 2 for k, size in enumerate(sizes)]
    return _places(members, ordinary, sizes, grown, markup), ordinary[-1] if shape.extra is not None else 0


def _places(members: Sequence[Member], ordinary: Sequence[int], sizes: Sequence[int], grown: Sequence[bool], markup: int) -> list[Place]:
    found: list[Place] = []
    for k, member in enumerate(members):
        key = literal_cost(member.key) + markup
        found.append(Place(member, ordinary[k] - key, sizes[k] - key if grown[k] else None))
    return found
