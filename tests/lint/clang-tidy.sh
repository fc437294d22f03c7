#!/usr/bin/env bash
# clang-tidy over every file that is compiled, two at a time. Uses the compile commands of the clang
# build: gcc's has flags that clang does not know. A file that two programs compile is checked once: clang-tidy 14 checks
# every command of a file in one process, and then takes the va_list of the second one for uninitialized. A file that was clean is looked at again only when
# it, a header, the rules or the commands have changed. TIDY_CHECKS changes the checks of .clang-tidy: -clang-analyzer-* leaves
# out the static analyzer, which takes nine tenths of the time.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
commands=build-clang/compile_commands.json
seen=.cache/clang-tidy
mkdir -p "$seen"

[ -f "$commands" ] || {
	echo "clang-tidy.sh: $commands is missing; tests/run.sh lint makes it" >&2
	exit 1
}

shared=$({ echo "${TIDY_CHECKS:-}"; cat .clang-tidy "$commands"; git ls-files -z --cached --others --exclude-standard -- '*.h' |
	xargs -0 cat; } | sha256sum | cut -c1-32)

check() {
	local file=$1 mark
	mark="$seen/$(sha256sum "$file" | cut -c1-32)-$shared"
	[ -e "$mark" ] && return
	clang-tidy -quiet -p "$seen" ${TIDY_CHECKS:+"--checks=$TIDY_CHECKS"} "$file" 2>/dev/null && touch "$mark"
}
export -f check
export shared seen

python3 - "$commands" "$seen/compile_commands.json" <<'END' | sort | xargs -r -P 2 -I {} bash -c 'check "$1"' _ {}
import json, os, sys
once = {}
for entry in json.load(open(sys.argv[1])):
    path = os.path.relpath(os.path.join(entry["directory"], entry["file"]))
    if not path.startswith(("..", "build")):
        once.setdefault(path, entry)
with open(sys.argv[2], "w") as out:
    json.dump(list(once.values()), out)
print(*once, sep="\n")
END
