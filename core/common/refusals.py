"""What was refused, in words for people: `3 at least` for pydantic's `Input should be greater than or equal to 3`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

# By pydantic's name of the error; the fields are those of its context.
_LIMITS = {
    "greater_than": "must be above {gt:,g}",
    "greater_than_equal": "{ge:,g} at least",
    "less_than": "must be below {lt:,g}",
    "less_than_equal": "{le:,g} at most",
    "string_too_long": "{max_length:,} characters at most",
    "string_too_short": "too short",
    "too_long": "too many entries: {max_length:,} at most",
    "too_short": "too few entries: {min_length:,} at least",
}
_KINDS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be an object with names and values",
    "extra_forbidden": "is unknown",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "missing": "is missing",
    "model_attributes_type": "must be an object with names and values",
    "model_type": "must be an object with names and values",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}


def reason(item: ErrorDetails) -> str:
    """Why one value was refused, without the value's name and without a full stop.

    A check of our own says it in its own words. An error that has no words here keeps pydantic's.
    """
    kind, context = item["type"], item.get("ctx", {})
    if kind in _LIMITS:
        return _LIMITS[kind].format_map(_numbers(context))
    if kind in ("literal_error", "enum"):
        return f"must be {context['expected']}"
    if kind == "json_invalid":
        return f"is not valid JSON ({context['error']})"
    return _KINDS.get(kind, item["msg"].removeprefix("Value error, "))


def _numbers(context: Mapping[str, Any]) -> dict[str, Any]:
    """Limits as numbers that `,g` can print; pydantic gives some as decimals or as text."""
    return {name: float(value) if name in ("gt", "ge", "lt", "le") else value for name, value in context.items()}


def first_refusal(error: ValidationError) -> str:
    """The first value that was refused, with its place: `training.epochs: 1 at least`."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {reason(first)}" if place else reason(first)


def out_of_range(label: str, value: float, least: float, most: float) -> str:
    """What the box with this label takes, if that is not `value`, without a full stop; else empty.

    For number boxes of pages that have no range themselves: a browser keeps a number outside a range back, and the page
    would go on with the one before.
    """
    if least <= value <= most:
        return ""
    return f"“{label}” takes a number from {_number(least)} to {_number(most)}, not {_number(value)}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
