module inboxd/examples/schema_registry

go 1.26

require (
	github.com/twmb/avro v1.9.1
	github.com/twmb/franz-go/pkg/sr v1.8.0
	inboxd v0.1.0
)

replace inboxd => ../../
