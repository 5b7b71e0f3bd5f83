package dpi_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"dpiframe.org/dpi"
)

// rawCase is a case of the table tests/e2e/raw_values, which C, Java and the program dpi run too.
type rawCase struct {
	Feature string                     `json:"feature"`
	Value   map[string]json.RawMessage `json:"value"`
	Score   *float64                   `json:"score"`
	Error   []string                   `json:"error"`
	Counts  map[string]int64           `json:"counts"`
}

type (
	namedID   int64
	namedText string
)

func rawValues(t testing.TB, name string) *dpi.Model {
	return load(t, filepath.Join(root(t), "tests/e2e/raw_values/data", name), dpi.WithDevice("cpu"))
}

// rawForms are the Go values that a case's value stands for, in every type that can hold it.
func rawForms(t testing.TB, value map[string]json.RawMessage) []interface{} {
	for kind, raw := range value {
		var text string
		if kind != "list" && kind != "bool" && kind != "null" {
			if err := json.Unmarshal(raw, &text); err != nil {
				t.Fatal(err)
			}
		}
		switch kind {
		case "null":
			return []interface{}{nil}
		case "bool":
			return []interface{}{string(raw) == "true"}
		case "text":
			return []interface{}{text, namedText(text)}
		case "json":
			return []interface{}{json.Number(text)}
		case "int":
			return intForms(text)
		case "uint":
			return uintForms(text)
		case "double":
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			forms := []interface{}{x}
			if float64(float32(x)) == x || x != x {
				forms = append(forms, float32(x))
			}
			return forms
		case "list":
			return listForms(t, raw)
		}
	}
	t.Fatal("a case without value")
	return nil
}

func intForms(text string) []interface{} {
	x, _ := strconv.ParseInt(text, 10, 64)
	forms := []interface{}{x, int(x), namedID(x)}
	if int64(int32(x)) == x {
		forms = append(forms, int32(x))
	}
	if int64(int8(x)) == x {
		forms = append(forms, int8(x), int16(x))
	}
	return forms
}

func uintForms(text string) []interface{} {
	x, _ := strconv.ParseUint(text, 10, 64)
	forms := []interface{}{x, uint(x), uintptr(x)}
	if x < 256 {
		forms = append(forms, uint8(x), uint16(x), uint32(x))
	}
	return forms
}

func listForms(t testing.TB, raw json.RawMessage) []interface{} {
	var elements []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		t.Fatal(err)
	}
	list, integers := make([]interface{}, 0), make([]int64, 0)
	for _, e := range elements {
		forms := rawForms(t, e)
		list = append(list, forms[0])
		if x, ok := forms[0].(int64); ok {
			integers = append(integers, x)
		}
	}
	if len(integers) == len(list) && len(list) > 0 {
		return []interface{}{list, integers}
	}
	return []interface{}{list}
}

func rawCounts(t testing.TB, m *dpi.Model, feature int) map[string]int64 {
	counters, err := m.Counters()
	if err != nil {
		t.Fatal(err)
	}
	f := counters.Features[feature]
	return map[string]int64{"missing": f.Missing, "out_of_range": f.OutOfRange, "unknown": f.Unknown, "unparsable": f.Unparsable, "cut": f.Cut, "absent": f.Absent}
}

func headOf(t testing.TB, m *dpi.Model, name string) int {
	for i, head := range m.Heads() {
		if head == name {
			return i
		}
	}
	t.Fatal("no head", name)
	return -1
}

func newRows(t testing.TB, m *dpi.Model) *dpi.Rows {
	r, err := m.NewRows()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func checkRaw(t testing.TB, m *dpi.Model, r *dpi.Rows, c rawCase, value interface{}) {
	what := fmt.Sprintf("%s: %T %v, expected %v %v", c.Feature, value, value, c.Score, c.Error)
	feature := m.FeatureIndex(c.Feature)
	want := rawCounts(t, m, feature)
	for cause, n := range c.Counts {
		want[cause] += n
	}
	r.Clear()
	out := outFor(m, 1)
	err := r.Begin()
	if err == nil {
		err = r.Set(c.Feature, value)
	}
	if err == nil {
		err = r.Predict(background, out)
	}
	if c.Score != nil {
		if err != nil {
			t.Fatal(what, err)
		}
		got := float64(out[headOf(t, m, c.Feature)])
		if !(math.Abs(got-*c.Score) <= 1.2e-7*math.Abs(*c.Score)) {
			t.Fatalf("%s: %v, expected %v", what, got, *c.Score)
		}
	} else {
		e := wants(t, err, dpi.InvalidArgument)
		for _, text := range c.Error {
			if !strings.Contains(e.Message, text) {
				t.Fatalf("%s: %v, expected %q", what, e, text)
			}
		}
		if e.Row != 0 || e.Feature != feature {
			t.Fatalf("%s: %+v", what, e)
		}
	}
	if got := rawCounts(t, m, feature); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: counted %v, expected %v", what, got, want)
	}
}

