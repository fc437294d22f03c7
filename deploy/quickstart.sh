#!/usr/bin/env bash
# A first look at inboxd on a bare machine: builds it, gives it a PostgreSQL and a Kafka broker of its
# own, runs it with examples/handler.py, sends 1,000 orders with 100 copies among them, and shows what
# became of them. Nothing outside this directory and a temporary one is touched, but for missing apt
# packages, which are installed. Everything it started ends with it.
set -uo pipefail

# What the caller has set for an inboxd or a handler of his own is not meant for these.
for name in ${!INBOXD_@}; do unset "$name"; done

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
orders=1000
copies=100
broker=dev
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
		deploy/quickstart.sh [--once] [--kafka real]

		  --once         end after the demonstration; exit code 0 when every number was right
		  --kafka real   real Apache Kafka from Maven Central instead of inboxd-devbroker, whose
		                 group may get stuck when an inboxd is stopped, restarted or joined by another
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
		-h | --help) usage && exit 0 ;;
		*) usage >&2 && exit 1 ;;
		esac
		shift
	done
	case $broker in
	dev | real) ;;
	*) usage >&2 && exit 1 ;;
	esac
}

# What went wrong, with the end of the log that tells.
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

# Asks a process to end, and makes it when it takes too long.
end() {
	local deadline=$((SECONDS + 15))
	kill "$1" 2>/dev/null
	while kill -0 "$1" 2>/dev/null; do
		[ "$SECONDS" -lt "$deadline" ] || kill -KILL "$1"
		sleep 0.05
	done
	wait "$1" 2>/dev/null
}

# The last one first, so that nobody loses what it stands on.
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
		[ "$SECONDS" -lt "$deadline" ] || fail "$name is not there in time; its log:" "$dir/$name.log"
		sleep 0.1
	done
}

prepare() {
	install_build && install_packages kcat && install_postgres || fail "installing failed"
	if [ "$broker" = real ]; then
		install_kafka || fail "fetching Apache Kafka failed"
	fi
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

# All that inboxd needs to know. The id is in the body here, so that a line typed into kcat has one.
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

start_inboxd() {
	http_port=$(python -c 'from support.process import free_port; print(free_port())')
	write_configuration
	start inboxd "$root/build-release/src/inboxd" run --migrate -c "$dir/inboxd.yaml"
	inboxd=$!
	wait_for inboxd 60 is_ready
	start handler python3 "$root/examples/handler.py" "$dir/inbox.sock"
	handler=$!
}

# Orders of 50 customers, the customer as key; a tenth of them a second time.
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
	say "what happened"
	check "records received from Kafka" "$(metric inboxd_messages_received_total)" $((orders + copies))
	check "copies dropped" "$(metric inboxd_duplicates_total)" "$copies"
	check "rows in inbox.inbox_messages" "$(sql 'SELECT count(*) FROM inbox.inbox_messages')" "$orders"
	check "of them processed" "$(sql "SELECT count(*) FROM inbox.messages WHERE status = 'processed'")" "$orders"
	check "orders the handler was given" "$(grep -c '^order-' "$dir/handler.log")" "$orders"
	check "different orders among them" "$(grep -o '^order-[0-9]*' "$dir/handler.log" | sort -u | wc -l)" "$orders"
	say "the last three rows"
	psql -X -c "SELECT event_id, event_type, status, retry_count, payload_text, result
		FROM inbox.messages ORDER BY seq DESC LIMIT 3" | cat
}

# Blocks until Ctrl-C or SIGTERM, and as long as inboxd runs: the example handler may be killed.
stay() {
	local key='c-1|'
	cat <<-END

		It runs. In another terminal, send an order (twice: the second one is dropped):

		  echo '$key{"event_id":"mine-1","customer":"c-1","cents":5}' | kcat -P -b $KAFKA_BOOTSTRAP -t orders -K '|' -H type=order.created

		and look:

		  psql -h $PGHOST -p $PGPORT -U $PGUSER $PGDATABASE -c 'SELECT event_id, status, result FROM inbox.messages ORDER BY seq DESC LIMIT 5'

		A handler of your own, such as examples/minimal.py, connects to $dir/inbox.sock:

		  INBOXD_SOCKET_PATH=$dir/inbox.sock python3 $root/examples/minimal.py

		It gets nothing while the example handler is known, which asked for these orders more precisely: also not while that
		one is away, for its messages wait ten minutes for it. End it, and say that it does not come back:

		  export INBOXD_CONFIG=$dir/inboxd.yaml PATH=$root/build-release/src:\$PATH
		  kill $handler
		  inboxd handlers forget totals

		What it had not answered, and all that comes, is then given to yours. Without any handler messages wait. After that
		\`export\` the commands of inboxd, such as status, list and show, work as they stand in README.md.

		Logs are in $dir; http://127.0.0.1:$http_port/metrics has the numbers. Ctrl-C ends everything.
	END
	[ "$broker" = real ] || cat <<-END

		To restart inboxd or to run two of them, take --kafka real: the group of this small broker may get stuck then.
	END
	wait "$inboxd"
	fail "inboxd has ended, and so does all the rest; its log:" "$dir/inboxd.log"
}

main() {
	parse_arguments "$@"
	cd "$root" || exit 1
	dir=$(mktemp -d -t inboxd-quickstart-XXXXXX)
	chmod 711 "$dir"
	trap stop_all EXIT
	trap 'exit 0' INT TERM
	prepare
	say "starting PostgreSQL, a Kafka broker, inboxd and examples/handler.py"
	start_postgres
	start_broker
	start_inboxd
	say "sending $orders orders and $copies copies"
	produce
	wait_for inboxd 60 all_processed
	wait_for inboxd 10 counted
	show
	[ -n "$once" ] || stay
	[ -z "$wrong" ]
}

# Sourced, it is a library of its functions, for the tests.
[ "${BASH_SOURCE[0]}" != "$0" ] || main "$@"
