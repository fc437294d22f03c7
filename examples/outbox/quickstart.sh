# What deploy/quickstart.sh --example outbox does differently. The order service places 300 orders. Meanwhile each process is
# killed with SIGKILL, and keep() starts it again.

example=$root/examples/outbox
handlers="the programs of examples/outbox"
broker=real # the embedded broker supports no restarts
sidecar=shop
orders=300

install_example() {
	install_packages python3-venv && install_venv # for psycopg
}

# keep NAME COMMAND…: starts it again whenever it ends. Its process id is in $dir/NAME.pid.
keep() {
	local name=$1 child
	shift
	trap 'kill "$child"; wait "$child"; exit' TERM
	while :; do
		"$@" &
		child=$!
		echo "$child" >"$dir/$name.pid"
		wait "$child"
		sleep 0.2
	done
}

# A database, and its inboxd.
start_service() {
	sql "CREATE DATABASE $1" && psql -X -q -d "$1" -f "$example/$1.sql" || fail "creating the database $1 failed"
	http_port=$(free_port)
	start "$1" keep "$1" "$root/build-release/src/inboxd" run --migrate -c "$example/$1.yaml" \
		--set "kafka.bootstrap.servers=$KAFKA_BOOTSTRAP" --set "socket.path=$dir/$1.sock" \
		--set "http.listen=127.0.0.1:$http_port"
	wait_for "$1" 60 is_ready
}

start_inboxd() {
	local topic
	for topic in shop.orders shipping.shipments; do
		kcat -q -L -b "$KAFKA_BOOTSTRAP" -t "$topic" >/dev/null # asking for it creates it
	done
	start_service shipping
	start_service shop
	configuration=$example/shop.yaml
}

# program DATABASE FILE [ARGUMENT…]: runs one of the example instead of this shell, with the database and the inboxd of its service.
program() {
	exec env PGDATABASE="$1" INBOXD_SOCKET_PATH="$dir/$1.sock" PYTHONPATH="$root/handlers/python/src" \
		PYTHONDONTWRITEBYTECODE=1 "$root/.venv/bin/python" "$example/$2" "${@:3}"
}

start_handlers() {
	start ship keep ship program shipping ship.py
	start mark_shipped keep mark_shipped program shop mark_shipped.py
}

produce() {
	local name
	step "placing $orders orders; meanwhile each process is killed with SIGKILL and started again"
	start place_orders program shop place_orders.py "$orders"
	for name in shop ship shipping mark_shipped; do
		sleep 0.8
		echo "  kill -9 $(cat "$dir/$name.pid") ($name)"
		kill -9 "$(cat "$dir/$name.pid")"
	done
	echo "  kill -9 ${pid_of[place_orders]} (place_orders)"
	kill -9 "${pid_of[place_orders]}"
	wait "${pid_of[place_orders]}" 2>/dev/null # says nothing about the kill
	start place_orders_again program shop place_orders.py "$orders"
	wait "${pid_of[place_orders_again]}" || fail "the order service failed:" "$dir/place_orders_again.log"
}

in_shop() {
	psql -X -q -A -t -d shop -c "$1"
}

in_shipping() {
	psql -X -q -A -t -d shipping -c "$1"
}

all_processed() {
	[ "$(in_shop 'SELECT count(*) FROM orders WHERE shipments > 0')" = "$orders" ]
}

# No event waits any more, and so no further copy comes.
counted() {
	[ "$(in_shop "SELECT count(*) FROM inbox.events WHERE status <> 'published'")" = 0 ] &&
		[ "$(in_shipping "SELECT count(*) FROM inbox.events WHERE status <> 'published'")" = 0 ]
}

# Records of a topic.
records() {
	kcat -q -C -e -b "$KAFKA_BOOTSTRAP" -t "$1" -f '%k\n' | wc -l
}

show() {
	wrong=
	step "result"
	check "shop: orders" "$(in_shop 'SELECT count(*) FROM orders')" "$orders"
	check "shop: events order.placed, published" \
		"$(in_shop "SELECT count(*) FROM inbox.events WHERE status = 'published'")" "$orders"
	printf '  %-42s %6s\n' "Kafka: records of these, with copies" "$(records shop.orders)"
	check "shipping: messages in the inbox" "$(in_shipping 'SELECT count(*) FROM inbox.inbox_messages')" "$orders"
	check "shipping: shipments" "$(in_shipping 'SELECT count(*) FROM shipments')" "$orders"
	check "shipping: different orders among these" \
		"$(in_shipping 'SELECT count(DISTINCT order_id) FROM shipments')" "$orders"
	check "shipping: events order.shipped, published" \
		"$(in_shipping "SELECT count(*) FROM inbox.events WHERE status = 'published'")" "$orders"
	printf '  %-42s %6s\n' "Kafka: records of these, with copies" "$(records shipping.shipments)"
	check "shop: orders with one shipment" "$(in_shop 'SELECT count(*) FROM orders WHERE shipments = 1')" "$orders"
	say "the last order: a row, its event, its shipment"
	psql -X -d shop -c "SELECT o.*, e.status AS event, e.event_id FROM orders o
		JOIN inbox.events e ON e.key = convert_to(o.id::text, 'UTF8') ORDER BY o.id DESC LIMIT 1" | cat
	psql -X -d shipping -c 'SELECT * FROM shipments ORDER BY order_id DESC LIMIT 1' | cat
}

explain() {
	try "how many events wait, are published, are dead" "inboxd outbox status"
	try "an order of yours, and its shipment" \
		"psql -d shop -c \"WITH o AS (INSERT INTO orders (customer, cents) VALUES ('me', 5) RETURNING id) SELECT inbox.emit('shop.orders', id::text, 'order.placed', jsonb_build_object('order', id, 'customer', 'me')) FROM o\"; sleep 2; psql -d shipping -c \"SELECT * FROM shipments WHERE customer = 'me'\""
	try "copies of all events: nothing is shipped again" \
		"inboxd outbox replay --status published --topic shop.orders --yes --reason 'a try'; sleep 2; psql -d shipping -c 'SELECT count(*), count(DISTINCT order_id) FROM shipments'"
	try "an event that waits until its topic is created" \
		"psql -d shop -c \"SELECT inbox.emit('returns', '7', 'order.returned', '{\\\"order\\\": 7}')\"; inboxd outbox list --status waiting; kcat -q -L -b \$KAFKA_BOOTSTRAP -t returns"
	try "a sidecar that is killed, and started again" "kill -9 \$(cat \$QUICKSTART/shop.pid); sleep 3; inboxd status"
}
