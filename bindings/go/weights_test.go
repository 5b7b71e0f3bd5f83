package dpi_test

import (
	"path/filepath"
	"testing"

	"dpiframe.org/dpi"
)

// TestWeightsCount scores by weights other than 1 in memory of each kind, and tells them from weights of 1.
func TestWeightsCount(t *testing.T) {
	m := load(t, filepath.Join(root(t), "tests/e2e/op_bundles/embed.h5"))
	b := batchOf(m, 31, 5, "bags")
	want := predict(t, m, b)
	ones := *b
	ones.Weights = make([]float32, len(b.Weights))
	for i := range ones.Weights {
		ones.Weights[i] = 1
	}
	if hexLines(predict(t, m, &ones), 1) == hexLines(want, 1) {
		t.Fatal("the weights make no difference")
	}
	reused, err := m.NewBatch(b.Rows, len(b.IDs))
	if err != nil {
		t.Fatal(err)
	}
	defer reused.Close()
	if err := m.Reset(reused, b.Rows, len(b.IDs), true); err != nil {
		t.Fatal(err)
	}
	copy(reused.IDs, b.IDs)
	copy(reused.Offsets, b.Offsets)
	copy(reused.Weights, b.Weights)
	copy(reused.Dense, b.Dense)
	sameBits(t, "reused batch", predict(t, m, reused), want)
	c, err := m.NewContext(b.Rows, len(b.IDs))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	copy(c.IDs(), b.IDs)
	copy(c.Offsets(), b.Offsets)
	copy(c.Weights(), b.Weights)
	copy(c.Dense(), b.Dense)
	if err := c.Predict(background, b.Rows, len(b.IDs), true); err != nil {
		t.Fatal(err)
	}
	sameBits(t, "context", c.Out()[:len(want)], want)
	short := *b
	short.Weights = b.Weights[1:]
	wants(t, m.Predict(background, &short, outFor(m, b.Rows)), dpi.InvalidArgument)
}
