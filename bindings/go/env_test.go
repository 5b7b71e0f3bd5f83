package dpi_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dpiframe.org/dpi"
)

const adult = "adult_widedeep.h5"

func newEnv(t testing.TB, least dpi.LogLevel) *dpi.Env {
	t.Helper()
	env, err := dpi.NewEnv()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Close() })
	if err := env.SetLogLevel(least); err != nil {
		t.Fatal(err)
	}
	return env
}

// told takes all messages and returns the first of a level that holds every part.
func told(t testing.TB, env *dpi.Env, want dpi.LogLevel, parts ...string) string {
	t.Helper()
	found, all := "", ""
	for level, text, ok := env.PollLog(); ok; level, text, ok = env.PollLog() {
		all += text + "\n"
		matches := level == want
		for _, part := range parts {
			matches = matches && strings.Contains(text, part)
		}
		if matches && found == "" {
			found = text
		}
	}
	if found == "" {
		t.Fatalf("nobody told of %q; there was:\n%s", parts, all)
	}
	return found
}

func TestLogOfALoad(t *testing.T) {
	env := newEnv(t, dpi.LogDebug)
	load(t, demo(t, adult), dpi.WithEnv(env), dpi.WithDevice("cpu"))
	told(t, env, dpi.LogDebug, "load: ", adult, "stage tables took")
	load(t, demo(t, adult), dpi.WithEnv(env), dpi.WithDevice("cpu"))
	told(t, env, dpi.LogInfo, "load: ", "ready on cpu")
	if _, text, ok := dpi.DefaultEnv().PollLog(); ok {
		t.Fatalf("the default environment heard of it: %s", text)
	}
}

func TestLogOfFallbackAndRefusedPlugin(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "libdpi_cuda.so")
	if err := os.WriteFile(file, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, dpi.LogInfo)
	load(t, demo(t, adult), dpi.WithEnv(env), dpi.WithOption("backend_dir", dir))
	told(t, env, dpi.LogWarn, "plugin: ", file, "is not used")
	m := load(t, demo(t, adult), dpi.WithEnv(env), dpi.WithOption("backend_dir", dir))
	if m.Info().Device == "cpu" {
		told(t, env, dpi.LogInfo, "device: ", "runs on cpu")
	}
}

// emulated skips where the emulated GPU was not built.
func emulated(t testing.TB) string {
	plugins := filepath.Join(filepath.Dir(dpi.LibraryPath()), "dpi/backends-1")
	if _, err := os.Stat(filepath.Join(plugins, "libdpi_cuda_emu.so")); err != nil {
		t.Skip("the emulated GPU was not built")
	}
	return plugins
}

func TestLogOfForeignTuning(t *testing.T) {
	emulated(t)
	table := filepath.Join(t.TempDir(), "tuning.txt")
	text := "dpi-tuning 1\ndevice NVIDIA Other\ncapability 10\ncublaslt 0\n"
	if err := os.WriteFile(table, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, dpi.LogWarn)
	load(t, demo(t, "bank_dcnv2.h5"), dpi.WithEnv(env), dpi.WithDevice("cuda_emu"), dpi.WithOption("tuning", table))
	told(t, env, dpi.LogWarn, "tuning: ", "NVIDIA Other")
}

// The emulated device fails as DPI_EMU_FAIL says, which it reads when it is opened: a process of its own.
func TestLogOfGraphsGivenUp(t *testing.T) {
	emulated(t)
	if os.Getenv("DPI_TEST_CHILD") == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestLogOfGraphsGivenUp$", "-test.v")
		child.Env = append(os.Environ(), "DPI_TEST_CHILD=1", "DPI_EMU_FAIL=capture:2:719")
		if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	env := newEnv(t, dpi.LogWarn)
	m := load(t, demo(t, adult), dpi.WithEnv(env), dpi.WithDevice("cuda_emu"), dpi.WithOption("small_batch", "off"),
		dpi.WithOption("max_contexts", "1"))
	b, out := zeros(m, 2)
	for i := 0; i < 3; i++ {
		if err := m.Predict(background, b, out); err != nil {
			t.Fatal(err)
		}
	}
	if _, text, ok := env.PollLog(); ok {
		t.Fatalf("a predict logged: %s", text)
	}
	if _, err := m.InfoJSON(); err != nil {
		t.Fatal(err)
	}
	told(t, env, dpi.LogWarn, "graphs: ", "op by op")
}

