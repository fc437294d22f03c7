#!/usr/bin/env bash
# A demonstration of inboxd on a bare machine. The script builds inboxd, starts a private PostgreSQL, a Kafka broker,
# inboxd and examples/handler.py, sends 1,000 orders and 100 copies, and shows the result. It installs missing apt
# packages. Apart from that it changes only this directory and a temporary one. All its processes end with it.
set -uo pipefail

# The caller may have set variables for another inboxd or handler.
for name in ${!INBOXD_@}; do unset "$name"; done

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
orders=1000
copies=100
broker=dev
example=
once=
servers_only=
topics=(orders)
arguments=("$@") # for the line that says how to run this again
steps=5
step=0
tick_seconds=10
ticker=
pids=()
declare -A pid_of=() # by name

say() {
	printf '\n== %s\n' "$*" >&2
}

# step WHAT: begins the next step.
step() {
	step=$((step + 1))
	say "$step of $steps: $1"
}

. "$root/tests/support/install.sh"
. "$root/tests/support/build.sh"

usage() {
	cat <<-END
		deploy/quickstart.sh [--once] [--kafka real] [--example consumers|outbox] [--servers-only] [--topic NAME]...

		  --once                end after the result; the exit code is 0 if every number is right
		  --kafka real          use Apache Kafka from Maven Central instead of the embedded broker. The embedded
		                        broker supports one inboxd process, without restarts
		  --example consumers   run examples/consumers: three consumers of each order, one of which fails
		  --example outbox      run examples/outbox: an order service and a shipping service, each with its inboxd, while
		                        each process is killed; with Apache Kafka
		  --servers-only        start PostgreSQL and the broker only, for an inboxd of your own
		  --topic NAME          also create this topic; can be repeated
	END
}

parse_arguments() {
	while [ $# -gt 0 ]; do
		case $1 in
		--once) once=yes ;;
		--servers-only) servers_only=yes ;;
		--topic)
			[ -n "${2:-}" ] || { usage >&2 && exit 1; }
			topics+=("$2")
			shift
			;;
		--kafka)
			broker=${2:-}
			shift
			;;
		--example)
			example=${2:-none}
			shift
			;;
		-h | --help) usage && exit 0 ;;
		*) usage >&2 && exit 1 ;;
		esac
		shift
	done
	case $broker in
	dev | real) ;;
	*) usage >&2 && exit 1 ;;
	esac
	case $example in
	'' | consumers | outbox) ;;
	*) usage >&2 && exit 1 ;;
	esac
}

# Ends with an error message and the end of a log, of which a copy stays.
fail() {
	local kept
	say "$1"
	if [ -n "${2:-}" ]; then
		tail -n 20 "$2" >&2
		kept=$(mktemp -t inboxd-quickstart-XXXXXX.log) && cp "$2" "$kept" && say "the whole log is in $kept"
	fi
	exit 1
}

# tick STATE: says what goes on until a line comes on stdin: each second on a terminal, otherwise every ten seconds.
tick() {
	local began=$SECONDS next=$((SECONDS + tick_seconds))
	while read -r -t 1; [ $? -gt 128 ]; do
		if [ -t 2 ]; then
			printf '\r   %s, %s s\033[K' "$($1)" $((SECONDS - began))
		elif [ "$SECONDS" -ge "$next" ]; then
			printf '   %s, %s s\n' "$($1)" $((SECONDS - began))
			next=$((SECONDS + tick_seconds))
		fi
	done >&2
}

# A line ends it and not a signal, which a shell that has just been started can take for its parent's.
stop_ticker() {
	[ -n "$ticker" ] || return
	echo >&"$ticking"
	exec {ticking}>&-
	wait "$ticker"
	ticker=
}

# stage WHAT STATE COMMAND…: runs a command in this shell. Meanwhile the output of the command STATE says how far it is, and
# at the end a line says how long it took.
stage() {
	local what=$1 began=$SECONDS code
	exec {ticking}> >(tick "$2")
	ticker=$!
	shift 2
	"$@"
	code=$?
	stop_ticker
	[ ! -t 2 ] || printf '\r\033[K' >&2
	[ $code -ne 0 ] || printf '   %s: done in %s s\n' "$what" $((SECONDS - began)) >&2
	return $code
}

# The states of stages.
installing() {
	echo "installing, which can take minutes"
}

waiting_for_it() {
	echo "waiting"
}

# Ninja writes lines such as [57/230].
compiling() {
	local last
	last=$(tail -c 4096 "$dir/build.log" | sed -nE 's/^\[([0-9]+)\/([0-9]+)\].*/compiling: \1 of \2 files/p' | tail -n 1)
	echo "${last:-configuring}"
}

