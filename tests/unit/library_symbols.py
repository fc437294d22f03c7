"""The names that the handler library brings into a program. Its shared form exports the public functions. Its static
form has no hidden names, so each must begin with ih_ or inbox_: another name could be the program's own.
"""

import subprocess
import sys


def names(*nm):
    lines = subprocess.run(["nm", "--defined-only", *nm], check=True, capture_output=True, text=True).stdout.splitlines()
    # A name that begins with an underscore is of the compiler or of a sanitizer.
    return {line.split()[-1] for line in lines if len(line.split()) == 3 and not line.split()[-1].startswith("_")}


shared, static = sys.argv[1:]
exported = {name for name in names("-D", shared) if not name.startswith("inbox_")}
foreign = {name for name in names("-g", static) if not name.startswith(("ih_", "inbox_"))}
assert names("-D", shared), "the shared library exports nothing"
assert not exported, f"the shared library exports internal names: {sorted(exported)}"
assert not foreign, f"src/client/names.h lacks these names: {sorted(foreign)}"
