"""The code of the README is that of the examples."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_the_readme_shows_examples():
    shown = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    examples = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    assert len(shown) == 3
    assert all(block in examples for block in shown)
