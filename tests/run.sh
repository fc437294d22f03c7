#!/usr/bin/env bash
# Runs test suites on a bare machine: installs missing packages, builds, starts private servers on free ports, runs, and
# prints the summary of each runner last. Ends non-zero on any failure.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
default_suites=(lint unit conformance sql system deploy)
all_suites=("${default_suites[@]}" quickstart languages fuzz faults tsan model versions mutants bench)
logs=
results=()
failed=0

say() {
	printf '\n== %s\n' "$*" >&2
}

. "$root/tests/support/install.sh"
. "$root/tests/support/build.sh"

usage() {
	cat <<-END
		tests/run.sh [SUITE…]

		  lint        layers, format, clang-tidy, function sizes, SQL files, a second compiler
		  unit        pure modules, with gcc, plain and as a release, under ASan and UBSan, and under valgrind
		  conformance the libraries for C and Python against the handler protocol, and the kit that tests them
		  sql         migrations, queries and functions against a private PostgreSQL
		  system      the program with sanitizers against a private PostgreSQL and Apache Kafka
		  deploy      deploy/ and debian/, with the tools that read them
		  quickstart  deploy/quickstart.sh --once, also with its examples
		  languages   the libraries of handlers/, each with its own tools, with the conformance kit, with servers that are
		              killed, and their rates; needs half an hour
		  bench       speed of the release build, compared with a floor and other programs
		  faults      kill -9 at named points; needs several minutes
		  fuzz        every fuzz target for FUZZ_SECONDS (60), two at a time
		  tsan        the system tests with the most threads in them, under ThreadSanitizer
		  model       every interleaving of a partition that gets a new owner, with spin
		  versions    sql and a part of system with other versions of PostgreSQL and Kafka, and with the librdkafka that is shipped
		  mutants     each rule of docs/rules.md removed: a test must fail; needs an hour
		  nightly     all of these, one after the other, with 300 s for each fuzz target and the larger models; needs hours

		Without SUITE: ${default_suites[*]}. Missing packages are installed with apt-get (as root
		or with sudo), Python packages in .venv, Apache Kafka in .cache or \$XDG_CACHE_HOME.

		  PYTEST_ARGS     more arguments for pytest, e.g. "-k retries -x", "-m 'not big'"
		  SYSTEM_JOBS     system tests at a time (5); SQL_JOBS (3), FAULTS_JOBS (3) likewise
		  INBOXD_BINARY   test this binary instead of build-asan/src/inboxd
		  POSTGRES_VERSION  one of 14 16 17 18 instead of the one installed, for the suites sql and system
		  KAFKA_VERSION   3.9 or 4.1 instead of 4.4, likewise
		  VERSIONS        only these, e.g. "postgres-18 kafka-3.9"
		  LIBRDKAFKA_TESTS  with librdkafka-shipped only these files of system, e.g. "start_position dead_topic"
		  MUTANTS         only mutants whose name has one of these words, e.g. "R12 R13", or whose file, e.g. "store/batches"
		  INBOXD_KEEP=1   keep the servers' and sidecars' directories under /tmp
	END
}

# run NAME COMMAND…: runs one part of a suite; its output is shown and kept for the summary.
run() {
	local name=$1 log started=$SECONDS
	shift
	log="$logs/${name//[: ]/_}.log"
	say "$name"
	if "$@" 2>&1 | tee "$log"; then
		results+=("ok      $name ($((SECONDS - started)) s)")
	else
		results+=("FAILED  $name ($((SECONDS - started)) s)")
		failed=1
	fi
}

with_python() {
	PYTHONPATH="$root/tests" PYTHONDONTWRITEBYTECODE=1 "$root/.venv/bin/python" "$@"
}

pytest_suite() {
	local more
	eval "more=(${PYTEST_ARGS:-})" # several, quoted as on a command line
	with_python -m pytest -c "$root/tests/pytest.ini" "$@" "${more[@]}" # the later of two options -m counts
}

meson_test() {
	local directory=$1
	shift
	meson test -C "$root/$directory" --print-errorlogs "$@"
}

suite_lint() {
	run "lint: compile with clang" build_clang
	run "lint: source rules" python3 "$root/tests/lint/lint.py"
	run "lint: rules can fail" python3 -m unittest discover -s "$root/tests/lint" -t "$root/tests/lint"
	run "lint: clang-format" "$root/tests/lint/clang-format.sh"
	run "lint: clang-tidy" "$root/tests/lint/clang-tidy.sh"
}

suite_unit() {
	run "unit: gcc" meson_test build
	run "unit: compile the release" build_optimised
	run "unit: release" meson_test build-optimised
	run "unit: sanitizers" meson_test build-asan
	run "unit: valgrind" meson_test build --wrapper \
		"valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite" \
		--timeout-multiplier 10
}

