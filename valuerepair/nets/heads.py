"""Which value head and which policy head of a net that has several: lc0's own names for them."""

from __future__ import annotations

from dataclasses import dataclass

from valuerepair.errors import UsageError

# Fields of ValueHeads and of PolicyHeads (lc0 proto/net.proto) by the names that lc0's options have.
VALUE_HEADS = {"winner": 1, "q": 2, "st": 3}
POLICY_HEADS = {"vanilla": 3, "optimistic": 4, "soft": 5, "opponent": 6}


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads that evaluate; those of the defaults are there in every net."""

    value: str = "winner"
    policy: str = "vanilla"

    @property
    def variant(self) -> str:
        """What tells their values apart from those of the default heads: empty, ``-q``, ``-soft``, ``-q-soft``."""
        return "".join(f"-{name}" for name in (self.value, self.policy) if name not in (Heads().value, Heads().policy))


def parse_heads(text: str) -> Heads:
    """``q``, ``soft`` or ``q,soft``: a head that is not named is the usual one. Raises UsageError."""
    value, policy = Heads().value, Heads().policy
    for word in text.split(","):
        if word in VALUE_HEADS:
            value = word
        elif word in POLICY_HEADS:
            policy = word
        else:
            raise UsageError(
                f"{word!r}: must be heads of the net; there are {', '.join(VALUE_HEADS)} of the value and "
                f"{', '.join(POLICY_HEADS)} of the policy"
            )
    return Heads(value, policy)


def heads_of(variant: str) -> Heads:
    """The heads of the values that have this variant, whatever else it says."""
    words = variant.split("-")
    value = next((word for word in words if word in VALUE_HEADS), Heads().value)
    return Heads(value, next((word for word in words if word in POLICY_HEADS), Heads().policy))
