"""Options given one by one, as those that hold a question take them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from valuerepair.question import Question

NAMES = frozenset(field.name for field in fields(Question))


def with_question(**given: Any) -> dict[str, Any]:
    """The options, those of the question in one."""
    question = Question(**{name: value for name, value in given.items() if name in NAMES})
    return {"question": question, **{name: value for name, value in given.items() if name not in NAMES}}
