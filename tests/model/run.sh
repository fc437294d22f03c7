#!/usr/bin/env bash
# Searches handover.pml in full: what is right must be found right, and each variant that leaves a rule
# out must be found wrong. MODEL_LONG=1 adds the larger searches (minutes, up to 4 GB).
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d -t inboxd-model-XXXXXX)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# Two messages of one key; three; with one of another key; batches whose second row has no room; claims that are lost.
# With BOUND=1 the next message of a key waits for the COMMIT, and a crash shows nothing out of order (WITHOUT_AGAIN).
right=(
	"N=2 REBALANCES=1 CRASHES=1 RETRIES=0"
	"N=2 REBALANCES=1 CRASHES=1 RETRIES=0 BOUND=1 WITHOUT_AGAIN"
	"N=2 REBALANCES=1 CRASHES=0 RETRIES=1"
	"N=3 REBALANCES=1 CRASHES=0 RETRIES=0 CROWDED=0"
	"N=3 OTHER=1 REBALANCES=1 CRASHES=0 RETRIES=0 CROWDED=0"
	"N=3 REBALANCES=0 CRASHES=0 RETRIES=1"
	"N=3 REBALANCES=0 CRASHES=1 RETRIES=0 LOSSES=1"
	"N=3 REBALANCES=0 CRASHES=0 RETRIES=1 LOSSES=1"
	"N=2 REBALANCES=1 CRASHES=0 RETRIES=0 LOSSES=1"
	"N=2 REBALANCES=2 CRASHES=0 RETRIES=1 CROWDED=0 WASTED=0"
)
right_long=(
	"N=3 REBALANCES=1 CRASHES=1 RETRIES=0 CROWDED=0 WASTED=0"
	"N=3 REBALANCES=1 CRASHES=0 RETRIES=0 CROWDED=0 LOSSES=1 BOUND=3"
	"N=4 REBALANCES=0 CRASHES=1 RETRIES=0 LOSSES=1 BOUND=3"
	"N=3 REBALANCES=1 CRASHES=0 RETRIES=0"
	"N=2 REBALANCES=2 CRASHES=0 RETRIES=1"
	"N=2 REBALANCES=1 CRASHES=1 RETRIES=1"
)
wrong=(
	"WITHOUT_R12 N=2 REBALANCES=1 CRASHES=0 RETRIES=1"
	"SCAN_LATER N=2 REBALANCES=1 CRASHES=0 RETRIES=1"
	"WITHOUT_WAIT N=2 REBALANCES=1 CRASHES=0 RETRIES=1"
	"WITHOUT_OUTSIDE N=2 REBALANCES=1 CRASHES=0 RETRIES=1"
	"WITHOUT_LANE N=2 REBALANCES=2 CRASHES=0 RETRIES=1"
	"WITHOUT_DOUBT N=2 REBALANCES=2 CRASHES=0 RETRIES=1 CROWDED=0 WASTED=0"
	"WITHOUT_DOUBTED_CLAIM N=2 REBALANCES=2 CRASHES=0 RETRIES=1 WASTED=0"
	"WITHOUT_ONE_CLAIM N=3 REBALANCES=0 CRASHES=0 RETRIES=1"
	"WITHOUT_DRAINING N=3 REBALANCES=0 CRASHES=0 RETRIES=1"
	"WITHOUT_RECALL N=3 REBALANCES=0 CRASHES=0 RETRIES=1"
	"WITHOUT_HANDOVER N=3 REBALANCES=0 CRASHES=0 RETRIES=1"
	"WITHOUT_NEWS N=2 REBALANCES=2 CRASHES=0 RETRIES=1 CROWDED=0 WASTED=0"
	"WITHOUT_STOP N=3 REBALANCES=0 CRASHES=0 RETRIES=1"
	"WITHOUT_SEQUENCE N=2 REBALANCES=0 CRASHES=0 RETRIES=0"
	"WITHOUT_BOUND N=3 REBALANCES=0 CRASHES=0 RETRIES=0"
	"WITHOUT_BOUND N=2 REBALANCES=0 CRASHES=0 RETRIES=0 BOUND=1"
	"WITHOUT_UNSETTLED N=2 REBALANCES=1 CRASHES=0 RETRIES=0"
	"WITHOUT_PREFIX N=2 REBALANCES=0 CRASHES=0 RETRIES=0 LOSSES=1"
	"WITHOUT_VOID N=2 REBALANCES=0 CRASHES=0 RETRIES=0 LOSSES=1"
	"WITHOUT_VOID_OPEN N=2 REBALANCES=0 CRASHES=0 RETRIES=0 LOSSES=1"
	"WITHOUT_LOST_OUTSIDE N=3 REBALANCES=0 CRASHES=0 RETRIES=0 LOSSES=1"
	"WITHOUT_ARRIVAL N=3 REBALANCES=0 CRASHES=0 RETRIES=0 LOSSES=1"
	"WITHOUT_AWAIT N=2 REBALANCES=0 CRASHES=0 RETRIES=1"
	"WITHOUT_ROW N=3 REBALANCES=0 CRASHES=0 RETRIES=1"
	"WITHOUT_START N=3 REBALANCES=0 CRASHES=0 RETRIES=1 LOSSES=1"
	"WITHOUT_AGAIN N=2 REBALANCES=0 CRASHES=1 RETRIES=0"
	"WITHOUT_RESCUE N=2 REBALANCES=0 CRASHES=1 RETRIES=0"
)

# search DEFINES…: the number of errors found, and the states stored; nothing when the search did not end.
search() {
	local defines=("${@/#/-D}")
	cd "$work" && rm -f pan* ./*.trail
	spin -a "${defines[@]}" "$here/handover.pml" >spin.log 2>&1 || { cat spin.log >&2 && return; }
	gcc -O1 -w -DSAFETY -DNOREDUCE -DSFH -DMEMLIM=4000 -o pan pan.c || return
	./pan -m2000000 -w24 >pan.log 2>&1
	grep -qE 'max search depth too small|out of memory|Search not completed' pan.log &&
		! grep -q 'errors: 1' pan.log && tail -5 pan.log >&2 && return
	sed -nE 's/.*errors: ([0-9]+).*/\1/p; s/^ *([0-9]+) states, stored.*/\1/p' pan.log | head -2 | tr '\n' ' '
}

# expect right|wrong DEFINES…
expect() {
	local wanted=$1 errors states
	shift
	read -r errors states < <(search "$@")
	if { [ "$wanted" = right ] && [ "${errors:-x}" = 0 ]; } ||
		{ [ "$wanted" = wrong ] && [ "${errors:-x}" = 1 ]; }; then
		passed=$((passed + 1))
		printf 'ok      %-5s after %8s states: %s\n' "$wanted" "$states" "$*"
		return
	fi
	failed=$((failed + 1))
	printf 'FAILED  not %s (errors: %s): %s\n' "$wanted" "${errors:-the search did not end}" "$*"
	[ "${errors:-0}" = 0 ] || (cd "$work" && spin -t "${@/#/-D}" -k handover.pml.trail "$here/handover.pml" |
		sed '/#processes/,$d')
}

[ "${MODEL_LONG:-0}" = 0 ] || right+=("${right_long[@]}")
for defines in "${right[@]}"; do
	# shellcheck disable=SC2086 # several arguments on purpose
	expect right $defines
done
for defines in "${wrong[@]}"; do
	# shellcheck disable=SC2086
	expect wrong $defines
done
printf '== %d passed, %d failed ==\n' "$passed" "$failed" # as the other runners say it
[ "$failed" -eq 0 ]
