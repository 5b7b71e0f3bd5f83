package dpi

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"sync"

	"dpiframe.org/dpi/internal/native"
)

// Model is a loaded bundle, immutable. All methods may be called from any number of goroutines at once.
type Model struct {
	handle   uintptr
	gate     gate
	info     Info
	features []Feature
	byName   map[string]int
	heads    []string
	waits    bool // a call may wait inside the library, because it has fewer contexts than the gate has seats

	mu     sync.RWMutex // held for reading by all but Predict, which goes through the gate
	closed bool
	once   sync.Once
}

// Info tells a model's sizes. Slots counts id features, DenseDim floats per row, of a batch without shared part; the
// Item and Shared fields those of a batch with one.
type Info struct {
	Features, Slots, DenseDim    int
	ItemSlots, SharedSlots       int
	ItemDenseDim, SharedDenseDim int
	Heads                        int
	Device                       string // what runs, after any fallback: "ref", "cpu", "cuda", "other"
	DeviceIndex                  int
	MaxRows                      int // rows per internal chunk
	HostBytes, DeviceBytes       uint64
	ContentDigest                uint64 // changes with any byte of the bundle
	Version                      uint64 // of the content as it is served: 1 after loading
}

// Kind is the kind of a feature.
type Kind int

// Kinds of features.
const (
	Categorical Kind = iota
	Sequence
	Numeric
	Dense
)

// String is the kind's name in the schema.
func (k Kind) String() string {
	if k >= Categorical && k <= Dense {
		return [...]string{"categorical", "sequence", "numeric", "dense"}[k]
	}
	return "unknown"
}

// Feature describes one input of the model.
type Feature struct {
	Name                    string
	Kind                    Kind
	Shared                  bool  // belongs to the shared (user) part
	Slot, PartSlot          int   // -1 for numeric and dense; PartSlot within its part of a batch with a shared part
	DenseColumn, PartColumn int   // first column; -1 for categorical and sequence
	Dim                     int   // floats of a dense feature, else 1
	VocabSize               int64 // valid ids are 0 .. VocabSize-1; 0 of an id feature: ids are keys
	MaxLen                  int64 // of a sequence, 0 = unlimited
	HasEncoder              bool  // raw values can be given (Rows)
	Weighted                bool
}

// Load reads, checks and prepares a bundle.
func Load(path string, options ...Option) (*Model, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return nil, invalid("the path holds a NUL byte")
	}
	text := native.CString(path)
	return load(options, func(o uintptr, out *uintptr, e uintptr) int32 { return native.Dpi_model_load(text, o, out, e) })
}

// LoadBytes is Load from memory, which may change or go after the call.
func LoadBytes(bundle []byte, options ...Option) (*Model, error) {
	return load(options, func(o uintptr, out *uintptr, e uintptr) int32 {
		return native.Dpi_model_load_memory(native.First(bundle), uint64(len(bundle)), o, out, e)
	})
}

func load(options []Option, call func(o uintptr, out *uintptr, e uintptr) int32) (*Model, error) {
	c, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	m := &Model{waits: c.waits()}
	if err := m.gate.open(c.concurrency); err != nil {
		return nil, err
	}
	if err := m.open(c, call); err != nil {
		if m.handle != 0 {
			native.Dpi_model_free(m.handle)
		}
		m.gate.free()
		return nil, err
	}
	runtime.SetFinalizer(m, func(m *Model) { _ = m.Close() })
	return m, nil
}

func (m *Model) open(c *config, call func(o uintptr, out *uintptr, e uintptr) int32) error {
	s := &m.gate.seats[0] // nobody else has the gate yet
	scratch := s.call
	o, err := c.make(scratch)
	if err != nil {
		return err
	}
	defer native.Dpi_options_free(o)
	handle, err := loadUnder(c.ctx, s, o, call)
	if err != nil {
		return err
	}
	m.handle = handle
	if err := m.describe(scratch); err != nil {
		return err
	}
	if c.warmUpRows > 0 && native.Dpi_model_warm_up(handle, int64(c.warmUpRows), scratch.Error()) != 0 {
		return failure(scratch.Failure())
	}
	return nil
}

// loadUnder makes the call that loads, and stops it when ctx (nil: never) ends.
func loadUnder(ctx context.Context, s *seat, o uintptr, call func(o uintptr, out *uintptr, e uintptr) int32) (uintptr, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	done := ctx.Done()
	if done != nil && native.Dpi_options_set_progress(o, 0, 0, s.call.CancelAddress(), s.call.Error()) != 0 {
		return 0, failure(s.call.Failure())
	}
	if _, err := s.begin(ctx, done, done != nil); err != nil {
		return 0, err
	}
	var handle uintptr
	status := call(o, &handle, s.call.Error())
	s.end(done, done != nil)
	if status != 0 {
		return 0, s.failed(ctx)
	}
	return handle, nil
}

