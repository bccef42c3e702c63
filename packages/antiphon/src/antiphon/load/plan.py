"""A workload as a list of planned requests. Pure: the same workload, seed and bounds give the same requests."""

from collections.abc import Iterator
from random import Random

import msgspec

from antiphon.load.lengths import draw, draw_count
from antiphon.load.trace import PlannedRequest, Tree
from antiphon.load.workload import Children, Poisson, SessionClass, Workload


def plan(workload: Workload, *, seed: int, sessions: int) -> Iterator[Tree]:
    """So many sessions, each with its children (which are not counted), in the order of their arrival."""
    random = Random(seed)
    names = list(workload.classes)
    shares = [workload.classes[name].share for name in names]
    heads = _Heads(seed)
    at = 0.0
    for number in range(sessions):
        arrival = None
        if isinstance(workload.arrivals, Poisson):
            at += random.expovariate(workload.arrivals.sessions_per_second)
            arrival = at
        kind = random.choices(names, weights=shares)[0]
        yield _Writer(workload, kind, heads, random).tree(f"s{number}", arrival)


class _Heads:
    """System prompts with tools: the length of each is drawn once."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._lengths: dict[str, int] = {}

    def length(self, name: str, one: SessionClass) -> int:
        found = self._lengths.get(name)
        if found is None:
            found = self._lengths[name] = draw_count(one.head_tokens, Random(f"{self._seed}/{name}"))
        return found


class _Writer:
    """Writes one session and what descends from it."""

    def __init__(self, workload: Workload, kind: str, heads: _Heads, random: Random) -> None:
        self._class = one = workload.classes[kind]
        self._limit = workload.context_tokens
        self._random = random
        head = f"{kind}/{random.randrange(one.heads)}"
        self._same = PlannedRequest(
            session="",
            kind=kind,
            priority=one.priority,
            strict_priority=one.strict_priority,
            head=head,
            head_tokens=heads.length(head, one),
            new_tokens=0,
            output_tokens=0,
        )

    def tree(self, name: str, arrival: float | None) -> Tree:
        """The session's turns; behind one that starts children, these."""
        one, random = self._class, self._random
        out: list[PlannedRequest] = []
        length = self._same.head_tokens
        last = -1
        waits: tuple[str, ...] = ()
        for turn in range(draw_count(one.turns, random, least=1)):
            new = draw_count(one.new_tokens if turn else one.first_tokens, random, least=1)
            output = draw_count(one.output_tokens, random, least=1)
            if turn and length + new + output > self._limit:
                break
            length += new + output
            out.append(
                msgspec.structs.replace(
                    self._same,
                    session=name,
                    turn=turn,
                    arrival=None if turn else arrival,
                    pause=draw(one.pause_seconds, random) if turn else 0.0,
                    waits_for=waits,
                    new_tokens=new,
                    output_tokens=output,
                )
            )
            last, waits = len(out) - 1, ()
            if one.children is not None and random.random() < one.children.probability:
                children = [
                    self._child(f"{name}.{turn}.{number}", name, turn, one.children, length)
                    for number in range(draw_count(one.children.count, random, least=1))
                ]
                out += [request for child in children for request in child]
                waits = tuple(child[0].session for child in children)
        out[last] = msgspec.structs.replace(out[last], final=True)
        return tuple(out)

    def _child(self, name: str, parent: str, parent_turn: int, children: Children, length: int) -> list[PlannedRequest]:
        random = self._random
        if children.share == "head":
            length = self._same.head_tokens
        out: list[PlannedRequest] = []
        for turn in range(draw_count(children.turns, random, least=1)):
            new = draw_count(children.new_tokens if turn else children.first_tokens, random, least=1)
            output = draw_count(children.output_tokens, random, least=1)
            if turn and length + new + output > self._limit:
                break
            length += new + output
            out.append(
                msgspec.structs.replace(
                    self._same,
                    session=name,
                    turn=turn,
                    parent=parent,
                    parent_turn=parent_turn,
                    share=children.share,
                    pause=draw(children.pause_seconds, random) if turn else 0.0,
                    new_tokens=new,
                    output_tokens=output,
                )
            )
        out[-1] = msgspec.structs.replace(out[-1], final=True)
        return out
