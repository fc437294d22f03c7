# What deploy/quickstart.sh --example consumers does differently. 50 customers create 1,000 orders; 100 of the messages are
# sent twice, and 200 orders are shipped. The mail server refuses the mail of one order.

example=$root/examples/consumers
handlers="the handlers of examples/consumers"
shipped=200
refused=created-13
mails=$((orders - orders / 50)) # the later orders of the customer wait behind the refused one
rows=$((orders + orders + shipped + orders))

add_configuration() {
	cat "$example/consumers.yaml"
}

start_handlers() {
	psql -X -q -f "$example/schema.sql" || fail "creating the tables failed"
	echo "$refused" >"$dir/refused"
	start billing "$root/build-release/examples/consumers/billing" "$dir/inbox.sock"
	start search python3 "$example/search.py" "$dir/search.db" "$dir/inbox.sock"
	start mail env PYTHONPATH="$root/handlers/python/src" INBOXD_SOCKET_PATH="$dir/inbox.sock" \
		python3 "$example/mail.py" "$dir/refused"
}

# send WHAT EVERY: the events order.WHAT of each order, or of every second one, and so on.
send() {
	awk -v orders="$orders" -v what="$1" -v every="$2" 'BEGIN {
		for (n = every; n <= orders; n += every)
			printf "c-%d|{\"event_id\":\"%s-%d\",\"order\":%d,\"customer\":\"c-%d\",\"cents\":%d}\n", n % 50, what, n, n, n % 50, n
	}' | kcat -q -P -b "$KAFKA_BOOTSTRAP" -t orders -K '|' -H "type=order.$1" || fail "producing failed" "$dir/broker.log"
}

produce() {
	step "sending $orders orders, $copies copies and $shipped shipments"
	send created 1
	send created $((orders / copies))
	send shipped $((orders / shipped))
}

processed() {
	sql "SELECT count(*) FROM inbox.messages WHERE status = 'processed' AND consumer LIKE '$1'"
}

# Messages that wait after a failed attempt, or behind such a message.
waiting() {
	sql "SELECT count(*) FROM inbox.messages WHERE status IN ('retrying', 'parked') AND consumer = 'mail'"
}

all_processed() {
	[ "$(processed %)" = $((rows - orders + mails)) ] && [ "$(waiting)" = $((orders - mails)) ]
}

counted() {
	[ "$(metric inboxd_messages_received_total)" = $((orders + copies + shipped)) ]
}

# Orders in the table of search.py with this status.
found() {
	python3 -c 'import sqlite3, sys
print(*sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM orders WHERE status = ?", sys.argv[2:]).fetchone())' \
		"$dir/search.db" "$1"
}

inboxd() {
	"$root/build-release/src/inboxd" "$@" -c "$dir/inboxd.yaml"
}

show() {
	wrong=
	step "result"
	check "records received from Kafka" "$(metric inboxd_messages_received_total)" $((orders + copies + shipped))
	check "rows in inbox.inbox_messages" "$(sql 'SELECT count(*) FROM inbox.inbox_messages')" "$rows"
	check "billing: messages processed" "$(processed billing)" "$orders"
	check "billing: rows in the table invoices" "$(sql 'SELECT count(*) FROM invoices')" "$orders"
	check "search: messages processed" "$(processed search)" $((orders + shipped))
	check "search: orders created, and not shipped" "$(found order.created)" $((orders - shipped))
	check "search: orders shipped" "$(found order.shipped)" "$shipped"
	check "mail: messages processed" "$(processed mail)" "$mails"
	check "mail: mails sent" "$(grep -c '^mail to' "$dir/mail.log")" "$mails"
	check "mail: messages that wait" "$(waiting)" $((orders - mails))
	say "one message, three consumers: the mail server refuses it, and the other two have processed it"
	psql -X -c "SELECT consumer, status, retry_count AS tries, error, result
		FROM inbox.messages WHERE event_id = '$refused' ORDER BY consumer" | cat
	say "the later mails of this customer wait behind it: inboxd keys"
	inboxd keys
}

explain() {
	try "what waits for each consumer" "inboxd status"
	try "one message, with a row for each consumer" "inboxd show $refused"
	try "the later mails, after the refused one is given up" \
		"inboxd skip c-13 --topic orders --consumer mail --yes --reason 'the address does not exist'; sleep 1; inboxd list --consumer mail --dead"
	try "the mail after all; no other consumer gets it again" \
		"echo >\$QUICKSTART/refused; inboxd replay $refused --consumer mail --yes --reason 'the address is correct now'; sleep 1; inboxd show $refused"
	try "the deliveries of each consumer, as metrics" "curl -s \$QUICKSTART_METRICS | grep ^inboxd_deliveries_total"
}
