//go:build asan

package dpi

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"dpiframe.org/dpi/internal/native"
)

// TestSanitizerSees shows that the sanitizer is awake below Go: a process of this test has the library write behind C memory.
func TestSanitizerSees(t *testing.T) {
	bundle := os.Getenv("DPI_ROOT") + "/weights/demo/adult_widedeep.h5"
	if os.Getenv("DPI_OVERFLOW") == "" {
		again := exec.Command(os.Args[0], "-test.run=TestSanitizerSees")
		again.Env = append(os.Environ(), "DPI_OVERFLOW=1")
		out, err := again.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "heap-buffer-overflow") || !strings.Contains(string(out), "dpi_predict_flat") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	m, err := Load(bundle)
	if err != nil {
		t.Fatal(err)
	}
	const rows = 64
	out, ok := native.Allocate(4)
	if !ok {
		t.Fatal("no memory")
	}
	ids, dense := make([]int64, rows*m.info.Slots), make([]float32, rows*m.info.DenseDim)
	native.Dpi_predict_flat(m.handle, rows, native.First(dense), uint64(len(dense)), 0, native.First(ids), uint64(len(ids)), nil, 0,
		nil, 0, 0, &out.Float32s(0, 1)[0], rows, 0, 0, m.gate.seats[0].call.Error())
}
