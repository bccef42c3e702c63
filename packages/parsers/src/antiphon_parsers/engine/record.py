"""What the machine is made of: objects whose fields are data, so that a parser can be written down and taken up elsewhere.

A field holds text, numbers, truth values, None, lists, tuples, sets, other records, and what a parser is constructed with (the
grammar and its parts, the tools and their parameters). It never holds a function: what comes later is named, by a word or by
the syntax that knows it.
"""

from typing import Any, ClassVar

RECORDS: dict[str, type] = {}
"""Every class of objects that may stand in a snapshot, by the name it has there."""

FIELDS: dict[type, tuple[str, ...]] = {}
"""The fields of such a class that are data of their own."""


class Record:
    """Base of everything that lives from one delta to the next. `__slots__` of a class and its bases are all its fields;
    those of `derived` follow from the others and `derive` makes them."""

    __slots__ = ()
    derived: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__slots__" not in cls.__dict__:
            raise TypeError(f"{cls.__qualname__} must name its fields in __slots__")
        register(cls)

    def derive(self) -> None:
        """Makes the derived fields."""


def register(cls: type) -> None:
    """Lets objects of a class with `__slots__` stand in snapshots."""
    RECORDS[record_name(cls)] = cls
    derived = getattr(cls, "derived", ())
    slots = (name for base in reversed(cls.__mro__) for name in base.__dict__.get("__slots__", ()))
    FIELDS[cls] = tuple(name for name in slots if name not in derived)


def record_name(cls: type) -> str:
    """The name of a class in snapshots: its module's last word and its own."""
    return f"{cls.__module__.rpartition('.')[2]}.{cls.__qualname__}"
