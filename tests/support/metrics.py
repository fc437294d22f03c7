"""Reads the Prometheus text format, strictly enough that a malformed line fails a test."""

import re

_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?P<labels>.*)\})? (?P<value>\S+)$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class Metrics(dict):
    """All samples of one scrape: {(name, ((label, value), …)): number}."""

    def value(self, name, **labels):
        """Sum of the samples of `name` that carry all `labels`; 0 when there is none."""
        wanted = set(labels.items())
        return sum(number for (sample, tags), number in self.items()
                   if sample == name and wanted <= set(tags))

    def has(self, name, **labels):
        wanted = set(labels.items())
        return any(sample == name and wanted <= set(tags) for sample, tags in self)


class Families(dict):
    """{family name: type} of one scrape."""


def parse(text):
    """Samples and families of an exposition; raises ValueError on a line that is neither."""
    samples, families = Metrics(), Families()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            families[name] = kind
        elif line and not line.startswith("#"):
            key, number = _sample(line)
            samples[key] = number
    return samples, families


def _sample(line):
    match = _SAMPLE.match(line)
    if not match:
        raise ValueError(f"not a sample: {line!r}")
    labels = tuple(sorted((name, _unescape(value))
                          for name, value in _LABEL.findall(match["labels"] or "")))
    return (match["name"], labels), float(match["value"].replace("Inf", "inf"))


def _unescape(text):
    return re.sub(r'\\[\\"n]', lambda found: _ESCAPES[found[0]], text)
