#!/usr/bin/env bash
# fuzz.sh BUILD SECONDS: every fuzz target for SECONDS, starting from its corpus in tests/fuzz.
# New inputs go to a temporary directory; a crash leaves its input in BUILD and fails.
set -euo pipefail

build=$1
seconds=$2
corpora=$(cd "$(dirname "${BASH_SOURCE[0]}")/../fuzz" && pwd)
found=$(mktemp -d -t inboxd-fuzz-XXXXXX)
trap 'rm -rf "$found"' EXIT

targets=0
for target in "$build"/tests/fuzz/fuzz_*; do
	[ -f "$target" ] && [ -x "$target" ] || continue
	name=$(basename "$target")
	targets=$((targets + 1))
	mkdir -p "$found/$name"
	echo "== $name, $seconds s"
	"$target" -max_total_time="$seconds" -artifact_prefix="$build/" -print_final_stats=1 \
		"$found/$name" "$corpora"/corpus*/"${name#fuzz_}"* "$corpora/corpus_${name#fuzz_}" 2>"$found/$name.log" ||
		{ tail -n 60 "$found/$name.log"; exit 1; }
	grep -E '^stat::(number_of_executed_units|peak_rss_mb)' "$found/$name.log"
done
[ "$targets" -gt 0 ] || { echo "no fuzz target in $build/tests/fuzz"; exit 1; }
