package dpi_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dpiframe.org/dpi"
)

func TestSameBitsAsC(t *testing.T) {
	bundles := golden(t)
	for _, name := range []string{"adult_widedeep.h5", "bank_dcnv2.h5", "msweb_deepfm.h5", "msweb_can.h5"} {
		bundles = append(bundles, demo(t, name))
	}
	operators, err := filepath.Glob(filepath.Join(root(t), "tests/e2e/op_bundles/*.h5"))
	if err != nil || len(operators) == 0 {
		t.Fatal("no operator bundles", err)
	}
	models := len(bundles)
	bundles = append(bundles, operators...) // a lone operator may give NaN for drawn values; its bits count all the same
	shared, bagged, weighted := 0, 0, 0
	for index, path := range bundles {
		m := load(t, path, dpi.WithOption("nonfinite", "return"))
		modes := []string{"plain", "bags"}
		if m.Info().SharedSlots+m.Info().SharedDenseDim > 0 {
			modes = append(modes, "shared")
			shared++
		}
		for _, f := range m.Schema() {
			if f.Kind == dpi.Sequence {
				bagged++
				break
			}
		}
		for n, mode := range modes {
			for _, rows := range []int{1, 33} {
				seed := uint64(100*n + rows)
				b := batchOf(m, rows, seed, mode)
				if b.Weights != nil {
					weighted++
				}
				out := predict(t, m, b)
				if index < models {
					sameBits(t, "no NaN", out, out)
				}
				got := hexLines(out, m.Info().Heads)
				if want := reference(t, path, rows, seed, mode); got != want {
					t.Fatalf("%s, %s, %d rows:\n%s\nexpected\n%s", filepath.Base(path), mode, rows, got, want)
				}
			}
		}
		_ = m.Close()
	}
	t.Logf("%d bundles, %d with a shared part, %d with sequences, %d batches with weights", len(bundles), shared, bagged, weighted)
	if bagged == 0 || shared == 0 || weighted == 0 {
		t.Fatal("no bundle has sequences, a shared part or weights")
	}
}

func TestGoldenRows(t *testing.T) {
	for _, path := range golden(t) {
		m := load(t, path, dpi.WithOption("verify", "golden"))
		_ = m.Close()
	}
}

// readDemo gives the raw rows of a demo CSV as JSON-like values, lists split at '|'.
func readDemo(t testing.TB, m *dpi.Model, path string, limit int) (names []string, rows [][]interface{}) {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	schema := m.Schema()
	names = lines[0]
	for _, line := range lines[1:] {
		if len(rows) == limit {
			break
		}
		row := make([]interface{}, len(line))
		for c, cell := range line {
			f := m.FeatureIndex(names[c])
			if f >= 0 && schema[f].Kind == dpi.Sequence {
				row[c] = strings.Split(cell, "|")
			} else {
				row[c] = cell
			}
		}
		rows = append(rows, row)
	}
	return names, rows
}