python() {
	PYTHONPATH="$root/tests" PYTHONDONTWRITEBYTECODE=1 python3 "$@"
}

# start NAME COMMAND…: in the background, its output in $dir/NAME.log.
start() {
	local name=$1
	shift
	"$@" >"$dir/$name.log" 2>&1 &
	pids=($! "${pids[@]}")
	pid_of[$name]=$!
}

# Ends a process: SIGTERM, and SIGKILL after 15 s.
end() {
	local deadline=$((SECONDS + 15))
	kill "$1" 2>/dev/null
	while kill -0 "$1" 2>/dev/null; do
		[ "$SECONDS" -lt "$deadline" ] || kill -KILL "$1"
		sleep 0.05
	done
	wait "$1" 2>/dev/null
}

# In reverse order of the starts, because later processes use earlier ones.
stop_all() {
	local pid
	stop_ticker
	for pid in "${pids[@]}"; do
		end "$pid"
	done
	rm -rf "$dir"
}

# wait_for NAME SECONDS COMMAND…: until the command succeeds; NAME's log is shown when it does not, or when NAME ends.
wait_for() {
	local name=$1 deadline=$((SECONDS + $2))
	shift 2
	until "$@" 2>/dev/null; do
		kill -0 "${pid_of[$name]}" 2>/dev/null || fail "$name has ended; its log:" "$dir/$name.log"
		[ "$SECONDS" -lt "$deadline" ] || fail "$name did not start in time; its log:" "$dir/$name.log"
		sleep 0.1
	done
}

install_all() {
	install_build && install_packages curl kcat && install_postgres || fail "installing failed"
	if [ "$broker" = real ]; then
		install_kafka || fail "fetching Apache Kafka failed"
	fi
	install_example || fail "installing failed"
}

compile() {
	build_release >"$dir/build.log" 2>&1 || fail "the build failed:" "$dir/build.log"
}

prepare() {
	step "installing the packages that are missing"
	stage "packages" installing install_all
	step "building into build-release; the log is $dir/build.log"
	stage "build" compiling compile
}

start_postgres() {
	start postgres env PYTHONPATH="$root/tests" PYTHONDONTWRITEBYTECODE=1 \
		python3 -m support.postgres --directory "$dir/pg" --env "$dir/postgres.env"
	wait_for postgres 60 [ -f "$dir/postgres.env" ]
	. "$dir/postgres.env"
}

start_broker() {
	if [ "$broker" = real ]; then
		start broker env PYTHONPATH="$root/tests" PYTHONDONTWRITEBYTECODE=1 \
			python3 -m support.kafka --directory "$dir/kafka" --auto-create --env "$dir/broker.env"
		wait_for broker 120 [ -f "$dir/broker.env" ]
		. "$dir/broker.env"
		local topic
		for topic in "${topics[@]}"; do
			kcat -q -L -b "$KAFKA_BOOTSTRAP" -t "$topic" >/dev/null # asking for it creates it
		done
	else
		start broker "$root/build-release/tools/inboxd-devbroker" "${topics[@]/#/--topic=}" \
			--address-file "$dir/broker.address"
		wait_for broker 60 [ -f "$dir/broker.address" ]
		KAFKA_BOOTSTRAP=$(cat "$dir/broker.address")
	fi
}

# The event id is in the body, so that a line typed into kcat has one.
write_configuration() {
	cat >"$dir/inboxd.yaml" <<-END
		inbox:
		  instance: quickstart
		kafka:
		  topics: [orders]
		  bootstrap.servers: $KAFKA_BOOTSTRAP
		  group.id: quickstart
		postgres:
		  host: $PGHOST
		  port: $PGPORT
		  user: $PGUSER
		  dbname: $PGDATABASE
		topics:
		  orders:
		    id: [header:id, "json:/event_id"]
		socket:
		  path: $dir/inbox.sock
		http:
		  listen: 127.0.0.1:$http_port
	END
	add_configuration >>"$dir/inboxd.yaml"
}

get() {
	local status
	exec 3<>"/dev/tcp/127.0.0.1/$http_port" || return
	printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$1" >&3
	read -r _ status _ <&3
	cat <&3
	exec 3<&-
	[ "$status" = 200 ]
}

is_ready() {
	(get /readyz) >/dev/null
}

free_port() {
	python -c 'from support.process import free_port; print(free_port())'
}

