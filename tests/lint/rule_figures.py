"""Each SVG of docs/figures is what tools/figures.py draws from the text file beside it, and states.txt has the states
that the view inbox.messages has."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import figures  # pylint: disable=wrong-import-position

STATES = "docs/figures/states.txt"
_VIEW = re.compile(r"VIEW inbox\.messages AS.*?\bCASE (.*?) END AS status", re.S)


def problems(tree):
    for path in tree.paths("docs/figures/*.txt"):
        drawing = path.removesuffix("txt") + "svg"
        if not tree.has(drawing) or tree.text(drawing) != figures.draw(tree.text(path)):
            yield path, 1, f"{drawing} is not up to date: run tools/figures.py"
    if tree.has(STATES):
        drawn = {name for name, box in figures.boxes(tree.text(STATES)).items() if box[0] != "other"}
        for state in sorted(drawn ^ _states(tree)):
            yield STATES, 1, f"{state} is a state of the figure or of the view inbox.messages, not of both"


def _states(tree):
    found = [match[1] for path in tree.paths("sql/*.sql") for match in _VIEW.finditer(tree.text(path))]
    return set(re.findall(r"(?:THEN|ELSE) '(\w+)'", found[-1])) if found else set()