func fillRows(t testing.TB, m *dpi.Model, r *dpi.Rows, names []string, rows [][]interface{}) {
	t.Helper()
	for _, row := range rows {
		if err := r.Begin(); err != nil {
			t.Fatal(err)
		}
		for c, value := range row {
			if m.FeatureIndex(names[c]) < 0 {
				continue
			}
			if err := r.Set(names[c], value); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestRawRowsAsScoreCSV(t *testing.T) {
	for _, name := range []string{"adult_widedeep adult", "bank_dcnv2 bank", "msweb_deepfm msweb", "msweb_can msweb"} {
		part := strings.Fields(name)
		bundle, table := demo(t, part[0]+".h5"), demo(t, part[1]+"_test.csv")
		m := load(t, bundle)
		names, raw := readDemo(t, m, table, 2000)
		r, err := m.NewRows()
		if err != nil {
			t.Fatal(err)
		}
		var got []float32
		for at := 0; at < len(raw); at += 256 {
			end := at + 256
			if end > len(raw) {
				end = len(raw)
			}
			r.Clear()
			fillRows(t, m, r, names, raw[at:end])
			out := outFor(m, end-at)
			if err := r.Predict(background, out); err != nil || r.Count() != end-at {
				t.Fatal(err)
			}
			got = append(got, out...)
		}
		command := exec.Command(program(t, "score_csv"), bundle, table)
		text, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		var want []float32
		for _, line := range strings.Split(string(bytes.TrimSpace(text)), "\n")[:len(raw)] {
			x, err := strconv.ParseFloat(line, 32)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, float32(x))
		}
		sameBits(t, name, got, want)
		if err := r.Close(); err != nil || r.Close() != nil {
			t.Fatal("close")
		}
		wants(t, r.Begin(), dpi.Closed)
		wants(t, r.Predict(background, got), dpi.Closed)
		_ = m.Close()
	}
}

func TestOtherPathsGiveTheSameBits(t *testing.T) {
	bundle := demo(t, "adult_widedeep.h5")
	m := load(t, bundle)
	for _, mode := range []string{"plain", "bags"} {
		b := batchOf(m, 31, 7, mode)
		want := predict(t, m, b)

		reused, err := m.NewBatch(64, 0)
		if err != nil {
			t.Fatal(err)
		}
		ids := -1
		if mode == "bags" {
			ids = len(b.IDs)
		}
		if err := m.Reset(reused, b.Rows, ids, false); err != nil {
			t.Fatal(err)
		}
		copy(reused.IDs, b.IDs)
		copy(reused.Offsets, b.Offsets)
		copy(reused.Dense, b.Dense)
		sameBits(t, "reused batch", predict(t, m, reused), want)
		wants(t, m.Reset(reused, 65, -1, false), dpi.InvalidArgument)
		if reused.Close() != nil || reused.Close() != nil || reused.IDs != nil {
			t.Fatal("close")
		}
		wants(t, m.Reset(reused, 1, -1, false), dpi.Closed)

		c, err := m.NewContext(64, 0)
		if err != nil {
			t.Fatal(err)
		}
		copy(c.IDs(), b.IDs)
		copy(c.Offsets(), b.Offsets)
		copy(c.Dense(), b.Dense)
		if err := c.Predict(background, b.Rows, ids, false); err != nil {
			t.Fatal(err)
		}
		sameBits(t, "context", c.Out()[:len(want)], want)
		out := outFor(m, b.Rows)
		if err := c.PredictBatch(background, b, out); err != nil {
			t.Fatal(err)
		}
		sameBits(t, "batch on a context", out, want)
		wants(t, c.Predict(background, 65, -1, false), dpi.InvalidArgument)
		if c.Close() != nil || c.Close() != nil {
			t.Fatal("close")
		}
		wants(t, c.Predict(background, 1, -1, false), dpi.Closed)
	}
	bytes, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	again, err := dpi.LoadBytes(bytes)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	b := batchOf(m, 33, 9, "plain")
	sameBits(t, "from memory", predict(t, again, b), predict(t, m, b))
	if again.Info().ContentDigest != m.Info().ContentDigest {
		t.Fatal("digest")
	}
}

func TestLayoutStrideAndWeights(t *testing.T) {
	m := load(t, demo(t, "adult_widedeep.h5"))
	slots, dim := m.Info().Slots, m.Info().DenseDim
	const rows = 17
	b := batchOf(m, rows, 3, "plain")
	want := predict(t, m, b)

	turned := &dpi.Batch{Rows: rows, Layout: dpi.SlotMajor, IDs: make([]int64, rows*slots), DenseStride: dim + 3,
		Dense: make([]float32, rows*(dim+3))}
	for r := 0; r < rows; r++ {
		for s := 0; s < slots; s++ {
			turned.IDs[s*rows+r] = b.IDs[r*slots+s]
		}
		copy(turned.Dense[r*(dim+3):], b.Dense[r*dim:(r+1)*dim])
	}
	sameBits(t, "slot-major with stride", predict(t, m, turned), want)

	b.Weights = make([]float32, len(b.IDs))
	for i := range b.Weights {
		b.Weights[i] = 1
	}
	sameBits(t, "weights of 1", predict(t, m, b), want)
	sameBits(t, "no row", predict(t, m, &dpi.Batch{}), nil)
}

func TestJSONNumbersAndStrings(t *testing.T) {
	m := load(t, demo(t, "bank_dcnv2.h5"))
	names, raw := readDemo(t, m, demo(t, "bank_test.csv"), 50)
	r, err := m.NewRows()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fillRows(t, m, r, names, raw)
	want := outFor(m, len(raw))
	if err := r.Predict(background, want); err != nil {
		t.Fatal(err)
	}
	r.Clear()
	for _, row := range raw {
		if err := r.Begin(); err != nil {
			t.Fatal(err)
		}
		for c, value := range row {
			if m.FeatureIndex(names[c]) < 0 {
				continue
			}
			if _, err := strconv.ParseFloat(value.(string), 64); err == nil {
				value = json.Number(value.(string))
			}
			if err := r.Set(names[c], value); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := outFor(m, len(raw))
	if err := r.Predict(background, got); err != nil {
		t.Fatal(err)
	}
	sameBits(t, "JSON numbers", got, want)
}

func TestManyGoroutines(t *testing.T) {
	m := load(t, demo(t, "adult_widedeep.h5"), dpi.WithConcurrency(3))
	var group sync.WaitGroup
	failures := make(chan error, 64)
	for g := 0; g < 32; g++ {
		b := batchOf(m, 1+g, uint64(g), "plain")
		want := predict(t, m, b)
		group.Add(1)
		go func(g int) {
			defer group.Done()
			out := make([]float32, len(want))
			for n := 0; n < 60; n++ {
				if err := m.Predict(background, b, out); err != nil {
					failures <- err
					return
				}
				for i := range out {
					if out[i] != want[i] {
						failures <- fmt.Errorf("goroutine %d: %v, expected %v", g, out[i], want[i])
						return
					}
				}
			}
		}(g)
	}
	group.Wait()
	close(failures)
	for err := range failures {
		t.Fatal(err)
	}
	counters, err := m.Counters()
	if err != nil || counters.Calls < 32*61 || counters.Rows == 0 || len(counters.Features) != m.Info().Features {
		t.Fatalf("%+v, %v", counters, err)
	}
}

func TestSchema(t *testing.T) {
	m := load(t, demo(t, "msweb_deepfm.h5"), dpi.WithWarmUp(8), dpi.WithDevice("cpu"), dpi.WithThreads(1), dpi.WithMaxRows(64))
	s := m.Schema()
	if len(s) != 3 || s[0].Name != "history" || s[0].Kind != dpi.Sequence || s[0].MaxLen != 32 || s[0].Kind.String() != "sequence" ||
		s[1].VocabSize != 286 || !s[2].HasEncoder || m.FeatureIndex("visits") != 2 || m.FeatureIndex("nothing") != -1 {
		t.Fatalf("%+v", s)
	}
	if h := m.Heads(); len(h) != 1 || h[0] != "visits_area" || m.Info().Device != "cpu" || m.Info().MaxRows != 64 {
		t.Fatalf("%v %+v", h, m.Info())
	}
	for _, call := range []func() (string, error){m.SchemaJSON, m.InfoJSON} {
		if text, err := call(); err != nil || !json.Valid([]byte(text)) {
			t.Fatal(text, err)
		}
	}
	if !json.Valid([]byte(dpi.DevicesJSON(""))) || !json.Valid([]byte(dpi.BuildInfoJSON())) || dpi.LibraryPath() == "" {
		t.Fatal("library")
	}
	if err := m.WarmUp(16); err != nil {
		t.Fatal(err)
	}
}

func TestTableLookup(t *testing.T) {
	m := load(t, demo(t, "msweb_deepfm.h5"), dpi.WithDevice("cpu"))
	rows, err := m.TableLookup("area", []int64{285, 3}, 16)
	if err != nil || len(rows) != 32 || rows[16] != 0.08303294330835342 || rows[17] != -0.1536211520433426 { // as h5py reads them
		t.Fatalf("%v %v", rows, err)
	}
	if none, err := m.TableLookup("area", nil, 16); err != nil || len(none) != 0 {
		t.Fatal(none, err)
	}
	for text, call := range map[string]func() ([]float32, error){
		"there is no table 'nowhere'":                   func() ([]float32, error) { return m.TableLookup("nowhere", []int64{0}, 16) },
		"key 1 is 286, table 'area' has rows 0 to 285":  func() ([]float32, error) { return m.TableLookup("area", []int64{0, 286}, 16) },
		"table 'area' has rows of 16 floats, dim is 8":  func() ([]float32, error) { return m.TableLookup("area", []int64{0}, 8) },
		"table 'area' has rows of 16 floats, dim is 32": func() ([]float32, error) { return m.TableLookup("area", []int64{0}, 32) },
		"rows of 16 floats, dim is 0":                   func() ([]float32, error) { return m.TableLookup("area", nil, 0) },
		"rows of 16 floats, dim is -16":                 func() ([]float32, error) { return m.TableLookup("area", []int64{0}, -16) },
		"table 'area.scalars'":                          func() ([]float32, error) { return m.TableLookup("area.scalars", []int64{0}, 1) },
		"the table's name holds a NUL byte":             func() ([]float32, error) { return m.TableLookup("a\x00", []int64{0}, 16) },
	} {
		if rows, err := call(); err == nil || rows != nil || !strings.Contains(err.Error(), text) {
			t.Fatalf("%q: %v", text, err)
		}
	}
	var failed *dpi.Error
	if _, err := m.TableLookup("area", []int64{0, 3, -5}, 16); !errors.As(err, &failed) || failed.Row != 2 || failed.Feature != -1 {
		t.Fatalf("%+v", err)
	}
	if dim, err := m.TableDim("area"); err != nil || dim != 16 {
		t.Fatal(dim, err)
	}
	if dim, err := m.TableDim("nowhere"); !errors.Is(err, dpi.ErrNotFound) || dim != 0 {
		t.Fatal(dim, err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if rows, err := m.TableLookup("area", []int64{0}, 16); !errors.Is(err, dpi.ErrClosed) || rows != nil {
		t.Fatal(rows, err)
	}
	if _, err := m.TableDim("area"); !errors.Is(err, dpi.ErrClosed) {
		t.Fatal(err)
	}
}

func TestTableLookupContext(t *testing.T) {
	m := load(t, demo(t, "msweb_deepfm.h5"), dpi.WithDevice("cpu"))
	ctx, cancel := context.WithTimeout(background, time.Minute)
	want, err := m.TableLookup("area", []int64{285, 3}, 16)
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := m.TableLookupContext(ctx, "area", []int64{285, 3}, 16); err != nil || !reflect.DeepEqual(rows, want) {
		t.Fatal(rows, err)
	}
	cancel()
	if rows, err := m.TableLookupContext(ctx, "area", []int64{3}, 16); !errors.Is(err, dpi.ErrCancelled) || rows != nil {
		t.Fatal(rows, err)
	}
	late, cancel := context.WithDeadline(background, time.Now().Add(-time.Second))
	defer cancel()
	rows, err := m.TableLookupContext(late, "area", []int64{3}, 16)
	if !errors.Is(err, dpi.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || rows != nil {
		t.Fatal(rows, err)
	}
}

// What is refused is refused before memory is taken for its rows: 16 TiB here, which would end the process.
func TestTableLookupRefusesBeforeItAllocates(t *testing.T) {
	m := load(t, demo(t, "msweb_deepfm.h5"), dpi.WithDevice("cpu"))
	keys := make([]int64, 1<<22)
	for table, want := range map[string]error{"nowhere": dpi.ErrNotFound, "area": dpi.ErrInvalidArgument} {
		if rows, err := m.TableLookup(table, keys, 1<<20); !errors.Is(err, want) || rows != nil {
			t.Fatal(len(rows), err)
		}
	}
}

// Rows that are late under miss=default are the default row, and the counter says how many were.
func TestTableLookupByPolicy(t *testing.T) {
	tiered := func(miss string) *dpi.Model {
		return load(t, demo(t, "msweb_deepfm.h5"), dpi.WithDevice("cpu"), dpi.WithOption("store.host_bytes", "12000"),
			dpi.WithOption("store.resident_bytes", "0"), dpi.WithOption("table.area.miss", miss), dpi.WithOption("table.area.default", "0.25"))
	}
	m, defaults := tiered("default"), 0
	for key := int64(0); key < 286; key++ {
		row, err := m.TableLookup("area", []int64{key}, 16)
		if err != nil {
			t.Fatal(err)
		}
		if row[0] == 0.25 && row[15] == 0.25 {
			defaults++
		}
	}
	text, err := m.CountersJSON()
	var counters struct {
		Tiers []struct {
			Name      string
			Defaulted int
		}
	}
	if err != nil || json.Unmarshal([]byte(text), &counters) != nil || counters.Tiers[0].Name != "area" {
		t.Fatal(text, err)
	}
	if defaults == 0 || counters.Tiers[0].Defaulted != defaults {
		t.Fatalf("%d rows were the default, counted %d", defaults, counters.Tiers[0].Defaulted)
	}
	if _, err := tiered("fail").TableLookup("area", []int64{1, 284}, 16); !errors.Is(err, dpi.ErrNotFound) {
		t.Fatal(err)
	}
}
