"""Which line feeds stand round a format's markers: a declaration does not say, the chat template of the same model does."""

from collections.abc import Callable

import msgspec

_FEEDS = ("\n", "\\n")  # in a template's text, or in a string of one


class Layout(msgspec.Struct, frozen=True):
    """Asks a chat template. Without one, the usual layout of such formats is taken: markers on lines of their own."""

    template: str = ""

    def names(self, text: str) -> bool:
        """Whether the template writes it, or there is none to ask."""
        return not self.template or text in self.template

    def feeds_behind(self, marker: str, usual: int) -> int:
        """The most line feeds, up to `usual`, that follow the marker anywhere in the template."""
        return self._most(usual, lambda feeds: marker + feeds)

    def feeds_before(self, marker: str, usual: int) -> int:
        """The same for what stands before it."""
        return self._most(usual, lambda feeds: feeds + marker)

    def _most(self, usual: int, framed: Callable[[str], str]) -> int:
        if not self.template:
            return usual
        counts = range(usual, 0, -1)
        return next((count for count in counts if any(framed(feed * count) in self.template for feed in _FEEDS)), 0)
