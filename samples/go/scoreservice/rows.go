package main

import (
	"encoding/json"
	"errors"
	"sort"
	"strconv"
	"unicode/utf8"

	"dpiframe.org/dpi"
)

// rowReader fills rows from a request's text: {"rows": [{...}, ...], "shared": {...}}, or several users with their rows,
// {"users": [{"shared": {...}, "rows": [{...}, ...]}, ...]}. Members stand in any order.
type rowReader struct {
	model  *dpi.Model
	schema []dpi.Feature
	rows   *dpi.Rows
	floats []float32

	in      scanner
	row     int   // that is being read, counted over all users; -1: a shared one
	next    int   // row
	shared  bool  // the request has shared rows
	ends    []int // behind the last row of each user of its list
	values  int   // read so far
	objects int   // objects read so far
	given   []int // by feature: the last object that gave it
}

func newRowReader(model *dpi.Model, rows *dpi.Rows) *rowReader {
	schema := model.Schema()
	return &rowReader{model: model, schema: schema, rows: rows, given: make([]int, len(schema))}
}

func (d *rowReader) read(body []byte) error {
	if err := valid(body); err != nil {
		return err
	}
	d.values, d.objects, d.next, d.ends = 0, 0, 0, d.ends[:0]
	for f := range d.given {
		d.given[f] = 0
	}
	m, err := parts(body, true)
	if err != nil {
		return err
	}
	if m.users != nil {
		return d.users(m)
	}
	d.shared = m.shared != nil
	return d.one(m)
}

// users reads every user's shared row, then the rows that belong to it.
func (d *rowReader) users(m members) error {
	in := scanner{text: m.users}
	if m.rows != nil || m.shared != nil || !in.take('[') {
		return notARequest()
	}
	d.shared = true
	for user := 0; !in.take(']'); user++ {
		if user == maxRows {
			return refuse("too_large", "more than %d users", maxRows)
		}
		m, err := parts(in.value(), false)
		if err == nil && m.shared == nil {
			err = refuse("json", "a user has no shared")
		}
		if err == nil {
			err = d.one(m)
		}
		if err != nil {
			return &ofUser{err, user}
		}
		d.ends = append(d.ends, d.next)
	}
	return nil
}

// ofUser is what is wrong with one user of a list.
type ofUser struct {
	error
	user int
}

func (e *ofUser) Unwrap() error { return e.error }

// blame names the user of the request's list whose row the library did not score.
func (d *rowReader) blame(err error) error {
	var e *dpi.Error
	if len(d.ends) == 0 || !errors.As(err, &e) || e.Row < 0 {
		return err
	}
	if e.InShared {
		return &ofUser{err, e.Row}
	}
	return &ofUser{err, sort.SearchInts(d.ends, e.Row+1)}
}

// one reads the rows of one user, or of a request without a list of users.
func (d *rowReader) one(m members) error {
	if m.rows == nil {
		return notARequest()
	}
	if m.shared != nil {
		d.row, d.in = -1, scanner{text: m.shared}
		if err := d.rows.BeginShared(); err != nil {
			return err
		}
		if err := d.object(); err != nil {
			return err
		}
	}
	d.in = scanner{text: m.rows}
	return d.list()
}

func valid(body []byte) error {
	if !utf8.Valid(body) {
		return refuse("json", "the body is not UTF-8")
	}
	if !json.Valid(body) {
		var any interface{}
		return refuse("json", "no JSON: %v", json.Unmarshal(body, &any)) // reads nothing, but says what is wrong
	}
	return nil
}

// members are the texts of a request's, or a user's: nil where there is none, or null instead of a shared row.
type members struct{ shared, rows, users []byte }

func parts(text []byte, request bool) (members, error) {
	var m members
	in := scanner{text: text}
	if !in.take('{') {
		return m, notARequest()
	}
	to := map[string]*[]byte{"shared": &m.shared, "rows": &m.rows}
	if request {
		to["users"] = &m.users
	}
	seen := map[string]bool{}
	for !in.take('}') {
		key := in.str()
		if to[key] == nil {
			return m, refuse("json", "unknown member %q; expected rows, and shared perhaps, or users", key)
		}
		if seen[key] {
			return m, refuse("json", "%s is there twice", key)
		}
		seen[key], *to[key] = true, in.value()
	}
	if string(m.shared) == "null" {
		m.shared = nil
	}
	return m, nil
}

func notARequest() error {
	return refuse("json", `expected {"rows": [{...}, ...]} or {"users": [{"shared": {...}, "rows": [...]}, ...]}`)
}

func (d *rowReader) list() error {
	if !d.in.take('[') {
		return notARequest()
	}
	for ; !d.in.take(']'); d.next++ {
		if d.row = d.next; d.row == maxRows {
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
	d.objects++
	for !d.in.take('}') {
		name := d.in.str()
		feature := d.model.FeatureIndex(name)
		if feature < 0 {
			return d.wrong(name, "the model has no such feature")
		}
		if d.given[feature] == d.objects {
			return d.wrong(name, "the feature is there twice")
		}
		d.given[feature] = d.objects
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
