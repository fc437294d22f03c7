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
pids=()
declare -A pid_of=() # by name

say() {
	printf '\n== %s\n' "$*" >&2
}

. "$root/tests/support/install.sh"
. "$root/tests/support/build.sh"

usage() {
	cat <<-END
		deploy/quickstart.sh [--once] [--kafka real] [--example consumers|outbox]

		  --once                end after the result; the exit code is 0 if every number is right
		  --kafka real          use Apache Kafka from Maven Central instead of the embedded broker. The embedded
		                        broker supports one inboxd process, without restarts
		  --example consumers   run examples/consumers: three consumers of each order, one of which fails
		  --example outbox      run examples/outbox: an order service and a shipping service, each with its inboxd, while
		                        each process is killed; with Apache Kafka
	END
}

parse_arguments() {
	while [ $# -gt 0 ]; do
		case $1 in
		--once) once=yes ;;
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

# Ends with an error message and the end of a log.
fail() {
	say "$1"
	[ -z "${2:-}" ] || tail -n 20 "$2" >&2
	exit 1
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

prepare() {
	install_build && install_packages kcat && install_postgres || fail "installing failed"
	if [ "$broker" = real ]; then
		install_kafka || fail "fetching Apache Kafka failed"
	fi
	install_example || fail "installing failed"
	say "building into build-release"
	build_release >"$dir/build.log" 2>&1 || fail "the build failed:" "$dir/build.log"
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
		kcat -q -L -b "$KAFKA_BOOTSTRAP" -t orders >/dev/null # asking for it creates it
	else
		start broker "$root/build-release/tools/inboxd-devbroker" --topic orders:4 \
			--address-file "$dir/broker.address"
		wait_for broker 20 [ -f "$dir/broker.address" ]
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
	say "sending $orders orders and $copies copies"
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

counted() {
	[ "$(metric inboxd_messages_received_total)" = $((orders + copies)) ]
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
	say "result"
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

# What to try next.
explain() {
	local key='c-1|'
	cat <<-END

		inboxd, its handler, PostgreSQL and Kafka run until you press Ctrl-C. The tutorial (docs/tutorial.md) continues here.

		Open a second terminal and run this command there first:

		  . $dir/environment

		Send an order. If you send it again, inboxd drops the second copy:

		  echo '$key{"event_id":"mine-1","customer":"c-1","cents":5}' | kcat -P -b \$KAFKA_BOOTSTRAP -t orders -K '|' -H type=order.created

		Look at the newest messages:

		  psql -c 'SELECT event_id, status, result FROM inbox.messages ORDER BY seq DESC LIMIT 5'

		The commands of inboxd, such as inboxd status, list and show, work as in README.md.

		The example handler has subscribed to the orders. While it is away, they wait for it for ten minutes. To give them to a
		handler of your own, such as examples/minimal.py, stop the example handler and forget it:

		  kill $handler
		  inboxd handlers forget totals
		  python3 $root/examples/minimal.py
	END
}

# What another terminal needs for psql, kcat, the commands of inboxd and a handler.
write_environment() {
	cat >"$dir/environment" <<-END
		export PGHOST=$PGHOST PGPORT=$PGPORT PGUSER=$PGUSER PGDATABASE=$PGDATABASE
		export KAFKA_BOOTSTRAP=$KAFKA_BOOTSTRAP
		export INBOXD_CONFIG=$configuration INBOXD_SOCKET_PATH=$dir/inbox.sock
		export PATH=$root/build-release/src:\$PATH
	END
}

# Blocks until Ctrl-C or SIGTERM, and as long as inboxd runs: the example handler may be killed.
stay() {
	write_environment
	explain
	printf '\nLogs are in %s. Metrics are at http://127.0.0.1:%s/metrics.\n' "$dir" "$http_port"
	[ "$broker" = real ] || cat <<-END

		The embedded broker supports one inboxd process, without restarts. To restart inboxd or to run two of
		them, start this script with --kafka real.
	END
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
	prepare
	say "starting PostgreSQL, a Kafka broker, inboxd and $handlers"
	start_postgres
	start_broker
	start_inboxd
	start_handlers
	produce
	wait_for "$sidecar" 60 all_processed
	wait_for "$sidecar" 10 counted
	show
	[ -n "$once" ] || stay
	[ -z "$wrong" ]
}

# Sourced, it is a library of its functions, for the tests.
[ "${BASH_SOURCE[0]}" != "$0" ] || main "$@"
