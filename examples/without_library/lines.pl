#!/usr/bin/perl
# Counts the messages, and finds those that no attempt can process. It goes on running: a line for each message, a line
# for each answer.
#
#   inboxd exec --handler counter --topic orders --lines -- perl lines.pl
use strict;
use warnings;

$| = 1;    # each answer at once, also into a pipe
my $count = 0;
while (my $event = <STDIN>) {
	if ($event !~ /"data":/) { print "dead the order has no data\n" }
	else { $count++; print qq({"status":"done","result":{"count":$count}}\n) }
}
