package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"

	"dpiframe.org/dpi"
)

// Any body gets an answer: scores for every row, or a refusal that says why. `go test` replays tests/fuzz/corpus/http;
// tests/fuzz/run.sh MINUTES http goes on from there.
func FuzzRequestBody(f *testing.F) {
	root := os.Getenv("DPI_ROOT")
	if root == "" {
		f.Skip("DPI_ROOT is not set")
	}
	seeds, err := filepath.Glob(filepath.Join(root, "tests/fuzz/corpus/http/*"))
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, path := range seeds {
		body, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	endpoint, err := dpi.NewEndpoint("fuzz", dpi.WithDevice("cpu"))
	if err != nil {
		f.Fatal(err)
	}
	if err := endpoint.Load(filepath.Join(root, "tests/bundle/data/small.h5"), 0); err != nil {
		f.Fatal(err)
	}
	s, err := newService(endpoint, time.Minute, true)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) { answered(t, s, body) })
}

func answered(t *testing.T, s *service, body []byte) {
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/score", bytes.NewReader(body)))
	var got struct {
		Heads  []string
		Scores [][]*float64
		Error  string
		Cause  string
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil {
		t.Fatalf("the answer is no JSON: %v: %q", err, recorder.Body)
	}
	readable := json.Valid(body) && utf8.Valid(body)
	switch recorder.Code {
	case http.StatusOK:
		var asked struct{ Rows []json.RawMessage }
		if err := json.Unmarshal(body, &asked); err != nil || !readable {
			t.Fatalf("scores for what is no request: %v", err)
		}
		if len(got.Scores) != len(asked.Rows) {
			t.Fatalf("%d scores for %d rows", len(got.Scores), len(asked.Rows))
		}
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		if got.Error == "" || got.Cause == "" {
			t.Fatalf("a refusal that does not say why: %q", recorder.Body)
		}
		if !readable && got.Cause != "json" && got.Cause != "too_large" {
			t.Fatalf("what is no JSON is refused as %q", got.Cause)
		}
	default:
		t.Fatalf("status %d: %q", recorder.Code, recorder.Body)
	}
}