start_inboxd() {
	http_port=$(free_port)
	configuration=$dir/inboxd.yaml
	write_configuration
	start inboxd "$root/build-release/src/inboxd" run --migrate -c "$dir/inboxd.yaml"
	wait_for inboxd 60 is_ready
}

# An example has a quickstart.sh of its own, which sets these variables and defines some of the functions below and
# start_inboxd anew.
handlers=examples/handler.py
sidecar=inboxd # whose log is shown if the messages are not processed in time

install_example() {
	:
}

add_configuration() {
	:
}

start_handlers() {
	start handler python3 "$root/examples/handler.py" "$dir/inbox.sock"
	handler=$!
}

# Orders of 50 customers, with the customer as key. A tenth of the orders is sent twice.
make_orders() {
	awk -v orders="$orders" -v copies="$copies" 'BEGIN {
		for (n = 1; n <= orders; n++) {
			line = sprintf("c-%d|{\"event_id\":\"order-%d\",\"customer\":\"c-%d\",\"cents\":%d}", n % 50, n, n % 50, n)
			print line
			if (n % (orders / copies) == 0)
				print line
		}
	}'
}

produce() {
	step "sending $orders orders and $copies copies"
	make_orders | kcat -q -P -b "$KAFKA_BOOTSTRAP" -t orders -K '|' -H type=order.created ||
		fail "producing failed" "$dir/broker.log"
}

sql() {
	psql -X -q -A -t -c "$1"
}

all_processed() {
	[ "$(sql 'SELECT count(*) FROM inbox.inbox_messages WHERE processed_at IS NOT NULL')" = "$orders" ]
}

# Sum of a metric's samples.
metric() {
	(get /metrics) | awk -v name="$1" '$1 ~ "^" name "({|$)" { sum += $2 } END { print sum + 0 }'
}

# The metrics follow the rows by a moment.
counted() {
	[ "$(metric inboxd_messages_received_total)" = $((orders + copies)) ] && [ "$(metric inboxd_duplicates_total)" = "$copies" ]
}

check() {
	local what=$1 found=$2 wanted=$3
	printf '  %-42s %6s\n' "$what" "$found"
	if [ "$found" != "$wanted" ]; then
		printf '  ^ should be %s\n' "$wanted"
		wrong=yes
	fi
}

show() {
	wrong=
	step "result"
	check "records received from Kafka" "$(metric inboxd_messages_received_total)" $((orders + copies))
	check "duplicates dropped" "$(metric inboxd_duplicates_total)" "$copies"
	check "rows in inbox.inbox_messages" "$(sql 'SELECT count(*) FROM inbox.inbox_messages')" "$orders"
	check "rows with the status processed" "$(sql "SELECT count(*) FROM inbox.messages WHERE status = 'processed'")" "$orders"
	check "orders delivered to the handler" "$(grep -c '^order-' "$dir/handler.log")" "$orders"
	check "different orders among these" "$(grep -o '^order-[0-9]*' "$dir/handler.log" | sort -u | wc -l)" "$orders"
	say "the last three rows"
	psql -X -c "SELECT event_id, event_type, status, retry_count, payload_text, result
		FROM inbox.messages ORDER BY seq DESC LIMIT 3" | cat
}

# try WHAT COMMAND: a line of the table of explain(). Commands use the variables of write_environment().
try() {
	tries=$((tries + 1))
	printf '  %s  %-48s  %s\n' "$tries" "$1" "$2"
}

# What to try next, and what each shows.
explain() {
	try "what waits, and which handlers are connected" "inboxd status"
	try "one message, and what happened to it" "inboxd show order-1"
	try "its row, after the handler got it once more" \
		"inboxd replay order-1 --yes --reason 'a try' && sleep 1 && psql -c \"SELECT event_id, status, result FROM inbox.messages WHERE event_id = 'order-1'\""
	try "deliveries and their outcomes, as metrics" "curl -s \$QUICKSTART_METRICS | grep ^inboxd_deliveries_total"
	try "a handler of your own, and a message for it" \
		"kill \$QUICKSTART_HANDLER; sleep 1; inboxd handlers forget totals; echo 'c-1|{\"event_id\":\"mine-1\",\"cents\":1000}' | kcat -P -b \$KAFKA_BOOTSTRAP -t orders -K '|' -H type=order.created; python3 $root/examples/minimal.py"
}

# How this run was started, without --once.
again() {
	local word
	printf 'deploy/quickstart.sh'
	for word in "${arguments[@]}"; do
		[ "$word" = --once ] || printf ' %q' "$word"
	done
}

