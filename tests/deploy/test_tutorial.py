"""docs/tutorial.md, typed unchanged: each command is run, and its output must equal the page."""

import re
import time

from support.wait import eventually

# Commands that show the state of the inbox. A reader who goes on to the next block is slower than inboxd, so the test repeats the
# first command of a block. A reader can paste a whole block, so the others must work at once.
LOOKS = re.compile(r"inboxd (list|show|handlers|status)\b|psql -c \"SELECT")
GONE = "wait $!; while inboxd handlers | grep -q '^invoices .*connected'; do sleep 0.1; done"
# Values that differ on each machine and in each run.
VARIES = [
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r" $", re.M), ""),
    (re.compile(r"^\d+(?= +(parked|processed|dead)\b)|(?<=TIME )(?:\d{3,}\b|\d+$)", re.M), "NUMBER"),
    # inboxd claims a message again if its handler ended before the delivery.
    (re.compile(r"(?<=\bseq: )\d+|(?<=\bclaims: )\d+|(?<=\binstance: )\d+"), "NUMBER"),
    (re.compile(r"^(\[\d+\].*|.*\bTerminated\b.*)\n?", re.M), ""),
    (re.compile(r"^-[-+]+$", re.M), "RULE"),
]


def plain(text):
    for pattern, word in VARIES:
        text = pattern.sub(word, text)
    return text.strip()


def steps(document):
    """[(command, output, whether it is the first of its block)] of the page. A block of `sh` is one command without output."""
    found = []
    for language, block in re.findall(r"^```(sh|console)\n(.*?)^```$", document, re.M | re.S):
        if language == "sh":
            found.append((block, "", True))
        else:
            commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)
            found += [(*command, number == 0) for number, command in enumerate(commands)]
    return found


def assert_shown(wanted, got):
    """Each part between lines of `...` is in the output, in this order."""
    place, got = 0, plain(got)
    for part in plain(wanted).split("...\n") if "...\n" in wanted else [plain(wanted)]:
        part = part.strip().removesuffix("...").strip()
        assert part in got[place:], f"wanted:\n{part}\n\ngot:\n{got[place:]}"
        place = got.index(part, place) + len(part)


def test_the_tutorial_shows_the_real_output(root, terminal, tmp_path):
    (start, result, _), *others = steps((root / "docs/tutorial.md").read_text(encoding="utf-8"))
    shown, = re.findall(r"^  \. (\S+)/environment$", result, re.M)
    first = terminal(*start.split())
    eventually(lambda: "minimal.py" in first.output or not first.is_running(), timeout=800,
               what="the quick start")  # the first time it builds
    directory, = re.findall(r"^  \. (\S+)/environment$", first.output, re.M)
    assert_shown(result.replace(shown, directory), first.output)

    second = terminal()
    for command, wanted, first_of_block in others:
        command = command.replace(shown, directory).replace("/tmp/invoices.py", f"{tmp_path}/invoices.py")
        deadline = time.monotonic() + (60 if first_of_block else 0)
        got = second.run(command)
        if command == "kill $!":  # a reader is slower than the end of the handler
            second.run(GONE)
        while plain(got) != plain(wanted) and LOOKS.search(command) and time.monotonic() < deadline:
            got = second.run(command)
        assert plain(got) == plain(wanted), command
    assert first.is_running()
    assert first.close() == 0
