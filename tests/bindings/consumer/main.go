// A program of another module that scores rows drawn as tests/bindings/reference_scores.c draws them and prints the scores' bits.
//
//	consumer BUNDLE ROWS SEED
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"strconv"

	"dpiframe.org/dpi"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: consumer BUNDLE ROWS SEED")
	}
	model, err := dpi.Load(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	rows, _ := strconv.Atoi(os.Args[2])
	state, _ := strconv.ParseUint(os.Args[3], 10, 64)
	draw := func() uint64 {
		state = state*6364136223846793005 + 1442695040888963407
		return state >> 33
	}
	batch := &dpi.Batch{Rows: rows}
	for r := 0; r < rows; r++ {
		for _, f := range model.Schema() {
			if f.Slot >= 0 {
				batch.IDs = append(batch.IDs, int64(draw()%uint64(f.VocabSize)))
			}
		}
		for _, f := range model.Schema() {
			for k := 0; f.Slot < 0 && k < f.Dim; k++ {
				batch.Dense = append(batch.Dense, float32(draw()%2001)/1000-1)
			}
		}
	}
	heads := model.Info().Heads
	scores := make([]float32, rows*heads)
	if err := model.Predict(context.Background(), batch, scores); err != nil {
		log.Fatal(err)
	}
	for i, x := range scores {
		end := " "
		if (i+1)%heads == 0 {
			end = "\n"
		}
		fmt.Printf("%08x%s", math.Float32bits(x), end)
	}
}