// zeros is a batch of rows of id 0.
func zeros(m *dpi.Model, rows int) (*dpi.Batch, []float32) {
	i := m.Info()
	return &dpi.Batch{Rows: rows, IDs: make([]int64, rows*i.Slots), Dense: make([]float32, rows*i.DenseDim)},
		make([]float32, rows*i.Heads)
}

func TestLogOfSlowWaits(t *testing.T) {
	env := newEnv(t, dpi.LogWarn)
	m := load(t, demo(t, adult), dpi.WithEnv(env), dpi.WithDevice("cpu"), dpi.WithOption("max_contexts", "1"),
		dpi.WithConcurrency(3), dpi.WithMaxRows(64))
	contend := func() dpi.Counters {
		var wait sync.WaitGroup
		for i := 0; i < 3; i++ {
			wait.Add(1)
			go func() {
				defer wait.Done()
				b, out := zeros(m, 40000)
				if err := m.Predict(background, b, out); err != nil {
					t.Error(err)
				}
			}()
		}
		wait.Wait()
		c, err := m.Counters()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// Whether callers meet is the machine's to say: on one free core they may run one after the other. So until they do.
	c := contend()
	for deadline := time.Now().Add(2 * time.Minute); c.Waits < 1 && time.Now().Before(deadline); {
		c = contend()
	}
	if c.Waits < 1 || c.Longest <= 0 {
		t.Fatalf("%+v", c)
	}
	told(t, env, dpi.LogWarn, "contexts: ", "waited for one of 1 contexts", "max_contexts")
}

func TestEnvironmentsEndAndAreKept(t *testing.T) {
	env := newEnv(t, dpi.LogWarn)
	if err := env.SetThreads(2); err != nil {
		t.Fatal(err)
	}
	wants(t, env.SetThreads(-1), dpi.InvalidArgument)
	wants(t, env.Set("colour", "red"), dpi.NotFound)
	wants(t, env.Set("a\x00", "b"), dpi.InvalidArgument)
	wants(t, env.SetLogLevel(9), dpi.InvalidArgument)
	m := load(t, demo(t, adult), dpi.WithEnv(env), dpi.WithDevice("cpu"), dpi.WithThreads(2))
	if err := env.Close(); err != nil {
		t.Fatal(err)
	}
	wants(t, env.SetThreads(1), dpi.Closed)
	if _, _, ok := env.PollLog(); ok {
		t.Fatal("a closed environment has messages")
	}
	b, out := zeros(m, 1000)
	if err := m.Predict(background, b, out); err != nil {
		t.Fatal(err)
	}
	_, err := dpi.Load(demo(t, adult), dpi.WithEnv(env))
	wants(t, err, dpi.Closed)
	if err := dpi.DefaultEnv().Close(); err != nil {
		t.Fatal(err)
	}
	load(t, demo(t, adult), dpi.WithEnv(dpi.DefaultEnv()), dpi.WithDevice("cpu"))
}

func TestVersions(t *testing.T) {
	m := load(t, demo(t, adult), dpi.WithDevice("cpu"))
	if v := m.Info().Version; v != 1 {
		t.Fatalf("version %d", v)
	}
	b, out := zeros(m, 3)
	plain := make([]float32, len(out))
	if err := m.Predict(background, b, plain); err != nil {
		t.Fatal(err)
	}
	v, err := m.PredictVersion(background, b, out)
	if err != nil || v != 1 || out[0] != plain[0] || out[2] != plain[2] {
		t.Fatalf("version %d, %v, %v and %v", v, err, out, plain)
	}
	if v, err := m.PredictVersion(background, b, out[:2]); v != 0 || err == nil {
		t.Fatalf("version %d of a call that failed", v)
	}
	c, err := m.NewContext(3, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if v := c.Version(); v != 0 {
		t.Fatalf("version %d before the first call", v)
	}
	if err := c.PredictBatch(background, b, out); err != nil || c.Version() != 1 {
		t.Fatalf("version %d, %v", c.Version(), err)
	}
}

func TestLoadIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	load(t, demo(t, adult), dpi.WithContext(ctx), dpi.WithDevice("cpu"))
	cancel()
	_, err := dpi.Load(demo(t, adult), dpi.WithContext(ctx), dpi.WithDevice("cpu"))
	wants(t, err, dpi.Cancelled)
}
