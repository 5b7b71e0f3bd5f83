package dpi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"dpiframe.org/dpi"
)

func bundle(name string) string { return os.Getenv("DPI_ROOT") + "/weights/demo/" + name }

func Example() {
	model, err := dpi.Load(bundle("adult_widedeep.h5"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()
	info := model.Info()
	batch := &dpi.Batch{Rows: 2, IDs: make([]int64, 2*info.Slots), Dense: make([]float32, 2*info.DenseDim)}
	scores := make([]float32, batch.Rows*info.Heads)
	if err := model.Predict(context.Background(), batch, scores); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(scores), scores[0] == scores[1], scores[0] > 0 && scores[0] < 1)
	// Output: 2 true true
}

func ExampleRows() {
	model, err := dpi.Load(bundle("msweb_deepfm.h5"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()
	rows, err := model.NewRows()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rows.Close()
	for _, area := range []string{"1034", "1001"} {
		_ = rows.Begin()
		_ = rows.Set("history", []string{"1038", "1026"})
		_ = rows.Set("area", area)
		_ = rows.Set("visits", 2)
	}
	scores := make([]float32, rows.Count()*model.Info().Heads)
	if err := rows.Predict(context.Background(), scores); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(model.Heads()[0], len(scores))
	// Output: visits_area 2
}

func ExampleModel_Predict_deadline() {
	model, err := dpi.Load(bundle("adult_widedeep.h5"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Millisecond))
	defer cancel()
	err = model.Predict(ctx, &dpi.Batch{}, nil)
	fmt.Println(errors.Is(err, dpi.ErrTimeout), errors.Is(err, context.DeadlineExceeded))
	// Output: true true
}

func ExampleError() {
	_, err := dpi.Load("/no/such/bundle.h5")
	var e *dpi.Error
	if errors.As(err, &e) {
		fmt.Println(e.Code.String(), e.Row, errors.Is(err, dpi.ErrNotFound))
	}
	// Output: NotFound -1 true
}
