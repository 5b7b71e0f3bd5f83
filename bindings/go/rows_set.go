package dpi

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
)

// Set sets a feature by name from a value of the language, as a JSON reader gives it. An unknown name is ErrNotFound, a
// value that fits no rule ErrInvalidArgument with row and feature; the rules are those of Java and C:
//
//   - a string is a raw text, a bool the text true or false, nil is missing
//   - an integer of any type and a json.Number are read by their digits as they are: nothing is rounded. Decode JSON with
//     UseNumber, or a number beyond 2^53 is another one before it comes here
//   - a float64 or float32 is read as a quantity, as by SetNumber
//   - a slice or array is a list of such values: elements of a sequence (nil leaves the bag), or the floats of a dense
//     vector without encoder (nil is missing). No other feature takes a list, not even of one value, and no list holds a list
//   - a pointer, map, struct, complex number or []byte is refused
func (r *Rows) Set(name string, value interface{}) error {
	feature := r.model.FeatureIndex(name)
	if feature < 0 {
		return plainError(NotFound, "the model has no feature %q", name)
	}
	list, isList := listOf(value)
	switch {
	case r.model.features[feature].Kind == Dense:
		return r.setVector(feature, value, list, isList)
	case isList:
		return r.setList(feature, list)
	}
	return r.setOne(feature, value)
}

// listOf is a slice or an array, but no text's bytes.
func listOf(value interface{}) (reflect.Value, bool) {
	list := reflect.ValueOf(value)
	isList := list.Kind() == reflect.Slice || list.Kind() == reflect.Array
	return list, isList && list.Type().Elem().Kind() != reflect.Uint8
}

func (r *Rows) setOne(feature int, value interface{}) error {
	switch v := value.(type) {
	case nil:
		return r.SetText(feature, "")
	case string:
		return r.SetText(feature, v)
	case json.Number:
		return r.SetText(feature, v.String())
	case float64:
		return r.SetNumber(feature, v)
	}
	v := reflect.ValueOf(value) // other widths, and types that were made from these
	switch {
	case v.Kind() == reflect.String:
		return r.SetText(feature, v.String())
	case v.Kind() == reflect.Bool:
		return r.SetText(feature, fmt.Sprint(v.Bool()))
	case v.CanInt():
		return r.SetInteger(feature, v.Int())
	case v.CanUint():
		return r.SetUnsigned(feature, v.Uint())
	case v.CanFloat():
		return r.SetNumber(feature, v.Float())
	}
	return r.misfit(feature, fmt.Sprintf("a %T is no raw value", value))
}

func (r *Rows) setList(feature int, list reflect.Value) error {
	if err := r.AddIntegers(feature, nil, nil); err != nil { // says whether the feature takes a list
		return err
	}
	if integers, ok := list.Interface().([]int64); ok {
		return r.AddIntegers(feature, integers, nil)
	}
	for i := 0; i < list.Len(); i++ {
		element := list.Index(i).Interface()
		if _, nested := listOf(element); nested {
			return r.misfit(feature, fmt.Sprintf("element %d is a list inside a list", i))
		}
		if err := r.setOne(feature, element); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rows) setVector(feature int, value interface{}, list reflect.Value, isList bool) error {
	f := r.model.features[feature]
	if !isList && value != nil {
		return r.misfit(feature, fmt.Sprintf("a %T is no dense vector, which is a list of %d numbers", value, f.Dim))
	}
	if f.HasEncoder {
		return r.misfit(feature, "a vector with an encoder, which raw values cannot be given for; SetFloats takes encoded ones")
	}
	if value == nil {
		floats := make([]float32, f.Dim)
		for i := range floats {
			floats[i] = float32(math.NaN())
		}
		return r.SetFloats(feature, floats)
	}
	floats := make([]float32, list.Len())
	for i := range floats {
		x, ok := floatOf(list.Index(i).Interface())
		if !ok {
			return r.misfit(feature, fmt.Sprintf("element %d is no number but a %T", i, list.Index(i).Interface()))
		}
		floats[i] = x
	}
	return r.SetFloats(feature, floats)
}

// floatOf is an element of a dense vector; nil is missing.
func floatOf(value interface{}) (float32, bool) {
	if value == nil {
		return float32(math.NaN()), true
	}
	if text, ok := value.(json.Number); ok {
		x, err := text.Float64()
		return float32(x), err == nil
	}
	v := reflect.ValueOf(value)
	switch {
	case v.CanInt():
		return float32(v.Int()), true
	case v.CanUint():
		return float32(v.Uint()), true
	case v.CanFloat():
		return float32(v.Float()), true
	}
	return 0, false
}

// misfit names the row and the feature, as the library's own errors do.
func (r *Rows) misfit(feature int, what string) error {
	f := r.model.features[feature]
	row, place := r.Count()-1, "row"
	r.mu.Lock()
	defer r.mu.Unlock()
	inShared := f.Shared && r.shared > 0
	if inShared {
		row, place = r.shared-1, "shared row"
	}
	e := invalid("%s %d, feature '%s': %s", place, row, f.Name, what)
	e.Row, e.Feature, e.InShared = row, feature, inShared
	return e
}
