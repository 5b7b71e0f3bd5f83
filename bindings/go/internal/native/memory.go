package native

/*
#include "hot.h"
*/
import "C"

import "unsafe"

// CString is s with a NUL behind it, in Go memory, for the length of one call.
func CString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// GoString copies a text of the library.
func GoString(p *byte) string { return C.GoString((*C.char)(unsafe.Pointer(p))) }

// Text calls a *_json function twice: once for the size, once for the text.
func Text(call func(buf *byte, capacity uint64) uint64) string {
	for size := call(nil, 0); size > 1; {
		buf := make([]byte, size+64)
		need := call(&buf[0], uint64(len(buf)))
		if need <= uint64(len(buf)) && need > 0 {
			return string(buf[:need-1])
		}
		size = need // grew meanwhile: counters
	}
	return ""
}

// Memory is zeroed C memory; the slices over it are valid until Free.
type Memory struct{ p unsafe.Pointer }

// Allocate returns false when there is none.
func Allocate(bytes int) (Memory, bool) {
	m := Memory{C.calloc(1, C.size_t(bytes+1))}
	return m, m.p != nil
}

// Free gives it back.
func (m Memory) Free() { C.free(m.p) }

// Int64s is the slice of n integers at a byte offset.
func (m Memory) Int64s(at, n int) []int64 { return unsafe.Slice((*int64)(unsafe.Add(m.p, at)), n) }

// Float32s is the slice of n floats at a byte offset.
func (m Memory) Float32s(at, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Add(m.p, at)), n)
}

// Info is a dpi_model_info.
type Info struct {
	Features, Slots, DenseDim, ItemSlots, SharedSlots, ItemDenseDim, SharedDenseDim, Heads, DeviceKind, DeviceIndex int
	MaxRows                                                                                                         int64
	HostBytes, DeviceBytes, Digest, Version                                                                         uint64
}

// GetInfo reads a model's facts.
func GetInfo(model uintptr, c Call) (Info, int32) {
	p := (*C.dpi_model_info)(C.calloc(1, C.sizeof_dpi_model_info))
	defer C.free(unsafe.Pointer(p))
	p.struct_size = C.sizeof_dpi_model_info
	s := Dpi_model_get_info(model, uintptr(unsafe.Pointer(p)), c.Error())
	return Info{int(p.num_features), int(p.num_slots), int(p.dense_dim), int(p.num_item_slots), int(p.num_shared_slots),
		int(p.item_dense_dim), int(p.shared_dense_dim), int(p.num_heads), int(p.device_kind), int(p.device_index),
		int64(p.max_rows), uint64(p.host_bytes), uint64(p.device_bytes), uint64(p.content_digest), uint64(p.version)}, s
}

// Feature is a dpi_feature_info.
type Feature struct {
	Kind, Slot, PartSlot, DenseColumn, PartColumn, Dim int
	VocabSize, MaxLen                                  int64
	Shared, HasEncoder, Weighted                       bool
}

// GetFeature reads one feature of the schema.
func GetFeature(model uintptr, index int32, c Call) (Feature, int32) {
	p := (*C.dpi_feature_info)(C.calloc(1, C.sizeof_dpi_feature_info))
	defer C.free(unsafe.Pointer(p))
	p.struct_size = C.sizeof_dpi_feature_info
	s := Dpi_model_get_feature(model, index, uintptr(unsafe.Pointer(p)), c.Error())
	return Feature{int(p.kind), int(p.slot), int(p.part_slot), int(p.dense_column), int(p.part_column), int(p.dim),
		int64(p.vocab_size), int64(p.max_len), p.shared != 0, p.has_encoder != 0, p.weighted != 0}, s
}

// View is a context's memory: the five slices of a dpi_context_view.
type View struct {
	Dense        []float32
	IDs, Offsets []int64
	Weights, Out []float32
}

// GetView makes slices over it; they are valid until dpi_context_free.
func GetView(context uintptr, info Info, c Call) (View, int32) {
	p := (*C.dpi_context_view)(C.calloc(1, C.sizeof_dpi_context_view))
	defer C.free(unsafe.Pointer(p))
	p.struct_size = C.sizeof_dpi_context_view
	if s := Dpi_context_get_view(context, uintptr(unsafe.Pointer(p)), c.Error()); s != 0 {
		return View{}, s
	}
	rows, nnz := int(p.max_rows), int(p.max_nnz)
	return View{
		unsafe.Slice((*float32)(unsafe.Pointer(p.dense)), rows*info.DenseDim),
		unsafe.Slice((*int64)(unsafe.Pointer(p.ids)), nnz),
		unsafe.Slice((*int64)(unsafe.Pointer(p.offsets)), rows*info.Slots+1),
		unsafe.Slice((*float32)(unsafe.Pointer(p.weights)), nnz),
		unsafe.Slice((*float32)(unsafe.Pointer(p.out)), rows*info.Heads),
	}, 0
}

var noText = [1]byte{}

// TextBytes is the address of a string's bytes, valid while s is; never nil. Nothing writes through it.
func TextBytes(s string) *byte {
	if len(s) == 0 {
		return &noText[0]
	}
	return *(**byte)(unsafe.Pointer(&s))
}

// First is the address of the first element, nil of an empty slice.
func First[T int64 | float32 | byte](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}