// describe copies what never changes, so that no accessor enters C.
func (m *Model) describe(scratch native.Call) error {
	i, status := native.GetInfo(m.handle, scratch)
	if status != 0 {
		return failure(scratch.Failure())
	}
	device := "other"
	if i.DeviceKind >= 0 && i.DeviceKind < 3 {
		device = [...]string{"ref", "cpu", "cuda"}[i.DeviceKind]
	}
	m.info = Info{i.Features, i.Slots, i.DenseDim, i.ItemSlots, i.SharedSlots, i.ItemDenseDim, i.SharedDenseDim, i.Heads,
		device, i.DeviceIndex, int(i.MaxRows), i.HostBytes, i.DeviceBytes, i.Digest, i.Version}
	m.byName = make(map[string]int, i.Features)
	for n := 0; n < i.Features; n++ {
		f, status := native.GetFeature(m.handle, int32(n), scratch)
		if status != 0 {
			return failure(scratch.Failure())
		}
		name := native.GoString(native.Dpi_model_feature_name(m.handle, int32(n)))
		m.byName[name] = n
		m.features = append(m.features, Feature{name, Kind(f.Kind), f.Shared, f.Slot, f.PartSlot, f.DenseColumn,
			f.PartColumn, f.Dim, f.VocabSize, f.MaxLen, f.HasEncoder, f.Weighted})
	}
	for n := 0; n < i.Heads; n++ {
		m.heads = append(m.heads, native.GoString(native.Dpi_model_head_name(m.handle, int32(n))))
	}
	return nil
}

// TableDim returns the floats of a row of a table that TableLookup reads; the error says why it reads no such table.
func (m *Model) TableDim(table string) (dim int, err error) {
	if strings.IndexByte(table, 0) >= 0 {
		return 0, invalid("the table's name holds a NUL byte")
	}
	err = m.with(func() error {
		name := native.CString(table)
		if dim = int(native.Dpi_table_dim(m.handle, name)); dim >= 0 {
			return nil
		}
		dim = 0
		return inCall(func(c native.Call) int32 { return native.Dpi_table_lookup(m.handle, name, nil, 0, nil, 0, c.Error()) })
	})
	return dim, err
}

// TableLookup returns rows of one table, [len(keys), dim], as the model's lookups read them: for services that keep the dense part
// elsewhere, or to look at embeddings. Where a key set finds the table's rows, keys are any int64 and an absent one gives the default row;
// else keys are row numbers, and one outside the table is an error, whose Row is the key's number in keys. dim is the table's, as TableDim
// tells it: with another, or where the table is not read at all, there is an error before memory is taken for the rows.
//
// A table in the host tier (option store.host_bytes) is read by its policy table.NAME.miss: "exact" waits for rows that are late; "default"
// hands out table.NAME.default in their place without an error, and only the counter "defaulted" in CountersJSON tells; "fail" is ErrNotFound.
// There is no limit to how long it waits: TableLookupContext has one.
func (m *Model) TableLookup(table string, keys []int64, dim int) ([]float32, error) {
	return m.TableLookupContext(context.Background(), table, keys, dim)
}

// TableLookupContext is TableLookup under the context's deadline and cancellation, which are looked at on entry and while rows are waited
// for. They come back as ErrTimeout and ErrCancelled (and match context.DeadlineExceeded and context.Canceled), and no rows do.
func (m *Model) TableLookupContext(ctx context.Context, table string, keys []int64, dim int) ([]float32, error) {
	width, err := m.TableDim(table)
	if err != nil {
		return nil, err
	}
	if width != dim {
		return nil, invalid("table '%s' has rows of %d floats, dim is %d", table, width, dim)
	}
	out := make([]float32, len(keys)*dim)
	if err = m.with(func() error { return m.lookup(ctx, table, keys, out) }); err != nil {
		return nil, err
	}
	return out, nil
}

func (m *Model) lookup(ctx context.Context, table string, keys []int64, out []float32) error {
	s, err := newSeat()
	if err != nil {
		return err
	}
	defer s.free()
	done := ctx.Done()
	timeout, err := s.begin(ctx, done, true)
	if err != nil {
		return err
	}
	status := native.Dpi_table_lookup_run(m.handle, native.CString(table), native.First(keys), uint64(len(keys)), native.First(out),
		uint64(len(out)), s.call.Run(timeout), s.call.Error())
	s.end(done, true)
	if status != 0 {
		return s.failed(ctx)
	}
	return nil
}

