package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What the service does over HTTP is tested by tests/bindings/services, for both languages.

// Counters that this version of the library does not have are shown too.
func TestAnyCounterIsShown(t *testing.T) {
	root := os.Getenv("DPI_ROOT")
	if root == "" {
		t.Skip("DPI_ROOT is not set")
	}
	counters, err := os.ReadFile(filepath.Join(root, "tests/bindings/services/counters.json"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(root, "tests/bindings/services/counters.txt"))
	if err != nil {
		t.Fatal(err)
	}
	p := newPage()
	if err := p.counters(string(counters)); err != nil {
		t.Fatal(err)
	}
	if got := string(p.bytes()); got != string(want) {
		t.Fatalf("got\n%s\nexpected\n%s", got, want)
	}
}
