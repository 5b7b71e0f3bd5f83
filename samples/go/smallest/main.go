// The smallest program: load a bundle, score two rows of ids and floats, print the scores.
//
//	go run ./smallest weights/demo/adult_widedeep.h5
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"dpiframe.org/dpi"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: smallest BUNDLE")
	}
	model, err := dpi.Load(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	info := model.Info()
	batch := &dpi.Batch{Rows: 2, IDs: make([]int64, 2*info.Slots), Dense: make([]float32, 2*info.DenseDim)}
	scores := make([]float32, batch.Rows*info.Heads)
	if err := model.Predict(context.Background(), batch, scores); err != nil {
		log.Fatal(err)
	}
	for row := 0; row < batch.Rows; row++ {
		fmt.Printf("row %d: %s = %.6f\n", row, model.Heads()[0], scores[row*info.Heads])
	}
}