suite_conformance() {
	run "conformance: C" python3 "$root/tests/conformance/run.py" --without auto-extend -- \
		"$root/build-asan/tests/conformance/conformance_c"
	PYTHONPATH="$root/handlers/python/src" run "conformance: Python" "$root/.venv/bin/python" "$root/tests/conformance/run.py" -- \
		"$root/.venv/bin/python" "$root/handlers/python/tests/conformance_handler.py" async
	run "conformance: the kit can fail" pytest_suite -n 3 "$root/tests/conformance"
}

suite_sql() {
	run "sql" pytest_suite -n "${SQL_JOBS:-3}" --dist worksteal "$root/tests/sql"
}

suite_system() {
	# The tests mostly wait, so five run at a time, each with its own servers.
	run "system" pytest_suite -n "${SYSTEM_JOBS:-5}" --dist worksteal "$root/tests/system"
}

suite_deploy() {
	run "deploy" pytest_suite "$root/tests/deploy"
}

suite_quickstart() {
	# With a variable that a user of the quickstart may have set.
	INBOXD_SOCKET_PATH=/nonexistent/x run "quickstart" "$root/deploy/quickstart.sh" --once
	run "quickstart: consumers" "$root/deploy/quickstart.sh" --once --example consumers
	run "quickstart: outbox" "$root/deploy/quickstart.sh" --once --example outbox
}

