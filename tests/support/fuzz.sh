#!/usr/bin/env bash
# fuzz.sh BUILD SECONDS: every fuzz target for SECONDS, two at a time, each from its corpus in
# tests/fuzz/corpus. New inputs go to a temporary directory; a crash, a leak or a hang leaves its
# input in BUILD and fails. The result of each target is one line.
#
# Turn a crash into a unit test, then correct the code. Its input may join the corpus.
set -uo pipefail

build=$1
seconds=$2
corpora=$(cd "$(dirname "${BASH_SOURCE[0]}")/../fuzz/corpus" && pwd)
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

# number NAME LOG: the last value of one of libFuzzer's statistics.
number() {
	sed -n "s/^stat::$1: *//p" "$2" | tail -n 1
}

run_target() {
	local target=$1 found=$2 name log
	name=$(basename "$target")
	log="$found/$name.log"
	mkdir -p "$found/$name"
	if ! "$target" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 \
		-artifact_prefix="$build/$name-" -print_final_stats=1 \
		"$found/$name" "$corpora/${name#fuzz_}" >"$log" 2>&1 </dev/null; then
		grep -vE '^#[0-9]+\s+(NEW|REDUCE|pulse)' "$log" | tail -n 80
		echo "fuzz: $name FAILED, its input is in $build"
		return 1
	fi
	echo "fuzz: $name ok, $(number number_of_executed_units "$log") inputs," \
		"$(number new_units_added "$log") new, peak $(number peak_rss_mb "$log") MB"
}

main() {
	local found targets failed
	found=$(mktemp -d -t inboxd-fuzz-XXXXXX)
	# shellcheck disable=SC2064 # now, while it is known
	trap "rm -rf '$found'" EXIT
	mapfile -t targets < <(find "$build/tests/fuzz" -maxdepth 1 -name 'fuzz_*' -type f -perm -u+x | sort)
	if [ ${#targets[@]} -eq 0 ]; then
		echo "fuzz: no target in $build/tests/fuzz"
		return 1
	fi
	export -f run_target number
	export build seconds corpora
	printf '%s\n' "${targets[@]}" |
		xargs -P 2 -I {} bash -c 'run_target "$1" "$2"' _ {} "$found"
	failed=$?
	[ "$failed" -eq 0 ] && echo "fuzz: ${#targets[@]} targets, none failed"
	return "$failed"
}

main