// Close waits for running predicts and frees the model; later calls fail with ErrClosed. Closing again does nothing. A
// model that becomes unreachable is closed by the garbage collector, whenever that runs: do not rely on it.
func (m *Model) Close() error {
	m.once.Do(func() {
		runtime.SetFinalizer(m, nil)
		m.gate.close()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.closed = true
		native.Dpi_model_free(m.handle)
		m.handle = 0
	})
	return nil
}

// with runs body while the model cannot be freed.
func (m *Model) with(body func() error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return closedError("model")
	}
	return body()
}

func (m *Model) json(call func(model uintptr, buf *byte, capacity uint64) uint64) (text string, err error) {
	err = m.with(func() error {
		text = native.Text(func(buf *byte, capacity uint64) uint64 { return call(m.handle, buf, capacity) })
		return nil
	})
	return text, err
}

// Info tells the model's sizes. It also works after Close.
func (m *Model) Info() Info { return m.info }

// Schema lists the features in schema order. The caller may change the slice.
func (m *Model) Schema() []Feature { return append([]Feature(nil), m.features...) }

// Heads lists the names of the scores of a row.
func (m *Model) Heads() []string { return append([]string(nil), m.heads...) }

// FeatureIndex is the index of a feature in the schema, -1 if there is none of that name.
func (m *Model) FeatureIndex(name string) int {
	if i, ok := m.byName[name]; ok {
		return i
	}
	return -1
}

// SchemaJSON has the features with slots, columns and rules, the heads and the bundle's provenance.
func (m *Model) SchemaJSON() (string, error) { return m.json(native.Dpi_model_schema_json) }

// InfoJSON has the device and why it was chosen or refused, options in force, memory by table, the plan.
func (m *Model) InfoJSON() (string, error) { return m.json(native.Dpi_model_info_json) }

// FeatureCounters counts what the model met in one feature, by cause.
type FeatureCounters struct {
	Name       string `json:"name"`
	Missing    int64  `json:"missing"`      // no value, or a missing element of a sequence
	OutOfRange int64  `json:"out_of_range"` // encoded ids outside the vocabulary
	Unknown    int64  `json:"unknown"`      // raw values that the encoder's vocabulary does not hold
	Unparsable int64  `json:"unparsable"`   // raw values refused: no number, no integer
	Cut        int64  `json:"cut"`          // bags longer than MaxLen
	Absent     int64  `json:"absent"`       // keys that the feature's key set does not hold
}

// Counters counts since load.
type Counters struct {
	Calls         int64             `json:"calls"`
	Rows          int64             `json:"rows"`
	NonfiniteRows int64             `json:"nonfinite_rows"` // with a score that is infinite or NaN
	Waits         int64             `json:"waits"`          // for one of the library's contexts, a millisecond or more
	Longest       float64           `json:"longest_wait_ms"`
	Parked        int64             `json:"parked"`       // calls that gave their context to others while they waited for rows
	ParkedNow     int64             `json:"parked_now"`   // those that do so now
	UserHits      int64             `json:"user_hits"`    // users that were not computed again (option user_cache_bytes)
	UserMisses    int64             `json:"user_misses"`  // that were computed and kept
	UserRepeats   int64             `json:"user_repeats"` // that were kept, and computed beside a new user of the same chunk
	UserDrops     int64             `json:"user_drops"`   // that were computed and not kept
	Errors        map[Code]int64    `json:"errors"`
	Features      []FeatureCounters `json:"features"`
}

// CountersJSON has every counter of the library, also those of a later one that Counters does not know.
func (m *Model) CountersJSON() (string, error) { return m.json(native.Dpi_model_counters_json) }

// SlowJSON has the last 64 calls that took as long as option "slow_us" says: when, how long each stage took, rows, ids by feature, and no values.
func (m *Model) SlowJSON() (string, error) { return m.json(native.Dpi_model_slow_json) }

// Counters reads the model's counters.
func (m *Model) Counters() (Counters, error) {
	var c Counters
	text, err := m.CountersJSON()
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, plainError(Internal, "counters: %v", err)
	}
	return c, nil
}

// WarmUp creates all contexts and runs batches of up to maxRows rows through each.
func (m *Model) WarmUp(maxRows int) error {
	return m.with(func() error {
		s, err := newSeat()
		if err != nil {
			return err
		}
		defer s.free()
		if native.Dpi_model_warm_up(m.handle, int64(maxRows), s.call.Error()) != 0 {
			return failure(s.call.Failure())
		}
		return nil
	})
}
