package inboxd

import (
	"fmt"
	"slices"
	"strings"
)

// A Subscription says which messages a function gets. Its zero value stands for every message.
type Subscription struct {
	// Topic is a whole name of a topic in Kafka. Empty, or "*": any topic.
	Topic string
	// Types are types of events. One that ends with "*" is a prefix. Empty: any type, also messages that have none.
	Types []string
}

// Everything is the subscription to every message.
var Everything Subscription

// Topic returns the subscription to a topic, or to some types of events in it. A type that ends with "*" is a prefix.
func Topic(topic string, types ...string) Subscription {
	return Subscription{Topic: topic, Types: types}
}

// Types returns the subscription to types of events in any topic. A type that ends with "*" is a prefix.
func Types(types ...string) Subscription {
	return Subscription{Types: types}
}

const wildcard = "*"

// A route is a topic and a type, each perhaps "*", and the function for these messages: one of the two.
type route struct {
	topic    string
	typ      string
	function Func
	batch    BatchFunc
}

// rank says how specific the route is: an exact type, the longest prefix, no type; then a topic. -1: it does not match.
func (r *route) rank(topic, typ string) int {
	const exact = 1 << 30
	if r.topic != wildcard && r.topic != topic {
		return -1
	}
	named := 0
	if r.topic != wildcard {
		named = 1
	}
	prefix, isPrefix := strings.CutSuffix(r.typ, wildcard)
	switch {
	case r.typ == wildcard:
		return named
	case !isPrefix && r.typ == typ:
		return exact + named
	case isPrefix && strings.HasPrefix(typ, prefix):
		return 2*len(r.typ) + named
	}
	return -1
}

// routes finds the function of a message by the rules of inboxd.
type routes []*route

func (rs *routes) add(sub Subscription, function Func, batch BatchFunc) {
	topic := sub.Topic
	if topic == "" {
		topic = wildcard
	}
	types := sub.Types
	if len(types) == 0 {
		types = []string{wildcard}
	}
	for _, typ := range types {
		if typ == "" {
			panic("inboxd: a type of a subscription is empty")
		}
		if slices.ContainsFunc(*rs, func(r *route) bool { return r.topic == topic && r.typ == typ }) {
			panic(fmt.Sprintf("inboxd: two functions for topic %s and type %s", topic, typ))
		}
		*rs = append(*rs, &route{topic, typ, function, batch})
	}
}

// find returns the most specific route; nil if none matches.
func (rs routes) find(topic, typ string) *route {
	var best *route
	bestRank := -1
	for _, r := range rs {
		if rank := r.rank(topic, typ); rank > bestRank {
			best, bestRank = r, rank
		}
	}
	return best
}

func (rs routes) haveBatches() bool {
	return slices.ContainsFunc(rs, func(r *route) bool { return r.batch != nil })
}

// A subscribe entry of the hello.
type subscribeEntry struct {
	Topic string   `json:"topic,omitempty"`
	Types []string `json:"types,omitempty"`
}

// subscribe returns the member of the hello. Empty: every message.
func (rs routes) subscribe() []subscribeEntry {
	var entries []subscribeEntry
	for _, r := range rs {
		topic := strings.TrimSuffix(r.topic, wildcard)
		at := slices.IndexFunc(entries, func(e subscribeEntry) bool { return e.Topic == topic })
		if at < 0 {
			at = len(entries)
			entries = append(entries, subscribeEntry{Topic: topic})
		}
		entries[at].Types = append(entries[at].Types, r.typ)
	}
	for i := range entries {
		if slices.Equal(entries[i].Types, []string{wildcard}) {
			entries[i].Types = nil
		}
	}
	if len(entries) == 1 && entries[0].Topic == "" && entries[0].Types == nil {
		return nil
	}
	return entries
}
