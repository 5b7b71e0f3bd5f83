// One user, many candidates: the user's features are given once, the candidates' per row.
//
//	go run ./candidates bundle.h5
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"dpiframe.org/dpi"
)

const candidates = 5

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: candidates BUNDLE")
	}
	model, err := dpi.Load(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	scores, err := score(model)
	if err != nil {
		log.Fatal(err)
	}
	for c := 0; c < candidates; c++ {
		fmt.Printf("candidate %d: %.6f\n", c, scores[c*model.Info().Heads])
	}
}

func score(model *dpi.Model) ([]float32, error) {
	rows, err := model.NewRows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if info := model.Info(); info.SharedSlots+info.SharedDenseDim > 0 {
		if err := rows.BeginShared(); err != nil { // the user to whom the rows begun from here on belong
			return nil, err
		}
		if err := fill(rows, model, true, 0); err != nil {
			return nil, err
		}
	}
	for c := int64(0); c < candidates; c++ {
		if err := rows.Begin(); err != nil {
			return nil, err
		}
		if err := fill(rows, model, false, c); err != nil {
			return nil, err
		}
	}
	out := make([]float32, candidates*model.Info().Heads)
	return out, rows.Predict(context.Background(), out)
}

// fill sets the user's features, or those of one candidate: ids 0, 1, 2 .. and zeros here.
func fill(rows *dpi.Rows, model *dpi.Model, shared bool, id int64) error {
	for i, f := range model.Schema() {
		if f.Shared != shared {
			continue
		}
		var err error
		if f.Slot < 0 {
			err = rows.SetFloats(i, make([]float32, f.Dim))
		} else if f.VocabSize > 0 {
			err = rows.SetIDs(i, []int64{id % f.VocabSize}, nil)
		} else {
			err = rows.SetIDs(i, []int64{0}, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
