"""The choice among several value heads and policy heads of a net, by lc0's names for them."""

from __future__ import annotations

from dataclasses import dataclass

from valuerepair.errors import UsageError

# The fields of ValueHeads and PolicyHeads (lc0 proto/net.proto) by their names in lc0's options.
VALUE_HEADS = {"winner": "winner", "q": "q", "st": "st"}
POLICY_HEADS = {"vanilla": "vanilla", "optimistic": "optimistic_st", "soft": "soft", "opponent": "opponent"}


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads to evaluate with; every net has the default ones."""

    value: str = "winner"
    policy: str = "vanilla"

    @property
    def variant(self) -> str:
        """The suffix of their values in a store: empty for the default heads, else ``-q``, ``-soft``, ``-q-soft``."""
        usual = (DEFAULT_HEADS.value, DEFAULT_HEADS.policy)
        return "".join(f"-{name}" for name in (self.value, self.policy) if name not in usual)


DEFAULT_HEADS = Heads()


def parse_heads(text: str) -> Heads:
    """``q``, ``soft`` or ``q,soft``: the default head for a missing name. Raises UsageError."""
    value, policy = DEFAULT_HEADS.value, DEFAULT_HEADS.policy
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
    """The heads in the variant of values, which may also name a precision."""
    words = variant.split("-")
    value = next((word for word in words if word in VALUE_HEADS), DEFAULT_HEADS.value)
    return Heads(value, next((word for word in words if word in POLICY_HEADS), DEFAULT_HEADS.policy))
