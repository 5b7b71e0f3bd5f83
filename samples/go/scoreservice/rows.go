package main

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"dpiframe.org/dpi"
)

// rowReader fills rows from a request's text, {"rows": [{...}, ...], "shared": {...}} in either order.
type rowReader struct {
	model  *dpi.Model
	schema []dpi.Feature
	rows   *dpi.Rows
	floats []float32

	in     scanner
	row    int   // that is being read; -1: the shared one
	shared bool  // the request has a shared row
	values int   // read so far
	given  []int // by feature: the last row that gave it
}

func newRowReader(model *dpi.Model, rows *dpi.Rows) *rowReader {
	schema := model.Schema()
	return &rowReader{model: model, schema: schema, rows: rows, given: make([]int, len(schema))}
}

func (d *rowReader) read(body []byte) error {
	shared, rows, err := parts(body)
	if err != nil {
		return err
	}
	d.values, d.shared = 0, shared != nil
	for f := range d.given {
		d.given[f] = -2
	}
	if d.shared {
		d.row, d.in = -1, scanner{text: shared}
		if err := d.rows.BeginShared(); err != nil {
			return err
		}
		if err := d.object(); err != nil {
			return err
		}
	}
	d.in = scanner{text: rows}
	return d.list()
}

// parts finds the texts of a request's two members; shared is nil when there is none.
func parts(body []byte) (shared, rows []byte, err error) {
	if !utf8.Valid(body) {
		return nil, nil, refuse("json", "the body is not UTF-8")
	}
	if !json.Valid(body) {
		var any interface{}
		return nil, nil, refuse("json", "no JSON: %v", json.Unmarshal(body, &any)) // reads nothing, but says what is wrong
	}
	in := scanner{text: body}
	if !in.take('{') {
		return nil, nil, notARequest()
	}
	for !in.take('}') {
		key := in.str()
		to := &rows
		switch key {
		case "rows":
		case "shared":
			to = &shared
		default:
			return nil, nil, refuse("json", "unknown member %q; expected rows, and shared perhaps", key)
		}
		if *to != nil {
			return nil, nil, refuse("json", "%s is there twice", key)
		}
		*to = in.value()
	}
	if rows == nil {
		return nil, nil, notARequest()
	}
	if string(shared) == "null" {
		shared = nil
	}
	return shared, rows, nil
}

func notARequest() error { return refuse("json", `expected {"rows": [{...}, ...]}`) }

func (d *rowReader) list() error {
	if !d.in.take('[') {
		return notARequest()
	}
	for d.row = 0; !d.in.take(']'); d.row++ {
		if d.row == maxRows {
			return refuse("too_large", "more than %d rows", maxRows)
		}
		if err := d.rows.Begin(); err != nil {
			return err
		}
		if err := d.object(); err != nil {
			return err
		}
	}
	return nil
}

// object reads one row.
func (d *rowReader) object() error {
	if !d.in.take('{') {
		return &problem{cause: "json", text: "a row is not an object", row: d.row}
	}
	for !d.in.take('}') {
		name := d.in.str()
		feature := d.model.FeatureIndex(name)
		if feature < 0 {
			return d.wrong(name, "the model has no such feature")
		}
		if d.given[feature] == d.row {
			return d.wrong(name, "the feature is there twice")
		}
		d.given[feature] = d.row
		if d.shared && d.schema[feature].Shared != (d.row < 0) {
			return d.wrong(name, "the feature belongs to the other of shared and rows")
		}
		if err := d.value(feature); err != nil {
			return err
		}
	}
	return nil
}

func (d *rowReader) wrong(feature, text string) error {
	return &problem{cause: "value", text: text, row: d.row, feature: feature}
}

func (d *rowReader) value(feature int) error {
	f := &d.schema[feature]
	if !d.in.take('[') {
		return d.scalar(feature)
	}
	switch f.Kind {
	case dpi.Sequence:
		for !d.in.take(']') {
			if err := d.scalar(feature); err != nil {
				return err
			}
		}
		return nil
	case dpi.Dense:
		return d.vector(feature)
	}
	return d.wrong(f.Name, "a list, for a feature that has one value")
}

func (d *rowReader) scalar(feature int) error {
	if err := d.count(); err != nil {
		return err
	}
	f, first := &d.schema[feature], d.in.peek()
	if f.Kind == dpi.Dense && first != 'n' {
		return d.wrong(f.Name, "a dense feature is a list of numbers")
	}
	switch first {
	case '[', '{':
		return d.wrong(f.Name, "a value is a text, a number, true, false or null")
	case 'n':
		d.in.word() // missing
		return nil
	case '"':
		return d.rows.SetText(feature, d.in.str())
	}
	word := d.in.word()
	if first == 't' || first == 'f' || whole(word) {
		return d.rows.SetText(feature, word)
	}
	x, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return d.wrong(f.Name, "a number beyond a double's range")
	}
	return d.rows.SetNumber(feature, x)
}

// whole tells integers from other numbers. An integer goes on as its text, exact at any size; another number as the double
// that it writes.
func whole(number string) bool {
	for i := range number {
		if (number[i] < '0' || number[i] > '9') && (number[i] != '-' || i > 0) {
			return false
		}
	}
	return number != "-0"
}

func (d *rowReader) vector(feature int) error {
	f := &d.schema[feature]
	d.floats = d.floats[:0]
	for !d.in.take(']') {
		if err := d.count(); err != nil {
			return err
		}
		first := d.in.peek()
		if first != '-' && (first < '0' || first > '9') || len(d.floats) == f.Dim {
			return d.wrong(f.Name, "expected "+strconv.Itoa(f.Dim)+" numbers")
		}
		x, err := strconv.ParseFloat(d.in.word(), 64)
		if err != nil {
			return d.wrong(f.Name, "a number beyond a double's range")
		}
		d.floats = append(d.floats, float32(x))
	}
	if len(d.floats) != f.Dim {
		return d.wrong(f.Name, "expected "+strconv.Itoa(f.Dim)+" numbers")
	}
	return d.rows.SetFloats(feature, d.floats)
}

func (d *rowReader) count() error {
	if d.values++; d.values > maxValues {
		return refuse("too_large", "more than %d values", maxValues)
	}
	return nil
}
