"""Compares a line of the handler with a pattern of a case.

A pattern is JSON. An object matches an object that has at least its members; a list matches item by item; anything else
must be equal. An object with one of these members is a rule instead:

    {"$any": true}            any value
    {"$text": "regex"}        a string in which the expression is found
    {"$between": [low, high]} a number
    {"$either": [a, b]}       one of several patterns
    {"$only": {…}}            an object with these members and no others
    {"$absent": true}         the member is not there; {"$absent": pattern}: it is not there, or matches
"""

import re

MISSING = object()


def differences(pattern, value, path="$"):
    """What is wrong with the value, one text each; empty if it matches."""
    rule = _rule(pattern)
    if rule:
        return rule(next(iter(pattern.values())), value, path)
    if value is MISSING:
        return [f"{path} is missing"]
    if isinstance(pattern, dict) and isinstance(value, dict):
        return [text for name, part in pattern.items()
                for text in differences(part, value.get(name, MISSING), f"{path}.{name}")]
    if isinstance(pattern, list) and isinstance(value, list) and len(pattern) == len(value):
        return [text for at, part in enumerate(pattern) for text in differences(part, value[at], f"{path}[{at}]")]
    if type(pattern) is type(value) and pattern == value or _same_number(pattern, value):
        return []
    return [f"{path} is {_short(value)}, expected {_short(pattern)}"]


def _rule(pattern):
    if isinstance(pattern, dict) and len(pattern) == 1:
        return RULES.get(next(iter(pattern)))
    return None


def _same_number(one, other):
    numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
    return numbers and not isinstance(one, bool) and not isinstance(other, bool) and one == other


def _any(_, value, path):
    return [f"{path} is missing"] if value is MISSING else []


def _text(expression, value, path):
    if isinstance(value, str) and re.search(expression, value):
        return []
    return [f"{path} is {_short(value)}, expected a text with /{expression}/"]


def _between(limits, value, path):
    if isinstance(value, (int, float)) and limits[0] <= value <= limits[1]:
        return []
    return [f"{path} is {_short(value)}, expected {limits[0]} to {limits[1]}"]


def _either(patterns, value, path):
    found = [differences(pattern, value, path) for pattern in patterns]
    return [] if [] in found else [" or ".join(texts[0] for texts in found)]


def _only(pattern, value, path):
    if not isinstance(value, dict):
        return [f"{path} is {_short(value)}, expected an object"]
    further = [f"{path} has the further member {name}" for name in sorted(set(value) - set(pattern))]
    return differences(pattern, value, path) + further


def _absent(pattern, value, path):
    if value is MISSING:
        return []
    if pattern is True:
        return [f"{path} is {_short(value)}, expected no such member"]
    return differences(pattern, value, path)


def _short(value):
    text = "missing" if value is MISSING else repr(value)
    return text if len(text) <= 200 else f"{text[:150]}… ({len(text)} characters)"


RULES = {"$any": _any, "$text": _text, "$between": _between, "$either": _either, "$only": _only, "$absent": _absent}
