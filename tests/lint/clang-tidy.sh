#!/usr/bin/env bash
# clang-tidy over every file that is compiled, two at a time. Uses the compile commands of the clang
# build: gcc's has flags that clang does not know. A file that was clean is looked at again only when
# it, a header, the rules or the commands have changed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
commands=build-clang/compile_commands.json
seen=.cache/clang-tidy
mkdir -p "$seen"

[ -f "$commands" ] || {
	echo "clang-tidy.sh: $commands is missing; tests/run.sh lint makes it" >&2
	exit 1
}

shared=$({ cat .clang-tidy "$commands"; git ls-files -z --cached --others --exclude-standard -- '*.h' |
	xargs -0 cat; } | sha256sum | cut -c1-32)

check() {
	local file=$1 mark
	mark="$seen/$(sha256sum "$file" | cut -c1-32)-$shared"
	[ -e "$mark" ] && return
	clang-tidy -quiet -p build-clang "$file" 2>/dev/null && touch "$mark"
}
export -f check
export shared seen

python3 - "$commands" <<'END' | sort -u | xargs -r -P 2 -I {} bash -c 'check "$1"' _ {}
import json, os, sys
for entry in json.load(open(sys.argv[1])):
    path = os.path.relpath(os.path.join(entry["directory"], entry["file"]))
    if not path.startswith(("..", "build")):
        print(path)
END