func TestTableOfRawValues(t *testing.T) {
	m := rawValues(t, "raw_values.h5")
	text, err := os.ReadFile(filepath.Join(root(t), "tests/e2e/raw_values/data/cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []rawCase
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) < 500 {
		t.Fatal(len(cases), err)
	}
	r, runs := newRows(t, m), 0
	for _, c := range cases {
		for _, value := range rawForms(t, c.Value) {
			checkRaw(t, m, r, c, value)
			runs++
		}
	}
	if runs < 3*len(cases)/2 {
		t.Fatal(runs, "runs")
	}
}

// rawScore scores the open row, shows one head, and begins the next.
func rawScore(t testing.TB, m *dpi.Model, r *dpi.Rows, head string) float32 {
	t.Helper()
	out := outFor(m, r.Count())
	if err := r.Predict(background, out); err != nil {
		t.Fatal(err)
	}
	r.Clear()
	if err := r.Begin(); err != nil {
		t.Fatal(err)
	}
	return out[headOf(t, m, head)]
}

func TestIntegersByTheirOwnSetters(t *testing.T) {
	m := rawValues(t, "raw_values.h5")
	r := newRows(t, m)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	shows := func(head string, want float32) {
		t.Helper()
		if got := rawScore(t, m, r, head); got != want {
			t.Fatalf("%s: %v, expected %v", head, got, want)
		}
	}
	user, history := m.FeatureIndex("user"), m.FeatureIndex("history")
	must(r.Begin())
	must(r.SetInteger(user, 9007199254740993))
	shows("user", 7)
	must(r.SetInteger(user, math.MinInt64))
	shows("user", 10)
	must(r.SetUnsigned(user, math.MaxInt64))
	shows("user", 9)
	must(r.AddIntegers(history, []int64{7, 9007199254740993}, nil))
	must(r.SetInteger(history, 26))
	shows("history", 2+16*7+256*1)
	wants(t, r.SetNumber(user, 9007199254740993), dpi.InvalidArgument)
	wants(t, r.AddIntegers(user, []int64{26}, nil), dpi.InvalidArgument)
	wants(t, r.AddIntegers(history, []int64{26}, []float32{}), dpi.InvalidArgument)

	more := rawValues(t, "more_kinds.h5")
	m, r = more, newRows(t, more)
	must(r.Begin())
	must(r.AddIntegers(more.FeatureIndex("tags"), []int64{9007199254740993, 26}, []float32{0.5, 2}))
	shows("tags", 0.5*3+2*1)
	wants(t, r.AddIntegers(more.FeatureIndex("tags"), []int64{26, 9007199254740992}, nil), dpi.InvalidArgument)
	shows("tags", 0)
}

func TestValuesThatFitNoRule(t *testing.T) {
	m := rawValues(t, "raw_values.h5")
	r := newRows(t, m)
	if err := r.Begin(); err != nil {
		t.Fatal(err)
	}
	var self []interface{}
	self = []interface{}{nil}
	self[0] = self
	var deep interface{} = 26
	for i := 0; i < 100000; i++ {
		deep = []interface{}{deep}
	}
	number := 26
	for _, odd := range []interface{}{map[string]int{"a": 1}, struct{ A int }{1}, &number, complex(1, 2), []byte("26"), func() {}} {
		for _, feature := range []string{"user", "word", "age", "history", "vector"} {
			e := wants(t, r.Set(feature, odd), dpi.InvalidArgument)
			if e.Row != 0 || e.Feature != m.FeatureIndex(feature) || !strings.Contains(e.Message, fmt.Sprintf("%T", odd)) {
				t.Fatalf("%+v", e)
			}
		}
	}
	for _, nested := range []interface{}{self, deep, [][]int{{26}}, [1][1]int{}} {
		for _, feature := range []string{"user", "age", "history", "vector"} {
			if e := wants(t, r.Set(feature, nested), dpi.InvalidArgument); !strings.HasPrefix(e.Message, "row 0, feature '"+feature+"': ") {
				t.Fatalf("%+v", e)
			}
		}
	}
}

func TestVectorsWithEncodersAndSharedRows(t *testing.T) {
	m := rawValues(t, "more_kinds.h5")
	r := newRows(t, m)
	if r.BeginShared() != nil || r.Begin() != nil {
		t.Fatal("begin")
	}
	if e := wants(t, r.Set("scaled", []int{1, 2}), dpi.InvalidArgument); !strings.Contains(e.Message, "encoder") {
		t.Fatal(e)
	}
	for _, odd := range []interface{}{map[string]int{}, []int{26}} {
		e := wants(t, r.Set("user", odd), dpi.InvalidArgument)
		if !e.InShared || e.Row != 0 || !strings.HasPrefix(e.Message, "shared row 0, feature 'user'") {
			t.Fatalf("%+v", e)
		}
	}
	if err := r.SetFloats(m.FeatureIndex("scaled"), []float32{1, 2}); err != nil {
		t.Fatal(err)
	}
	if got := rawScore(t, m, r, "scaled"); got != 3 {
		t.Fatal(got)
	}
}
