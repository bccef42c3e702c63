"""How long a simulated step takes."""

import msgspec


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. A step costs `step`, `token` for each prompt token computed, `context` for each token that lies cached behind a
    newly admitted prompt (its pages are looked up and read once), `sequence` for each decoding sequence. `step_tokens`: how many such
    hardware usually computes in one step."""

    step: float = 0.0
    token: float = 0.0
    context: float = 0.0
    sequence: float = 0.0
    step_tokens: int = 8192

    def seconds(self, *, computed: int = 0, admitted_context: int = 0, decoding: int = 0) -> float:
        """The time of one step."""
        if not (computed or admitted_context or decoding):
            return 0.0
        return self.step + self.token * computed + self.context * admitted_context + self.sequence * decoding

    def times(self, factor: float) -> "Timing":
        """The same, so many times as slow."""
        times = {name: factor * getattr(self, name) for name in ("step", "token", "context", "sequence")}
        return msgspec.structs.replace(self, **times)

    @property
    def is_instant(self) -> bool:
        """Whether nothing takes time."""
        return not (self.step or self.token or self.context or self.sequence)


PRESETS: dict[str, Timing] = {
    "none": Timing(),
    # The source figures for a 52,000-token prompt: 168 ms to the first token with a warm prefix, 912 ms cold (seven steps).
    "b200": Timing(step=0.008, token=(0.912 - 0.168 - 6 * 0.008) / 52_000, context=(0.168 - 0.008) / 52_000, sequence=0.0001),
    # The default model on two CPU cores: about 200 tokens/s of prompt, 30 of answer.
    "laptop": Timing(step=0.002, token=0.005, context=0.000_002, sequence=0.03, step_tokens=512),
}
"""Named speeds. Their figures are simulated: they say nothing about this machine."""
