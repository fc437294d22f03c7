package inboxd_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The code of the README is that of the examples, which tests/languages of the repository runs, and of the tests.
func TestTheReadmeShowsExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("examples/*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range append(files, "integration/cloudevents_test.go") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	tested := withoutIndentation(code.String())
	shown := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(readme), -1)
	for _, block := range shown {
		wanted := strings.ReplaceAll(withoutIndentation(block[1]), "d.Event", "event")
		if !strings.Contains(strings.ReplaceAll(tested, "d.Event", "event"), wanted) {
			t.Errorf("no example has\n%s", block[1])
		}
	}
	if len(shown) != 3 {
		t.Errorf("the README shows %d blocks", len(shown))
	}
}

var indentation = regexp.MustCompile(`(?m)^\t+`)

func withoutIndentation(code string) string {
	return indentation.ReplaceAllString(code, "")
}