# Each library has a program `check` for everything that needs no servers. 34 rounds of kills are 51 kills of each example.
suite_languages() {
	local check
	for check in "$root"/handlers/*/check; do
		run "languages: $(basename "$(dirname "$check")")" "$check"
	done
	INBOXD_KILL_ROUNDS="${INBOXD_KILL_ROUNDS:-34}" run "languages: with servers" pytest_suite -n "${SYSTEM_JOBS:-2}" \
		--dist worksteal "$root/tests/languages"
	run "languages: build" build_release
	run "languages: rates" "$root/tests/bench/run.sh" --only languages
}

suite_bench() {
	run "bench: build" build_release
	run "bench" "$root/tests/bench/run.sh"
}

suite_faults() {
	run "faults: build" build_faults
	# Like the system suite.
	INBOXD_BINARY="$root/build-faults/src/inboxd" run "faults" pytest_suite -n "${FAULTS_JOBS:-3}" \
		--dist worksteal "$root/tests/faults"
}

suite_fuzz() {
	run "fuzz: build" build_fuzz
	run "fuzz" "$root/tests/support/fuzz.sh" "$root/build-fuzz" "${FUZZ_SECONDS:-60}"
}

# The tests in which threads meet: queue, admission, instance runs, stopping.
tsan_tests=(faults_basic handlers shutdown ordering interleavings ingest tracing)

suite_tsan() {
	local files=("${tsan_tests[@]/#/$root/tests/system/test_}")
	run "tsan: build" build_tsan
	INBOXD_BINARY="$root/build-tsan/src/inboxd" run "tsan" pytest_suite -m "not big" \
		"${files[@]/%/.py}"
}

suite_model() {
	run "model" "$root/tests/model/run.sh"
}

# The tests that depend on the version of a server: plans, functions, roles, answers of the broker.
versions_tests=(end_to_end ingest identity ordering retries replay claims handlers handover start_position retention
	security commands upgrades)

short_system() {
	local files=("${versions_tests[@]/#/$root/tests/system/test_}")
	pytest_suite -n "${SYSTEM_JOBS:-2}" --dist worksteal -m "not big" "${files[@]/%/.py}"
}

# What a librdkafka can change: positions, rebalances, what a producer reports, errors, logins. ADR 26, 29 and 35 rest on its internals.
librdkafka_tests=("${versions_tests[@]}" generations dead_topic outbox quotas seek shutdown verify outage_logs)

with_shipped_librdkafka() {
	local files
	read -ra files <<<"${LIBRDKAFKA_TESTS:-${librdkafka_tests[*]}}"
	files=("${files[@]/#/$root/tests/system/test_}")
	build_shipped && INBOXD_BINARY="$root/build-shipped/src/inboxd" pytest_suite -n "${SYSTEM_JOBS:-2}" --dist worksteal -m "not big" \
		"${files[@]/%/.py}"
}

suite_versions() {
	local one
	for one in ${VERSIONS:-postgres-14 postgres-16 postgres-17 postgres-18 kafka-3.9 kafka-4.1 kafka-4.4 librdkafka-shipped}; do
		case $one in
		postgres-*)
			POSTGRES_VERSION=${one#*-} run "versions: $one: sql" pytest_suite -n "${SYSTEM_JOBS:-2}" "$root/tests/sql"
			POSTGRES_VERSION=${one#*-} run "versions: $one: system" short_system
			;;
		kafka-*) KAFKA_VERSION=${one#*-} run "versions: $one: system" short_system ;;
		librdkafka-shipped) run "versions: $one: system" with_shipped_librdkafka ;;
		*) run "versions: there is no $one" false ;;
		esac
	done
}

suite_mutants() {
	# shellcheck disable=SC2086 # several words on purpose
	run "mutants" "$root/.venv/bin/python" "$root/tests/mutants/run.py" ${MUTANTS:-}
}

# require NAME COMMAND…: prepares something for all suites, in this shell; if it fails, no suite runs.
require() {
	local name=$1 started=$SECONDS
	shift
	if ! "$@"; then
		results+=("FAILED  $name ($((SECONDS - started)) s)")
		failed=1
	fi
}

# needed_by SUITE…: whether one of these suites is to run.
needed_by() {
	local suite
	for suite in "$@"; do
		case " ${suites[*]} " in
		*" $suite "*) return ;;
		esac
	done
	return 1
}

# Each line on its own: several suites can run one after the other.
prepare() {
	require "install: build" install_build
	require "install: tests" install_packages "${test_packages[@]}" "${clang_packages[@]}"
	if needed_by conformance sql system deploy languages bench faults tsan versions mutants; then
		require "install: Python" install_venv
	fi
	if needed_by sql system deploy languages bench faults tsan versions mutants; then
		require "install: PostgreSQL" install_postgres
		require "install: Kafka" install_kafka
		require "install: promtool" install_promtool
	fi
	if needed_by languages; then
		require "install: languages" install_packages "${language_packages[@]}"
		require "install: Go" install_go
	fi
	if needed_by deploy; then
		require "install: deploy" install_packages "${deploy_packages[@]}"
		require "install: kustomize" install_go_program kustomize
		require "install: helm" install_go_program helm
	fi
	if needed_by deploy versions; then require "install: librdkafka" install_librdkafka; fi
	if needed_by fuzz tsan; then require "install: clang's runtime" install_clang_runtime; fi
	if needed_by model; then require "install: spin" install_packages "${model_packages[@]}"; fi
	if needed_by versions; then require "install: versions" install_packages xz-utils; fi
	if needed_by deploy quickstart; then require "build: release" build_release; fi
	if needed_by unit conformance languages sql system versions lint; then
		require "build: gcc" build_gcc
		require "build: sanitizers" build_asan
	fi
}

untracked() {
	git -C "$root" ls-files --others --exclude-standard 2>/dev/null | sort
}

# Tests write under /tmp and into ignored directories only.
leaves_nothing_behind() {
	local new
	new=$(comm -13 "$logs/untracked.before" <(untracked))
	[ -z "$new" ] && return
	printf 'the run left files behind that git does not ignore:\n%s\n' "$new"
	return 1
}

# The summaries of the runners, then one line for each part.
summary() {
	local log
	printf '\n'
	for log in $(compgen -G "$logs/*.log"); do
		grep -HE '^(Ok|Fail|Expected Fail|Unexpected Pass|Skipped|Timeout): +[0-9]+|^=+ .*(passed|failed|error).* =+$|^(OK|FAILED)( \(|$)|^ℹ (pass|fail) |^(lint|fuzz|mutants|conformance|package): ' \
			"$log" | sed "s|^$logs/||; s|\.log:|: |"
	done
	printf '\n'
	printf '%s\n' "${results[@]}"
	printf 'total %s s\n' "$SECONDS"
}

parse_arguments() {
	local suite
	for suite in "$@"; do
		case " ${all_suites[*]} " in
		*" $suite "*) suites+=("$suite") ;;
		*)
			case $suite in
			nightly)
				suites+=("${all_suites[@]}")
				: "${FUZZ_SECONDS:=300}"
				export MODEL_LONG="${MODEL_LONG:-1}"
				;;
			-h | --help) usage && exit 0 ;;
			*) printf 'run.sh: unknown suite %s; suites: %s\n' "$suite" "${all_suites[*]} nightly" >&2 && exit 1 ;;
			esac
			;;
		esac
	done
	[ ${#suites[@]} -gt 0 ] || suites=("${default_suites[@]}")
}

main() {
	local suite suites=()
	parse_arguments "$@"
	logs=$(mktemp -d -t inboxd-run-XXXXXX)
	trap 'rm -rf "$logs"' EXIT
	cd "$root" || exit 1
	untracked >"$logs/untracked.before"
	prepare
	if [ "$failed" -eq 0 ]; then
		for suite in "${suites[@]}"; do
			"suite_$suite"
		done
		run "no files left behind" leaves_nothing_behind
	fi
	summary
	exit "$failed"
}

main "$@"
