#!/usr/bin/env bash
# tests/bench/run.sh [arguments of bench.py]: the benchmark against build-release, or INBOXD_BINARY.
# tests/run.sh bench installs and builds what it needs; BENCH_ARGS are more arguments, e.g. "--smoke".
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
INBOXD_BINARY=${INBOXD_BINARY:-$root/build-release/src/inboxd}
export INBOXD_BINARY

# ninja, not `meson compile`: that does not know the targets of a meson.build that has just changed.
ninja -C "$(dirname "$INBOXD_BINARY")/.." bench >/dev/null
# shellcheck disable=SC2086 # several arguments on purpose
PYTHONPATH="$root/tests" PYTHONDONTWRITEBYTECODE=1 exec "$root/.venv/bin/python" \
	"$root/tests/bench/bench.py" ${BENCH_ARGS:-} "$@"
