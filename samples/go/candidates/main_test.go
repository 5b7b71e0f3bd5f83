package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The Go and the C++ program print the same, with and without features of the user.
func TestPrintsWhatCPrints(t *testing.T) {
	root, bin := os.Getenv("DPI_ROOT"), os.Getenv("DPI_BIN")
	if root == "" || bin == "" {
		t.Skip("DPI_ROOT and DPI_BIN are not set")
	}
	for _, name := range []string{"weights/demo/bank_dcnv2.h5", "tests/bundle/data/small.h5"} {
		bundle := filepath.Join(root, name)
		got, err := exec.Command("go", "run", ".", bundle).Output()
		if err != nil {
			t.Fatal(err)
		}
		want, err := exec.Command(filepath.Join(bin, "score_candidates"), bundle).Output()
		if err != nil || len(want) == 0 || string(got) != string(want) {
			t.Fatalf("%v: got\n%s\nexpected\n%s", err, got, want)
		}
	}
}