# The table of what to try next is the end of the output.
next_steps() {
	local tries=0
	if [ -n "$once" ]; then
		printf '\nEverything that was started ends now, because of --once. To keep it running, and for the commands below:\n\n'
		printf '  %s\n\nFive things to try then, in a second terminal, after the command that is printed there:\n\n' "$(again)"
	else
		printf '\nFive things to try next. Open a second terminal and run this command there first:\n\n'
		printf '  . %s/environment\n\n%s\n\n' "$dir" "$(explain_environment)"
	fi
	printf '     %-48s  %s\n' "what it shows" "command"
	explain
}

# What another terminal needs for psql, kcat, the commands of inboxd and a handler.
write_environment() {
	cat >"$dir/environment" <<-END
		export PGHOST=$PGHOST PGPORT=$PGPORT PGUSER=$PGUSER PGDATABASE=$PGDATABASE
		export KAFKA_BOOTSTRAP=$KAFKA_BOOTSTRAP
		export INBOXD_CONFIG=$configuration INBOXD_SOCKET_PATH=$dir/inbox.sock
		export QUICKSTART=$dir QUICKSTART_HANDLER=${handler:-} QUICKSTART_METRICS=http://127.0.0.1:$http_port/metrics
		export PATH=$root/build-release/src:\$PATH
	END
}

# What the variables do to a configuration of the reader's own.
explain_environment() {
	cat <<-END
		This exports INBOXD_SOCKET_PATH, which overrides socket.path of every configuration file, and PGUSER=$PGUSER: with a
		file without postgres.user, inboxd runs as this superuser. For another inboxd: unset INBOXD_SOCKET_PATH PGUSER
	END
}

what_starts() {
	if [ -n "$servers_only" ]; then
		echo "PostgreSQL and a Kafka broker"
	else
		echo "PostgreSQL, a Kafka broker, inboxd and $handlers"
	fi
}

# With --servers-only: the two servers, and how to begin.
serve() {
	local read="${topics[*]:1}" # those of --topic
	read=${read// /,}
	configuration=$dir/inboxd.yaml
	http_port=$(free_port)
	write_environment
	cat <<-END

		PostgreSQL and Kafka run until you press Ctrl-C, with the topics: $(printf '%s\n' "${topics[@]}" | awk '!seen[$0]++' | paste -sd ' '). In a second terminal:

		  . $dir/environment
		  inboxd init ${read:-orders} "\$KAFKA_BOOTSTRAP" "host=\$PGHOST port=\$PGPORT user=\$PGUSER dbname=\$PGDATABASE" \\
		      --set "socket.path=\$INBOXD_SOCKET_PATH" --set http.listen=127.0.0.1:$http_port
		  inboxd run --migrate

		$(explain_environment)
	END
	[ -n "$once" ] || wait "${pid_of[broker]}"
}

# Blocks until Ctrl-C or SIGTERM, and as long as inboxd runs: the example handler may be killed.
stay() {
	write_environment
	printf '\ninboxd, %s, PostgreSQL and Kafka run until you press Ctrl-C. Logs are in %s.\n' "$handlers" "$dir"
	[ -n "$example" ] || echo "The tutorial (docs/tutorial.md) continues here."
	[ "$broker" = real ] || cat <<-END

		The embedded broker supports one inboxd process, without restarts. To restart inboxd or to run two of
		them, start this script with --kafka real.
	END
	next_steps
	wait "${pid_of[$sidecar]}"
	fail "$sidecar has ended, and so does all the rest; its log:" "$dir/$sidecar.log"
}

main() {
	parse_arguments "$@"
	[ -z "$example" ] || . "$root/examples/$example/quickstart.sh"
	cd "$root" || exit 1
	dir=$(mktemp -d -t inboxd-quickstart-XXXXXX)
	chmod 711 "$dir"
	trap stop_all EXIT
	trap 'exit 0' INT TERM
	[ -z "$servers_only" ] || steps=3
	prepare
	step "starting $(what_starts)"
	stage "PostgreSQL" waiting_for_it start_postgres
	stage "Kafka broker" waiting_for_it start_broker
	[ -z "$servers_only" ] || { serve && return; }
	stage "inboxd" waiting_for_it start_inboxd
	stage "handlers" waiting_for_it start_handlers
	produce
	stage "all messages are processed" waiting_for_it wait_for "$sidecar" 180 all_processed
	wait_for "$sidecar" 60 counted
	show
	[ -n "$once" ] || stay
	next_steps
	[ -z "$wrong" ]
}

# Sourced, it is a library of its functions, for the tests.
[ "${BASH_SOURCE[0]}" != "$0" ] || main "$@"
